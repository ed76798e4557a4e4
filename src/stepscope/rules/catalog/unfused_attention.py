"""Attention writes its table of scores to memory.

Softmax and everything done to the scores run over a table of rows times columns for each head. Fused
attention keeps that table in the chip and never writes it.
"""

from stepscope.analyse.features.kernel import attention_scores_share, math_attention, softmax_share
from stepscope.model.text import Text
from stepscope.rules.capture import SHAPES
from stepscope.rules.reference import OUR_FIVE_PERCENT
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

SDPA = Patch(
    kind="code",
    before="scores = softmax(q @ k.transpose(-2, -1) * scale, dim=-1)\nout = scores @ v",
    after="out = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale)",
)

RULE = Rule(
    id="unfused-attention",
    cause="attention scores written to memory",
    layer=Layer.MODEL,
    about=Subject.DEVICE,
    verdict="computing-slowly",
    title=Text(
        en="Attention writes its scores to memory and reads them back", zh="注意力把打分矩阵写入显存后再读回"
    ),
    explanation=Text(
        en="Softmax, scaling and masks run over a table as large as rows times columns for each head. Fused "
        "attention never writes that table.",
        zh="softmax、缩放和掩码都作用在每个 head 的“行 × 列”大表上。融合注意力从不写出这张表。",
    ),
    when=(attention_scores_share >= 0.05,),
    cost=attention_scores_share,
    is_bound=True,
    shows=(softmax_share,),
    checks=(
        Text(
            en="Which implementation does the model use? In Hugging Face models it is "
            "attn_implementation, and 'eager' writes the scores.",
            zh="模型用的是哪种注意力实现？Hugging Face 模型由 attn_implementation 决定，"
            "'eager' 会写出打分矩阵。",
        ),
        Text(
            en="Does anything read the scores (output_attentions, a bias that fused kernels do not take)? "
            "Then they must be written.",
            zh="是否有代码读取打分矩阵（output_attentions，或融合 kernel 不支持的偏置）？若有则必须写出。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Call scaled_dot_product_attention: it takes a fused kernel where the head size and type "
                "allow it.",
                zh="改用 scaled_dot_product_attention：在 head 大小与类型允许时会选用融合 kernel。",
            ),
            unless=(math_attention >= 1,),
            clears=attention_scores_share <= 0.01,
            patch=SDPA,
        ),
        Remedy(
            Text(
                en="scaled_dot_product_attention is called and takes its path without a fused kernel: "
                "look which condition fails (half precision, the size of a head, a mask that is no causal "
                "one) with torch.nn.attention.sdpa_kernel.",
                zh="已调用 scaled_dot_product_attention，但走了无融合 kernel 的路径：请用 "
                "torch.nn.attention.sdpa_kernel 查明哪个条件不满足（半精度、head 大小、非因果掩码）。",
            ),
            only_if=(math_attention >= 1,),
            clears=attention_scores_share <= 0.01,
        ),
    ),
    references={
        attention_scores_share: OUR_FIVE_PERCENT,
        math_attention: Text(
            en="the op that PyTorch's attention calls where no fused kernel takes its operands (our "
            "choice: any)",
            zh="PyTorch 的注意力在没有融合 kernel 可用时调用的算子（自定：出现即是）",
        ),
    },
    needs=SHAPES,
    signature=Signature(
        caption=Text(
            en="Product, long softmax and scaling over the scores, product.",
            zh="矩阵乘、对打分矩阵的长时间 softmax 与缩放、再矩阵乘。",
        ),
        lanes=(Lane(DEVICE, "cccxxxxxxxxxcccc..cccxxxxxxxxxcccc"),),
    ),
)
