"""The device waits while Python collects garbage.

A full collection looks at every object that lives, a large model's loader and tracker included, and stops the
thread that launches. Ranks collect at different steps, so a job of many waits for one of them nearly always.
"""

from stepscope.analyse.features import idle_gc_share, periodic_stall_steps
from stepscope.analyse.features.host import gc_steps
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.rule import Layer, OnHost, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

FREEZE = Patch(
    kind="code",
    before="for step, batch in enumerate(loader):",
    after="gc.collect()\ngc.freeze()  # what lives by now is not looked at again\n"
    "for step, batch in enumerate(loader):",
)
PLANNED = Patch(
    kind="code",
    before="for step, batch in enumerate(loader):",
    after="gc.disable()\n"
    "for step, batch in enumerate(loader):\n"
    "    if step % 500 == 0:\n"
    "        gc.collect()",
)

RULE = Rule(
    id="garbage-collection",
    cause="Python garbage collection",
    layer=Layer.FRAMEWORK,
    about=Subject.RANK,
    verdict="other-stall",
    title=Text(en="The device waits while Python collects garbage", zh="设备在等待 Python 垃圾回收"),
    explanation=Text(
        en="The collector stops the thread that launches. Each rank stops at steps of its own, and all "
        "others wait for it in the next collective.",
        zh="垃圾回收会停住下发线程。各 rank 在各自的步上停顿，其他 rank 都要在下一次集合通信中等它。",
    ),
    when=(idle_gc_share >= 0.02,),
    cost=idle_gc_share,
    shows=(gc_steps, periodic_stall_steps),
    checks=(
        Text(
            en="Does the loop call gc.collect() itself? Then that line is the cause.",
            zh="循环中是否自行调用了 gc.collect()？若是，那一行就是原因。",
        ),
        Text(
            en="Do the pauses grow over the run? Then objects are kept that should be dropped.",
            zh="停顿是否随运行变长？若是，说明有本应释放的对象一直被保留。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Freeze what lives after the first steps, so that a collection looks at little.",
                zh="在最初几步之后冻结已有对象，使每次回收只需查看很少的对象。",
            ),
            clears=idle_gc_share <= 0.005,
            patch=FREEZE,
        ),
        Remedy(
            Text(
                en="Collect at the same planned steps on all ranks: the pause stays, but no rank waits for "
                "another's.",
                zh="让所有 rank 在同一预定步回收：停顿仍在，但不再互相等待。",
            ),
            clears=idle_gc_share <= 0.005,
            patch=PLANNED,
            is_partial=True,
        ),
    ),
    references={
        idle_gc_share: Text(
            en="our choice, 2 % of one rank: ranks stop at different steps and add up; planned collection "
            "gave Understanding Stragglers in Large Model Training Using What-if Analysis (OSDI 2025) 12.6 "
            "% on 128 ranks",
            zh="自定，单个 rank 的 2 %：各 rank 在不同步停顿，会累加；按计划回收在 Understanding "
            "Stragglers in Large Model Training Using What-if Analysis（OSDI 2025）中于 128 个 rank 上带来 "
            "12.6 %",
        ),
    },
    needs=FEW_STEPS,
    explains=("periodic-stall", "slow-rank"),
    explains_peers=("waiting-for-peers",),
    on_host=OnHost(
        title=Text(
            en="The training loop stops while Python collects garbage",
            zh="训练循环在 Python 垃圾回收期间停住",
        ),
        explanation=Text(
            en="The collector stops the loop. Each rank stops at steps of its own, and all others wait for "
            "it.",
            zh="垃圾回收会停住训练循环。各 rank 在各自的步上停顿，其他 rank 都要等它。",
        ),
        checks=(
            Text(
                en="Does the loop call gc.collect() itself? Then that line is the cause.",
                zh="循环中是否自行调用了 gc.collect()？若是，那一行就是原因。",
            ),
            Text(
                en="Do the pauses grow over the run? Then objects are kept that should be dropped.",
                zh="停顿是否随运行变长？若是，说明有本应释放的对象一直被保留。",
            ),
        ),
        remedies=(
            Remedy(
                Text(
                    en="Freeze what lives after the first steps, so that a collection looks at little.",
                    zh="在最初几步之后冻结已有对象，使每次回收只需查看很少的对象。",
                ),
                clears=idle_gc_share <= 0.005,
                patch=FREEZE,
            ),
        ),
    ),
    signature=Signature(
        caption=Text(
            en="In the middle of some steps, at no fixed one, the thread that launches stands still.",
            zh="某些步（并不固定）中间，下发线程停住不动。",
        ),
        lanes=(
            Lane(HOST, "llll....|lgggglll....|llll....|llll....|llgggglll...."),
            Lane(DEVICE, ".ccccccc|.c....cccccc|.ccccccc|.ccccccc|.cc....cccccc"),
        ),
    ),
)
