"""Elementwise ops hand tensors to each other through memory.

Each op of eager code reads its operands from memory and writes its result back; the next one reads it again.
A compiler joins such chains into one kernel that moves each tensor once. Only traffic that a chain moves
twice can be saved. What neighbours look like handing on decides whether the rule speaks; what fusing whole
runs of such kernels saves at most is its bound, both from the recorded shapes.
"""

from stepscope.analyse.features.kernel import (
    elementwise_kernel_share,
    fusion_bound_share,
    fusion_handed_share,
    memory_bound_kernel_share,
    normalization_kernel_share,
)
from stepscope.analyse.features.telemetry import dram_active_mean, tensor_active_mean
from stepscope.model.text import Text
from stepscope.rules.capture import SHAPES
from stepscope.rules.reference import OUR_FIVE_PERCENT
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

COMPILE = Patch(kind="code", before="model = Model()", after="model = torch.compile(Model())")

RULE = Rule(
    id="unfused-elementwise",
    cause="elementwise ops that are not fused",
    layer=Layer.MODEL,
    about=Subject.DEVICE,
    verdict="computing-slowly",
    title=Text(
        en="Elementwise ops hand tensors to each other through memory", zh="逐元素算子通过显存相互传递张量"
    ),
    explanation=Text(
        en="Chains of elementwise ops write each result to memory and read it back for the next op. Fused "
        "into one kernel they move each tensor once.",
        zh="逐元素算子链把每个结果写回显存，再由下一个算子读出。融合为一个 kernel 后，每个张量只搬运一次。",
    ),
    when=(memory_bound_kernel_share >= 0.15, fusion_handed_share >= 0.05),
    # That tensor pipes rest agrees with too much else: a device that waits has them rest too.
    corroborated_by=(dram_active_mean >= 0.60,),
    cost=fusion_bound_share,
    is_bound=True,
    shows=(elementwise_kernel_share, normalization_kernel_share, tensor_active_mean),
    checks=(
        Text(
            en="Compile one block alone (torch.compile) and time it: the ops named here should become few "
            "generated kernels.",
            zh="先只编译一个模块（torch.compile）并计时：这里列出的算子应合并为少数生成的 kernel。",
        ),
        Text(
            en="Read the line of Python that launches the hottest of them: casts and copies that undo "
            "each other can simply go.",
            zh="查看最热算子由哪一行 Python 下发：互相抵消的类型转换与拷贝可以直接去掉。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Compile the model, or these blocks: the compiler fuses chains of elementwise ops.",
                zh="编译模型或这些模块：编译器会融合逐元素算子链。",
            ),
            clears=fusion_handed_share <= 0.02,
            patch=COMPILE,
        ),
    ),
    references={
        memory_bound_kernel_share: Text(
            en="our choice, 15 % of kernel time, half of where the memory-bound pattern begins: BERT's "
            "elementwise and normalisation ops are 0.2 % of its arithmetic and 39 % of its time (Ivanov et "
            "al., 2021)",
            zh="自定，kernel 时间的 15 %，为访存受限模式起点的一半：BERT 中逐元素与归一化算子只占 0.2 % "
            "的"
            "运算量，却占 39 % 的时间（Ivanov 等，2021）",
        ),
        fusion_handed_share: OUR_FIVE_PERCENT,
        dram_active_mean: Text(
            en="our choice, three quarters of what NVIDIA's DCGM guide calls the practical maximum, 0.8",
            zh="自定，NVIDIA DCGM 指南所称实际上限 0.8 的四分之三",
        ),
    },
    needs=SHAPES,
    signature=Signature(
        caption=Text(
            en="Many kernels in a row that only read and write; the product between them is short.",
            zh="连续许多只读写数据的 kernel，其间的矩阵乘很短。",
        ),
        lanes=(Lane(DEVICE, "cccxxxxxxxxxxcccxxxxxxxxxx"),),
    ),
)
