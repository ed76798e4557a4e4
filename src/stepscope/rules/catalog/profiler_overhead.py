"""The device waits for the profiler.

Buffers of the recorder are flushed, kernels are instrumented, the profiler starts or stops. None of it is
the job's: without the recording the time would not exist, and what else is measured here is measured on a
slowed job.
"""

from stepscope.analyse.features import idle_profiler_share, launches_per_step
from stepscope.model.text import Text
from stepscope.rules.capture import LIGHT
from stepscope.rules.rule import Layer, Patch, Question, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

LIGHTER = Patch(
    kind="code",
    before="profile(with_stack=True, record_shapes=True, profile_memory=True)",
    after="profile(schedule=schedule(wait=5, warmup=2, active=5, repeat=1))",
)

RULE = Rule(
    id="profiler-overhead",
    cause="the recording itself",
    layer=Layer.FRAMEWORK,
    about=Subject.RANK,
    verdict="undecided",
    title=Text(
        en="The device waits for the profiler: the recording slows the job, and says less of it",
        zh="设备在等待性能分析器：录制本身拖慢了作业，结果的可信度随之降低",
    ),
    explanation=Text(
        en="The recorder's own work lies in the steps. The job without it has none of this time: change the "
        "recording, not the job.",
        zh="分析器自身的工作落在了训练步内。不录制时不存在这部分时间：应调整录制方式，而不是作业。",
    ),
    when=(idle_profiler_share >= 0.05,),
    cost=idle_profiler_share,
    questions=(Question(missing=("undisturbed_steps",), capture=LIGHT),),
    shows=(launches_per_step,),
    checks=(
        Text(
            en="Compare the time of a step with and without the profiler: the job may not be slow at all.",
            zh="对比开、关分析器时的单步耗时：作业本身可能并不慢。",
        ),
        Text(
            en="Does it happen once? The profiler's start and the first flush belong into its warm-up.",
            zh="是否只出现一次？分析器的启动和首次刷新应放在它的预热阶段。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Record lighter: a warm-up of the profiler, fewer steps, no stacks, shapes and memory.",
                zh="减轻录制：给分析器预热、少录几步，不录调用栈、形状和内存。",
            ),
            clears=idle_profiler_share <= 0.01,
            patch=LIGHTER,
            is_step_towards=True,
        ),
    ),
    references={
        idle_profiler_share: Text(
            en="our choice, 5 % of the step: from there on the recording is as large as what it is to find",
            zh="自定，一步的 5 %：达到此值，录制的影响已与要寻找的问题相当",
        ),
    },
    needs=LIGHT,
    signature=Signature(
        caption=Text(
            en="The profiler flushes its buffers in the middle of a step, and the job stands still.",
            zh="分析器在步的中间刷新缓冲区，作业随之停住。",
        ),
        lanes=(
            Lane(HOST, "llll....|llqqqqqqll....|llll...."),
            Lane(DEVICE, ".ccccccc|.ccc.....ccccc|.ccccccc"),
        ),
    ),
    explains=("slow-rank",),
)
