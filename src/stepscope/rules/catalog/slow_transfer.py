"""Every rank is there, and the bytes still move far below what the link carries.

With the waiting taken out, what is left of a collective is its transfer. At less than a tenth of the link it
went another way than meant (sockets instead of RDMA, through the host instead of peer to peer), or the way
is shared.
"""

from stepscope.analyse.features import exposed_communication_share
from stepscope.analyse.features.peer import (
    slower_group_ratio,
    transfer_bytes_per_second,
    transfer_exposed_share,
    transfer_link_share,
)
from stepscope.analyse.features.telemetry import wrong_way
from stepscope.model.text import Text
from stepscope.rules.capture import ALL_RANKS, TRANSPORT
from stepscope.rules.rule import Layer, Patch, Question, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

RULE = Rule(
    id="slow-transfer",
    cause="a transport far slower than the link",
    layer=Layer.HARDWARE,
    about=Subject.RANK,
    verdict="waiting-for-communication",
    title=Text(
        en="Collectives transfer far below what the link carries, with every rank there",
        zh="所有 rank 均已到达，集合通信的传输速率仍远低于链路能力",
    ),
    explanation=Text(
        en="Waiting for late ranks is taken out: what is left is the transfer, and it is slow. Either it "
        "takes "
        "another way than meant, or the way is shared or broken.",
        zh="已扣除等待迟到 rank 的时间，剩下的是传输本身，而它很慢：走错了通道，或通道被共享、有故障。",
    ),
    when=(
        exposed_communication_share >= 0.05,
        transfer_exposed_share >= 0.05,
        transfer_link_share <= 0.10,
    ),
    cost=transfer_exposed_share,
    questions=(
        Question(
            # Whether the way is the right one or not: with NCCL's log it is known.
            settled_by=(wrong_way >= 0,),
            missing=("nccl_transport",),
            capture=TRANSPORT,
            with_all_ranks=TRANSPORT,
        ),
    ),
    shows=(transfer_bytes_per_second, slower_group_ratio),
    checks=(
        Text(
            en="Is it slow from the first step on (a wrong transport), or at times (congestion, a flapping "
            "link)?",
            zh="从第一步起就慢（通道不对），还是时快时慢（拥塞、链路抖动）？",
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
                en="Let NCCL log the transport it chooses, and compare it with the fabric of the machine.",
                zh="让 NCCL 打印其选择的传输通道，并与机器的实际网络对照。",
            ),
            clears=transfer_exposed_share <= 0.02,
            patch=Patch(kind="env", after="NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET"),
            is_step_towards=True,
        ),
    ),
    references={
        exposed_communication_share: Text(
            en="TraceLens flags exposed communication above 5 % of the time",
            zh="TraceLens 在未被掩盖的通信超过时间的 5 % 时标出",
        ),
        transfer_exposed_share: Text(
            en="TraceLens's 5 %, of transfer alone; cleared at our 2 %",
            zh="同样的 5 %，仅计传输；降到自定的 2 % 视为消除",
        ),
        transfer_link_share: Text(
            en="our choice, a tenth of it: between nodes the network is slower than the link within one, by "
            "less "
            "than "
            "ten times on machines built for training; sockets are slower by more",
            zh="自定，十分之一：训练机型的节点间网络慢于节点内链路，但不到十倍；走 socket 则更慢",
        ),
        wrong_way: Text(
            en="known at all: NCCL's log names the transport, and wrong-transport speaks where it is wrong",
            zh="只要已知：NCCL 日志给出了传输通道，不对时由 wrong-transport 报告",
        ),
    },
    needs=ALL_RANKS,
    signature=Signature(
        caption=Text(
            en="All ranks start together, and the collective takes long.",
            zh="各 rank 同时开始，集合通信仍耗时很长。",
        ),
        lanes=(
            Lane(HOST, "lll.......|lll......."),
            Lane(DEVICE, "cccxxxxxxx|cccxxxxxxx"),
        ),
    ),
    explains=("exposed-communication",),
)
