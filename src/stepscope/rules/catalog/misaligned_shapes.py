"""Matrix products whose rows are no whole 16-byte pieces.

The fast kernels read 16 bytes at a time. A row of 3,137 half-precision numbers does not divide into such
pieces, so the library pads it or takes a slower kernel. How much that costs depends on the size: it is
measured against aligned products of this run, or not told.
"""

from stepscope.analyse.features.kernel import gemm_share, misaligned_saving_share, misaligned_share
from stepscope.model.text import Text
from stepscope.rules.capture import SHAPES
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

PAD = Patch(
    kind="code",
    before="embedding = nn.Embedding(vocab_size, dim)",
    after="embedding = nn.Embedding(-(-vocab_size // 64) * 64, dim)",
)

RULE = Rule(
    id="misaligned-shapes",
    cause="matrix dimensions that fast kernels do not take",
    layer=Layer.MODEL,
    about=Subject.DEVICE,
    verdict="computing-slowly",
    title=Text(
        en="Matrix products have rows that the fast kernels do not take",
        zh="矩阵乘的行长度无法使用快速 kernel",
    ),
    explanation=Text(
        en="Rows of these matrices are no whole pieces of 16 bytes (8 half-precision numbers), so slower "
        "kernels serve them.",
        zh="这些矩阵的行不是 16 字节（8 个半精度数）的整数倍，只能使用较慢的 kernel。",
    ),
    when=(
        gemm_share >= 0.05,
        misaligned_share >= 0.05,
    ),
    cost=misaligned_saving_share,
    is_bound=True,
    checks=(
        Text(
            en="Find the odd dimension in the shapes of the named ops: a vocabulary, a sequence length, a "
            "number of heads after sharding.",
            zh="在所列算子的形状中找出不整的维度：词表大小、序列长度，或切分后的 head 数。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Pad that dimension to a multiple of 64.",
                zh="把该维度补齐到 64 的倍数。",
            ),
            clears=misaligned_share <= 0.01,
            patch=PAD,
        ),
    ),
    references={
        gemm_share: Text(
            en="our choice, as for the misaligned ones: they are a part of all products",
            zh="自定，与不对齐部分相同：它们是全部矩阵乘的一部分",
        ),
        misaligned_share: Text(
            en="NVIDIA's guide to matrix products asks for multiples of 16 bytes; that a twentieth of the "
            "step is worth saying is our choice",
            zh="NVIDIA 矩阵乘指南要求 16 字节的倍数；占一步的二十分之一才提示为本工具自定",
        ),
    },
    needs=SHAPES,
    signature=Signature(
        caption=Text(
            en="Of two products with the same arithmetic the one with the odd dimension takes longer.",
            zh="运算量相同的两个矩阵乘，维度不整的一个更慢。",
        ),
        lanes=(Lane(DEVICE, "ccccc.xxxxxxxxx.ccccc.xxxxxxxxx"),),
    ),
)
