"""A process that marked its steps is gone, and never said that it ends.

What ends in order, by an error of its own or by Ctrl-C, says so with its last mark. What is killed from
outside (SIGKILL, SIGTERM, the kernel out of memory, a scheduler) or crashes in native code has no time to.
"""

from stepscope.analyse.features import memory_used_share
from stepscope.analyse.features.telemetry import (
    grave_xids,
    killed_ranks,
    log_out_of_memory,
    seconds_without_step,
    steps_logged,
)
from stepscope.model.text import Text
from stepscope.rules.capture import KERNEL_LOG
from stepscope.rules.rule import Layer, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="killed-process",
    cause="a process that was killed",
    layer=Layer.SCHEDULING,
    about=Subject.RANK,
    verdict="other-stall",
    severity="warning",
    is_standstill=True,
    title=Text(en="The job was killed, or it crashed", zh="作业被终止或崩溃"),
    explanation=Text(
        en="The process is gone, and its last mark is no end: it did not stop in order. How its steps went "
        "until then is told beside it.",
        zh="进程已不在，而最后的标记不是结束：它未能有序退出。此前各步的情况另行说明。",
    ),
    when=(killed_ranks >= 1,),
    corroborated_by=(grave_xids >= 1, log_out_of_memory >= 1),
    shows=(steps_logged, seconds_without_step, memory_used_share),
    checks=(
        Text(
            en="Did the kernel end it for want of memory (dmesg: Out of memory: Killed process)?",
            zh="是否因内存不足被内核终止（dmesg：Out of memory: Killed process）？",
        ),
        Text(
            en="Did the scheduler end it: a time limit, a preemption, a memory limit of the container?",
            zh="是否被调度器终止：超时、抢占，或容器内存上限？",
        ),
        Text(
            en="Did a library crash: a core file, a signal in the launcher's last lines?",
            zh="是否有库崩溃：core 文件，或启动器最后几行里的信号？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Read the kernel's log and the scheduler's record of that minute: one of them says who "
                "ended it.",
                zh="查看那一分钟的内核日志与调度器记录：其中之一会说明是谁终止了它。",
            ),
            clears=killed_ranks < 1,
            is_step_towards=True,
        ),
        Remedy(
            Text(
                en="Start it again from its last checkpoint.",
                zh="从最近的检查点重新启动。",
            ),
            clears=killed_ranks < 1,
            is_partial=True,
        ),
    ),
    references={
        killed_ranks: Text(
            en="our choice, once: a process that ends in order says so with its last mark",
            zh="自定，一次：有序结束的进程会以最后一个标记说明",
        ),
        grave_xids: Text(
            en="our choice, once: after such an Xid the process cannot go on",
            zh="自定，一次：出现此类 Xid 后进程无法继续",
        ),
        log_out_of_memory: Text(
            en="our choice, once: a request that fails and is not caught ends the run",
            zh="自定，一次：未被捕获的失败申请会结束运行",
        ),
    },
    needs=KERNEL_LOG,
    signature=Signature(
        caption=Text(
            en="Steps go on as ever, and in the middle of one everything ends.",
            zh="各步照常推进，却在某一步中间全部中断。",
        ),
        lanes=(
            Lane(Text(en="marks", zh="标记"), "ycco|ycco|yc......"),
            Lane(DEVICE, ".ccc|.ccc|.c......"),
        ),
    ),
)
