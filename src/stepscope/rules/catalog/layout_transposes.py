"""Kernels that only move elements to another layout.

A library that wants channels last turns tensors around before and after its kernels; a transposed view is
copied to be dense. The work is pure traffic, and one layout throughout the model avoids it.
"""

from stepscope.analyse.features.kernel import convolution_kernel_share, layout_share
from stepscope.model.text import Text
from stepscope.rules.capture import SHAPES
from stepscope.rules.reference import OUR_FIVE_PERCENT
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

CHANNELS_LAST = Patch(
    kind="code",
    before="model = Model().cuda()",
    after="model = Model().cuda().to(memory_format=torch.channels_last)\n"
    "images = images.to(memory_format=torch.channels_last)",
)

RULE = Rule(
    id="layout-transposes",
    cause="tensors turned around in memory",
    layer=Layer.MODEL,
    about=Subject.DEVICE,
    verdict="computing-slowly",
    title=Text(en="Kernels only move tensors to another layout", zh="有 kernel 只在变换张量的内存布局"),
    explanation=Text(
        en="These kernels compute nothing: they turn tensors around because what follows wants another "
        "order of dimensions.",
        zh="这些 kernel 不做计算，只是因为后续算子需要另一种维度顺序而重排张量。",
    ),
    when=(layout_share >= 0.05,),
    cost=layout_share,
    is_bound=True,
    shows=(convolution_kernel_share,),
    checks=(
        Text(
            en="Read the line of Python above the named ops: a .contiguous() or a permute before a "
            "reshape is a copy.",
            zh="查看所列算子上方的 Python 代码：.contiguous() 或 reshape 之前的 permute 都会产生拷贝。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Keep model and images in channels last: convolutions on tensor cores want it, and "
                "nothing is turned around between them.",
                zh="让模型与图像保持 channels_last：tensor core 卷积需要这种布局，中间无需来回转换。",
            ),
            only_if=(convolution_kernel_share >= 0.10,),
            clears=layout_share <= 0.01,
            patch=CHANNELS_LAST,
        ),
        Remedy(
            Text(
                en="Keep one order of dimensions through the block, so that no transposed view must be made "
                "dense.",
                zh="在模块内保持同一种维度顺序，避免把转置视图变为连续张量。",
            ),
            unless=(convolution_kernel_share >= 0.10,),
            clears=layout_share <= 0.01,
        ),
    ),
    references={
        layout_share: OUR_FIVE_PERCENT,
        convolution_kernel_share: Text(
            en="our choice, a tenth of kernel time: a convolutional model, which PyTorch's performance "
            "tuning guide advises to keep in channels last",
            zh="自定，kernel 时间的十分之一：卷积模型，PyTorch 性能调优指南建议使用 channels_last",
        ),
    },
    needs=SHAPES,
    signature=Signature(
        caption=Text(
            en="A kernel that only moves data before and after each product or convolution.",
            zh="每个卷积或矩阵乘前后都有一个只搬数据的 kernel。",
        ),
        lanes=(Lane(DEVICE, "xxccccxx.xxccccxx.xxccccxx"),),
    ),
)
