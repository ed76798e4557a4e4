"""After each rest the device starts at a low clock.

A device that waits lowers its clock, and needs a while to raise it again: the first kernels behind a pause
are slow. What to mend is the pause; the ramp only says that it costs more than its own length.
"""

from stepscope.analyse.features import idle_share
from stepscope.analyse.features.telemetry import (
    clock_ramp_share,
    compute_busy_quiet_share,
    sm_clock_share,
)
from stepscope.model.text import Text
from stepscope.rules.capture import CLOCKS
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="clock-ramp",
    cause="a clock that falls in pauses",
    layer=Layer.HARDWARE,
    about=Subject.DEVICE,
    verdict="computing-slowly",
    severity="info",
    title=Text(
        en="The clock falls in pauses, and the first work behind each runs slowly",
        zh="时钟在停顿中下降，停顿之后最先执行的任务偏慢",
    ),
    explanation=Text(
        en="The device lowers its clock while it waits and needs time to raise it: pauses cost more than "
        "their own length. The pauses are the cause to mend.",
        zh="设备在等待时降低时钟，恢复需要时间：停顿的代价超过其本身的长度。应先消除停顿。",
    ),
    when=(clock_ramp_share >= 0.15, compute_busy_quiet_share >= 0.10),
    corroborated_by=(idle_share >= 0.10,),
    shows=(sm_clock_share,),
    checks=(
        Text(
            en="What does the device wait for in these pauses? The findings on idle time name it.",
            zh="设备在这些停顿中等待什么？关于空闲时间的结论会指出。",
        ),
        Text(
            en="Are the same kernels slower behind a pause than in the middle of a burst?",
            zh="同样的 kernel 在停顿之后是否比连续执行时慢？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Remove the pauses: with none the clock stays up.",
                zh="消除停顿：没有停顿时钟就不会下降。",
            ),
            clears=compute_busy_quiet_share <= 0.05,
            is_partial=True,
        ),
        Remedy(
            Text(
                en="Where the pauses cannot go, lock the clock near its highest for this job, and count the "
                "power.",
                zh="停顿无法消除时，可为该作业把时钟锁定在接近最高处，并计入功耗。",
            ),
            clears=clock_ramp_share <= 0.05,
            patch=Patch(kind="command", after="nvidia-smi -lgc MIN,MAX  # afterwards: nvidia-smi -rgc"),
            is_partial=True,
        ),
    ),
    references={
        clock_ramp_share: Text(
            en="our choice: between one reading and the next under steady load the clock moves by a few "
            "percent",
            zh="自定：稳定负载下相邻两次读数的时钟只相差几个百分点",
        ),
        compute_busy_quiet_share: Text(
            en="our choice, a tenth of the readings: with fewer pauses the ramp cannot matter much",
            zh="自定，读数的十分之一：停顿更少时影响不大",
        ),
        idle_share: Text(
            en="our choice, a tenth of the step: fewer pauses cannot matter much",
            zh="自定，一步的十分之一：停顿更少时影响不大",
        ),
    },
    needs=CLOCKS,
    signature=Signature(
        caption=Text(
            en="Behind each pause the first kernels take longer.",
            zh="每次停顿之后，最先的几个 kernel 更慢。",
        ),
        lanes=(
            Lane(Text(en="low clock", zh="低频率"), "xxxxxx....|xxxxxx...."),
            Lane(DEVICE, "....cccccc|....cccccc"),
        ),
    ),
)
