"""The device idles before work that had already been issued, or whose launch was not recorded.

Then the host is not late, and no host cause may be claimed. Work waits for an event, for another
stream, for graph nodes that were not recorded, or for the device itself between two kernels. A host
that blocks in copies behind such work suffers from it: taking the copies away would buy nothing.
"""

from stepscope.analyse.features import (
    host_copy_call_share,
    host_sync_share,
    idle_queued_share,
    idle_share,
    idle_unknown_share,
    queued_or_unlaunched_idle_share,
    sm_active_mean,
    unexplained_idle_share,
    unlaunched_device_share,
)
from stepscope.analyse.features.kernel import kernel_gap_idle_share
from stepscope.model.text import Text
from stepscope.rules.capture import NODES
from stepscope.rules.patch import GRAPH_NODES
from stepscope.rules.rule import Layer, Question, Reading, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

RULE = Rule(
    id="unrecorded-work",
    cause="device waits for work that the trace does not show",
    layer=Layer.FRAMEWORK,
    about=Subject.DEVICE,
    verdict="undecided",
    title=Text(
        en="Most idle time lies before work already issued; the trace does not show what it waits for",
        zh="大部分空闲发生在任务已下发之后；trace 中看不到它在等什么",
    ),
    explanation=Text(
        en="The work was issued in time, or its launch was not recorded: graph nodes that were not recorded, "
        "or event and stream waits.",
        zh="任务已及时下发，或其下发未被记录：可能是未记录的图节点，或事件与流的等待。",
    ),
    when=(idle_share >= 0.15, queued_or_unlaunched_idle_share >= 0.50),
    unless=(unlaunched_device_share >= 0.50, kernel_gap_idle_share >= 0.50),
    corroborated_by=(sm_active_mean >= 0.70,),
    cost=unexplained_idle_share,
    readings=(
        Reading(
            Text(
                en="Most idle time lies before work already issued; the host's blocking copies are a "
                "consequence of it, not the cause",
                zh="大部分空闲发生在任务已下发之后；主机阻塞在拷贝中是其后果，而不是原因",
            ),
            only_if=(host_copy_call_share >= 0.25,),
        ),
    ),
    questions=(
        Question(
            missing=("graph_nodes", "event_waits"),
            capture=NODES,
        ),
    ),
    shows=(
        idle_queued_share,
        idle_unknown_share,
        unlaunched_device_share,
        host_copy_call_share,
        host_sync_share,
    ),
    checks=(
        Text(
            en="Does the run replay CUDA graphs? Their nodes may be missing from the trace: record them.",
            zh="是否在重放 CUDA graph？其节点可能没有录到：请打开节点级记录。",
        ),
        Text(
            en="Which event or stream does the work after the longest gap wait for?",
            zh="最长空隙之后的任务在等待哪个事件或哪条流？",
        ),
        Text(
            en="Are the gaps many and of a few microseconds? Then it is the latency between short kernels.",
            zh="空隙是否多而短（几微秒）？若是，那是短 kernel 之间的固有延迟。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Record again with graph nodes and event waits before changing anything on the host.",
                zh="在改动主机端代码之前，先带图节点和事件等待重新录制。",
            ),
            clears=queued_or_unlaunched_idle_share <= 0.25,
            patch=GRAPH_NODES,
            is_step_towards=True,
        ),
    ),
    references={
        kernel_gap_idle_share: Text(
            en="our choice, more than half: the idle time is the pause that starting a queued kernel "
            "takes, and needs no other cause",
            zh="自定，超过一半：空闲是启动已排队 kernel 所需的间隙，不需要其他原因",
        ),
        idle_share: Text(
            en="TraceLens speaks of an idle device from 15 % of a step",
            zh="TraceLens 从一步的 15 % 起称设备空闲",
        ),
        queued_or_unlaunched_idle_share: Text(
            en="our choice, more than half: then no host cause can hold the larger part",
            zh="自定，超过一半：此时主机原因不可能占大头",
        ),
        unlaunched_device_share: Text(
            en="our choice, half of the device's work without a recorded launch: then nobody can tell "
            "when work was issued",
            zh="自定，设备一半的工作没有下发记录：此时无法判断任务何时下发",
        ),
        host_copy_call_share: Text(
            en="our choice, a quarter of host time in copies is what would otherwise be blamed",
            zh="自定，主机四分之一的时间在拷贝中，否则会被误认为原因",
        ),
        sm_active_mean: Text(
            en="our choice, counters that see 70 % busy where the trace sees idle time: the "
            "trace is incomplete",
            zh="自定，trace 显示空闲而计数器显示 70 % 忙碌：trace 不完整",
        ),
    },
    needs=NODES,
    explains=("exposed-copy", "hidden-sync", "launch-bound"),
    signature=Signature(
        caption=Text(
            en="The work was issued early, and nothing recorded says what the device does in the gaps.",
            zh="任务早已下发，而空隙中设备在做什么没有任何记录。",
        ),
        lanes=(
            Lane(HOST, "lllll...........|lllll..........."),
            Lane(DEVICE, "cc.xxxx.cc.xxxxx|cc.xxxx.cc.xxxxx"),
        ),
    ),
)
