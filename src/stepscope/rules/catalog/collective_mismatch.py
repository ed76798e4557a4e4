"""Ranks meet in a collective and do not call the same one.

All are in their collective number N of a group, and one calls a broadcast where the others call an
all-reduce, or gives another number of elements: none of them ends. The branch that one rank alone took is a
few calls before it.
"""

from stepscope.analyse.features.telemetry import (
    absent_ranks,
    mismatched_ranks,
    seconds_without_step,
    steps_logged,
)
from stepscope.model.text import Text
from stepscope.rules.capture import FLIGHTS
from stepscope.rules.reference import RECORDED_ONCE
from stepscope.rules.rule import Layer, Remedy, Rule, Subject
from stepscope.rules.signature import Lane, Signature

RULE = Rule(
    id="collective-mismatch",
    cause="ranks that call different collectives",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="other-stall",
    severity="critical",
    is_standstill=True,
    title=Text(en="Ranks call different collectives", zh="各 rank 调用的集合通信不一致"),
    explanation=Text(
        en="The flight recorder shows one collective of a group that is not the same call on all ranks: "
        "another operation, size or type. It cannot end.",
        zh="飞行记录器显示同一组的某次集合通信在各 rank 上并不相同：操作、大小或类型不同，因此无法结束。",
    ),
    when=(mismatched_ranks >= 1,),
    shows=(absent_ranks, seconds_without_step, steps_logged),
    checks=(
        Text(
            en="Read the frames of both calls: which branch did the odd rank take that the others did not?",
            zh="比较两处调用的栈帧：异常的 rank 走了哪个其他 rank 没走的分支？",
        ),
        Text(
            en="Does a condition on data, on the rank or on time decide over a collective (an empty batch, a "
            "skipped step, a save on one rank)?",
            zh="是否有依赖数据、rank 或时间的条件决定是否调用集合通信"
            "（空批次、跳过的步、仅在一个 rank 上保存）？",
        ),
        Text(
            en="Do all ranks run the same code and configuration, and do uneven shards end together?",
            zh="各 rank 的代码与配置是否相同，长短不一的数据分片是否同时结束？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Make the decision the same on all ranks (all-reduce the condition first), or take the "
                "collective out of the branch.",
                zh="让所有 rank 作出相同的决定（先对条件做 all-reduce），或把集合通信移出分支。",
            ),
            clears=mismatched_ranks < 1,
        ),
        Remedy(
            Text(
                en="Run a few steps with TORCH_DISTRIBUTED_DEBUG=DETAIL: it fails at the first call that "
                "differs, with its stack.",
                zh="以 TORCH_DISTRIBUTED_DEBUG=DETAIL 运行几步：它会在第一处不一致的调用报错并给出调用栈。",
            ),
            clears=mismatched_ranks < 1,
            is_step_towards=True,
        ),
    ),
    references={mismatched_ranks: RECORDED_ONCE},
    needs=FLIGHTS,
    explains=("no-progress", "dead-job", "killed-process", "rank-not-in-collective"),
    explains_peers=("waiting-for-peers",),
    signature=Signature(
        caption=Text(
            en="Three ranks meet in one collective, the fourth in another one: neither ends.",
            zh="三个 rank 在同一集合通信中等待，第四个在另一个中：都不会结束。",
        ),
        lanes=(
            Lane(Text(en="ranks 0–2", zh="其余 rank"), "cccn|cccn|cnnnnnnnnnnn"),
            Lane(Text(en="rank 3", zh="异常 rank"), "cccn|cccn|cccccyyyyyyy"),
        ),
    ),
)
