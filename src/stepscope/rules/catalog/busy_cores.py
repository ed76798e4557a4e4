"""More processes want to run than the host has cores, and the device waits for those of the job.

The training thread, the loader's workers and the threads of communication are late when others take their
cores: another tenant, too many workers, or pools that each count all cores as their own. The device's own
kernels are as fast as ever.
"""

from stepscope.analyse.features import host_cpu_busy, host_late_share
from stepscope.analyse.features.telemetry import (
    host_cgroup_throttled_share,
    host_memory_used_share,
    host_run_queue_per_core,
)
from stepscope.model.text import Text
from stepscope.rules.capture import HOST_COUNTERS
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

FEWER_THREADS = Patch(kind="env", after="OMP_NUM_THREADS=8  # cores of the host / processes on it")

RULE = Rule(
    id="busy-cores",
    cause="more runnable processes than cores",
    layer=Layer.HOST,
    about=Subject.RANK,
    verdict="other-stall",
    title=Text(en="The device waits for a host whose cores are overrun", zh="主机的核不够用，设备在等待主机"),
    explanation=Text(
        en="More processes want to run than there are cores, and the job's own are late: the loader, the "
        "batch, ops and launches. The device has nothing to do meanwhile.",
        zh="想运行的进程多于核数，作业自身的加载、批次准备、算子与下发都被推迟，设备此时无事可做。",
    ),
    when=(host_run_queue_per_core >= 1.5, host_cpu_busy >= 0.85, host_late_share >= 0.05),
    cost=host_late_share,
    is_bound=True,
    shows=(host_cgroup_throttled_share, host_memory_used_share),
    checks=(
        Text(
            en="Whose processes are they: this job's workers and thread pools, or another tenant's?",
            zh="这些进程属于谁：本作业的 worker 与线程池，还是其他租户？",
        ),
        Text(
            en="How many threads does each process of the job start, times processes on the host, against "
            "the "
            "cores?",
            zh="作业每个进程启动多少线程，乘以主机上的进程数，与核数相比如何？",
        ),
        Text(
            en="Is it so on all devices of the host at the same time? Then it is the host.",
            zh="该主机上所有设备是否同时如此？若是，问题在主机。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Start fewer threads and workers: together no more than the cores that the job has.",
                zh="减少线程与 worker：总数不超过作业拥有的核数。",
            ),
            clears=host_run_queue_per_core <= 1.0,
            patch=FEWER_THREADS,
        ),
        Remedy(
            Text(
                en="Give each rank cores of its own beside its device, and keep others off them (cpuset, "
                "the launcher's binding).",
                zh="为每个 rank 分配其设备旁的独占核，并阻止其他进程使用（cpuset、启动器绑定）。",
            ),
            clears=host_run_queue_per_core <= 1.0,
            patch=Patch(kind="command", after="taskset -c CORES python train.py"),
        ),
        Remedy(
            Text(
                en="Move the other tenant away, or the job.",
                zh="把其他租户或本作业迁走。",
            ),
            clears=host_run_queue_per_core <= 1.0,
            is_partial=True,
        ),
    ),
    references={
        host_run_queue_per_core: Text(
            en="our choice: with half as many again as cores every process waits for a third of its time",
            zh="自定：比核数多一半时，每个进程有三分之一的时间在等待",
        ),
        host_cpu_busy: Text(
            en="our choice, a little below the 90 % of SageMaker Debugger's CPUBottleneck rule, for the run "
            "queue is asked too; Greyhound (ATC 2025) lost up to 22 % to such tenants",
            zh="自定，略低于 SageMaker Debugger 的 CPUBottleneck 规则的 90 %，因为还要求运行队列；"
            "Greyhound（ATC 2025）因此类租户损失多达 22 %",
        ),
        host_late_share: Text(
            en="our choice, a twentieth of the step: less is no more than a note",
            zh="自定，一步的二十分之一：低于此仅作提示",
        ),
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
            en="The thread that launches is off its core again and again, and the device runs dry.",
            zh="下发线程一再被换下核，设备无任务可做。",
        ),
        lanes=(
            Lane(Text(en="others", zh="其他进程"), "..xxx..xx.|..xxx..xx."),
            Lane(HOST, "ll...ll..l|ll...ll..l"),
            Lane(DEVICE, ".ccc..ccc.|.ccc..ccc."),
        ),
    ),
)
