"""The device waits inside collectives for ranks that come later.

Told from transfer by the traces of all ranks: before the last rank has come nothing is transferred. A faster
link would not help, and overlap hides only what has something to hide behind.
"""

from stepscope.analyse.features import exposed_communication_share, host_cpu_busy
from stepscope.analyse.features.peer import peer_wait_of_exposed, peer_wait_share, transfer_exposed_share
from stepscope.analyse.features.telemetry import host_run_queue_per_core
from stepscope.model.text import Text
from stepscope.rules.capture import ALL_RANKS, HOSTS_OF_RANKS
from stepscope.rules.reference import HOST_KNOWN
from stepscope.rules.rule import Layer, OnHost, Question, Remedy, Rule, Subject
from stepscope.rules.signature import Lane, Signature

RULE = Rule(
    id="waiting-for-peers",
    cause="ranks that arrive at different times",
    layer=Layer.SCHEDULING,
    about=Subject.RANK,
    verdict="waiting-for-communication",
    title=Text(
        en="The device waits in collectives for ranks that come later",
        zh="设备在集合通信中等待较晚到达的 rank",
    ),
    explanation=Text(
        en="Most of the time in collectives passes before the last rank has come: nothing is transferred "
        "then. "
        "A faster link would change nothing.",
        zh="集合通信的大部分时间发生在最后一个 rank 到达之前，此时并无数据传输，换更快的链路无济于事。",
    ),
    when=(exposed_communication_share >= 0.05, peer_wait_share >= 0.05),
    unless=(peer_wait_of_exposed <= 0.5,),
    cost=peer_wait_share,
    questions=(
        Question(
            where_unexplained=True,
            settled_by=(host_cpu_busy >= 0, host_run_queue_per_core >= 0),
            capture=HOSTS_OF_RANKS,
            doubt=Text(
                en="No rank stands out as the late one, and no cause was found in what keeps the others. "
                "Whether their hosts do (other processes on the cores, a quota, storage), only the hosts' "
                "counters tell.",
                zh="没有某个 rank 明显迟到，也没有找到其他 rank 被拖住的原因。"
                "是否因为主机（核被其他进程占用、配额、存储），只有主机计数器能说明。",
            ),
        ),
    ),
    shows=(transfer_exposed_share,),
    checks=(
        Text(
            en="Which rank comes last, and is it always the same one? The map of lateness by rank and step "
            "tells.",
            zh="谁最后到达，是否总是同一个？见 rank × 步的迟到图。",
        ),
        Text(
            en="Do the ranks have as much to do? Batches of different length, more experts, another stage.",
            zh="各 rank 的工作量是否相同？批次长度、专家负载、流水线阶段是否不同。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Make the late ranks earlier, or the work of all ranks even; the waiting goes with it.",
                zh="让迟到的 rank 提前，或让各 rank 工作量均衡，等待随之消失。",
            ),
            clears=peer_wait_share <= 0.02,
            is_partial=True,
        ),
    ),
    references={
        exposed_communication_share: Text(
            en="TraceLens flags exposed communication above 5 % of the time",
            zh="TraceLens 在未被掩盖的通信超过时间的 5 % 时标出",
        ),
        peer_wait_share: Text(
            en="TraceLens's 5 %, of waiting alone; cleared at our 2 %",
            zh="同样的 5 %，仅计等待；降到自定的 2 % 视为消除",
        ),
        host_cpu_busy: HOST_KNOWN,
        host_run_queue_per_core: HOST_KNOWN,
        peer_wait_of_exposed: Text(
            en="our choice: the larger half; with less waiting the transfer is the matter",
            zh="自定：占一半以上；否则问题在传输本身",
        ),
    },
    needs=ALL_RANKS,
    on_host=OnHost(
        title=Text(
            en="The training loop waits for ranks that come later", zh="训练循环在等待较晚到达的 rank"
        ),
        explanation=Text(
            en="The rank is where all ranks meet before the last one has come. A faster link would change "
            "nothing.",
            zh="在最后一个 rank 到达之前，该 rank 已在会合处等待，换更快的链路无济于事。",
        ),
        checks=(
            Text(
                en="Which rank comes last, and is it always the same one? The map of lateness by rank and "
                "step tells.",
                zh="谁最后到达，是否总是同一个？见 rank × 步的迟到图。",
            ),
        ),
        remedies=(
            Remedy(
                Text(
                    en="Make the late ranks earlier, or the work of all ranks even; the waiting goes with "
                    "it.",
                    zh="让迟到的 rank 提前，或让各 rank 工作量均衡，等待随之消失。",
                ),
                clears=peer_wait_share <= 0.02,
                is_partial=True,
            ),
        ),
    ),
    signature=Signature(
        caption=Text(
            en="Collectives begin at different times and end together.",
            zh="集合通信开始时间各异，结束时间相同。",
        ),
        lanes=(
            Lane(Text(en="rank 0", zh="第 0 个 rank"), "cccxxxxxnn|cccxxxxxnn"),
            Lane(Text(en="rank 1", zh="第 1 个 rank"), "cccccxxxnn|cccccxxxnn"),
            Lane(Text(en="rank 2", zh="第 2 个 rank"), "ccccccccnn|ccccccccnn"),
        ),
    ),
    explains=("exposed-communication", "communication-bound", "tiny-collectives"),
)
