"""Device memory had errors that its correction could not mend.

The process that read the bad words is ended, or the whole device stops. It looks like a failed request for
memory in some logs and is none.
"""

from stepscope.analyse.features.telemetry import ecc_corrected_grown, ecc_uncorrected_grown, rows_remapped
from stepscope.model.text import Text
from stepscope.rules.capture import COUNTERS
from stepscope.rules.patch import RESET_DEVICE
from stepscope.rules.reference import MEMORY_ERRORS
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="uncorrected-memory-errors",
    cause="device memory errors beyond correction",
    layer=Layer.HARDWARE,
    about=Subject.DEVICE,
    verdict="other-stall",
    severity="critical",
    title=Text(en="Device memory had errors that could not be corrected", zh="显存出现了无法纠正的错误"),
    explanation=Text(
        en="The count of uncorrected errors rose in the time judged. What the process read may be wrong, or "
        "the process was ended for it.",
        zh="在所判定的时间内，不可纠正错误的计数上升。进程读到的数据可能有误，或因此被终止。",
    ),
    when=(ecc_uncorrected_grown >= 1,),
    shows=(ecc_corrected_grown, rows_remapped),
    checks=(
        Text(
            en="Which Xid came with it: contained (94, one process) or not (48, 95: the device)?",
            zh="伴随的是哪个 Xid：受控（94，仅一个进程），还是不受控（48、95，整块设备）？",
        ),
        Text(
            en="Did loss or gradients jump at that time? Then go back to a checkpoint from before it.",
            zh="当时 loss 或梯度是否突变？若是，请退回到此前的检查点。",
        ),
        Text(
            en="Does the device have spare rows left (row remapping)?",
            zh="该设备是否还有可用的备用行（行重映射）？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Drain the node, reset the device so that bad rows are remapped, and have it replaced if "
                "errors come again.",
                zh="排空节点，重置设备以完成行重映射；若再次出错则更换。",
            ),
            clears=ecc_uncorrected_grown < 1,
            patch=RESET_DEVICE,
        ),
        Remedy(
            Text(
                en="Read which memory it was before the reset.",
                zh="重置前先查看是哪部分显存出错。",
            ),
            clears=ecc_uncorrected_grown < 1,
            patch=Patch(kind="command", after="nvidia-smi -q -d ECC,ROW_REMAPPER"),
            is_step_towards=True,
        ),
    ),
    references={ecc_uncorrected_grown: MEMORY_ERRORS},
    needs=COUNTERS,
    explains=("no-progress",),
    explains_peers=("no-progress",),
    signature=Signature(
        caption=Text(
            en="An error that cannot be corrected ends the process that met it.",
            zh="无法纠正的错误终止了遇到它的进程。",
        ),
        lanes=(
            Lane(Text(en="memory errors", zh="显存错误"), "............x....."),
            Lane(DEVICE, "cccccc|cccccc......"),
        ),
    ),
)
