"""A request failed although the framework held as much unused memory as it asked for.

The message of the failure says both: what was asked, and what was reserved and handed out to nobody. Where
the latter is the larger, memory was there and in pieces.
"""

from stepscope.analyse.features import memory_used_share
from stepscope.analyse.features.telemetry import log_oom_unallocated_share, log_out_of_memory
from stepscope.model.text import Text
from stepscope.rules.capture import RUN_LOG
from stepscope.rules.catalog.allocator_thrash import EXPANDABLE
from stepscope.rules.rule import Layer, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="fragmented-out-of-memory",
    cause="device memory in pieces when a request failed",
    layer=Layer.FRAMEWORK,
    about=Subject.DEVICE,
    verdict="other-stall",
    severity="critical",
    title=Text(
        en="A request for device memory failed beside enough reserved memory: it lay in pieces",
        zh="显存申请失败，而已保留未用的显存足够：都是碎片",
    ),
    explanation=Text(
        en="By the log's own numbers the framework held at least as much unused memory as the request asked "
        "for, but no piece of it fitted.",
        zh="按日志中的数字，框架持有的未用显存不少于申请量，但没有一块放得下。",
    ),
    when=(log_out_of_memory >= 1, log_oom_unallocated_share >= 1),
    shows=(memory_used_share,),
    checks=(
        Text(
            en="Is expandable_segments on already? Then the pieces come from changing shapes.",
            zh="expandable_segments 是否已打开？若是，碎片来自不断变化的形状。",
        ),
        Text(
            en="Do shapes change from step to step? Each new size leaves holes of the old ones.",
            zh="各步的形状是否变化？每种新尺寸都会留下旧尺寸的空洞。",
        ),
        Text(
            en="Are CUDA graphs in use? Their pools are closed to everyone else.",
            zh="是否使用了 CUDA Graph？其内存池不对外开放。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Let segments grow, so that free pieces join.",
                zh="让段可以扩展，使空闲的碎片能够合并。",
            ),
            clears=log_out_of_memory < 1,
            patch=EXPANDABLE,
        ),
        Remedy(
            Text(
                en="Pad to a few fixed shapes, or run the largest batch first so that later ones fit.",
                zh="把形状填充到少数固定尺寸，或先运行最大的批次，使后面的都放得下。",
            ),
            clears=log_out_of_memory < 1,
            is_partial=True,
        ),
    ),
    references={
        log_out_of_memory: Text(
            en="our choice, once: a request that fails and is not caught ends the run",
            zh="自定，一次：未被捕获的失败申请会结束运行",
        ),
        log_oom_unallocated_share: Text(
            en="our choice, as much as was asked: PyTorch's documentation advises against pieces where what "
            "is "
            "reserved and unallocated is large",
            zh="自定，与申请量相等：PyTorch 文档建议在已保留未分配的显存较大时处理碎片",
        ),
    },
    needs=RUN_LOG,
    explains=("allocator-thrash", "memory-nearly-full", "killed-process"),
    signature=Signature(
        caption=Text(
            en="The memory is full of holes, and the next request fits into none.",
            zh="显存布满空洞，下一次申请放不进任何一处。",
        ),
        lanes=(
            Lane(Text(en="memory", zh="显存"), "bb.b.bb.bb.b...."),
            Lane(Text(en="request", zh="申请"), "...........xx..."),
            Lane(DEVICE, "cccccccccccc...."),
        ),
    ),
)
