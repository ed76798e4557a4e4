"""The device is hardly busy, and no steps go on: the job is dead and holds its devices.

Low use alone is not it: a checkpoint, an evaluation, the time before the first step and work that rarely
needs the device look the same to the counters. What little use there is may be another process's.
"""

from stepscope.analyse.features import memory_used_share
from stepscope.analyse.features.telemetry import (
    busy_below_peers,
    compute_busy_five_minutes,
    compute_busy_mean,
    num_foreign_processes,
    quiet_before_steps,
    quiet_in_checkpoint,
    quiet_in_eval,
    quiet_while_stepping,
    seconds_without_step,
    steps_logged,
)
from stepscope.model.text import Text
from stepscope.rules.capture import PY_SPY, RUN_LOG
from stepscope.rules.patch import STACKS_OF_RANKS
from stepscope.rules.reference import BELOW_PEERS, HARDLY_BUSY, MOST_OF_IT, STANDSTILL
from stepscope.rules.rule import Layer, Question, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="dead-job",
    cause="a job that neither steps nor works",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="other-stall",
    severity="critical",
    is_standstill=True,
    title=Text(en="The job neither makes steps nor uses its device", zh="作业既不推进，也不使用设备"),
    explanation=Text(
        en="Steps ended before the counters do, the device has hardly worked since, and neither checkpoint "
        "nor evaluation nor start-up accounts for it.",
        zh="步早已停止，而计数器仍在记录；此后设备几乎没有工作，也不是检查点、评测或启动所致。",
    ),
    when=(
        compute_busy_five_minutes <= 0.05,
        quiet_while_stepping <= 0.05,
        seconds_without_step >= 30,
    ),
    unless=(
        busy_below_peers >= 0.30,
        quiet_in_checkpoint >= 0.50,
        quiet_in_eval >= 0.50,
        quiet_before_steps >= 0.50,
    ),
    questions=(Question(missing=("stacks_of_ranks",), capture=PY_SPY),),
    shows=(num_foreign_processes, compute_busy_mean, steps_logged, memory_used_share),
    checks=(
        Text(
            en="Are the job's processes still there, and what do their stacks say?",
            zh="作业的进程是否还在，调用栈停在哪里？",
        ),
        Text(
            en="Whose is the little use that is left: a process of the job, or another one's?",
            zh="剩余的少量利用率来自谁：作业的进程，还是其他进程？",
        ),
        Text(
            en="What are the last lines of the log, and of the kernel's log of the node?",
            zh="训练日志与该节点内核日志的最后几行是什么？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Take the stacks of what is left, then end the job and start it again from its last "
                "checkpoint.",
                zh="先获取残留进程的调用栈，再结束作业并从最近的检查点重启。",
            ),
            clears=seconds_without_step < 30,
            patch=STACKS_OF_RANKS,
        ),
    ),
    references={
        compute_busy_five_minutes: HARDLY_BUSY,
        quiet_while_stepping: Text(
            en="our choice: hardly a reading without work lies in the time of steps",
            zh="自定：空闲读数几乎都不在有步推进的时段内",
        ),
        seconds_without_step: STANDSTILL,
        busy_below_peers: BELOW_PEERS,
        quiet_in_checkpoint: MOST_OF_IT,
        quiet_in_eval: MOST_OF_IT,
        quiet_before_steps: MOST_OF_IT,
    },
    needs=RUN_LOG,
    explains=("no-progress",),
    signature=Signature(
        caption=Text(
            en="After the last step there is nothing, and the device stays taken.",
            zh="最后一步之后再无动静，设备仍被占用。",
        ),
        lanes=(
            Lane(Text(en="steps in the log", zh="日志中的步"), "...o|...o|............"),
            Lane(DEVICE, "cccc|cccc|............"),
            Lane(Text(en="taken", zh="被占用"), "....|....|xxxxxxxxxxxx"),
        ),
    ),
)
