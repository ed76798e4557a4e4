"""Matrix work in fp32 on a device whose tensor cores take half precision only.

Volta and the like have no TF32: fp32 is done by the vector units, and only mixed precision uses the tensor
cores. That changes the numbers, so it is a choice of the people who train and no stall: told as information.
"""

from stepscope.analyse.features.kernel import (
    matrix_share,
    off_tensor_cores_saving_share,
    off_tensor_cores_share,
)
from stepscope.analyse.features.telemetry import fp32_active_mean, tensor_active_mean
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.reference import FP32_PIPE_WORKS, TENSOR_PIPES_REST
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

AUTOCAST = Patch(
    kind="code",
    before="loss = model(batch)\nloss.backward()\noptimizer.step()",
    after='with torch.autocast("cuda", torch.float16):\n    loss = model(batch)\n'
    "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
)

RULE = Rule(
    id="tensor-cores-unused",
    cause="tensor cores unused, training in fp32",
    layer=Layer.MODEL,
    about=Subject.DEVICE,
    verdict="computing-slowly",
    title=Text(
        en="Training in fp32 leaves the tensor cores idle; mixed precision would use them",
        zh="以 fp32 训练没有使用 tensor core；混合精度可以使用",
    ),
    explanation=Text(
        en="The tensor cores of this device take half precision only. Mixed precision is a choice, for it "
        "changes the numbers.",
        zh="该设备的 tensor core 只支持半精度。是否使用混合精度需要权衡，因为数值会改变。",
    ),
    when=(
        matrix_share >= 0.10,
        off_tensor_cores_share >= 0.10,
    ),
    corroborated_by=(tensor_active_mean <= 0.05, fp32_active_mean >= 0.20),
    shows=(off_tensor_cores_saving_share,),
    checks=(
        Text(
            en="Is fp32 wanted? If so, nothing is wrong here.",
            zh="是否确实需要 fp32？若是，这里没有问题。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Train in mixed precision (autocast with a gradient scaler), and compare the loss.",
                zh="使用混合精度训练（autocast 加梯度缩放），并对比 loss。",
            ),
            clears=off_tensor_cores_share <= 0.02,
            patch=AUTOCAST,
        ),
    ),
    references={
        matrix_share: Text(
            en="our choice, as for those in fp32: they are a part of all matrix work",
            zh="自定，与 fp32 部分相同：它们是全部矩阵运算的一部分",
        ),
        off_tensor_cores_share: Text(
            en="PyTorch's performance tuning guide: mixed precision runs products on tensor cores; that a "
            "tenth of the step is worth saying is our choice",
            zh="PyTorch 性能调优指南：混合精度使乘法在 tensor core 上运行；"
            "占一步的十分之一才提示为本工具自定",
        ),
        tensor_active_mean: TENSOR_PIPES_REST,
        fp32_active_mean: FP32_PIPE_WORKS,
    },
    needs=FEW_STEPS,
    signature=Signature(
        caption=Text(
            en="Long matrix kernels of the fp32 kind (sgemm, scudnn) fill the step.",
            zh="fp32 类型（sgemm、scudnn）的长矩阵 kernel 占满一步。",
        ),
        lanes=(Lane(DEVICE, "xxxxxxxxcxxxxxxxxxcxxxxxxxxx"),),
    ),
)
