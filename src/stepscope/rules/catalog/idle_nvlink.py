"""Collectives run, NVLink carries nothing and PCIe does.

The counters alone say that the bytes take the slower way. Why, NCCL's log would tell: peer-to-peer over PCIe
between devices that no NVLink joins, peer-to-peer switched off, or sockets.
"""

from stepscope.analyse.features import exposed_communication_share
from stepscope.analyse.features.telemetry import (
    numa_distance_share,
    nvlink_bytes_per_second_mean,
    nvlink_in_collectives_link_share,
    pcie_bytes_per_second_mean,
    pcie_in_collectives_link_share,
    wrong_way,
)
from stepscope.model.text import Text
from stepscope.rules.capture import COUNTERS, TRANSPORT
from stepscope.rules.reference import BUS_INSTEAD, LINK_UNUSED
from stepscope.rules.rule import Layer, Patch, Question, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="idle-nvlink",
    cause="collectives over PCIe beside an idle NVLink",
    layer=Layer.HARDWARE,
    about=Subject.RANK,
    verdict="waiting-for-communication",
    title=Text(en="Collectives go over PCIe while NVLink is idle", zh="集合通信走 PCIe，而 NVLink 空闲"),
    explanation=Text(
        en="While collectives run the device's NVLink counters hardly move and its PCIe counters do. The "
        "bytes take the slower way.",
        zh="集合通信期间该设备的 NVLink 计数器几乎不动，PCIe 计数器在动：数据走了较慢的通道。",
    ),
    when=(
        nvlink_in_collectives_link_share <= 0.02,
        pcie_in_collectives_link_share >= 0.10,
        exposed_communication_share >= 0.05,
    ),
    unless=(wrong_way >= 1,),
    corroborated_by=(numa_distance_share >= 0.50,),
    cost=exposed_communication_share,
    is_bound=True,
    questions=(Question(missing=("nccl_transport",), capture=TRANSPORT, settled_by=(wrong_way >= 0,)),),
    shows=(pcie_bytes_per_second_mean, nvlink_bytes_per_second_mean),
    checks=(
        Text(
            en="Does this machine have NVLink between the devices of the job at all (nvidia-smi topo -m)?",
            zh="该机器上作业所用的设备之间是否真有 NVLink（nvidia-smi topo -m）？",
        ),
        Text(
            en="Do the NVLink counters work: do they move in nccl-tests? On some systems they stand at 0.",
            zh="NVLink 计数器是否可用：运行 nccl-tests 时是否变化？某些系统上它恒为 0。",
        ),
        Text(
            en="Which way does NCCL choose (NCCL_DEBUG=INFO, lines with `via`)?",
            zh="NCCL 选择了哪条通道（NCCL_DEBUG=INFO，含 `via` 的行）？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Place the ranks of a group on devices that NVLink joins, and let peer-to-peer be on.",
                zh="把同一进程组的 rank 放在由 NVLink 相连的设备上，并保持 P2P 打开。",
            ),
            clears=pcie_in_collectives_link_share <= 0.05,
            patch=Patch(kind="command", after="nvidia-smi topo -m"),
            is_partial=True,
        ),
        Remedy(
            Text(
                en="Let NCCL log the transport it chooses, and compare it with the topology.",
                zh="让 NCCL 打印其选择的传输通道，并与拓扑对照。",
            ),
            clears=pcie_in_collectives_link_share <= 0.05,
            patch=Patch(kind="env", after="NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET"),
            is_step_towards=True,
        ),
    ),
    references={
        nvlink_in_collectives_link_share: LINK_UNUSED,
        pcie_in_collectives_link_share: BUS_INSTEAD,
        exposed_communication_share: Text(
            en="TraceLens flags exposed communication above 5 % of the time",
            zh="TraceLens 在未被掩盖的通信超过时间的 5 % 时标出",
        ),
        wrong_way: Text(
            en="our choice: where NCCL's log says that the way is wrong, wrong-transport speaks; where it "
            "says anything, the transport is known",
            zh="自定：NCCL 日志表明通道不对时由 wrong-transport 报告；日志只要有说明，通道即为已知",
        ),
        numa_distance_share: Text(
            en="our choice, half of the pairs: then most of the traffic crosses the sockets",
            zh="自定，一半的设备对：此时大部分流量跨越 CPU 插槽",
        ),
    },
    needs=COUNTERS,
    explains=("exposed-communication",),
    signature=Signature(
        caption=Text(
            en="In each collective the bus is busy and the link between the devices is not.",
            zh="每次集合通信期间 PCIe 繁忙，设备间的链路空闲。",
        ),
        lanes=(
            Lane(DEVICE, "cccnnnnnnn|cccnnnnnnn"),
            Lane(Text(en="PCIe", zh="PCIe 总线"), "...xxxxxxx|...xxxxxxx"),
            Lane(Text(en="NVLink", zh="NVLink 链路"), "..........|.........."),
        ),
    ),
)
