"""A bad row of device memory could not be remapped.

There is no spare row left for it, or the remapping itself failed. The vendor takes this as a reason for
replacement.
"""

from stepscope.analyse.features.telemetry import ecc_uncorrected_grown, row_remap_failed, rows_remapped
from stepscope.model.text import Text
from stepscope.rules.capture import COUNTERS
from stepscope.rules.reference import MEMORY_ERRORS
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="row-remap-failed",
    cause="memory that can no longer be repaired",
    layer=Layer.HARDWARE,
    about=Subject.DEVICE,
    verdict="other-stall",
    severity="critical",
    title=Text(en="A bad row of device memory could not be remapped", zh="有损坏的显存行无法重映射"),
    explanation=Text(
        en="The device has no way left to repair this memory: the next error there ends the process that "
        "meets it.",
        zh="该设备已无法修复这部分显存：下一次出错会终止遇到它的进程。",
    ),
    when=(row_remap_failed >= 1,),
    shows=(rows_remapped, ecc_uncorrected_grown),
    checks=(
        Text(
            en="Is the flag still set after a reset of the device?",
            zh="重置设备后该标志是否仍在？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Drain the node and ask for the device's replacement.",
                zh="排空节点并申请更换该设备。",
            ),
            clears=row_remap_failed < 1,
            patch=Patch(kind="command", after="nvidia-smi -q -d ROW_REMAPPER"),
        ),
    ),
    references={row_remap_failed: MEMORY_ERRORS},
    needs=COUNTERS,
    explains=("uncorrected-memory-errors",),
    signature=Signature(
        caption=Text(
            en="Errors come again at a place that should have been mapped away.",
            zh="本应被映射走的位置再次出错。",
        ),
        lanes=(
            Lane(Text(en="memory errors", zh="显存错误"), "...x.......x....x."),
            Lane(DEVICE, "cccc..|cccc..|cccc.."),
        ),
    ),
)
