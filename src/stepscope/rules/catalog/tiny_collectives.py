"""The device waits for many small collectives.

A collective costs its latency, however few bytes it moves: below a megabyte the link hardly matters. One
tensor at a time, hundreds of them cost what one bucket of all would not.
"""

from stepscope.analyse.features import exposed_communication_share
from stepscope.analyse.features.communication import (
    small_collective_median_ns,
    small_collective_share,
    small_collectives_per_step,
    small_of_communication_share,
)
from stepscope.model.text import Text
from stepscope.rules.capture import ALL_RANKS, SIZES, TRANSPORT
from stepscope.rules.rule import Layer, Patch, Question, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

BUCKETED = Patch(
    kind="code",
    before="for parameter in model.parameters():\n    dist.all_reduce(parameter.grad)",
    after="grads = [parameter.grad for parameter in model.parameters()]\n"
    "flat = torch._utils._flatten_dense_tensors(grads)\n"
    "dist.all_reduce(flat)\n"
    "for grad, part in zip(grads, torch._utils._unflatten_dense_tensors(flat, grads)):\n"
    "    grad.copy_(part)",
)

RULE = Rule(
    id="tiny-collectives",
    cause="small collectives, one by one",
    layer=Layer.FRAMEWORK,
    about=Subject.RANK,
    verdict="waiting-for-communication",
    title=Text(
        en="The device waits for small collectives: latency, not bandwidth",
        zh="设备在等待小型集合通信：瓶颈是延迟而非带宽",
    ),
    explanation=Text(
        en="Most of the communication that nothing hides is of messages under a megabyte, each over within a "
        "fifth of a millisecond: their number costs, not their size.",
        zh="未被掩盖的通信大部分是小于 1 MB 的消息，每次都在 0.2 ms 内完成：代价来自次数而非大小。",
    ),
    when=(
        exposed_communication_share >= 0.05,
        small_collective_share >= 0.05,
        small_of_communication_share >= 0.50,
    ),
    cost=small_collective_share,
    questions=(
        Question(
            settled_by=(small_collective_median_ns <= 50_000,),
            missing=("collective_starts_of_peers",),
            capture=ALL_RANKS,
            with_all_ranks=TRANSPORT,
            doubt=Text(
                en="Each takes longer than the latency of such a message within a node: a peer that is late "
                "a little, every time, looks the same.",
                zh="每次耗时都超过节点内此类消息的延迟：对端每次都稍微迟到也是这种形态。",
            ),
        ),
    ),
    shows=(small_collectives_per_step, small_collective_median_ns),
    checks=(
        Text(
            en="Who issues them: one call a parameter, a metric in every step, statistics of batch "
            "normalisation?",
            zh="由谁发起：每个参数一次调用、每步的指标，还是批归一化的统计量？",
        ),
        Text(
            en="May they be joined? Those that need each other's result may not.",
            zh="它们能否合并？若彼此依赖结果则不能。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Join them: one flat buffer or bucket instead of a call for each tensor.",
                zh="合并：用一个展平的缓冲区或 bucket 代替逐张量调用。",
            ),
            # Of what may be a late peer nobody knows what joining wins.
            only_if=(small_collective_median_ns <= 50_000,),
            unless=(small_collectives_per_step <= 1,),
            clears=small_collective_share <= 0.02,
            patch=BUCKETED,
        ),
        Remedy(
            Text(
                en="Compare the traces of all ranks before changing anything: a rank that spends far less in "
                "these collectives is late, and the others wait for it.",
                zh="改动之前先对比所有 rank 的 trace：在这些集合通信中耗时明显更短的 rank 迟到，"
                "其他 rank 在等它。",
            ),
            unless=(small_collective_median_ns <= 50_000,),
            clears=small_collective_share <= 0.02,
            is_step_towards=True,
            with_all_ranks=Text(
                en="Look which rank starts each of these collectives last: the others may be waiting for it.",
                zh="查看每次集合通信由哪个 rank 最后开始：其他 rank 可能都在等它。",
            ),
        ),
        Remedy(
            Text(
                en="Reduce metrics only in the steps that show them.",
                zh="只在需要展示指标的步归约指标。",
            ),
            clears=small_collective_share <= 0.02,
            is_partial=True,
        ),
    ),
    references={
        exposed_communication_share: Text(
            en="TraceLens flags exposed communication above 5 % of the time",
            zh="TraceLens 在未被掩盖的通信超过时间的 5 % 时标出",
        ),
        small_collective_share: Text(
            en="TraceLens flags exposed communication above 5 % of the time",
            zh="TraceLens 在未被掩盖的通信超过时间的 5 % 时标出",
        ),
        small_of_communication_share: Text(
            en="our choice: more than half; with less, another rule of communication speaks",
            zh="自定：超过一半；不足一半时由其他通信规则报告",
        ),
        small_collective_median_ns: Text(
            en="our choice, 50 µs: within a node such a message takes tens of microseconds",
            zh="自定，50 µs：节点内此类消息需要数十微秒",
        ),
        small_collectives_per_step: Text(
            en="our choice: a single one in a step has nothing to be joined with",
            zh="自定：每步仅一次则无可合并",
        ),
    },
    needs=SIZES,
    signature=Signature(
        caption=Text(
            en="A row of short collectives, each with a pause of its own, where one would do.",
            zh="一连串短小的集合通信，各有各的间隔，而本来一次即可完成。",
        ),
        lanes=(
            Lane(HOST, "lll...l.l.l.l.l.l.l.|lll...l.l.l.l.l.l.l."),
            Lane(DEVICE, ".ccccc.n.n.n.n.n.n.n|.ccccc.n.n.n.n.n.n.n"),
        ),
    ),
)
