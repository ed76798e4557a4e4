"""Every step needs more device memory than the one before.

Something keeps what a step made: a list of losses with their graphs, a cache, hidden states carried from step
to step. The run is not slower for it, until it fails.
"""

from stepscope.analyse.features.memory import (
    memory_growth_50_steps,
    memory_growth_certainty,
    memory_growth_steady_share,
    memory_peak_bytes,
)
from stepscope.model.text import Text
from stepscope.rules.capture import MEMORY
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

MIB = 1 << 20
DETACH = Patch(kind="code", before="losses.append(loss)", after="losses.append(loss.detach())")
RECORD = Patch(
    kind="code",
    after='torch.cuda.memory._record_memory_history()\n...\ntorch.cuda.memory._dump_snapshot("snapshot.pickle")',
)

RULE = Rule(
    id="memory-creep",
    cause="device memory grows from step to step",
    layer=Layer.MODEL,
    about=Subject.MEMORY,
    verdict="other-stall",
    severity="warning",
    title=Text(en="Device memory grows from step to step", zh="显存逐步增长"),
    explanation=Text(
        en="The peak of allocated memory rises step by step: something keeps what a step made. Reserved "
        "memory alone would say nothing, the allocator keeps that by design.",
        zh="已分配显存的峰值逐步上升：某处保留了每一步产生的张量。"
        "只看 reserved 说明不了问题，缓存分配器本就会保留。",
    ),
    when=(
        memory_growth_50_steps >= 1024 * MIB,
        memory_growth_certainty >= 3,
        memory_growth_steady_share >= 0.5,
    ),
    shows=(memory_peak_bytes,),
    checks=(
        Text(
            en="Is a loss or an output put into a list or added up with its graph?",
            zh="是否把带计算图的 loss 或输出放进列表或累加？",
        ),
        Text(
            en="Do sequence lengths or batch sizes rise over these steps? Then it is the input that grows.",
            zh="这些步的序列长度或批大小是否在增大？若是，增长的是输入。",
        ),
        Text(
            en="Does a cache or a queue keep tensors (metrics, replay buffers, hidden states)?",
            zh="是否有缓存或队列保留张量（指标、回放缓冲、隐状态）？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Keep numbers and not graphs: detach what is kept for later.",
                zh="只保留数值，不保留计算图：对要留存的张量调用 detach。",
            ),
            clears=memory_growth_50_steps <= 128 * MIB,
            patch=DETACH,
        ),
        Remedy(
            Text(
                en="Take a memory snapshot after some steps: its largest stacks name who keeps the memory.",
                zh="若干步之后保存一次显存快照：占用最多的调用栈会指出是谁保留了显存。",
            ),
            clears=memory_growth_50_steps <= 128 * MIB,
            patch=RECORD,
            is_step_towards=True,
        ),
    ),
    references={
        memory_growth_50_steps: Text(
            en="TraceML calls 1 GiB over at least 50 steps a confirmed creep; that a slope over fewer steps "
            "is carried on to 50 is our choice",
            zh="TraceML 把至少 50 步内增长 1 GiB 视为确认的泄漏；把较少步的斜率外推到 50 步为本工具自定",
        ),
        memory_growth_certainty: Text(
            en="our choice, 3 standard deviations of Mann-Kendall's test: of 4,000 runs of 10 steps with "
            "nothing but noise 5 passed it, of longer runs fewer",
            zh="自定，Mann-Kendall 检验的 3 倍标准差：4000 组只有噪声的 10 步中有 5 组越过，步数更多时更少",
        ),
        memory_growth_steady_share: Text(
            en="our choice, half: a leak grows in both halves of the steps, optimizer state made late or an "
            "evaluation that begins does so in one",
            zh="自定，一半：泄漏在前后两半都增长，而迟建的优化器状态或开始的评测只在其中一半增长",
        ),
    },
    needs=MEMORY,
    signature=Signature(
        caption=Text(
            en="The peak of each step is higher than the last: what a step made is kept.",
            zh="每一步的峰值都高于上一步：每步产生的张量没有释放。",
        ),
        lanes=(
            Lane(Text(en="memory, newly kept", zh="新增且未释放的显存"), "....x|....x|....x|....x"),
            Lane(Text(en="memory", zh="显存"), "bbbbb|bbbbb|bbbbb|bbbbb"),
            Lane(DEVICE, "ccccc|ccccc|ccccc|ccccc"),
        ),
    ),
)
