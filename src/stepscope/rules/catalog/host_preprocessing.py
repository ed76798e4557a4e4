"""The device waits while the training process prepares the batch.

The loader has handed over its batch, but the step begins with host work on it: tokenising, masks,
casts, small copies. The device has nothing to run until the first launch of the step.
"""

from stepscope.analyse.features import (
    backward_share,
    host_cpu_busy,
    idle_preprocess_share,
    preprocess_named_share,
    sm_active_mean,
)
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS, STACKS
from stepscope.rules.reference import BUSY_CORES, LOW_SM_ACTIVE
from stepscope.rules.rule import Layer, OnHost, Patch, Question, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

IN_WORKERS = Patch(
    kind="code",
    before="for batch in loader:\n    batch = prepare(batch)",
    after="loader = DataLoader(dataset, collate_fn=collate_and_prepare, num_workers=N, pin_memory=True)\n"
    "for batch in loader:",
)

WORKERS = Patch(
    kind="code",
    before="for batch in loader:\n    batch = prepare(batch)",
    after="loader = DataLoader(dataset, collate_fn=collate_and_prepare, num_workers=N)\nfor batch in loader:",
)

RULE = Rule(
    id="host-preprocessing",
    cause="batch prepared in the training process",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="waiting-for-data",
    title=Text(en="The device waits while the host prepares the batch", zh="设备在等待主机对批次做预处理"),
    explanation=Text(
        en="The step begins with host work before anything is launched. By its place it is work on the "
        "batch; whether it is, the functions named here tell, where any were recorded.",
        zh="每一步开头主机先做自己的工作，之后才下发第一个任务。按其位置应是处理批次；是否如此，"
        "要看此处列出的函数（若有录制）。",
    ),
    when=(idle_preprocess_share >= 0.10,),
    corroborated_by=(sm_active_mean <= 0.70, host_cpu_busy >= 0.50),
    cost=idle_preprocess_share,
    questions=(
        Question(
            settled_by=(preprocess_named_share >= 0.50,),
            missing=("python_functions",),
            capture=STACKS,
            doubt=Text(
                en="Nothing recorded names what the host did there: it may prepare the batch, or load it, or "
                "do something else.",
                zh="没有任何记录指明主机在此期间做了什么：可能是预处理批次，可能是加载，也可能是别的。",
            ),
        ),
    ),
    checks=(
        Text(
            en="Look at what runs between the start of a step and its first launch: the report names it "
            "where Python functions were recorded (with_stack=True). A scheduler, a log or a wait there is "
            "no preparation, and nothing named at all may be a loader of your own.",
            zh="查看每一步开始到第一次下发之间运行了什么：若录制了 Python 函数（with_stack=True），"
            "报告会列出它们。若是调度器、日志或等待，则不是预处理；若什么都没有列出，也可能是自写的加载器。",
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
            unless=(host_cpu_busy >= 0.90, backward_share <= 0.0),
            clears=idle_preprocess_share <= 0.05,
            patch=IN_WORKERS,
        ),
        Remedy(
            Text(
                en="No backward pass was seen. In serving, let another process or thread prepare the next "
                "request while the device works on this one.",
                zh="没有见到反向传播。若为推理服务，可由另一进程或线程在设备处理当前请求时准备下一个请求。",
            ),
            only_if=(backward_share <= 0.0,),
            unless=(host_cpu_busy >= 0.90,),
            clears=idle_preprocess_share <= 0.05,
            is_overlap=True,
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
        preprocess_named_share: Text(
            en="our choice: what covers half of the time says what it is",
            zh="自定：覆盖一半时间的函数足以说明它是什么",
        ),
        sm_active_mean: LOW_SM_ACTIVE,
        backward_share: Text(
            en="no op of a backward pass at all: the run infers and has no training loop",
            zh="没有任何反向传播的算子：这是推理，没有训练循环",
        ),
        host_cpu_busy: Text(
            en=f"{BUSY_CORES.en}. Half of the cores busy is our choice: enough to agree with host work",
            zh=f"{BUSY_CORES.zh}。一半的核在忙即可佐证主机在工作，为本工具自定",
        ),
    },
    needs=FEW_STEPS,
    on_host=OnHost(
        title=Text(
            en="The training process prepares the batch before it computes",
            zh="训练进程在计算之前先预处理批次",
        ),
        explanation=Text(
            en="The batch is there, but the step begins with work on it before the model runs.",
            zh="批次已经取到，但每一步开头要先处理它，之后模型才开始计算。",
        ),
        checks=(
            Text(
                en="Look at what runs between the start of a step and the model's first op: the report names "
                "it where Python functions were recorded (with_stack=True).",
                zh="查看每一步开始到模型第一个算子之间运行了什么：若录制了 Python 函数（with_stack=True），"
                "报告会列出它们。",
            ),
        ),
        remedies=(
            Remedy(
                Text(
                    en="Move the preparation into the loader's workers (dataset or collate_fn), on cores "
                    "that training leaves free, so that it runs beside the previous step.",
                    zh="把预处理移到加载 worker 中（dataset 或 collate_fn），"
                    "使用训练未占用的核，使其与上一步并行。",
                ),
                unless=(host_cpu_busy >= 0.90,),
                clears=idle_preprocess_share <= 0.05,
                patch=WORKERS,
            ),
        ),
    ),
    signature=Signature(
        caption=Text(
            en="Each step begins with host work on the batch; the first launch comes after it.",
            zh="每一步开头主机先处理批次，之后才有第一次下发。",
        ),
        lanes=(
            Lane(HOST, "ppppplll....|ppppplll...."),
            Lane(DEVICE, ".....ccccccc|.....ccccccc"),
        ),
    ),
    explains=("slow-rank",),
)
