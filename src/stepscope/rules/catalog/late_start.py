"""The device idles although its next work has been issued a while ago, and nothing else runs on it.

Between a launch and the start of its work lie some microseconds. Where it is milliseconds, the launch itself
took as long (the first use of a kernel or library), or the work waits for an event, a stream, or a
device that others use. More launches at once would not help; from one such wait nobody can tell.
"""

from stepscope.analyse.features import (
    host_copy_call_share,
    host_launch_share,
    idle_launch_share,
    late_start_launch_share,
    late_start_share,
    sm_active_mean,
)
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.reference import LOW_SM_ACTIVE
from stepscope.rules.rule import Layer, Question, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

RULE = Rule(
    id="late-start",
    cause="issued work starts late",
    layer=Layer.FRAMEWORK,
    about=Subject.DEVICE,
    verdict="undecided",
    title=Text(
        en="Work starts milliseconds after its launch, and the trace does not show what it waits for",
        zh="任务在下发之后数毫秒才开始，trace 中看不到它在等什么",
    ),
    explanation=Text(
        en="The launch call itself took that long, as at the first use of a kernel or library, or it had "
        "returned and the work waited for an event, another stream, or a device that others use.",
        zh="下发调用本身耗时很久（如首次使用某个 kernel 或库），"
        "或调用已返回而任务仍在等待事件、其他流，或被他人占用的设备。",
    ),
    when=(late_start_share >= 0.15,),
    corroborated_by=(sm_active_mean <= 0.70,),
    cost=late_start_share,
    questions=(Question(missing=("steady_state", "event_waits"), capture=FEW_STEPS),),
    shows=(late_start_launch_share, idle_launch_share, host_launch_share, host_copy_call_share),
    checks=(
        Text(
            en="Does it happen once, at the first use of a kernel or library? Then it is start-up: record "
            "marked steps after a warm-up step, and it is gone.",
            zh="是否只在首次使用某个 kernel 或库时出现一次？若是，那是启动开销："
            "预热一步后录制带标记的步即可排除。",
        ),
        Text(
            en="Which event or stream does the work after the longest gap wait for (StreamWaitEvent before "
            "its launch)?",
            zh="最长空隙之后的任务在等待哪个事件或哪条流（其下发之前的 StreamWaitEvent）？",
        ),
        Text(
            en="Does another process use the device? nvidia-smi or rocm-smi lists them.",
            zh="是否有其他进程在使用该设备？可用 nvidia-smi 或 rocm-smi 查看。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Record marked steps after a warm-up step before changing anything.",
                zh="在做任何改动之前，先预热一步再录制带标记的步。",
            ),
            clears=late_start_share <= 0.05,
            is_step_towards=True,
        ),
    ),
    references={
        late_start_share: Text(
            en="our choice: the share from which waiting for launches is told (launch-bound)",
            zh="自定：与 launch-bound 提及下发等待的比例相同",
        ),
        sm_active_mean: LOW_SM_ACTIVE,
    },
    needs=FEW_STEPS,
    signature=Signature(
        caption=Text(
            en="The launch is long over, and its work still does not start.",
            zh="下发早已完成，任务却迟迟没有开始。",
        ),
        lanes=(
            Lane(HOST, "ll.............."),
            Lane(DEVICE, "........cccccccc"),
        ),
    ),
)
