"""The driver reported a fault after which work on the device cannot go on.

The codes and what to do after each come from the vendor's catalogue. A fault ends the work of one rank, and
all others then stand in collectives until a watchdog ends them: what they report is a consequence.
"""

from stepscope.analyse.features.telemetry import (
    ecc_uncorrected_grown,
    grave_xids,
    milder_xids,
    nvlink_errors_grown,
    rows_remapped,
)
from stepscope.model.text import Text
from stepscope.rules.capture import KERNEL_LOG
from stepscope.rules.patch import RESET_DEVICE
from stepscope.rules.reference import XID
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import Lane, Signature

RULE = Rule(
    id="device-fault",
    cause="a fault of the device",
    layer=Layer.HARDWARE,
    about=Subject.DEVICE,
    verdict="other-stall",
    severity="critical",
    title=Text(
        en="The driver reported a fault after which the device's work cannot go on",
        zh="驱动报告了故障，该设备上的工作无法继续",
    ),
    explanation=Text(
        en="An Xid that ends the work was logged for this device in the time judged. Hanging collectives and "
        "errors on other ranks around it are consequences.",
        zh="在所判定的时间内，该设备记录了会终止工作的 Xid。其前后其他 rank 的集合通信挂起与报错都是后果。",
    ),
    when=(grave_xids >= 1,),
    shows=(milder_xids, ecc_uncorrected_grown, nvlink_errors_grown, rows_remapped),
    checks=(
        Text(
            en="Which code came first? Those that clean up behind it (43, 45) are of no interest.",
            zh="最先出现的是哪个代码？随后的清理类代码（43、45）没有意义。",
        ),
        Text(
            en="Does an Xid 154 beside it state the action to take (none, reset, reboot, drain)?",
            zh="旁边是否有 Xid 154 给出应采取的动作（无、重置、重启、排空）？",
        ),
        Text(
            en="Has this device or node had one before, in other jobs? The second one is no accident.",
            zh="该设备或节点在其他作业中是否出现过？第二次就不是偶然。",
        ),
        Text(
            en="Is it a fault of the fabric (NVLink, NVSwitch)? Then every device of the node may be "
            "touched, "
            "also those without a code.",
            zh="是否为互连故障（NVLink、NVSwitch）？若是，该节点的每块设备都可能受影响，包括没有代码的。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Drain the node and start the job again from its last checkpoint on another one.",
                zh="排空该节点，在其他节点上从最近的检查点重新启动作业。",
            ),
            clears=grave_xids < 1,
            patch=Patch(
                kind="command", after="kubectl drain NODE --ignore-daemonsets  # Slurm: scontrol update"
            ),
        ),
        Remedy(
            Text(
                en="Then do what the catalogue says of this code: reset the device, restart the machine, or "
                "have it inspected.",
                zh="然后按目录中该代码的说明处理：重置设备、重启机器或送检。",
            ),
            clears=grave_xids < 1,
            patch=RESET_DEVICE,
        ),
    ),
    references={grave_xids: XID},
    needs=KERNEL_LOG,
    explains=("no-progress", "killed-process"),
    explains_peers=("no-progress", "waiting-for-peers"),
    signature=Signature(
        caption=Text(
            en="One device stops; the others stand in the next collective.",
            zh="一块设备停下，其他设备停在下一次集合通信中。",
        ),
        lanes=(
            Lane(Text(en="this device", zh="本设备"), "cccnn|ccx........."),
            Lane(Text(en="the others", zh="其他设备"), "cccnn|cccnnnnnnnnn"),
        ),
    ),
)
