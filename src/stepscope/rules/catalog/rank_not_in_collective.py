"""Ranks wait in a collective that one of them never entered.

The one that is missing did not hang in the collective: it sleeps, waits for its loader, writes a checkpoint,
is in another collective or is gone. Its own stack says where.
"""

from stepscope.analyse.features.telemetry import (
    absent_ranks,
    elsewhere_by_stacks,
    mismatched_ranks,
    seconds_without_step,
    steps_logged,
)
from stepscope.model.text import Text
from stepscope.rules.capture import FLIGHTS, PY_SPY
from stepscope.rules.patch import STACKS_OF_RANKS
from stepscope.rules.reference import RECORDED_ONCE
from stepscope.rules.rule import Layer, Question, Remedy, Rule, Subject
from stepscope.rules.signature import Lane, Signature

RULE = Rule(
    id="rank-not-in-collective",
    cause="a rank that never entered a collective",
    layer=Layer.FRAMEWORK,
    about=Subject.RANK,
    verdict="other-stall",
    severity="critical",
    is_standstill=True,
    title=Text(en="A rank never came to a collective", zh="有 rank 从未进入集合通信"),
    explanation=Text(
        en="The flight recorder shows a collective that some ranks of its group entered and others did not: "
        "the first wait for the last.",
        zh="飞行记录器显示某次集合通信只有部分 rank 进入：它们在等待没有到的 rank。",
    ),
    when=(absent_ranks >= 1,),
    unless=(mismatched_ranks >= 1,),
    corroborated_by=(elsewhere_by_stacks >= 1,),
    questions=(Question(settled_by=(elsewhere_by_stacks >= 1,), capture=PY_SPY),),
    shows=(seconds_without_step, steps_logged),
    checks=(
        Text(
            en="What does the stack of the missing rank say: a sleep, the data loader, a save, an import?",
            zh="缺席 rank 的调用栈停在哪里：休眠、数据加载、保存还是导入？",
        ),
        Text(
            en="Is its process still there, and did its node log an Xid, a killed process or a network "
            "error?",
            zh="其进程是否还在，所在节点是否记录了 Xid、被终止的进程或网络错误？",
        ),
        Text(
            en="Did it take another path: an empty batch, an error that was caught, a loop that ended early?",
            zh="它是否走了别的路径：空批次、被捕获的错误、提前结束的循环？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Take the stack of the missing rank before anybody ends the job: it names the line.",
                zh="在终止作业之前获取缺席 rank 的调用栈：它会指出是哪一行。",
            ),
            clears=absent_ranks < 1,
            patch=STACKS_OF_RANKS,
            is_step_towards=True,
        ),
        Remedy(
            Text(
                en="Then mend what holds that rank up, and start again from the last checkpoint.",
                zh="然后修复阻碍该 rank 的原因，并从最近的检查点重启。",
            ),
            clears=absent_ranks < 1,
        ),
    ),
    references={
        absent_ranks: RECORDED_ONCE,
        mismatched_ranks: RECORDED_ONCE,
        elsewhere_by_stacks: RECORDED_ONCE,
    },
    needs=FLIGHTS,
    explains=("no-progress", "dead-job"),
    explains_peers=("waiting-for-peers",),
    signature=Signature(
        caption=Text(
            en="Three ranks wait in a collective, the fourth is somewhere else.",
            zh="三个 rank 在集合通信中等待，第四个在别处。",
        ),
        lanes=(
            Lane(Text(en="ranks 0–2", zh="其余 rank"), "cccn|cccn|cnnnnnnnnnnn"),
            Lane(Text(en="rank 3", zh="异常 rank"), "cccn|cccn|............"),
        ),
    ),
)
