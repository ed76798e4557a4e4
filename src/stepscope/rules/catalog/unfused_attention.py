"""Attention writes its table of scores to memory.

Softmax and everything done to the scores run over a table of rows times columns for each head. Fused
attention keeps that table in the chip and never writes it.
"""

from stepscope.analyse.features.kernel import attention_scores_share, softmax_share
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
            clears=attention_scores_share <= 0.01,
            patch=SDPA,
        ),
    ),
    references={attention_scores_share: OUR_FIVE_PERCENT},
    needs=SHAPES,
    signature=Signature(
        caption=Text(
            en="Product, long softmax and scaling over the scores, product.",
            zh="矩阵乘、对打分矩阵的长时间 softmax 与缩放、再矩阵乘。",
        ),
        lanes=(Lane(DEVICE, "cccxxxxxxxxxcccc..cccxxxxxxxxxcccc"),),
    ),
)
