"""Transfers are slow, and the links that carry them count errors.

Every rank is there, large collectives still move less than half of what the link carries, and packets are
sent again meanwhile. Either alone may be harmless: errors are rare on a sound link, and a network between
nodes is slower than the link within one.
"""

from stepscope.analyse.features.peer import transfer_exposed_share, transfer_link_share
from stepscope.analyse.features.telemetry import nvlink_errors_grown, nvlink_in_collectives_link_share
from stepscope.model.text import Text
from stepscope.rules.capture import COUNTERS
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="failing-link",
    cause="a link that sends packets again",
    layer=Layer.HARDWARE,
    about=Subject.DEVICE,
    verdict="waiting-for-communication",
    severity="warning",
    title=Text(
        en="Transfers are slow over links that have errors",
        zh="传输缓慢，且所经链路不断出错",
    ),
    explanation=Text(
        en="With every rank there, large collectives move less than half of what the link carries, and its "
        "error counters rise meanwhile: packets are sent again.",
        zh="所有 rank 均已到达，大的集合通信仍不到链路能力的一半，同时链路的错误计数在上升：数据包在重传。",
    ),
    when=(nvlink_errors_grown >= 1, transfer_link_share <= 0.50, transfer_exposed_share >= 0.05),
    corroborated_by=(nvlink_in_collectives_link_share <= 0.50,),
    cost=transfer_exposed_share,
    checks=(
        Text(
            en="Is it one link or all (nvidia-smi nvlink -e)? One: cable, bridge or seat; all: the switch.",
            zh="是一条链路还是全部（nvidia-smi nvlink -e）？一条：线缆、桥接或插接；全部：交换芯片。",
        ),
        Text(
            en="Run an all-reduce benchmark on the same devices: does it stay as far below the link?",
            zh="在相同设备上运行 all-reduce 基准测试：是否同样远低于链路能力？",
        ),
        Text(
            en="Did an Xid 74 or 144 to 150 follow in the kernel log?",
            zh="内核日志中随后是否出现 Xid 74 或 144 到 150？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Drain the node and have the link inspected; until then keep the job off these devices.",
                zh="排空节点并检修链路；在此之前不要把作业放到这些设备上。",
            ),
            clears=transfer_exposed_share <= 0.02,
            patch=Patch(kind="command", after="nvidia-smi nvlink -e"),
        ),
    ),
    references={
        nvlink_errors_grown: Text(
            en="our choice, one: NVIDIA's Xid catalogue begins with the link's counters for every NVLink "
            "error",
            zh="自定，一次：NVIDIA 的 Xid 目录对每种 NVLink 错误都先看链路计数",
        ),
        transfer_link_share: Text(
            en="our choice, half of it: published checks of training clusters call four fifths of what the "
            "link should give the least, and the network between nodes, which has no such errors, gives less",
            zh="自定，链路能力的一半：公开的训练集群检查以应有带宽的五分之四为下限；"
            "节点间网络更慢，但没有此类错误",
        ),
        transfer_exposed_share: Text(
            en="our choice, a twentieth of the step in transfers that nothing hides; cleared at 2 %",
            zh="自定，一步的二十分之一用于未被掩盖的传输；降到 2 % 视为消除",
        ),
        nvlink_in_collectives_link_share: Text(
            en="our choice: the same half, by the counters",
            zh="自定：同样的一半，按计数器",
        ),
    },
    needs=COUNTERS,
    explains=(
        "communication-bound",
        "exposed-communication",
        "nvlink-errors",
        "slow-group",
        "slow-transfer",
        "tiny-collectives",
    ),
    signature=Signature(
        caption=Text(
            en="All ranks start together, and the collective takes long while the link recovers.",
            zh="各 rank 同时开始，链路恢复期间集合通信耗时很长。",
        ),
        lanes=(
            Lane(Text(en="link errors", zh="链路错误"), "....xx..x.|....x.xx.."),
            Lane(DEVICE, "cccnnnnnnn|cccnnnnnnn"),
        ),
    ),
)
