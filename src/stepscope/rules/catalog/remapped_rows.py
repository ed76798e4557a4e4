"""Many rows of device memory were remapped to spare ones.

Remapping is how memory heals, and a row or two mean nothing. A device with many was found slower in a large
fleet, without any error that a job would see.
"""

from stepscope.analyse.features.telemetry import ecc_corrected_grown, matrix_slowdown, rows_remapped
from stepscope.model.text import Text
from stepscope.rules.capture import COUNTERS
from stepscope.rules.reference import SLOWER_PRODUCTS
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="remapped-rows",
    cause="many remapped rows of device memory",
    layer=Layer.HARDWARE,
    about=Subject.DEVICE,
    verdict="other-stall",
    severity="warning",
    title=Text(
        en="Many rows of the device's memory are remapped: such devices are often slower",
        zh="该设备有较多显存行被重映射：这类设备往往偏慢",
    ),
    explanation=Text(
        en="Remapped rows heal the memory; many of them are the mark of a part that degrades. Whether this "
        "one is slower, its peers tell.",
        zh="行重映射是显存的修复手段，但数量多说明部件在退化。是否真的变慢，要与同伴对比。",
    ),
    when=(rows_remapped > 10,),
    corroborated_by=(matrix_slowdown >= 1.03,),
    shows=(ecc_corrected_grown,),
    checks=(
        Text(
            en="Do its kernels take longer than the same ones of its peers, with equal clocks?",
            zh="时钟相同的情况下，它的 kernel 是否比同伴的同样 kernel 更慢？",
        ),
        Text(
            en="Does the number still rise from week to week?",
            zh="该数量是否仍在逐周上升？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Test the device alone against its neighbours (a matrix product, a copy), and ask for its "
                "replacement where it is slower.",
                zh="单独测试该设备并与相邻设备对比（矩阵乘、拷贝），若偏慢则申请更换。",
            ),
            clears=rows_remapped <= 10,
            patch=Patch(kind="command", after="nvidia-smi -q -d ROW_REMAPPER"),
            is_partial=True,
        ),
    ),
    references={
        rows_remapped: Text(
            en="SuperBench (ATC 2024): of devices with more than 10 remapped rows 83 % had regressed, of "
            "those with 1 to 10 under 6 %",
            zh="SuperBench（ATC 2024）：重映射超过 10 行的设备中 83 % 性能下降，1 到 10 行的不足 6 %",
        ),
        matrix_slowdown: SLOWER_PRODUCTS,
    },
    needs=COUNTERS,
    signature=Signature(
        caption=Text(
            en="The same kernels take a little longer on this device, in every step.",
            zh="同样的 kernel 在该设备上每一步都略慢。",
        ),
        lanes=(
            Lane(DEVICE, "xxxxx|xxxxx|xxxxx|xxxxx"),
            Lane(Text(en="its neighbour", zh="相邻设备"), "cccc.|cccc.|cccc.|cccc."),
        ),
    ),
)
