"""Long pauses inside the forward pass of some steps, and nothing recorded says what the host did.

That is what garbage collection looks like in a recording without it: the backward pass runs on a thread that
holds no Python and is not touched, and the pause comes whenever the collector's counter says so. It is a
guess from the shape: other users of the processor, or a lock, look the same.
"""

from stepscope.analyse.features import host_cpu_busy
from stepscope.analyse.features.host import irregular_pause_share, long_pause_share
from stepscope.model.text import Text
from stepscope.rules.capture import GARBAGE, MANY_STEPS
from stepscope.rules.rule import Layer, Patch, Question, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

WATCH = Patch(
    kind="code",
    after="def watch(phase, info):\n    print(phase, info, time.time_ns())\n\ngc.callbacks.append(watch)",
)

RULE = Rule(
    id="irregular-pauses",
    cause="pauses of the host that nothing names",
    layer=Layer.HOST,
    about=Subject.RANK,
    verdict="other-stall",
    title=Text(
        en="The device waits in some steps for a host that stands still; by its shape, garbage collection "
        "(a conjecture)",
        zh="部分步中主机停顿，设备随之等待；从形态推测是 Python 垃圾回收（仅为推测）",
    ),
    explanation=Text(
        en="Within the forward pass of some steps the launching thread does nothing for tens of "
        "milliseconds; the backward pass, on its own thread, never does.",
        zh="部分步的前向过程中，下发线程有数十毫秒毫无动作；而在另一线程上的反向过程从不如此。",
    ),
    when=(long_pause_share >= 0.05, irregular_pause_share >= 0.05),
    unless=(host_cpu_busy >= 0.90,),
    cost=irregular_pause_share,
    questions=(
        Question(
            missing=("garbage_collections",),
            capture=GARBAGE,
            doubt=Text(
                en="No collection was recorded: that it is garbage collection is a conjecture from the shape "
                "alone.",
                zh="没有录到垃圾回收：“是垃圾回收”只是根据形态的推测。",
            ),
        ),
    ),
    checks=(
        Text(
            en="Switch the collector off for some hundred steps (gc.disable()): if the pauses go, it was the "
            "collector.",
            zh="关闭垃圾回收运行数百步（gc.disable()）：停顿消失则说明原因是它。",
        ),
        Text(
            en="Do other processes use the cores of this rank, or does the container hit its CPU limit?",
            zh="是否有其他进程占用该 rank 的核，或容器触及 CPU 限额？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Note when the collector runs, and compare it with the pauses, before changing anything.",
                zh="改动之前，先记录垃圾回收的运行时刻并与停顿对照。",
            ),
            clears=irregular_pause_share <= 0.01,
            patch=WATCH,
            is_step_towards=True,
        ),
    ),
    references={
        irregular_pause_share: Text(
            en="our choice, 5 % of the window in pauses of over 50 ms; Understanding Stragglers in Large "
            "Model Training Using What-if Analysis (OSDI 2025) describes the shape: the forward pass "
            "delayed by hundreds of milliseconds, the backward pass untouched, other ranks at other steps",
            zh="自定，窗口的 5 % 为 50 ms 以上的停顿；该形态见 Understanding Stragglers in Large Model "
            "Training Using What-if Analysis（OSDI 2025）：前向被推迟数百毫秒，反向不受影响，各 rank 的步不"
            "同",
        ),
        long_pause_share: Text(
            en="our choice: the same 5 %, wherever the pauses lie",
            zh="自定：同样的 5 %，不论停顿位于何处",
        ),
        host_cpu_busy: Text(
            en="our choice: cores that are full explain a thread that does not run",
            zh="自定：核已占满足以解释线程得不到运行",
        ),
    },
    needs=MANY_STEPS,
    explains=("python-stall", "slow-rank"),
    signature=Signature(
        caption=Text(
            en="A hole of tens of milliseconds in the launches of some steps, with nothing recorded in it.",
            zh="部分步的下发中出现数十毫秒的空洞，其中没有任何记录。",
        ),
        lanes=(
            Lane(HOST, "llll....|lxxxxlll....|llll....|llll....|llxxxxlll...."),
            Lane(DEVICE, ".ccccccc|.c....cccccc|.ccccccc|.ccccccc|.cc....cccccc"),
        ),
    ),
)
