"""The device waits for communication that no computation hides.

One rank's trace cannot tell a slow transfer from a peer that came late: both look like a long
collective. What it can tell is whether the bytes moved at a plausible rate. Below a tenth of the
link the time was not spent on transferring over that link, so the peer is late or the transport is
the wrong one, and overlap would hide neither.
"""

from stepscope.analyse.features import (
    backward_share,
    bus_bandwidth_link_share,
    bus_bytes_per_second,
    exposed_communication_share,
    nvlink_link_share,
)
from stepscope.analyse.features.communication import gradient_syncs_per_update, small_of_communication_share
from stepscope.analyse.features.peer import peer_wait_of_exposed, transfer_link_share
from stepscope.analyse.features.telemetry import power_limit_share
from stepscope.model.text import Text
from stepscope.rules.capture import ALL_RANKS, TRANSPORT
from stepscope.rules.patch import NO_SYNC
from stepscope.rules.reference import LOW_POWER
from stepscope.rules.rule import Layer, Patch, Question, Reading, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

NCCL_LOG = Patch(kind="env", after="NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET")

RULE = Rule(
    id="exposed-communication",
    cause="communication that no computation hides",
    layer=Layer.FRAMEWORK,
    about=Subject.RANK,
    verdict="waiting-for-communication",
    title=Text(
        en="The device waits for communication; late peer, slow transfer or wrong transport is undecided",
        zh="设备在等待通信；是对端迟到、传输慢还是传输通道不对，尚不能判定",
    ),
    explanation=Text(
        en="Collectives run on the device while no compute kernel does. A long collective is a slow "
        "transfer, or a wait for the rank that comes last.",
        zh="设备上只有集合通信在运行，没有计算与之重叠。"
        "集合通信耗时长，可能是传输慢，也可能是在等最后到达的 rank。",
    ),
    when=(exposed_communication_share >= 0.10,),
    unless=(
        bus_bandwidth_link_share >= 0.50,
        small_of_communication_share >= 0.50,
        peer_wait_of_exposed > 0.50,
        transfer_link_share <= 0.10,
    ),
    corroborated_by=(nvlink_link_share <= 0.10, power_limit_share <= 0.60),
    cost=exposed_communication_share,
    readings=(
        Reading(
            Text(
                en="The device waits for communication at a rate far below the link: late peer or wrong "
                "transport, undecided from one rank",
                zh="设备在等待通信，速率远低于链路能力：对端迟到或传输通道不对，仅凭一个 rank 不能判定",
            ),
            only_if=(bus_bandwidth_link_share < 0.10,),
            with_all_ranks=Text(
                en="The device waits for communication at a rate far below the link: late peer or wrong "
                "transport, undecided: the ranks could not be joined",
                zh="设备在等待通信，速率远低于链路能力：对端迟到或传输通道不对，各 rank 无法对齐，不能判定",
            ),
        ),
        Reading(
            Text(
                en="The device waits for communication that no computation hides",
                zh="设备在等待未被计算掩盖的通信",
            ),
            only_if=(bus_bandwidth_link_share >= 0.10,),
        ),
    ),
    questions=(
        Question(
            settled_by=(bus_bandwidth_link_share >= 0.10,),
            missing=("collective_starts_of_peers", "nccl_transport"),
            capture=ALL_RANKS,
            with_all_ranks=TRANSPORT,
        ),
    ),
    shows=(bus_bandwidth_link_share, bus_bytes_per_second),
    checks=(
        Text(
            en="Which rank spends the least time in the collective? It starts last, and the others wait for "
            "it; where all take as long, look at the transfer itself.",
            zh="哪个 rank 在集合通信中耗时最短？它最后开始，其他 rank 都在等它；"
            "若各 rank 耗时相同，则应查看传输本身。",
        ),
        Text(
            en="Read the transport in the NCCL log: NET/Socket where InfiniBand was meant, or P2P disabled?",
            zh="查看 NCCL 日志中的传输通道：本应使用 InfiniBand 却是 NET/Socket，或 P2P 被禁用？",
        ),
        Text(
            en="Look for NCCL debugging variables left in the environment (NCCL_P2P_DISABLE, "
            "NCCL_IB_DISABLE, …).",
            zh="检查环境中是否残留 NCCL 调试变量（NCCL_P2P_DISABLE、NCCL_IB_DISABLE 等）。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Compare the traces of all ranks before changing anything: the rank that starts last is "
                "the one to look at.",
                zh="改动之前先对比所有 rank 的 trace：最后开始的 rank 才是要查的对象。",
            ),
            unless=(bus_bandwidth_link_share >= 0.10,),
            clears=exposed_communication_share <= 0.05,
            is_step_towards=True,
            with_all_ranks=Text(
                en="Look which rank spends the least time in the collective: the others may be waiting for "
                "that one.",
                zh="查看哪个 rank 在集合通信中耗时最短：其他 rank 可能都在等它。",
            ),
        ),
        Remedy(
            Text(
                en="Let NCCL log the transport it chooses, and compare it with the fabric of the machine.",
                zh="让 NCCL 打印其选择的传输通道，并与机器的实际网络对照。",
            ),
            unless=(bus_bandwidth_link_share >= 0.10,),
            clears=exposed_communication_share <= 0.05,
            patch=NCCL_LOG,
            is_step_towards=True,
        ),
        Remedy(
            Text(
                en="Reduce gradients once per optimizer step instead of once per micro-batch.",
                zh="每个优化器步只做一次梯度归约，而不是每个微批次一次。",
            ),
            only_if=(bus_bandwidth_link_share >= 0.10, gradient_syncs_per_update >= 2),
            unless=(backward_share <= 0.0,),
            clears=exposed_communication_share <= 0.05,
            patch=NO_SYNC,
        ),
        Remedy(
            Text(
                en="Let the reduction of one bucket run beside the backward pass of the next.",
                zh="让一个 bucket 的归约与后续反向计算重叠。",
            ),
            only_if=(bus_bandwidth_link_share >= 0.10,),
            unless=(backward_share <= 0.0,),
            clears=exposed_communication_share <= 0.05,
            is_overlap=True,
        ),
    ),
    references={
        exposed_communication_share: Text(
            en="PyTorch Profiler's TensorBoard plugin advises where communication takes more than 10 % of a "
            "step; cleared at the 5 % above which TraceLens flags it; data exchange is 7 % of the issues of "
            "An Empirical Study on Low GPU Utilization (ICSE 2024)",
            zh="PyTorch Profiler 的 TensorBoard 插件在通信超过一步的 10 % 时给出建议；降到 5 %（TraceLens "
            "标出的界线）视为消除；数据交换占 An Empirical Study on Low GPU Utilization（ICSE "
            "2024）所列问题的 7 %",
        ),
        bus_bandwidth_link_share: Text(
            en="nccl-tests defines bus bandwidth so that it can be held against the link's peak; large "
            "messages reach most of it. A tenth is our choice: below it the time was not spent on "
            "transferring over that link. Half is our choice too: from there communication-bound speaks",
            zh="nccl-tests 定义的总线带宽可直接与链路峰值比较；大消息应达到其大部分。"
            "十分之一为本工具自定：低于它说明时间并未用在该链路的传输上。"
            "一半亦为自定：达到后由 communication-bound 报告",
        ),
        small_of_communication_share: Text(
            en="our choice: where more than half of it is of small messages, tiny-collectives speaks",
            zh="自定：过半来自小消息时，由 tiny-collectives 报告",
        ),
        peer_wait_of_exposed: Text(
            en="our choice: where the larger half is waiting, waiting-for-peers speaks",
            zh="自定：等待占一半以上时，由 waiting-for-peers 报告",
        ),
        transfer_link_share: Text(
            en="our choice: where the transfer itself is so slow, slow-transfer speaks",
            zh="自定：传输本身如此之慢时，由 slow-transfer 报告",
        ),
        gradient_syncs_per_update: Text(
            en="our choice: one exchange for an update is the least there can be",
            zh="自定：一次更新至少需要一次交换",
        ),
        backward_share: Text(
            en="no op of a backward pass at all: the run infers and has no gradients to reduce",
            zh="没有任何反向传播的算子：这是推理，没有梯度可归约",
        ),
        power_limit_share: LOW_POWER,
        nvlink_link_share: Text(
            en="our choice: the same tenth, seen by the device's own counters",
            zh="自定：同样的十分之一，由设备自身计数器给出",
        ),
    },
    needs=ALL_RANKS,
    signature=Signature(
        caption=Text(
            en="Communication runs alone: no compute kernel hides it.",
            zh="通信单独运行，没有计算 kernel 掩盖它。",
        ),
        lanes=(
            Lane(HOST, "lllll.......|lllll......."),
            Lane(DEVICE, "cccccccnnnnn|cccccccnnnnn"),
        ),
    ),
)
