"""Rows of device memory wait for a reset to be remapped.

Until then the driver keeps their pages out of use, and work goes on without harm. The reset belongs into the
next pause of the node.
"""

from stepscope.analyse.features.telemetry import row_remap_failed, row_remap_pending, rows_remapped
from stepscope.model.text import Text
from stepscope.rules.capture import COUNTERS
from stepscope.rules.patch import RESET_DEVICE
from stepscope.rules.reference import MEMORY_ERRORS
from stepscope.rules.rule import Layer, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="row-remap-pending",
    cause="rows that wait for a reset",
    layer=Layer.HARDWARE,
    about=Subject.DEVICE,
    verdict="other-stall",
    severity="warning",
    title=Text(en="Rows of device memory wait for a reset to be remapped", zh="有显存行等待重置后完成重映射"),
    explanation=Text(
        en="The bad rows are out of use already and cost no time; a reset puts spare ones in their place.",
        zh="损坏的行已停用，不造成时间损失；重置后会换上备用行。",
    ),
    when=(row_remap_pending >= 1,),
    unless=(row_remap_failed >= 1,),
    shows=(rows_remapped,),
    checks=(
        Text(
            en="Were there uncorrected errors too? Then do not wait for the next pause.",
            zh="是否同时有不可纠正的错误？若有，就不要等到下次停机。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Let the job end or reach a checkpoint, then reset the device before the next one.",
                zh="待作业结束或到达检查点后，在下一个作业之前重置该设备。",
            ),
            clears=row_remap_pending < 1,
            patch=RESET_DEVICE,
        ),
    ),
    references={row_remap_pending: MEMORY_ERRORS, row_remap_failed: MEMORY_ERRORS},
    needs=COUNTERS,
    signature=Signature(
        caption=Text(
            en="An error marks a row; the repair waits for the next reset.",
            zh="一次错误标记了某行，修复要等到下次重置。",
        ),
        lanes=(
            Lane(Text(en="waiting", zh="等待重映射"), "......xxxxxxxxxxxx"),
            Lane(DEVICE, "cccccc|cccccc|cccccc"),
        ),
    ),
)
