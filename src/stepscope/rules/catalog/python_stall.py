"""The device waits for Python code that launches nothing.

Between two ops the interpreter takes microseconds, and many of those are launch-bound. Here single stretches
of Python run for milliseconds: work of the loop's own, on the thread that should be launching.
"""

from stepscope.analyse.features import idle_gc_share, idle_python_share
from stepscope.analyse.features.host import python_named_share, python_stall_share
from stepscope.model.text import Text
from stepscope.rules.capture import STACKS
from stepscope.rules.rule import Layer, OnHost, Patch, Question, Reading, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

IN_THREAD = Patch(
    kind="code",
    before="loss.backward()\nbookkeeping(step)",
    after="loss.backward()\npool.submit(bookkeeping, step)  # beside the training, where it needs no result",
)

RULE = Rule(
    id="python-stall",
    cause="Python code in the loop that launches nothing",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="other-stall",
    title=Text(
        en="The device waits for a host that launches nothing for milliseconds at a stretch",
        zh="设备在等待主机：主机连续数毫秒没有任何下发",
    ),
    explanation=Text(
        en="The thread that launches runs Python for milliseconds at a stretch, without an op. Which "
        "function that is, the report names where Python functions were recorded.",
        zh="下发线程连续数毫秒在执行 Python 而没有任何算子。若录制了 Python 函数，报告会列出是哪个函数。",
    ),
    when=(python_stall_share >= 0.10,),
    cost=python_stall_share,
    readings=(
        Reading(
            Text(
                en="The device waits for Python code that launches nothing",
                zh="设备在等待不产生任何下发的 Python 代码",
            ),
            only_if=(python_named_share >= 0.50,),
        ),
    ),
    questions=(
        Question(
            settled_by=(python_named_share >= 0.50,),
            missing=("python_functions",),
            capture=STACKS,
            doubt=Text(
                en="Nothing recorded names what ran there: it may be work, a wait, or a loader, compiler or "
                "collector that left no mark.",
                zh="没有任何记录指明期间在运行什么：可能是计算，可能是等待，也可能是未留下标记的加载、编译或垃圾"
                "回收。",
            ),
        ),
    ),
    shows=(python_named_share, idle_python_share, idle_gc_share),
    checks=(
        Text(
            en="Open the function that is named here: does it compute, wait, or read a file?",
            zh="查看此处列出的函数：它在计算、等待，还是读文件？",
        ),
        Text(
            en="Was the trace recorded with stacks? They slow Python most: compare the time of a step "
            "without.",
            zh="录制时是否打开了调用栈？它对 Python 的拖慢最明显：请与不录调用栈时的单步耗时对比。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Take that function out of the loop: run it in a thread or process of its own, less "
                "often, or once before.",
                zh="把该函数移出循环：放到单独的线程或进程、降低频率，或提前只做一次。",
            ),
            only_if=(python_named_share >= 0.50,),
            clears=python_stall_share <= 0.02,
            patch=IN_THREAD,
            is_overlap=True,
        ),
        Remedy(
            Text(
                en="Record Python functions, so that the code is named, before changing anything.",
                zh="改动之前先录制 Python 函数，以便指明是哪段代码。",
            ),
            unless=(python_named_share >= 0.50,),
            clears=python_stall_share <= 0.02,
            is_step_towards=True,
        ),
    ),
    references={
        python_stall_share: Text(
            en="our choice: the 10 % at which the same kind of work at the start of a step is told "
            "(host-preprocessing)",
            zh="自定：与步首同类工作（host-preprocessing）的 10 % 相同",
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
            en="The training loop spends its time in host code that is neither data nor model",
            zh="训练循环的时间花在既非数据也非模型的主机代码上",
        ),
        explanation=Text(
            en="For milliseconds at a stretch the loop is in none of its marked phases, or in one of its "
            "own. Where "
            "that lies in the step is named here; which function it is, a trace with Python functions tells.",
            zh="训练循环连续数毫秒不在任何标记阶段内，或在自定义阶段内。此处给出它在步内的位置；"
            "具体是哪个函数，须由带 Python 函数的 trace 说明。",
        ),
        checks=(
            Text(
                en="What does the loop do at the place named here: does it compute, wait, or read a file? "
                "Give it a "
                "phase of its own, and the next report says how long it takes.",
                zh="循环在此处所示位置做了什么：计算、等待，还是读文件？给它加一个自定义阶段，下一份报告会给出耗时。",
            ),
        ),
        remedies=(
            Remedy(
                Text(
                    en="Take that work out of the loop: run it in a thread or process of its own, less "
                    "often, or once "
                    "before.",
                    zh="把这部分工作移出循环：放到单独的线程或进程、降低频率，或提前只做一次。",
                ),
                clears=python_stall_share <= 0.02,
                patch=IN_THREAD,
                is_overlap=True,
            ),
        ),
    ),
    signature=Signature(
        caption=Text(
            en="Between two launches the thread runs Python for milliseconds, and the device's queue is "
            "empty.",
            zh="两次下发之间线程连续数毫秒执行 Python，设备队列已空。",
        ),
        lanes=(
            Lane(HOST, "llyyyyyyll....|llyyyyyyll...."),
            Lane(DEVICE, ".ccc.....ccccc|.ccc.....ccccc"),
        ),
    ),
)
