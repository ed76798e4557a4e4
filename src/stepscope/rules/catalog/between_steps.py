"""Host code runs between the optimizer and the next forward pass, and nothing tells whose it is.

Where steps are found by the optimizer, what a loop does from there to its model may end one pass through
the loop (metrics, a scheduler, a log) or begin the next (a batch that is made in the loop itself). A loader's
call in between parts the two, and marks of the loop's own do.
"""

from stepscope.analyse.features import idle_python_share
from stepscope.analyse.features.host import between_steps_share, python_named_share
from stepscope.model.text import Text
from stepscope.rules.capture import STACKS
from stepscope.rules.rule import Layer, OnHost, Question, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

EXPLANATION = Text(
    en="The steps were found by the optimizer. What the loop does from there to the model comes after the "
    "step (metrics, a scheduler, a log) or before the next one (making its batch): no wait for a loader was "
    "seen that would tell which.",
    zh="训练步由优化器识别。循环从优化器到模型之间所做的，可能属于本步之后（指标、调度器、日志），"
    "也可能属于下一步之前（构造批次）：没有见到可用于区分二者的加载等待。",
)

CHECKS = (
    Text(
        en="Read what stands in the loop behind optimizer.step() and in front of the model: a trace with "
        "Python functions names it.",
        zh="查看循环中 optimizer.step() 之后、模型之前的代码：带 Python 函数的 trace 会指明它。",
    ),
    Text(
        en="Mark the loop's own steps (with mon.step():), or give that code a phase (with "
        'mon.phase("metrics"):): then the marks tell which it is.',
        zh="自行标记训练步（with mon.step():），或给这段代码一个阶段（with mon.phase("
        '"metrics"):），打点即可区分。',
    ),
)

REMEDIES = (
    Remedy(
        Text(
            en="Work after the step: do it every so many steps, in a thread or process of its own, or "
            "once before. A batch made in the loop: make it in workers of a DataLoader.",
            zh="若属本步之后：每隔若干步做一次、放到单独的线程或进程，或提前只做一次；"
            "若是在循环中构造批次：改由 DataLoader 的 worker 构造。",
        ),
        clears=between_steps_share <= 0.02,
    ),
)

RULE = Rule(
    id="between-steps",
    cause="host code between the optimizer and the next forward pass",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="other-stall",
    title=Text(
        en="The device waits for host code between the optimizer and the next forward pass",
        zh="设备在等待优化器与下一次前向之间的主机代码",
    ),
    explanation=EXPLANATION,
    when=(between_steps_share >= 0.10,),
    cost=between_steps_share,
    questions=(
        Question(
            settled_by=(python_named_share >= 0.50,),
            missing=("python_functions",),
            capture=STACKS,
            doubt=Text(
                en="Nothing recorded names what ran there: it may be work after the step, or the preparation of "
                "the next batch.",
                zh="没有任何记录指明期间在运行什么：可能是本步之后的工作，也可能是在准备下一个批次。",
            ),
        ),
    ),
    shows=(python_named_share, idle_python_share),
    checks=CHECKS,
    remedies=REMEDIES,
    references={
        between_steps_share: Text(
            en="our choice: the 10 % at which host work is told elsewhere in the step (python-stall, "
            "host-preprocessing)",
            zh="自定：与步内其它位置的主机工作（python-stall、host-preprocessing）的 10 % 相同",
        ),
        python_named_share: Text(
            en="our choice: what covers half of the time says what it is",
            zh="自定：覆盖一半时间的函数足以说明它是什么",
        ),
    },
    needs=STACKS,
    explains=("periodic-stall", "slow-rank"),
    on_host=OnHost(
        title=Text(
            en="Host code between the optimizer and the next forward pass: after the step or before the next",
            zh="主机代码位于优化器与下一次前向之间：在本步之后或下一步之前",
        ),
        explanation=EXPLANATION,
        checks=CHECKS,
        remedies=REMEDIES,
    ),
    signature=Signature(
        caption=Text(
            en="Behind the optimizer the host runs code of the loop, and the next forward pass begins late.",
            zh="优化器之后主机在运行循环自己的代码，下一次前向开始得晚。",
        ),
        lanes=(
            Lane(HOST, "yyyyyllll....|yyyyyllll...."),
            Lane(DEVICE, "......ccccccc|......ccccccc"),
        ),
    ),
)
