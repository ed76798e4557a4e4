"""The driver logged Xids after which the device works on.

Most are faults of a program (an illegal access), some are traces of a repair. They matter when they come
again on one device while the program is the same everywhere.
"""

from stepscope.analyse.features.telemetry import ecc_corrected_grown, grave_xids, milder_xids, rows_remapped
from stepscope.model.text import Text
from stepscope.rules.capture import KERNEL_LOG
from stepscope.rules.reference import XID
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="device-warning",
    cause="Xids after which the device works on",
    layer=Layer.HARDWARE,
    about=Subject.DEVICE,
    verdict="other-stall",
    severity="warning",
    title=Text(en="The driver logged Xids that the device survives", zh="驱动记录了设备仍可继续工作的 Xid"),
    explanation=Text(
        en="These codes end a process or note a repair, not the device. One is often the program's own "
        "fault; several on one device and none on its peers are the device's.",
        zh="这些代码终止的是进程或记录一次修复，而非设备。单次常为程序自身的问题；若只在一块设备上反复出现，"
        "则是设备的问题。",
    ),
    when=(milder_xids >= 1,),
    unless=(grave_xids >= 1,),
    shows=(ecc_corrected_grown, rows_remapped),
    checks=(
        Text(
            en="Is it an illegal access (13, 31)? Run the job with CUDA_LAUNCH_BLOCKING=1 or under "
            "compute-sanitizer to find the kernel.",
            zh="是否为非法访问（13、31）？用 CUDA_LAUNCH_BLOCKING=1 或 compute-sanitizer 运行以找到对应的 "
            "kernel。",
        ),
        Text(
            en="Does it come on the same device again, with other jobs too?",
            zh="是否在同一块设备上反复出现，其他作业也会？",
        ),
        Text(
            en="Do the profiling counters still move? After some of these codes they stand still.",
            zh="性能计数器是否仍在变化？其中某些代码之后计数器会停住。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Find the kernel if it is the program's; watch the device and drain its node if it comes "
                "again.",
                zh="若是程序问题则找出对应的 kernel；否则观察该设备，再次出现就排空该节点。",
            ),
            clears=milder_xids < 1,
            patch=Patch(kind="command", after="compute-sanitizer --tool memcheck python train.py"),
        ),
    ),
    references={
        milder_xids: XID,
        grave_xids: Text(
            en="our choice: beside one that ends the work, device-fault speaks",
            zh="自定：若同时有会终止工作的 Xid，由 device-fault 报告",
        ),
    },
    needs=KERNEL_LOG,
    signature=Signature(
        caption=Text(
            en="The driver logs a code, and the device works on.",
            zh="驱动记录了一个代码，设备继续工作。",
        ),
        lanes=(
            Lane(Text(en="kernel log", zh="内核日志"), ".......x.............."),
            Lane(DEVICE, "ccccc|ccccc|ccccc|ccccccc"),
        ),
    ),
)
