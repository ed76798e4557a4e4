"""Packets had to be sent again over PCIe.

A few are ordinary on a busy bus. A steady stream of them says that seat, riser or slot are bad, long before
the link falls back or the device is lost.
"""

from stepscope.analyse.features.telemetry import pcie_link_share, pcie_rate_lost_share, pcie_replays_grown
from stepscope.model.text import Text
from stepscope.rules.capture import COUNTERS
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="pcie-replays",
    cause="packets sent again over PCIe",
    layer=Layer.HARDWARE,
    about=Subject.DEVICE,
    verdict="other-stall",
    severity="info",
    title=Text(en="Packets had to be sent again over PCIe", zh="PCIe 上有数据包被重传"),
    explanation=Text(
        en="The count of replays rose while the job ran. Alone it costs hardly any time; it announces a link "
        "that will fall back.",
        zh="作业运行期间重传计数上升。其本身几乎不耗时间，但预示链路将会降级。",
    ),
    when=(pcie_replays_grown >= 10,),
    shows=(pcie_rate_lost_share, pcie_link_share),
    checks=(
        Text(
            en="Does the number rise with the load, and on one device only?",
            zh="该计数是否随负载上升，且只在一块设备上？",
        ),
        Text(
            en="Does the kernel's log hold PCIe errors of the same slot (AER)?",
            zh="内核日志中是否有同一插槽的 PCIe 错误（AER）？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Have the card, its riser and its cable reseated at the next pause of the node.",
                zh="在节点下次停机时重新插拔显卡、转接卡与线缆。",
            ),
            clears=pcie_replays_grown < 10,
            patch=Patch(kind="command", after="nvidia-smi --query-gpu=index,pci.bus_id --format=csv"),
            is_partial=True,
        ),
    ),
    references={
        pcie_replays_grown: Text(
            en="our choice, ten in the time judged: a single one is ordinary on a busy bus",
            zh="自定，所判定时间内十次：总线繁忙时偶尔一次属正常",
        ),
    },
    needs=COUNTERS,
    signature=Signature(
        caption=Text(
            en="Copies are a little longer where packets go twice.",
            zh="数据包重传之处拷贝略长。",
        ),
        lanes=(
            Lane(Text(en="sent again", zh="重传"), "..x.....x......x...."),
            Lane(DEVICE, "mmmcc|mmmcc|mmmcc|mmmcc"),
        ),
    ),
)
