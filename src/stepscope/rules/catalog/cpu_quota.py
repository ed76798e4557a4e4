"""The container's processor quota stops the job's threads.

A quota is counted over short periods: a process that starts many threads uses it up in the first part of
each, and all of them then stand until the next. Use of the processor looks low, and the device waits.
"""

from stepscope.analyse.features import host_cpu_busy, host_late_share
from stepscope.analyse.features.telemetry import host_cgroup_throttled_share, host_run_queue_per_core
from stepscope.model.text import Text
from stepscope.rules.capture import HOST_COUNTERS
from stepscope.rules.catalog.busy_cores import FEWER_THREADS
from stepscope.rules.reference import OUR_FIVE_PERCENT
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

RULE = Rule(
    id="cpu-quota",
    cause="a container stopped for its processor quota",
    layer=Layer.HOST,
    about=Subject.RANK,
    verdict="other-stall",
    title=Text(
        en="The device waits for a container that is stopped for its processor quota",
        zh="容器因 CPU 配额被暂停，设备在等待它",
    ),
    explanation=Text(
        en="In a good part of the scheduling periods the container used up its quota and stood still until "
        "the next. Loader, Python and launches come late for it.",
        zh="在相当一部分调度周期里容器用完了配额，只能停到下一周期，加载、Python 与下发因此推迟。",
    ),
    when=(host_cgroup_throttled_share >= 0.10, host_late_share >= 0.05),
    cost=host_late_share,
    is_bound=True,
    shows=(host_cpu_busy, host_run_queue_per_core),
    checks=(
        Text(
            en="What is the container's limit against its request, and against the cores per device of the "
            "host?",
            zh="容器的 limit 与 request 各是多少，与主机每设备的核数相比如何？",
        ),
        Text(
            en="How many threads does the job start? Pools count the cores of the host, not of the quota.",
            zh="作业启动了多少线程？线程池按主机核数而非配额计算。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Take the processor limit away, or raise it to the cores per device of the host.",
                zh="取消 CPU limit，或提高到主机每设备的核数。",
            ),
            clears=host_cgroup_throttled_share <= 0.01,
            patch=Patch(
                kind="config",
                before='resources:\n  limits:\n    cpu: "4"',
                after='resources:\n  requests:\n    cpu: "16"  # cores per device; no limit for cpu',
            ),
        ),
        Remedy(
            Text(
                en="Start no more threads than the quota has cores.",
                zh="线程数不要超过配额的核数。",
            ),
            clears=host_cgroup_throttled_share <= 0.01,
            patch=FEWER_THREADS,
            is_partial=True,
        ),
    ),
    references={
        host_cgroup_throttled_share: Text(
            en="our choice, a tenth of the periods: fewer hardly delay anything",
            zh="自定，调度周期的十分之一：更少几乎不造成延迟",
        ),
        host_late_share: OUR_FIVE_PERCENT,
    },
    needs=HOST_COUNTERS,
    explains=(
        "host-preprocessing",
        "input-starvation",
        "irregular-pauses",
        "launch-bound",
        "python-stall",
        "slow-rank",
        "small-kernels",
    ),
    explains_peers=("waiting-for-peers",),
    signature=Signature(
        caption=Text(
            en="In every period the job runs for a while and then stands, whatever it has to do.",
            zh="每个周期内作业先运行一段，随后无论有何任务都要停住。",
        ),
        lanes=(
            Lane(Text(en="stopped", zh="被暂停"), "......xxxx......xxxx"),
            Lane(HOST, "llllll....llllll...."),
            Lane(DEVICE, ".cccccc....cccccc..."),
        ),
    ),
)
