"""Ranks take turns in being late, each time with more to compute: their batches differ in length.

What a sequence costs grows faster than its length. A bad machine is late in every step; an uneven batch is
another rank's in the next one.
"""

from stepscope.analyse.features.peer import num_peers, uneven_work_share
from stepscope.model.text import Text
from stepscope.rules.capture import ALL_RANKS
from stepscope.rules.rule import Layer, Remedy, Rule, Subject
from stepscope.rules.signature import Lane, Signature

RULE = Rule(
    id="sequence-imbalance",
    cause="batches of different length",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="waiting-for-communication",
    title=Text(
        en="Another rank has more to compute in each step, and the others wait for it",
        zh="每步都有不同的 rank 计算量更大，其他 rank 在等它",
    ),
    explanation=Text(
        en="The late rank changes from step to step and has more work in it: sequences of different length, "
        "or "
        "batches that are packed unevenly.",
        zh="迟到的 rank 逐步变化，且当步计算量更大：序列长度不同，或打包不均。",
    ),
    when=(num_peers > 0, uneven_work_share >= 0.05),
    cost=uneven_work_share,
    checks=(
        Text(
            en="Lengths of the sequences by rank and step: does the longest belong to the rank that is late?",
            zh="各 rank 各步的序列长度：最长的是否正是迟到的 rank？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Deal sequences out so that the sums of their squared lengths are even over ranks, not "
                "their "
                "number.",
                zh="分配序列时让各 rank 的长度平方和均衡，而不是条数相同。",
            ),
            clears=uneven_work_share <= 0.02,
            is_partial=True,
        ),
    ),
    references={
        num_peers: Text(
            en="a job of one rank waits for nobody",
            zh="只有一个 rank 的作业不会等任何人",
        ),
        uneven_work_share: Text(
            en="our choice, 5 % of the window; Understanding Stragglers in Large Model Training Using "
            "What-if Analysis "
            "(OSDI 2025) finds it in 21 % of jobs, and 24 % more throughput by balancing",
            zh="自定，窗口的 5 %；Understanding Stragglers in Large Model Training Using What-if Analysis（"
            "OSDI 2025）在 21 % 的作业中见到，均衡后吞吐提高 24 %",
        ),
    },
    needs=ALL_RANKS,
    signature=Signature(
        caption=Text(
            en="In each step another rank computes longest.",
            zh="每一步计算最久的 rank 都不同。",
        ),
        lanes=(
            Lane(Text(en="rank 0", zh="第 0 个 rank"), "xxxxxxxxnn|ccccccnnnn"),
            Lane(Text(en="rank 1", zh="第 1 个 rank"), "cccccnnnnn|xxxxxxxxnn"),
            Lane(Text(en="rank 2", zh="第 2 个 rank"), "ccccccnnnn|cccccnnnnn"),
        ),
    ),
    explains_peers=("waiting-for-peers",),
)
