"""Under load the PCIe link has fewer lanes or an older generation than card and slot can do.

Links fall back when a card sits badly, a riser is worn or a setting froze them; idle links lower themselves
on purpose, so only readings under load count.
"""

from stepscope.analyse.features.peer import pinned_copy_bus_share
from stepscope.analyse.features.telemetry import (
    pcie_peak_link_share,
    pcie_rate_lost_share,
    pcie_replays_grown,
)
from stepscope.model.text import Text
from stepscope.rules.capture import COUNTERS
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="pcie-downgrade",
    cause="a PCIe link below what card and slot can do",
    layer=Layer.HARDWARE,
    about=Subject.DEVICE,
    verdict="other-stall",
    severity="warning",
    title=Text(
        en="Under load the PCIe link is narrower or older than card and slot allow",
        zh="负载下 PCIe 链路的通道数或代次低于显卡与插槽的能力",
    ),
    explanation=Text(
        en="The link between host and device carries a part of what it could. Batches, copies and traffic "
        "between nodes go through it.",
        zh="主机与设备之间的链路只有部分能力。批次、拷贝以及跨节点流量都要经过它。",
    ),
    when=(pcie_rate_lost_share >= 0.25,),
    corroborated_by=(pinned_copy_bus_share <= 0.45,),
    shows=(pcie_peak_link_share, pcie_replays_grown),
    checks=(
        Text(
            en="Read generation and lanes while the device works, current against the highest of device and "
            "host.",
            zh="在设备工作时读取代次与通道数，并与设备和主机的最大值对照。",
        ),
        Text(
            en="Do packets have to be sent again (PCIe replays)? Then it is the seat, the riser or the slot.",
            zh="是否有数据包重传（PCIe replay）？若有，问题在插接、转接卡或插槽。",
        ),
        Text(
            en="Is it so on all cards of this machine type? Then it is how the board is laid out, and no "
            "fault.",
            zh="该机型的所有卡是否都如此？若是，这是主板布线所致，并非故障。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Move the job to another node; have the card reseated, then its link trained again.",
                zh="把作业换到其他节点；请人重新插拔该卡并重新训练链路。",
            ),
            clears=pcie_rate_lost_share <= 0.01,
            patch=Patch(
                kind="command",
                after="nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.gen.max,"
                "pcie.link.width.current,pcie.link.width.max --format=csv -l 1",
            ),
        ),
    ),
    references={
        pcie_rate_lost_share: Text(
            en="our choice, a quarter: the least step there is, a generation or half the lanes, takes a half",
            zh="自定，四分之一：最小的一档（一代或一半通道）就会损失一半",
        ),
        pinned_copy_bus_share: Text(
            en="our choice: large pinned copies reach 80 % and more of a sound bus",
            zh="自定：正常总线上大块锁页拷贝可达 80 % 以上",
        ),
    },
    needs=COUNTERS,
    explains=("slow-bus", "slow-transfer"),
    signature=Signature(
        caption=Text(
            en="Every copy over the bus takes twice as long as on the neighbour.",
            zh="经过总线的每次拷贝都比相邻设备慢一倍。",
        ),
        lanes=(
            Lane(DEVICE, "xxxxcccc|xxxxcccc|xxxxcccc"),
            Lane(Text(en="its neighbour", zh="相邻设备"), "mmcccc..|mmcccc..|mmcccc.."),
        ),
    ),
)
