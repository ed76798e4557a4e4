"""Device memory in use grows all the time.

Seen by the device's own counter, so that the framework's reserve is in it: a reserve grows in the first steps
and then stands. What grows in most of ten equal times is kept by somebody.
"""

from stepscope.analyse.features import memory_used_share
from stepscope.analyse.features.memory import memory_growth_50_steps
from stepscope.analyse.features.telemetry import (
    foreign_memory_share,
    memory_growth_share,
    memory_growth_steadiness,
    memory_used_bytes_max,
)
from stepscope.model.text import Text
from stepscope.rules.capture import COUNTERS
from stepscope.rules.catalog.memory_creep import DETACH, MIB, RECORD
from stepscope.rules.rule import Layer, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="memory-leak",
    cause="device memory that is not given back",
    layer=Layer.MODEL,
    about=Subject.DEVICE,
    verdict="other-stall",
    severity="warning",
    title=Text(en="Device memory in use grows all the time", zh="显存占用持续增长"),
    explanation=Text(
        en="By the device's counter more memory is in use from one stretch of time to the next. Going on "
        "like "
        "this, a request will fail.",
        zh="按设备计数器，显存占用一段比一段高。照此下去，终会有申请失败。",
    ),
    when=(memory_growth_share >= 0.05, memory_growth_steadiness >= 0.70),
    corroborated_by=(memory_growth_50_steps >= 128 * MIB,),
    shows=(memory_used_share, memory_used_bytes_max, foreign_memory_share),
    checks=(
        Text(
            en="Does what tensors hold (torch.cuda.memory_allocated) grow too, or only the reserve? Growth "
            "of "
            "the reserve alone is pieces, not a leak.",
            zh="张量占用（torch.cuda.memory_allocated）是否也在增长，还是只有保留在增长？"
            "只有后者是碎片而非泄漏。",
        ),
        Text(
            en="Is a loss or an output kept with its graph (a list, a running sum)?",
            zh="是否保留了带计算图的 loss 或输出（列表、累加）？",
        ),
        Text(
            en="Do sequence lengths grow over the run? Then it is the input.",
            zh="序列长度是否随运行增大？若是，增长的是输入。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Keep numbers and not graphs: detach what is kept for later.",
                zh="只保留数值，不保留计算图：对要留存的张量调用 detach。",
            ),
            clears=memory_growth_share <= 0.01,
            patch=DETACH,
        ),
        Remedy(
            Text(
                en="Take a memory snapshot after some steps: its largest stacks name who keeps the memory.",
                zh="若干步之后保存一次显存快照：占用最多的调用栈会指出是谁保留了显存。",
            ),
            clears=memory_growth_share <= 0.01,
            patch=RECORD,
            is_step_towards=True,
        ),
    ),
    references={
        memory_growth_share: Text(
            en="SageMaker Debugger's GPUMemoryIncrease rule speaks from a rise by 5 points on",
            zh="SageMaker Debugger 的 GPUMemoryIncrease 规则以上升 5 个百分点为界",
        ),
        memory_growth_steadiness: Text(
            en="our choice, seven of ten times: optimizer state or a cache that fills comes in one or two",
            zh="自定，十段中有七段：优化器状态或缓存填充只出现在其中一两段",
        ),
        memory_growth_50_steps: Text(
            en="our choice, an eighth of what TraceML calls a confirmed creep, for the trace is short",
            zh="自定，TraceML 所称确认泄漏的八分之一，因为 trace 较短",
        ),
    },
    needs=COUNTERS,
    explains=("logged-out-of-memory", "memory-nearly-full"),
    signature=Signature(
        caption=Text(
            en="More memory is in use in each stretch of time than in the one before.",
            zh="每一段时间的显存占用都高于前一段。",
        ),
        lanes=(
            Lane(Text(en="newly kept", zh="新增占用"), "...x...x...x...x...x"),
            Lane(Text(en="memory", zh="显存"), "bbbbbbbbbbbbbbbbbbbb"),
            Lane(DEVICE, "cccc|cccc|cccc|cccc|cccc"),
        ),
    ),
)
