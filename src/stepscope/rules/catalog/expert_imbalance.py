"""Experts are given different numbers of tokens, and all ranks wait in the all-to-all for the fullest one.

The rank that is late changes with the tokens. Congestion looks alike, but leaves the computation as it is.
"""

from stepscope.analyse.features.peer import expert_work_share, num_peers
from stepscope.model.text import Text
from stepscope.rules.capture import ALL_RANKS
from stepscope.rules.rule import Layer, Remedy, Rule, Subject
from stepscope.rules.signature import Lane, Signature

RULE = Rule(
    id="expert-imbalance",
    cause="experts with different numbers of tokens",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="waiting-for-communication",
    title=Text(
        en="This rank's experts have more to compute, and the others wait in the all-to-all",
        zh="该 rank 的专家计算量更大，其他 rank 在 all-to-all 中等待",
    ),
    explanation=Text(
        en="The rank comes last to all-to-alls with more computation behind it than its peers: its experts "
        "were "
        "sent more tokens.",
        zh="该 rank 最后到达 all-to-all，且之前的计算量大于同伴：它的专家收到了更多 token。",
    ),
    when=(num_peers > 0, expert_work_share >= 0.05),
    cost=expert_work_share,
    checks=(
        Text(
            en="Tokens of each expert by step: how far is the fullest from the mean?",
            zh="各步每个专家的 token 数：最多的与平均值差多少？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Limit the capacity of experts, or raise the weight of the balancing loss.",
                zh="限制专家容量，或提高负载均衡损失的权重。",
            ),
            clears=expert_work_share <= 0.02,
            is_partial=True,
        ),
    ),
    references={
        num_peers: Text(
            en="a job of one rank waits for nobody",
            zh="只有一个 rank 的作业不会等任何人",
        ),
        expert_work_share: Text(
            en="our choice, 5 % of the window: the same as of uneven batches",
            zh="自定，窗口的 5 %，与批次不均相同",
        ),
    },
    needs=ALL_RANKS,
    signature=Signature(
        caption=Text(
            en="Between two all-to-alls one rank computes longer.",
            zh="两次 all-to-all 之间有一个 rank 计算更久。",
        ),
        lanes=(
            Lane(Text(en="rank 0", zh="第 0 个 rank"), "nncccnnnnn|nnccccnnnn"),
            Lane(Text(en="rank 1", zh="第 1 个 rank"), "nnxxxxxxnn|nncccnnnnn"),
            Lane(Text(en="rank 2", zh="第 2 个 rank"), "nnccnnnnnn|nnxxxxxxnn"),
        ),
    ),
    explains_peers=("waiting-for-peers",),
)
