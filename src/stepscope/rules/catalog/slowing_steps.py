"""By the log steps take longer at its end than at its beginning.

The log alone does not say why. Longer sequences, a growing cache, a device that heats up and a leak in the
host's memory all look like this; it is the reason to record, and to look when it began.
"""

from stepscope.analyse.features.telemetry import (
    host_memory_used_share,
    memory_growth_share,
    step_growth_ratio,
    steps_logged,
    temperature_celsius_max,
)
from stepscope.model.text import Text
from stepscope.rules.capture import RUN_LOG
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="slowing-steps",
    cause="steps that become slower over the run",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="other-stall",
    severity="warning",
    title=Text(
        en="Steps take longer at the end of the log than at its beginning", zh="日志末尾的步比开头更慢"
    ),
    explanation=Text(
        en="The median step of the last quarter is longer than that of the first. The mean over the run "
        "hides "
        "it.",
        zh="最后四分之一的步耗时中位数高于最初四分之一，整体均值会掩盖这一点。",
    ),
    when=(step_growth_ratio >= 1.10,),
    shows=(steps_logged, memory_growth_share, temperature_celsius_max, host_memory_used_share),
    checks=(
        Text(
            en="Is it a jump or a slope? A jump has a moment to look at; a slope is growth of something.",
            zh="是突变还是渐变？突变有一个可查的时刻，渐变则是某种增长。",
        ),
        Text(
            en="Do lengths or sizes of the batches grow too (tokens per step)? Then compare tokens per "
            "second instead.",
            zh="批次的长度或大小是否也在增长（每步 token 数）？若是，应比较每秒 token 数。",
        ),
        Text(
            en="Do pauses grow with the host's memory? Then it is garbage collection over more and more "
            "objects.",
            zh="停顿是否随主机内存增长？若是，是垃圾回收要遍历的对象越来越多。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Record some steps early and some late in the run, and compare the two reports.",
                zh="在运行的前期与后期各录制几步，对比两份报告。",
            ),
            clears=step_growth_ratio <= 1.05,
            patch=Patch(kind="command", after="stepscope diagnose LATE_TRACE --logs train.log"),
            is_step_towards=True,
        ),
    ),
    references={
        step_growth_ratio: Text(
            en="our choice, a tenth: Greyhound (ATC 2025) verifies a slowdown by means that differ by 10 %; "
            "cleared at 5 %",
            zh="自定，十分之一：Greyhound（ATC 2025）以均值相差 10 % 确认变慢；降到 5 % 视为消除",
        ),
    },
    needs=RUN_LOG,
    signature=Signature(
        caption=Text(
            en="Each step is a little longer than the last.",
            zh="每一步都比上一步略长。",
        ),
        lanes=(
            Lane(Text(en="beyond the first", zh="超出第一步"), "....|....x|....xx|....xxx"),
            Lane(DEVICE, "cccc|ccccc|cccccc|ccccccc"),
        ),
    ),
)
