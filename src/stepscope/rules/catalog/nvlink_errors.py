"""NVLink had errors: packets were sent again, or the link had to recover.

Each costs time that no counter of bandwidth shows, and a link that recovers often is about to fail.
"""

from stepscope.analyse.features.peer import transfer_exposed_share
from stepscope.analyse.features.telemetry import nvlink_errors_grown, nvlink_peak_link_share
from stepscope.model.text import Text
from stepscope.rules.capture import COUNTERS
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="nvlink-errors",
    cause="errors of NVLink",
    layer=Layer.HARDWARE,
    about=Subject.DEVICE,
    verdict="other-stall",
    severity="warning",
    title=Text(en="NVLink had errors while the job ran", zh="作业运行期间 NVLink 出现了错误"),
    explanation=Text(
        en="CRC errors, replays or recoveries were counted on this device's links. Transfers over them wait, "
        "and so do all ranks of the group.",
        zh="该设备的链路记录到 CRC 错误、重传或恢复。经过它们的传输要等待，同组所有 rank 也随之等待。",
    ),
    when=(nvlink_errors_grown >= 1,),
    corroborated_by=(transfer_exposed_share >= 0.05,),
    shows=(nvlink_peak_link_share,),
    checks=(
        Text(
            en="Is it one link or all (nvidia-smi nvlink -e)? One: cable, bridge or seat; all: the switch.",
            zh="是一条链路还是全部（nvidia-smi nvlink -e）？一条：线缆、桥接或插接；全部：交换芯片。",
        ),
        Text(
            en="Do both ends of the link count? The end that counts alone is the one that hears badly.",
            zh="链路两端是否都在计数？只有一端计数时，问题在接收的那一端。",
        ),
        Text(
            en="Did an Xid 74 or 144 to 150 follow?",
            zh="随后是否出现 Xid 74 或 144 到 150？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Watch the counters over the next runs; if they go on rising, drain the node and have the "
                "link inspected.",
                zh="在后续运行中观察这些计数；若继续上升，则排空节点并检修链路。",
            ),
            clears=nvlink_errors_grown < 1,
            patch=Patch(kind="command", after="nvidia-smi nvlink -e"),
        ),
    ),
    references={
        nvlink_errors_grown: Text(
            en="our choice, one: NVIDIA's Xid catalogue begins with the link's counters for every NVLink "
            "error",
            zh="自定，一次：NVIDIA 的 Xid 目录对每种 NVLink 错误都先看链路计数",
        ),
        transfer_exposed_share: Text(
            en="our choice, a twentieth of the step in transfers that nothing hides",
            zh="自定，一步的二十分之一用于未被掩盖的传输",
        ),
    },
    needs=COUNTERS,
    explains=("slow-group", "slow-transfer"),
    signature=Signature(
        caption=Text(
            en="Now and then a transfer waits until the link has recovered.",
            zh="传输不时要等链路恢复。",
        ),
        lanes=(
            Lane(Text(en="link errors", zh="链路错误"), ".........xx........."),
            Lane(DEVICE, "cccnn|cccnnnn|cccnn|ccc"),
        ),
    ),
)
