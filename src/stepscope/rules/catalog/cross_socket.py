"""The devices of the job lie on both sides of the host's sockets, and nothing faster joins them.

Peer-to-peer traffic then crosses the link between processors, which is slower than one PCIe switch and
shared with the host's own work.
"""

from stepscope.analyse.features import exposed_communication_share, nvlink_link_share
from stepscope.analyse.features.telemetry import (
    numa_distance_share,
    pcie_link_share,
)
from stepscope.model.text import Text
from stepscope.rules.capture import COUNTERS
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import Lane, Signature

RULE = Rule(
    id="cross-socket",
    cause="devices joined across processor sockets",
    layer=Layer.SCHEDULING,
    about=Subject.RANK,
    verdict="waiting-for-communication",
    title=Text(
        en="Collectives cross the processor sockets: no faster link joins the devices",
        zh="集合通信跨越 CPU 插槽：设备之间没有更快的链路",
    ),
    explanation=Text(
        en="Most pairs of the job's devices meet only across the sockets of the host, and NVLink carries "
        "nothing. Devices below one switch would talk faster.",
        zh="作业的大多数设备对只能跨 CPU 插槽相通，NVLink 没有流量。位于同一交换芯片下的设备通信更快。",
    ),
    when=(numa_distance_share >= 0.50, exposed_communication_share >= 0.05, nvlink_link_share <= 0.01),
    cost=exposed_communication_share,
    is_bound=True,
    shows=(pcie_link_share,),
    checks=(
        Text(
            en="Which devices of the host share a switch (nvidia-smi topo -m: PIX, PXB), and are those free?",
            zh="主机上哪些设备位于同一交换芯片下（nvidia-smi topo -m 中的 PIX、PXB），是否空闲？",
        ),
        Text(
            en="Are processes and memory bound to the socket of their device (numactl, the launcher)?",
            zh="进程与内存是否绑定到其设备所在的插槽（numactl、启动器）？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Ask the scheduler for devices that lie together, and keep groups that talk most within "
                "one socket.",
                zh="向调度器申请位置相邻的设备，并让通信最多的进程组留在同一插槽内。",
            ),
            clears=numa_distance_share < 0.50,
            patch=Patch(kind="command", after="nvidia-smi topo -m"),
            is_partial=True,
        ),
        Remedy(
            Text(
                en="Bind each rank to the processor and memory beside its device.",
                zh="把每个 rank 绑定到其设备旁的处理器与内存。",
            ),
            clears=exposed_communication_share < 0.05,
            patch=Patch(kind="command", after="numactl --cpunodebind=NODE --membind=NODE python train.py"),
            is_partial=True,
        ),
    ),
    references={
        numa_distance_share: Text(
            en="our choice, half of the pairs: a ring over them must cross the sockets",
            zh="自定，一半的设备对：此时环必然跨越插槽",
        ),
        exposed_communication_share: Text(
            en="TraceLens flags exposed communication above 5 % of the time",
            zh="TraceLens 在未被掩盖的通信超过时间的 5 % 时标出",
        ),
        nvlink_link_share: Text(
            en="our choice, a hundredth: with NVLink in use the sockets do not matter",
            zh="自定，百分之一：若使用 NVLink，则与插槽无关",
        ),
    },
    needs=COUNTERS,
    explains=("exposed-communication",),
    signature=Signature(
        caption=Text(
            en="Each collective goes over the link between the two sockets.",
            zh="每次集合通信都经过两个插槽之间的链路。",
        ),
        lanes=(
            Lane(Text(en="device 0", zh="设备 0"), "cccnnnnn|cccnnnnn"),
            Lane(Text(en="between sockets", zh="插槽之间"), "...xxxxx|...xxxxx"),
            Lane(Text(en="device 1", zh="设备 1"), "cccnnnnn|cccnnnnn"),
        ),
    ),
)
