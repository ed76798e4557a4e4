"""The transfers of one process group take longer than those of the others, of the same kind and size.

What differs between equal groups is the way between their ranks: a degraded lane, a link that fell back,
ranks placed across nodes or sockets where the others are not.
"""

from stepscope.analyse.features import exposed_communication_share
from stepscope.analyse.features.peer import (
    slower_group_ratio,
    transfer_bytes_per_second,
    transfer_exposed_share,
)
from stepscope.model.text import Text
from stepscope.rules.capture import ALL_RANKS
from stepscope.rules.rule import Layer, Remedy, Rule, Subject
from stepscope.rules.signature import Lane, Signature

RULE = Rule(
    id="slow-group",
    cause="a slow link between some ranks",
    layer=Layer.HARDWARE,
    about=Subject.RANK,
    verdict="waiting-for-communication",
    title=Text(
        en="Transfers of this rank's group take longer than those of the other groups",
        zh="该 rank 所在进程组的传输比其他组慢",
    ),
    explanation=Text(
        en="Groups with collectives of the same kind and size move the same bytes. Where one of them needs "
        "half "
        "as long again, with every rank there, the way between its ranks is slower.",
        zh="同类同大小的集合通信传输量相同。若某一组在成员到齐后仍多用一半时间，说明其成员之间的通路更慢。",
    ),
    when=(
        exposed_communication_share >= 0.02,
        transfer_exposed_share >= 0.02,
        slower_group_ratio >= 1.5,
    ),
    cost=transfer_exposed_share,
    is_bound=True,
    shows=(transfer_bytes_per_second,),
    checks=(
        Text(
            en="Which nodes and sockets do the ranks of the slow group lie on, and those of the others?",
            zh="慢组的 rank 分布在哪些节点和插槽上？其他组呢？",
        ),
        Text(
            en="NVLink error and replay counters, width and generation of the PCIe links of its devices "
            "(nvidia-smi nvlink -e, nvidia-smi -q).",
            zh="查看其设备的 NVLink 错误与重传计数、PCIe 链路宽度与代次（nvidia-smi nvlink -e、nvidia-smi "
            "-q）。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Place the ranks of a group as the other groups are placed; where they are, drain the "
                "node "
                "with the degraded link.",
                zh="让该组 rank 的放置方式与其他组一致；若已一致，则下线链路降级的节点。",
            ),
            clears=slower_group_ratio <= 1.2,
            is_partial=True,
        ),
    ),
    references={
        exposed_communication_share: Text(
            en="our choice: below 2 % of the step nothing is to be won",
            zh="自定：不足一步的 2 % 没有可赢得的时间",
        ),
        transfer_exposed_share: Text(
            en="our choice: below 2 % of the step nothing is to be won",
            zh="自定：不足一步的 2 % 没有可赢得的时间",
        ),
        slower_group_ratio: Text(
            en="our choice, half as long again: collectives of equal groups differ by some percent; cleared "
            "at "
            "a fifth",
            zh="自定，多用一半时间：同样的组之间通常只差百分之几；降到五分之一视为消除",
        ),
    },
    needs=ALL_RANKS,
    signature=Signature(
        caption=Text(
            en="The same collective, started together in each group, ends later in one of them.",
            zh="各组同时开始同样的集合通信，其中一组结束得更晚。",
        ),
        lanes=(
            Lane(Text(en="group 0", zh="组 0"), "ccccnn....|ccccnn...."),
            Lane(Text(en="group 1", zh="组 1"), "ccccxxxxxx|ccccxxxxxx"),
        ),
    ),
    explains=("exposed-communication",),
)
