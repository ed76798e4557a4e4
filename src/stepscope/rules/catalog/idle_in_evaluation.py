"""The device is hardly busy because an evaluation runs that does not need it.

Metrics on the processor, decoding, an upload: the log says that it evaluates, and the device has no part in
it.
"""

from stepscope.analyse.features import host_cpu_busy
from stepscope.analyse.features.telemetry import (
    compute_busy_five_minutes,
    quiet_five_minutes,
    quiet_in_checkpoint,
    quiet_in_eval,
)
from stepscope.model.text import Text
from stepscope.rules.capture import RUN_LOG
from stepscope.rules.reference import MOST_OF_IT, MOSTLY_QUIET
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

RULE = Rule(
    id="idle-in-evaluation",
    cause="an evaluation without the device",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="other-stall",
    severity="warning",
    title=Text(
        en="The device is hardly busy: the job evaluates on the host", zh="设备几乎空闲：作业正在主机上做评测"
    ),
    explanation=Text(
        en="Most of the time without work lies in an evaluation by the log. The job is alive, and what it "
        "does there needs no device.",
        zh="按日志，大部分空闲时间处于评测之中。作业是活的，只是此时不需要设备。",
    ),
    when=(quiet_five_minutes >= 0.50, quiet_in_eval >= 0.50),
    unless=(quiet_in_checkpoint >= 0.50,),
    shows=(host_cpu_busy, compute_busy_five_minutes),
    checks=(
        Text(
            en="What does the host do: a metric on one core, decoding, an upload?",
            zh="主机在做什么：单核上的指标计算、解码还是上传？",
        ),
        Text(
            en="How often does it come, against the time of training between?",
            zh="评测多久一次，与其间的训练时间相比如何？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Let the metric use more cores, or evaluate saved checkpoints in a job of their own.",
                zh="让指标计算使用更多核，或用单独的作业评测已保存的检查点。",
            ),
            clears=quiet_five_minutes < 0.50,
            patch=Patch(kind="env", after="OMP_NUM_THREADS=8  # for a metric that runs on one core"),
        ),
    ),
    references={
        quiet_five_minutes: MOSTLY_QUIET,
        quiet_in_eval: MOST_OF_IT,
        quiet_in_checkpoint: MOST_OF_IT,
    },
    needs=RUN_LOG,
    signature=Signature(
        caption=Text(
            en="The evaluation works on the host for long, and on the device for moments.",
            zh="评测长时间在主机上进行，设备只偶尔工作。",
        ),
        lanes=(
            Lane(HOST, "ll..|ll..|eeeeeeeeeeeeee"),
            Lane(DEVICE, "cccc|cccc|c.......c....."),
        ),
    ),
)
