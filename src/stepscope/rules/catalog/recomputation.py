"""The backward pass runs forward work again.

Activation checkpointing keeps few activations and recomputes the rest: memory is bought with time. Where
memory is left over, less can be recomputed.
"""

from stepscope.analyse.features import busy_share, memory_used_share
from stepscope.analyse.features.kernel import recompute_share
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

SELECTIVE = Patch(
    kind="code",
    before="checkpoint(block, x, use_reentrant=False)",
    after="checkpoint(\n    block, x, use_reentrant=False,\n    context_fn=partial("
    "create_selective_checkpoint_contexts, [torch.ops.aten.mm.default]),\n)",
)

RULE = Rule(
    id="recomputation",
    cause="activation checkpointing",
    layer=Layer.MODEL,
    about=Subject.DEVICE,
    verdict="computing-slowly",
    title=Text(en="The backward pass computes forward work again", zh="反向传播重新计算前向结果"),
    explanation=Text(
        en="Activation checkpointing buys memory with time: forward ops run a second time inside the "
        "backward pass. It is worth it only where the memory is needed.",
        zh="激活检查点以时间换显存：前向算子在反向传播中再算一遍。只有确实需要这些显存时才值得。",
    ),
    when=(recompute_share >= 0.05,),
    corroborated_by=(memory_used_share <= 0.80,),
    cost=recompute_share,
    shows=(busy_share,),
    checks=(
        Text(
            en="How much device memory is free at the peak (torch.cuda.max_memory_allocated)?",
            zh="峰值时还剩多少显存（torch.cuda.max_memory_allocated）？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Recompute less: only some of the blocks, or only cheap ops (selective checkpointing), "
                "as far as memory allows.",
                zh="减少重计算：只对部分模块，或只对代价低的算子（选择性检查点），以显存允许为限。",
            ),
            clears=recompute_share <= 0.01,
            patch=SELECTIVE,
        ),
    ),
    references={
        recompute_share: Text(
            en="our choice, a twentieth of the step; full recomputation costs 20 to 25 % of a step (Bekman's "
            "notes on training)",
            zh="自定，一步的二十分之一；完全重计算约占一步的 20 % 至 25 %（Bekman 的训练笔记）",
        ),
        memory_used_share: Text(
            en="our choice: a fifth of the memory is free to keep activations in",
            zh="自定：仍有五分之一显存可用于保存激活",
        ),
    },
    needs=FEW_STEPS,
    signature=Signature(
        caption=Text(
            en="Forward kernels appear again between those of the backward pass.",
            zh="反向传播的 kernel 之间再次出现前向 kernel。",
        ),
        lanes=(Lane(DEVICE, "ccccccccrrrrccccrrrrcccc"),),
    ),
)
