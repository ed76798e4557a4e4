"""One rank comes late to collectives, and the others wait for it.

The victim stays longest in a collective, the culprit shortest: who is named is the rank that starts last on
the corrected clock, beyond what clocks and ordinary steps hide.
"""

from stepscope.analyse.features import host_cpu_busy
from stepscope.analyse.features.peer import (
    is_lateness_untold,
    num_late_ranks,
    num_peers,
    straggler_cost_share,
)
from stepscope.analyse.features.telemetry import host_run_queue_per_core, matrix_slowdown, sm_clock_share
from stepscope.model.text import Text
from stepscope.rules.capture import ALL_RANKS, CLOCKS, HOSTS_OF_RANKS
from stepscope.rules.reference import HOST_KNOWN
from stepscope.rules.rule import Layer, Question, Reading, Remedy, Rule, Subject
from stepscope.rules.signature import Lane, Signature

RULE = Rule(
    id="slow-rank",
    cause="a rank that the others wait for",
    layer=Layer.SCHEDULING,
    about=Subject.RANK,
    verdict="waiting-for-communication",
    title=Text(
        en="This rank comes late, and the others wait for it",
        zh="该 rank 迟到，其他 rank 都在等它",
    ),
    explanation=Text(
        en="The rank starts collectives last, beyond what the clocks and ordinary steps hide. What the "
        "others "
        "spend in them until then is waiting, and no slow transfer.",
        zh="该 rank 最后才开始集合通信，且超出时钟误差与正常波动。其他 rank 在此之前花的时间是等待，并非传输"
        "慢。",
    ),
    when=(num_peers > 0, straggler_cost_share >= 0.02),
    cost=straggler_cost_share,
    questions=(
        Question(
            only_if=(matrix_slowdown >= 1.05,),
            settled_by=(sm_clock_share >= 0,),
            missing=("clocks_of_its_device",),
            capture=CLOCKS,
        ),
        Question(
            only_if=(is_lateness_untold >= 1,),
            where_unexplained=True,
            settled_by=(host_cpu_busy >= 0, host_run_queue_per_core >= 0),
            capture=HOSTS_OF_RANKS,
            doubt=Text(
                en="Nothing recorded says what makes this rank late. Whether its host does (other processes "
                "on its cores, a quota, storage), only the host's counters tell.",
                zh="已录数据没有说明该 rank 为何迟到。是否因为主机（核被其他进程占用、配额、存储），"
                "只有主机计数器能说明。",
            ),
        ),
    ),
    readings=(
        Reading(
            Text(
                en="Another rank comes late in each step, and the others wait for it",
                zh="每步迟到的 rank 都不同，其他 rank 在等它",
            ),
            only_if=(num_late_ranks >= 2,),
        ),
    ),
    checks=(
        Text(
            en="What does this rank do while the others wait? Its own accounting beside that of the rank "
            "next "
            "to it: loader, Python, kernels of the same shape.",
            zh="其他 rank 等待时它在做什么？把它的时间分解与相邻 rank 对照：数据加载、Python、相同形状的 "
            "kernel。",
        ),
        Text(
            en="Is it the same rank after a restart on other nodes? If the lateness stays with the node, it "
            "is "
            "the machine; if with the rank, it is the work.",
            zh="换节点重启后还是同一个 rank 吗？随节点走是机器问题，随 rank 走是负载问题。",
        ),
        Text(
            en="Clock, temperature and other processes of its device against those of its neighbours.",
            zh="对比该设备与相邻设备的时钟频率、温度和其他进程。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Mend what this rank does beyond its peers; where nothing in its trace differs, move it "
                "to "
                "another node and see whether the lateness moves along.",
                zh="先解决该 rank 比同伴多做的事；若 trace 中没有差别，就把它换到别的节点，看迟到是否跟着"
                "走。",
            ),
            clears=straggler_cost_share <= 0.01,
            is_partial=True,
        ),
    ),
    references={
        num_peers: Text(
            en="a job of one rank waits for nobody",
            zh="只有一个 rank 的作业不会等任何人",
        ),
        num_late_ranks: Text(
            en="our choice: from two ranks on that take turns nobody in particular is late",
            zh="自定：两个及以上 rank 轮流迟到时，并非某一个 rank 的问题",
        ),
        matrix_slowdown: Text(
            en="our choice, 5 %: its kernels are slower than the same ones of its peers, and its clock may "
            "be why",
            zh="自定，5 %：它的 kernel 比同伴的同样 kernel 慢，原因可能在时钟",
        ),
        sm_clock_share: Text(
            en="known at all: then thermal-throttle, power-cap and locked-clock have been judged",
            zh="只要已知：thermal-throttle、power-cap 与 locked-clock 即已判定",
        ),
        is_lateness_untold: Text(
            en="our choice: causes that a trace names in full need no counters of the host",
            zh="自定：trace 已能完全说明的原因，不需要主机计数器",
        ),
        host_cpu_busy: HOST_KNOWN,
        host_run_queue_per_core: HOST_KNOWN,
        straggler_cost_share: Text(
            en="our choice: equal devices differ by a percent or two; Understanding Stragglers in Large "
            "Model "
            "Training Using What-if Analysis (OSDI 2025) counts a job as straggling from 10 % on",
            zh="自定：同型设备相差一两个百分点；Understanding Stragglers in Large Model Training Using "
            "What-if "
            "Analysis（OSDI 2025）以 10 % 为慢节点作业的界线",
        ),
    },
    needs=ALL_RANKS,
    signature=Signature(
        caption=Text(
            en="The late rank's collective is short, the others' reach back to where they began to wait.",
            zh="迟到的 rank 的集合通信最短，其他 rank 的一直拖到等待开始处。",
        ),
        lanes=(
            Lane(Text(en="rank 0", zh="第 0 个 rank"), "ccccnnnnnn|ccccnnnnnn"),
            Lane(Text(en="rank 1", zh="第 1 个 rank"), "ccccxxxxxn|ccccxxxxxn"),
            Lane(Text(en="rank 2", zh="第 2 个 rank"), "ccccnnnnnn|ccccnnnnnn"),
        ),
    ),
    explains_peers=("waiting-for-peers",),
)
