"""Every so many steps one is slow.

Checkpoints, evaluations, logging, garbage collection and a loader that delivers in bursts all come
by the clock. The mean hides them and a trace of five steps may miss them. Each of them that the trace
names has a rule of its own, which claims its time first: what is left here is what nothing names.
"""

from stepscope.analyse.features import (
    disk_written_share,
    idle_checkpoint_share,
    idle_eval_share,
    idle_gc_share,
    idle_input_share,
    idle_logging_share,
    periodic_stall_share,
    periodic_stall_steps,
)
from stepscope.model.text import Text
from stepscope.rules.capture import MANY_STEPS
from stepscope.rules.rule import Layer, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

RULE = Rule(
    id="periodic-stall",
    cause="regularly slow steps",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="other-stall",
    title=Text(en="Steps are slow at regular intervals", zh="每隔固定步数出现一次慢步"),
    explanation=Text(
        en="What happens every so many steps takes time that the mean hides: a checkpoint, an evaluation, "
        "logs, garbage collection, or a loader that delivers in bursts.",
        zh="每隔若干步发生的事情占用了时间而被均值掩盖：检查点、评测、日志、垃圾回收，或成批到达的数据加载。",
    ),
    when=(periodic_stall_share >= 0.05,),
    corroborated_by=(disk_written_share >= 0.50,),
    cost=periodic_stall_share,
    shows=(
        periodic_stall_steps,
        idle_checkpoint_share,
        idle_eval_share,
        idle_gc_share,
        idle_input_share,
        idle_logging_share,
    ),
    checks=(
        Text(
            en="Compare the period with the intervals of checkpoints, evaluation and logging.",
            zh="把周期与检查点、评测、日志的间隔对照。",
        ),
        Text(
            en="Does the period equal num_workers? Then the loader delivers in bursts and is too slow on "
            "average.",
            zh="周期是否等于 num_workers？若是，说明加载成批到达，平均速度不够。",
        ),
        Text(
            en="Do different ranks stop at different steps? Then it is garbage collection more than "
            "anything.",
            zh="各 rank 是否在不同步上停顿？若是，多半是垃圾回收。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Open a slow step beside a median one and compare what the host does in them.",
                zh="把一个慢步与一个中位步并排打开，对比主机在做什么。",
            ),
            clears=periodic_stall_share <= 0.02,
            is_step_towards=True,
        ),
    ),
    references={
        periodic_stall_share: Text(
            en="5 % of the run is where a finding becomes a warning here; checkpoints alone are 16 % of "
            "the issues of An Empirical Study on Low GPU Utilization (ICSE 2024)",
            zh="全程的 5 % 是本工具由提示升为警告的界线；仅检查点就占 An Empirical Study on Low GPU "
            "Utilization（ICSE 2024）所列问题的 16 %",
        ),
        disk_written_share: Text(
            en="our choice, half of the slow steps write: the coincidence is no accident",
            zh="自定，一半的慢步都在写盘：并非巧合",
        ),
    },
    needs=MANY_STEPS,
    signature=Signature(
        caption=Text(
            en="Most steps are alike; every so many steps one takes longer.",
            zh="大多数步相同，每隔若干步有一步变长。",
        ),
        lanes=(
            Lane(HOST, "ll..|ll..|ll..xxxx|ll..|ll..|ll..xxxx"),
            Lane(DEVICE, "cccc|cccc|cccc....|cccc|cccc|cccc...."),
        ),
    ),
)
