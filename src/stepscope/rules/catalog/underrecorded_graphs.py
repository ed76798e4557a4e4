"""Graphs were replayed, and the work of many replays was not recorded.

Where a replay leaves no kernels in the trace, the device looks idle while it works. No gap beside it can be
believed, and no host cause may be claimed for it.
"""

from stepscope.analyse.features import host_sync_share, idle_share, sm_active_mean, unexplained_idle_share
from stepscope.analyse.features.host import unrecorded_graph_share
from stepscope.model.text import Text
from stepscope.rules.capture import NODES
from stepscope.rules.patch import GRAPH_NODES
from stepscope.rules.rule import Layer, Question, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

RULE = Rule(
    id="underrecorded-graphs",
    cause="work of graph replays that was not recorded",
    layer=Layer.FRAMEWORK,
    about=Subject.DEVICE,
    verdict="undecided",
    title=Text(
        en="Graphs are replayed whose work was not recorded: much of the idle time may be work",
        zh="重放了 CUDA graph 而其任务没有录到：看似空闲的时间可能大多在工作",
    ),
    explanation=Text(
        en="Launches of graphs are in the trace, and for some of them not one kernel. The device worked "
        "there, unseen: idle time beside them is not measured.",
        zh="trace 中有 graph 的下发，其中一些却没有任何 kernel。设备当时在工作，只是没有录到："
        "其附近的空闲时间并未真正测得。",
    ),
    when=(idle_share >= 0.15, unrecorded_graph_share > 0.10),
    corroborated_by=(sm_active_mean >= 0.70,),
    cost=unexplained_idle_share,
    questions=(Question(missing=("graph_nodes",), capture=NODES),),
    shows=(host_sync_share,),
    checks=(
        Text(
            en="Does a newer driver or CUPTI record the nodes? Older ones record the first node of a replay, "
            "or none.",
            zh="更新的驱动或 CUPTI 能否录到图节点？旧版本只录第一个节点，或完全不录。",
        ),
        Text(
            en="Run a few steps without graphs: if the idle time goes, it was work.",
            zh="关闭 graph 跑几步：空闲消失则说明那其实是在工作。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Record graph nodes before changing anything.",
                zh="在做任何改动之前，先打开图节点级记录。",
            ),
            clears=unrecorded_graph_share <= 0.01,
            patch=GRAPH_NODES,
            is_step_towards=True,
        ),
    ),
    references={
        idle_share: Text(
            en="TraceLens speaks of an idle device from 15 % of a step",
            zh="TraceLens 从一步的 15 % 起称设备空闲",
        ),
        unrecorded_graph_share: Text(
            en="our choice: a tenth of the replays without any work is no accident of the recording's edge",
            zh="自定：十分之一的重放没有任何任务，已不能归因于录制边缘",
        ),
        sm_active_mean: Text(
            en="our choice, counters that see 70 % busy where the trace sees idle time: the trace is "
            "incomplete",
            zh="自定，trace 显示空闲而计数器显示 70 % 忙碌：trace 不完整",
        ),
    },
    needs=NODES,
    explains=("hidden-sync", "late-start", "launch-bound", "unrecorded-work"),
    signature=Signature(
        caption=Text(
            en="A replay is launched, and nothing of what it does is recorded: the gap is not idle.",
            zh="下发了一次重放，而它所做的都没有录到：空隙并非空闲。",
        ),
        lanes=(
            Lane(HOST, "l.......|l.......|l......."),
            Lane(Text(en="recorded", zh="录到的"), ".ccccccc|........|........"),
            Lane(DEVICE, ".ccccccc|.xxxxxxx|.xxxxxxx"),
        ),
    ),
)
