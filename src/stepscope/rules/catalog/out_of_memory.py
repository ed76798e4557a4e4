"""A request for device memory failed.

Four different things end in the same message: the request was larger than all that was free; enough was
free, but in pieces; enough was free, but in the pool of another stream or in a private one; or the driver
refused although it had enough. Each has a remedy of its own.
"""

from stepscope.analyse.features.memory import (
    expandable_segments_share,
    oom_count,
    oom_device_free_bytes,
    oom_fragmented_share,
    oom_largest_free_bytes,
    oom_other_pool_share,
    oom_outside_share,
    oom_requested_bytes,
    oom_too_big_share,
    oom_unallocated_bytes,
)
from stepscope.model.text import Text
from stepscope.rules.capture import SNAPSHOT
from stepscope.rules.catalog.allocator_thrash import EXPANDABLE
from stepscope.rules.rule import Layer, Patch, Reading, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RECOMPUTE = Patch(
    kind="code",
    before="y = block(x)",
    after="y = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
)

RULE = Rule(
    id="out-of-memory",
    cause="a request for device memory failed",
    layer=Layer.MODEL,
    about=Subject.MEMORY,
    verdict="other-stall",
    severity="critical",
    title=Text(en="A request for device memory failed", zh="显存申请失败"),
    explanation=Text(
        en="The snapshot's history holds a request that neither the allocator nor the driver could serve.",
        zh="快照的历史中有一次分配器与驱动都无法满足的申请。",
    ),
    when=(oom_count >= 1,),
    readings=(
        Reading(
            Text(
                en="A request for device memory failed although the driver reported enough free",
                zh="显存申请失败，而驱动报告的空闲显存足够",
            ),
            only_if=(oom_outside_share >= 1,),
        ),
        Reading(
            Text(
                en="A request for device memory failed: enough was free, but in pieces",
                zh="显存申请失败：空闲总量足够，但都是碎片",
            ),
            only_if=(oom_fragmented_share >= 1,),
        ),
        Reading(
            Text(
                en="A request for device memory failed: enough was free, but in pools of other streams or "
                "private pools",
                zh="显存申请失败：空闲总量足够，但在其他流的池或私有池中",
            ),
            only_if=(oom_other_pool_share >= 1,),
        ),
        Reading(
            Text(
                en="A request for device memory failed: it was larger than all that was free",
                zh="显存申请失败：所需超过全部空闲显存",
            ),
            only_if=(oom_too_big_share >= 1,),
        ),
    ),
    shows=(
        oom_requested_bytes,
        oom_unallocated_bytes,
        oom_largest_free_bytes,
        oom_device_free_bytes,
    ),
    checks=(
        Text(
            en="Does the largest stack of the snapshot hold what it should?",
            zh="快照中占用最多的调用栈，其占用是否合理？",
        ),
        Text(
            en="Did it fail in the first steps (too large from the start) or late (growth, a longer batch)?",
            zh="是开头几步就失败（一开始就放不下），还是后来才失败（增长或更长的批次）？",
        ),
        Text(
            en="Does another process use the same device (nvidia-smi)?",
            zh="是否有其他进程占用同一设备（nvidia-smi）？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Let segments grow, so that free pieces join.",
                zh="让段可以扩展，使空闲的碎片能够合并。",
            ),
            only_if=(oom_fragmented_share > 0,),
            unless=(expandable_segments_share >= 1,),
            clears=oom_count < 1,
            patch=EXPANDABLE,
        ),
        Remedy(
            Text(
                en="Segments grow already: pad to a few fixed shapes, or allocate the largest tensors first.",
                zh="段已可扩展：把形状填充到少数固定尺寸，或先分配最大的张量。",
            ),
            only_if=(oom_fragmented_share > 0, expandable_segments_share >= 1),
            clears=oom_count < 1,
        ),
        Remedy(
            Text(
                en="Memory of one pool serves no other: let CUDA graphs share one pool (pool=...), allocate "
                "on one stream what is made on several, or free what keeps segments of other pools in use.",
                zh="各内存池互不相通：让多个 CUDA Graph 共用一个池（pool=...），把多个流上的申请放到"
                "同一个流，或释放占住其他池中段的张量。",
            ),
            only_if=(oom_other_pool_share > 0,),
            clears=oom_count < 1,
        ),
        Remedy(
            Text(
                en="Recompute activations in the backward pass, lower the micro-batch, or shard parameters "
                "and optimizer state over the ranks.",
                zh="在反向中重计算激活、减小 micro-batch，或把参数与优化器状态切分到各 rank。",
            ),
            only_if=(oom_too_big_share > 0,),
            clears=oom_count < 1,
            patch=RECOMPUTE,
        ),
        Remedy(
            Text(
                en="Look outside the allocator: a limit set on the process "
                "(torch.cuda.set_per_process_memory_fraction), another process, the limit of a container or "
                "a MIG slice.",
                zh="检查分配器之外：进程上限（torch.cuda.set_per_process_memory_fraction）、其他进程、"
                "容器或 MIG 的限制。",
            ),
            only_if=(oom_outside_share > 0,),
            clears=oom_count < 1,
            is_step_towards=True,
        ),
        Remedy(
            Text(
                en="Read who holds the most in the snapshot's stacks.",
                zh="查看快照的调用栈中谁占用最多。",
            ),
            clears=oom_count < 1,
            is_step_towards=True,
        ),
    ),
    references={
        oom_count: Text(
            en="our choice, once: a request that fails and is not caught ends the run",
            zh="自定，一次：未被捕获的失败申请会结束运行",
        ),
        oom_fragmented_share: Text(
            en="our choice: all failed requests for the title, any of them for the remedy",
            zh="自定：标题要求全部失败申请如此，改动只要求其中之一",
        ),
        oom_too_big_share: Text(
            en="our choice: all failed requests for the title, any of them for the remedy",
            zh="自定：标题要求全部失败申请如此，改动只要求其中之一",
        ),
        oom_other_pool_share: Text(
            en="our choice: all failed requests for the title, any of them for the remedy",
            zh="自定：标题要求全部失败申请如此，改动只要求其中之一",
        ),
        oom_outside_share: Text(
            en="our choice: all failed requests for the title, any of them for the remedy",
            zh="自定：标题要求全部失败申请如此，改动只要求其中之一",
        ),
        expandable_segments_share: Text(
            en="our choice: 1 is on, and what is on needs no switching on",
            zh="自定：1 表示已打开，无需再打开",
        ),
    },
    needs=SNAPSHOT,
    signature=Signature(
        caption=Text(
            en="Memory in use reaches the limit, and the next request fails.",
            zh="显存占用达到上限，下一次申请失败。",
        ),
        lanes=(
            Lane(Text(en="memory", zh="显存"), "bbbbbbbb...."),
            Lane(Text(en="request", zh="申请"), ".......x...."),
            Lane(DEVICE, "cccccccc...."),
        ),
    ),
)
