"""Another process works on the device, and takes time from the job.

The counters see more work than the trace has, or the same kernels take longer than on the peers, and the
list of processes names one that is none of the job's. Each alone would say little: a monitor holds a context
and takes nothing, and kernels are slower for other reasons too.
"""

from stepscope.analyse.features.telemetry import (
    busy_beyond_trace,
    contended_share,
    foreign_memory_share,
    foreign_sm_share,
    num_foreign_processes,
)
from stepscope.model.text import Text
from stepscope.rules.capture import PROCESSES
from stepscope.rules.patch import LIST_PROCESSES
from stepscope.rules.reference import NOTHING_TO_WIN
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import Lane, Signature

RULE = Rule(
    id="foreign-process",
    cause="another process on the device",
    layer=Layer.SCHEDULING,
    about=Subject.DEVICE,
    verdict="computing-slowly",
    title=Text(
        en="Another process works on the device and takes time from the job",
        zh="设备上有其他进程在工作，占用了作业的时间",
    ),
    explanation=Text(
        en="A process that is none of the job's runs kernels on this device. The job's own kernels wait for "
        "it or share with it, and none of its settings changes that.",
        zh="一个不属于该作业的进程在此设备上运行 kernel。作业自身的 kernel 要等待它或与它分享，"
        "修改作业设置无济于事。",
    ),
    when=(num_foreign_processes >= 1, contended_share >= 0.03),
    corroborated_by=(foreign_sm_share >= 0.05, foreign_memory_share >= 0.01),
    cost=contended_share,
    shows=(busy_beyond_trace,),
    checks=(
        Text(
            en="Whose is it: a forgotten run, a notebook, another tenant, a monitor that profiles?",
            zh="它是谁的：遗忘的任务、notebook、其他租户，还是在做剖析的监控程序？",
        ),
        Text(
            en="Did it begin when the steps became slower?",
            zh="它的开始时间与步变慢的时间是否一致？",
        ),
        Text(
            en="Are clocks and temperature of this device as on its neighbours? Then it is not the device.",
            zh="该设备的时钟与温度是否与相邻设备相同？若是，就不是设备的问题。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="End it together with its owner, or move the job to a device that nobody shares.",
                zh="与其所有者确认后结束该进程，或把作业移到无人共享的设备。",
            ),
            clears=contended_share <= 0.01,
            patch=LIST_PROCESSES,
        ),
        Remedy(
            Text(
                en="Let the device take one process only, so that a second one is refused instead of "
                "sharing.",
                zh="让设备只接受一个进程，使第二个进程被拒绝而不是共享。",
            ),
            clears=num_foreign_processes < 1,
            patch=Patch(kind="command", after="nvidia-smi -c EXCLUSIVE_PROCESS"),
            is_partial=True,
        ),
    ),
    references={
        num_foreign_processes: Text(
            en="our choice, one: a device of a job is the job's alone",
            zh="自定，一个：分给作业的设备应由其独占",
        ),
        contended_share: NOTHING_TO_WIN,
        foreign_sm_share: Text(
            en="our choice, a twentieth of the time: a monitor that holds a context has no kernels",
            zh="自定，时间的二十分之一：只持有上下文的监控程序没有 kernel",
        ),
        foreign_memory_share: Text(
            en="our choice, a hundredth of the memory: a context alone takes less on a large device",
            zh="自定，显存的百分之一：在大显存设备上仅一个上下文占用更少",
        ),
    },
    needs=PROCESSES,
    explains=("slow-rank",),
    explains_peers=("waiting-for-peers",),
    signature=Signature(
        caption=Text(
            en="The other process's kernels lie in the gaps of the job's, and stretch them.",
            zh="其他进程的 kernel 插在作业的 kernel 之间，使其变长。",
        ),
        lanes=(
            Lane(Text(en="this job", zh="本作业"), "cc.cc.cc.|cc.cc.cc.|cc.cc.cc."),
            Lane(Text(en="another process", zh="其他进程"), "..x..x..x|..x..x..x|..x..x..x"),
        ),
    ),
)
