"""Copies from pinned memory run far below what the bus between host and device carries.

Pinned memory takes the buffer of the driver out of the way: what is left is the bus. A card that fell back
to fewer lanes or an older generation copies at half the rate or less, in every step and from every buffer.
"""

from stepscope.analyse.features import copy_stall_share, pcie_receive_link_share
from stepscope.analyse.features.peer import pinned_copy_bus_share, pinned_copy_bytes_per_second
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

RULE = Rule(
    id="slow-bus",
    cause="a PCIe link below its width or generation",
    layer=Layer.HARDWARE,
    about=Subject.RANK,
    verdict="other-stall",
    title=Text(
        en="Copies from pinned memory run far below what the bus carries",
        zh="来自锁页内存的拷贝远低于总线能力",
    ),
    explanation=Text(
        en="Large copies between pinned memory and the device show what the bus does. At well under half of "
        "its "
        "rate the link has fewer lanes or an older generation than the card, or is shared.",
        zh="锁页内存与设备之间的大块拷贝能反映总线速率。若远低于一半，说明链路的通道数或代次低于显卡，或被共"
        "享。",
    ),
    when=(copy_stall_share >= 0.03, pinned_copy_bus_share <= 0.45),
    corroborated_by=(pcie_receive_link_share <= 0.35,),
    cost=copy_stall_share,
    shows=(pinned_copy_bytes_per_second,),
    checks=(
        Text(
            en="Width and generation of the link under load against the card's own (nvidia-smi -q, PCI "
            "section): "
            "idle cards lower theirs.",
            zh="在负载下对比链路的宽度与代次和显卡自身能力（nvidia-smi -q 的 PCI 部分）：空闲时会自动降低。",
        ),
        Text(
            en="Does another card on the same switch copy at the same time?",
            zh="同一交换芯片上的其他卡是否同时在拷贝？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Move the job to another node; if its copies are fast there, have the card reseated.",
                zh="把作业换到另一个节点；若那里拷贝正常，则请人重新插拔该卡。",
            ),
            clears=pinned_copy_bus_share >= 0.6,
            patch=Patch(
                kind="command",
                after="nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv",
            ),
            is_partial=True,
        ),
    ),
    references={
        copy_stall_share: Text(
            en="our choice: below 3 % of the step nothing is to be won",
            zh="自定：不足一步的 3 % 没有可赢得的时间",
        ),
        pinned_copy_bus_share: Text(
            en="our choice: large pinned copies reach 80 % and more of the bus, half the lanes give 40 % of "
            "it; "
            "cleared at 60 %",
            zh="自定：大块锁页拷贝可达总线的 80 % 以上，通道减半则约 40 %；恢复到 60 % 视为消除",
        ),
        pcie_receive_link_share: Text(
            en="our choice: the same share, by the device's own counters",
            zh="自定：同样的比例，由设备自身计数器给出",
        ),
    },
    needs=FEW_STEPS,
    signature=Signature(
        caption=Text(
            en="Copies are long, whatever memory they come from.",
            zh="无论来自何种内存，拷贝都很长。",
        ),
        lanes=(
            Lane(HOST, "ll........|ll........"),
            Lane(DEVICE, "xxxxxxcccc|xxxxxxcccc"),
        ),
    ),
    explains=("exposed-copy",),
)
