"""The device is hardly busy because a checkpoint is written or read.

Low use is no dead job: the log says what it does. Whether it should take so long is another question.
"""

from stepscope.analyse.features.telemetry import (
    compute_busy_five_minutes,
    host_disk_written_bytes_per_second,
    quiet_five_minutes,
    quiet_in_checkpoint,
)
from stepscope.model.text import Text
from stepscope.rules.capture import RUN_LOG
from stepscope.rules.catalog.checkpoint_stall import ASYNC_SAVE
from stepscope.rules.reference import MOST_OF_IT, MOSTLY_QUIET
from stepscope.rules.rule import Layer, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

RULE = Rule(
    id="idle-in-checkpoint",
    cause="a long checkpoint",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="other-stall",
    severity="warning",
    title=Text(
        en="The device is hardly busy: the job saves a checkpoint", zh="设备几乎空闲：作业正在保存检查点"
    ),
    explanation=Text(
        en="Most of the time without work lies between the log's lines on a checkpoint. The job is alive, "
        "and waits for storage.",
        zh="大部分空闲时间位于日志中检查点的起止之间。作业是活的，在等存储。",
    ),
    when=(quiet_five_minutes >= 0.50, quiet_in_checkpoint >= 0.50),
    shows=(host_disk_written_bytes_per_second, compute_busy_five_minutes),
    checks=(
        Text(
            en="Does the storage still move bytes? Then it is slow; if not, the save hangs.",
            zh="存储是否仍在写入？若是则为慢，若否则保存已挂起。",
        ),
        Text(
            en="Does one rank write for all, while the others wait?",
            zh="是否由一个 rank 写入，其余都在等待？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Write checkpoints in the background, to a disk of the node first.",
                zh="在后台写检查点，先写到本地盘。",
            ),
            clears=quiet_five_minutes < 0.50,
            patch=ASYNC_SAVE,
        ),
    ),
    references={quiet_five_minutes: MOSTLY_QUIET, quiet_in_checkpoint: MOST_OF_IT},
    needs=RUN_LOG,
    signature=Signature(
        caption=Text(
            en="Steps end, a checkpoint begins, and the device rests until it is written.",
            zh="步停止，检查点开始，直到写完设备才恢复工作。",
        ),
        lanes=(
            Lane(HOST, "ll..|ll..|wwwwwwwwwwwwww"),
            Lane(DEVICE, "cccc|cccc|.............."),
        ),
    ),
)
