"""Device memory jumped, and steps have been slower since.

Two changes at once have one cause more often than two: a longer sequence, a larger batch, a second process, a
graph that is kept from here on.
"""

from stepscope.analyse.features import memory_used_share
from stepscope.analyse.features.telemetry import (
    memory_jump_share,
    memory_used_bytes_max,
    num_foreign_processes,
    step_growth_ratio,
)
from stepscope.model.text import Text
from stepscope.rules.capture import COUNTERS
from stepscope.rules.rule import Layer, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="memory-jump",
    cause="a change that took memory and time",
    layer=Layer.MODEL,
    about=Subject.DEVICE,
    verdict="other-stall",
    severity="warning",
    title=Text(
        en="Device memory jumped, and the steps of the log became slower",
        zh="显存占用突增，同时日志中的步变慢",
    ),
    explanation=Text(
        en="From one reading to the next much more memory was in use, and later steps take longer than the "
        "first. Something changed in the job or beside it.",
        zh="相邻两次读数之间显存占用大增，之后的步比最初更慢：作业内部或其旁边发生了变化。",
    ),
    when=(memory_jump_share >= 0.10, step_growth_ratio >= 1.10),
    shows=(memory_used_bytes_max, memory_used_share, num_foreign_processes),
    checks=(
        Text(
            en="What does the log say at the time of the jump: longer sequences, another data set, an "
            "evaluation, a profiler?",
            zh="突增发生时日志中写了什么：更长的序列、另一个数据集、评测，还是 profiler？",
        ),
        Text(
            en="Did a second process come to the device then?",
            zh="当时是否有第二个进程来到该设备？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Compare a trace from before the jump with one from behind it: the ops that are new or "
                "larger name the change.",
                zh="对比突增前后的 trace：新增或变大的算子即为变化所在。",
            ),
            clears=step_growth_ratio <= 1.05,
            is_step_towards=True,
        ),
    ),
    references={
        memory_jump_share: Text(
            en="our choice, a tenth of the device's memory between two readings: a reserve grows by less",
            zh="自定，两次读数之间相差显存的十分之一：框架保留的增长小于此",
        ),
        step_growth_ratio: Text(
            en="our choice, a tenth: Greyhound (ATC 2025) verifies a slowdown by means that differ by 10 %",
            zh="自定，十分之一：Greyhound（ATC 2025）以均值相差 10 % 确认变慢",
        ),
    },
    needs=COUNTERS,
    signature=Signature(
        caption=Text(
            en="At one moment memory rises, and every step behind it is longer.",
            zh="某一刻显存上升，其后每一步都变长。",
        ),
        lanes=(
            Lane(Text(en="memory added", zh="新增显存"), "........xxxxxxxxxxxx"),
            Lane(DEVICE, "cccc|cccc|cccccc|cccccc"),
        ),
    ),
)
