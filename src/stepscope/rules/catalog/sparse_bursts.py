"""Steps go on, and each needs the device for a moment only.

The mean of the device's use is as low as that of a dead job, and the job is alive: most of each step is spent
elsewhere. It asks for a smaller device, or for more work on this one.
"""

from stepscope.analyse.features.telemetry import (
    busy_below_peers,
    compute_busy_five_minutes,
    compute_busy_mean,
    compute_busy_p95,
    quiet_before_steps,
    quiet_in_checkpoint,
    quiet_in_eval,
    quiet_while_stepping,
    steps_logged,
)
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.reference import BELOW_PEERS, HARDLY_BUSY, MOST_OF_IT
from stepscope.rules.rule import Layer, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

RULE = Rule(
    id="sparse-bursts",
    cause="a device that is rarely needed",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="other-stall",
    severity="warning",
    title=Text(en="Steps go on, and the device is rarely needed for them", zh="步仍在推进，只是很少用到设备"),
    explanation=Text(
        en="The device's use is very low while the log goes on stating steps: most of each step is spent on "
        "something else. The job is not dead.",
        zh="设备利用率很低，而日志仍在不断给出新的步：每步的大部分时间花在别处。作业没有死。",
    ),
    when=(compute_busy_five_minutes <= 0.05, quiet_while_stepping >= 0.50),
    unless=(
        busy_below_peers >= 0.30,
        quiet_in_checkpoint >= 0.50,
        quiet_in_eval >= 0.50,
        quiet_before_steps >= 0.50,
    ),
    shows=(compute_busy_p95, compute_busy_mean, steps_logged),
    checks=(
        Text(
            en="What does a step do between the bursts: environments, retrieval, data, a service that "
            "answers?",
            zh="两次短暂工作之间一步在做什么：环境交互、检索、数据，还是等待外部服务？",
        ),
        Text(
            en="Is one reading of the counters longer than a burst? Then look at a faster sampling before "
            "you "
            "judge.",
            zh="计数器的一次读数是否比一次短暂工作还长？若是，请先用更快的采样再判断。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Record some steps: the trace names what the device waits for.",
                zh="录制几步：trace 会指出设备在等什么。",
            ),
            clears=compute_busy_five_minutes > 0.05,
            is_step_towards=True,
        ),
        Remedy(
            Text(
                en="If it must be so, share the device or ask for a smaller one.",
                zh="若确属必要，则共享该设备或申请更小的设备。",
            ),
            clears=compute_busy_five_minutes > 0.05,
            is_partial=True,
        ),
    ),
    references={
        compute_busy_five_minutes: HARDLY_BUSY,
        quiet_while_stepping: MOST_OF_IT,
        busy_below_peers: BELOW_PEERS,
        quiet_in_checkpoint: MOST_OF_IT,
        quiet_in_eval: MOST_OF_IT,
        quiet_before_steps: MOST_OF_IT,
    },
    needs=FEW_STEPS,
    signature=Signature(
        caption=Text(
            en="In each step the host works long, and the device for a moment.",
            zh="每一步中主机工作很久，设备只工作片刻。",
        ),
        lanes=(
            Lane(HOST, "xxxxxxxxl.|xxxxxxxxl."),
            Lane(DEVICE, ".........c|.........c"),
        ),
    ),
)
