"""The device waits while the training process prepares the batch.

The loader has handed over its batch, but the step begins with host work on it: tokenising, masks,
casts, small copies. The device has nothing to run until the first launch of the step.
"""

from stepscope.analyse.features import host_cpu_busy, idle_preprocess_share, sm_active_mean
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.reference import LOW_SM_ACTIVE
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject

IN_WORKERS = Patch(
    kind="code",
    before="for batch in loader:\n    batch = prepare(batch)",
    after="loader = DataLoader(dataset, collate_fn=collate_and_prepare, num_workers=N, pin_memory=True)\n"
    "for batch in loader:",
)

RULE = Rule(
    id="host-preprocessing",
    cause="batch prepared in the training process",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="waiting-for-data",
    title=Text(en="The device waits while the host prepares the batch", zh="设备在等待主机对批次做预处理"),
    explanation=Text(
        en="The batch is there, but the step begins with host work on it before anything is launched.",
        zh="批次已经取到，但每一步开头主机还要先处理它，之后才下发第一个任务。",
    ),
    when=(idle_preprocess_share >= 0.10,),
    corroborated_by=(sm_active_mean <= 0.70, host_cpu_busy >= 0.50),
    cost=idle_preprocess_share,
    checks=(
        Text(
            en="Look at what runs between the start of a step and its first launch: the report names it "
            "where Python functions were recorded (with_stack=True).",
            zh="查看每一步开始到第一次下发之间运行了什么：若录制了 Python 函数（with_stack=True），"
            "报告会列出它们。",
        ),
        Text(
            en="Does it grow with sequence length? Masks and padding built on the host grow with its square.",
            zh="它是否随序列长度增长？在主机上构造掩码和填充的开销按长度平方增长。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Move the preparation into the loader's workers (dataset or collate_fn), so that it runs "
                "beside the previous step.",
                zh="把预处理移到加载 worker 中（dataset 或 collate_fn），使其与上一步并行。",
            ),
            unless=(host_cpu_busy >= 0.90,),
            clears=idle_preprocess_share <= 0.05,
            patch=IN_WORKERS,
        ),
        Remedy(
            Text(
                en="Move the preparation to the device or do it ahead of time: the host has no cores left.",
                zh="把预处理移到设备上或离线完成：主机已没有空闲核。",
            ),
            only_if=(host_cpu_busy >= 0.90,),
            clears=idle_preprocess_share <= 0.05,
        ),
    ),
    references={
        idle_preprocess_share: Text(
            en="taken like waiting for input, of which it is a part: TraceML warns at 10 % of a step; "
            "one in 25 of the issues of An Empirical Study on Low GPU Utilization (ICSE 2024) is this",
            zh="视同等待输入：TraceML 在占一步的 10 % 时告警；An Empirical Study on Low GPU "
            "Utilization（ICSE 2024）中每 25 个问题有一个属于此类",
        ),
        sm_active_mean: LOW_SM_ACTIVE,
        host_cpu_busy: Text(
            en="SageMaker Debugger calls processors above 90 % a bottleneck; half of the cores busy is "
            "enough to agree with host work",
            zh="SageMaker Debugger 将超过 90 % 视为瓶颈；一半的核在忙即可佐证主机在工作",
        ),
    },
    needs=FEW_STEPS,
)
