"""One pipeline stage has more to compute than the others, on every replica and in every step.

Usually the last one, which holds the output layer and the loss.
"""

from stepscope.analyse.features.peer import num_peers, stage_work_share
from stepscope.model.text import Text
from stepscope.rules.capture import ALL_RANKS
from stepscope.rules.rule import Layer, Remedy, Rule, Subject
from stepscope.rules.signature import Lane, Signature

RULE = Rule(
    id="stage-imbalance",
    cause="pipeline stages of different weight",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="waiting-for-communication",
    title=Text(
        en="This pipeline stage computes longest, and the others wait for it",
        zh="该流水线阶段计算最久，其他阶段在等它",
    ),
    explanation=Text(
        en="All ranks of one stage compute longer than those of the other stages, in every step. A bad "
        "machine "
        "would be late on one replica only.",
        zh="某一阶段的所有 rank 每步都比其他阶段计算更久；若是机器问题，只会出现在一个副本上。",
    ),
    when=(num_peers > 0, stage_work_share >= 0.05),
    cost=stage_work_share,
    checks=(
        Text(
            en="What does the stage hold beside its layers: the embedding, the output layer, the loss?",
            zh="该阶段除了各层之外还有什么：词嵌入、输出层、损失？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Give the stage fewer layers, or its extra work to a stage of its own.",
                zh="减少该阶段的层数，或把额外的工作单独放到一个阶段。",
            ),
            clears=stage_work_share <= 0.02,
            is_partial=True,
        ),
    ),
    references={
        num_peers: Text(
            en="a job of one rank waits for nobody",
            zh="只有一个 rank 的作业不会等任何人",
        ),
        stage_work_share: Text(
            en="our choice, 5 % of the window; Understanding Stragglers in Large Model Training Using "
            "What-if Analysis "
            "(OSDI 2025) measured last stages at 2.07 times the forward time, and 9.9 % gained by fewer "
            "layers",
            zh="自定，窗口的 5 %；Understanding Stragglers in Large Model Training Using What-if Analysis（"
            "OSDI 2025）测得末阶段前向为 2.07 倍，减少层数后提速 9.9 %",
        ),
    },
    needs=ALL_RANKS,
    signature=Signature(
        caption=Text(
            en="One stage computes throughout, the others have bubbles.",
            zh="一个阶段一直在计算，其他阶段存在空泡。",
        ),
        lanes=(
            Lane(Text(en="stage 0", zh="第 0 阶段"), "ccc..ccc..|ccc..ccc.."),
            Lane(Text(en="stage 1", zh="第 1 阶段"), "ccc..ccc..|ccc..ccc.."),
            Lane(Text(en="stage 2", zh="第 2 阶段"), "xxxxxxxxxx|xxxxxxxxxx"),
        ),
    ),
    explains_peers=("waiting-for-peers",),
)
