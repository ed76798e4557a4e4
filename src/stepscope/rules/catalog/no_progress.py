"""Steps have stopped, and neither a checkpoint nor an evaluation explains it.

The log promised a line long ago. Whether the device is idle or spins in a collective says little of where
the fault is: a kernel that waits for a peer keeps the device busy at little power. The stacks of all ranks
say it: the odd one out is the one the others wait for.
"""

from stepscope.analyse.features.telemetry import (
    compute_busy_mean,
    elsewhere_by_stacks,
    grave_xids,
    log_collective_timeouts,
    missed_log_lines,
    power_limit_share,
    seconds_without_step,
    silent_in_checkpoint,
    silent_in_eval,
    standstill_busy_mean,
    standstill_power_ratio,
    steps_logged,
)
from stepscope.model.text import Text
from stepscope.rules.capture import PY_SPY, RUN_LOG
from stepscope.rules.patch import FLIGHT_RECORDER, STACKS_OF_RANKS
from stepscope.rules.reference import MOST_OF_IT, STANDSTILL
from stepscope.rules.rule import Layer, Question, Reading, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="no-progress",
    cause="a job that stands still",
    layer=Layer.FRAMEWORK,
    about=Subject.RANK,
    verdict="other-stall",
    severity="critical",
    is_standstill=True,
    title=Text(en="The job makes no steps any more", zh="作业已不再推进"),
    explanation=Text(
        en="No step was logged for several times the usual distance of lines, and no checkpoint or "
        "evaluation runs. One rank stands somewhere, and the others wait for it.",
        zh="已超过通常间隔的数倍没有新的步，也没有检查点或评测在进行。某个 rank 停住了，其余都在等它。",
    ),
    when=(seconds_without_step >= 30, missed_log_lines >= 3),
    unless=(silent_in_checkpoint >= 0.50, silent_in_eval >= 0.50),
    corroborated_by=(
        log_collective_timeouts >= 1,
        power_limit_share <= 0.35,
        standstill_power_ratio <= 0.60,
    ),
    readings=(
        Reading(
            Text(
                en="The job makes no steps any more: a watchdog ended a collective",
                zh="作业已不再推进：看门狗终止了一次集合通信",
            ),
            only_if=(log_collective_timeouts >= 1,),
        ),
        Reading(
            Text(
                en="The job makes no steps any more: the device is busy at little power, it spins in a "
                "collective",
                zh="作业已不再推进：设备忙碌但功耗很低，正在集合通信中空转",
            ),
            only_if=(compute_busy_mean >= 0.90, power_limit_share <= 0.35),
        ),
        Reading(
            Text(
                en="The job makes no steps any more: the device is busy at a fraction of its power, it spins "
                "in a collective",
                zh="作业已不再推进：设备忙碌但功耗远低于平时，正在集合通信中空转",
            ),
            only_if=(standstill_busy_mean >= 0.90, standstill_power_ratio <= 0.60),
        ),
        Reading(
            Text(
                en="The job makes no steps any more, and the device does nothing since",
                zh="作业已不再推进，此后设备也无任务",
            ),
            only_if=(standstill_busy_mean <= 0.05,),
        ),
        Reading(
            Text(
                en="The job makes no steps any more, and the device does nothing",
                zh="作业已不再推进，设备也无任务",
            ),
            only_if=(compute_busy_mean <= 0.05,),
        ),
    ),
    questions=(Question(missing=("stacks_of_ranks",), capture=PY_SPY),),
    shows=(
        steps_logged,
        elsewhere_by_stacks,
        grave_xids,
        compute_busy_mean,
        standstill_busy_mean,
        standstill_power_ratio,
    ),
    checks=(
        Text(
            en="Take the stacks of all ranks and group equal ones: the smallest group holds the rank that "
            "the "
            "others wait for.",
            zh="获取所有 rank 的调用栈并把相同的归为一组：最小的一组就是其他 rank 在等的。",
        ),
        Text(
            en="Was an Xid or a network error logged on any node in the ten minutes before?",
            zh="此前十分钟内，是否有节点记录了 Xid 或网络错误？",
        ),
        Text(
            en="Do collective sequence numbers of the ranks differ (flight recorder)? Then one rank took "
            "another path through the code.",
            zh="各 rank 的集合通信序号是否不同（飞行记录器）？若是，某个 rank 走了不同的代码分支。",
        ),
        Text(
            en="Did it stop at a round number of steps: a save, an evaluation, a new data set?",
            zh="是否停在整数步：保存、评测或切换数据集？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Take the stacks now, before anyone ends the job: afterwards nothing tells.",
                zh="在终止作业之前立即获取调用栈：之后就无从得知了。",
            ),
            clears=missed_log_lines < 3,
            patch=STACKS_OF_RANKS,
            is_step_towards=True,
        ),
        Remedy(
            Text(
                en="Then start again from the last checkpoint, with the flight recorder of collectives on, "
                "so "
                "that the next stop names its rank.",
                zh="然后从最近的检查点重启，并打开集合通信飞行记录器，使下一次停住时能指出是哪个 rank。",
            ),
            clears=missed_log_lines < 3,
            patch=FLIGHT_RECORDER,
            is_partial=True,
        ),
    ),
    references={
        seconds_without_step: STANDSTILL,
        missed_log_lines: Text(
            en="Unicron takes three times the mean iteration for a hang; lines of a log stand for iterations "
            "here, which is our choice",
            zh="Unicron 以平均迭代时间的三倍判定挂起；此处以日志行代表迭代，为本工具自定",
        ),
        silent_in_checkpoint: MOST_OF_IT,
        silent_in_eval: MOST_OF_IT,
        log_collective_timeouts: Text(
            en="our choice, once: PyTorch's watchdog ends a collective only after its timeout",
            zh="自定，一次：PyTorch 的看门狗只在超时后才终止集合通信",
        ),
        power_limit_share: Text(
            en="our choice, about a third of the limit: far above rest and far below work",
            zh="自定，约为上限的三分之一：远高于空闲，远低于工作",
        ),
        standstill_power_ratio: Text(
            en="our choice: a kernel that spins took 26 % of the power of training in our simulation; work "
            "that goes on hardly falls below 60 %",
            zh="自定：空转的 kernel 在本工具的模拟中约为训练功耗的 26 %；仍在进行的任务很少低于 60 %",
        ),
        standstill_busy_mean: Text(
            en="our choice: nearly always busy for spinning, hardly ever for idle",
            zh="自定：空转时几乎一直忙，空闲时几乎从不忙",
        ),
        compute_busy_mean: Text(
            en="our choice: nearly always busy for spinning, hardly ever for idle; busy alone tells nothing "
            "of progress",
            zh="自定：空转时几乎一直忙，空闲时几乎从不忙；仅凭忙碌看不出是否推进",
        ),
    },
    needs=RUN_LOG,
    explains=("killed-process",),
    explains_peers=("waiting-for-peers",),
    signature=Signature(
        caption=Text(
            en="Steps end, and the collective that was begun never does.",
            zh="步停止了，已开始的集合通信一直没有结束。",
        ),
        lanes=(
            Lane(Text(en="steps in the log", zh="日志中的步"), "...o|...o|............"),
            Lane(DEVICE, "cccn|cccn|cnnnnnnnnnnn"),
        ),
    ),
)
