"""Kernels run longer beside communication than the same kernels do alone.

Communication kernels hold multiprocessors and memory bandwidth. Hiding communication behind computation then
wins less than its length.
"""

from stepscope.analyse.features.peer import beside_communication_share, hidden_communication_share
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import Lane, Signature

RULE = Rule(
    id="beside-communication",
    cause="computation and communication compete for the device",
    layer=Layer.FRAMEWORK,
    about=Subject.RANK,
    verdict="computing-slowly",
    title=Text(
        en="Kernels are slower beside communication than alone",
        zh="与通信并行时 kernel 变慢",
    ),
    explanation=Text(
        en="The same kernels with the same shapes take longer while a collective runs: it holds "
        "multiprocessors "
        "and memory bandwidth.",
        zh="相同形状的相同 kernel 在集合通信运行时耗时更长：通信占用了多处理器与显存带宽。",
    ),
    when=(hidden_communication_share >= 0.02, beside_communication_share >= 0.03),
    cost=beside_communication_share,
    is_bound=True,
    checks=(
        Text(
            en="How many channels does NCCL use, and does a smaller number still carry the link's rate?",
            zh="NCCL 用了多少通道？减少后是否仍能跑满链路？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Give communication fewer multiprocessors, as long as its transfers do not become "
                "exposed.",
                zh="在传输仍被掩盖的前提下，减少通信占用的多处理器。",
            ),
            clears=beside_communication_share <= 0.01,
            patch=Patch(kind="env", after="NCCL_MAX_CTAS=8"),
            is_partial=True,
        ),
    ),
    references={
        hidden_communication_share: Text(
            en="our choice: what runs beside nothing is slowed by nothing",
            zh="自定：没有并行就没有相互拖慢",
        ),
        beside_communication_share: Text(
            en="our choice, 3 % of the step; SuperBench (ATC 2024) found nodes that only fail with both at "
            "once",
            zh="自定，一步的 3 %；SuperBench（ATC 2024）发现有节点只在两者同时运行时才出问题",
        ),
    },
    needs=FEW_STEPS,
    signature=Signature(
        caption=Text(
            en="The kernel that runs beside a collective is the longer one.",
            zh="与集合通信并行的 kernel 更长。",
        ),
        lanes=(
            Lane(Text(en="compute", zh="计算"), "cc.cc.xxxxxx|cc.cc.xxxxxx"),
            Lane(Text(en="communication", zh="通信"), "......nnnnnn|......nnnnnn"),
        ),
    ),
)
