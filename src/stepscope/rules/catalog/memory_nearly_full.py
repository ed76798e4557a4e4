"""Device memory is nearly full.

No time is lost by it. But there is no room for a longer batch, and an allocator near the limit begins to give
memory back and ask for it again. What is in use for the device is more than what tensors hold: the
framework's reserve, the context and communication buffers are in it.
"""

from stepscope.analyse.features import memory_used_share
from stepscope.analyse.features.telemetry import (
    foreign_memory_share,
    memory_growth_share,
    memory_jump_share,
    memory_used_bytes_max,
)
from stepscope.model.text import Text
from stepscope.rules.capture import COUNTERS
from stepscope.rules.catalog.allocator_thrash import EXPANDABLE
from stepscope.rules.patch import LIST_PROCESSES
from stepscope.rules.reference import NEARLY_FULL
from stepscope.rules.rule import Layer, Reading, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="memory-nearly-full",
    cause="hardly any device memory left",
    layer=Layer.MODEL,
    about=Subject.DEVICE,
    verdict="other-stall",
    severity="warning",
    title=Text(en="Device memory is nearly full", zh="显存几乎用满"),
    explanation=Text(
        en="At its highest hardly any memory was left. The next longer batch may fail, and near the limit "
        "the "
        "allocator begins to call the driver inside steps.",
        zh="峰值时几乎没有剩余显存。下一个更长的批次可能失败，接近上限时分配器会在步内反复调用驱动。",
    ),
    when=(memory_used_share >= 0.90,),
    readings=(
        Reading(
            Text(
                en="Device memory is nearly full, and other processes hold a part of it",
                zh="显存几乎用满，其中一部分被其他进程占用",
            ),
            only_if=(foreign_memory_share >= 0.10,),
        ),
    ),
    shows=(memory_used_bytes_max, memory_growth_share, memory_jump_share, foreign_memory_share),
    checks=(
        Text(
            en="Is it tensors or the framework's reserve (torch.cuda.memory_summary())? A reserve alone is "
            "given back on demand.",
            zh="占用的是张量还是框架的保留（torch.cuda.memory_summary()）？仅是保留的部分可按需归还。",
        ),
        Text(
            en="Is it as full from the first steps on, or does it grow?",
            zh="是从开头几步就这么满，还是逐渐增长？",
        ),
        Text(
            en="Does another process hold a part of it (nvidia-smi)?",
            zh="是否有其他进程占用了一部分（nvidia-smi）？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Free the device of the other processes first.",
                zh="先清理该设备上的其他进程。",
            ),
            only_if=(foreign_memory_share >= 0.10,),
            clears=memory_used_share <= 0.85,
            patch=LIST_PROCESSES,
        ),
        Remedy(
            Text(
                en="Make room before longer batches come: recompute activations, shard the optimizer's "
                "state, "
                "or a smaller micro-batch with more accumulation.",
                zh="在更长的批次到来之前腾出空间：重计算激活、切分优化器状态，或减小 micro-batch "
                "并增加累积步数。",
            ),
            clears=memory_used_share <= 0.85,
            is_partial=True,
        ),
        Remedy(
            Text(
                en="Let segments grow, so that the reserve holds fewer pieces.",
                zh="让段可以扩展，减少保留中的碎片。",
            ),
            clears=memory_used_share <= 0.85,
            patch=EXPANDABLE,
            is_partial=True,
        ),
    ),
    references={
        memory_used_share: NEARLY_FULL,
        foreign_memory_share: Text(
            en="our choice, a tenth of the device: a monitor's context takes far less",
            zh="自定，设备显存的十分之一：监控程序的上下文远小于此",
        ),
    },
    needs=COUNTERS,
    signature=Signature(
        caption=Text(
            en="The highest of each step touches the limit.",
            zh="每一步的峰值都贴近上限。",
        ),
        lanes=(
            Lane(Text(en="memory", zh="显存"), "bbbbbb|bbbbbb|bbbbbb"),
            Lane(Text(en="at the limit", zh="接近上限"), "...xx.|...xx.|...xx."),
            Lane(DEVICE, "cccccc|cccccc|cccccc"),
        ),
    ),
)
