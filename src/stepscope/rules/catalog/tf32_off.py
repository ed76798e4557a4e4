"""Matrix work in fp32 runs on the vector units although the device has TF32.

PyTorch leaves TF32 off for matrix products by default and on for convolutions. With it the tensor cores do
fp32 products with ten bits of mantissa.
"""

from stepscope.analyse.features.kernel import matrix_share, tf32_off_share, tf32_saving_share
from stepscope.analyse.features.telemetry import fp32_active_mean, tensor_active_mean
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.reference import FP32_PIPE_WORKS, TENSOR_PIPES_REST, TF32
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

HIGH = Patch(kind="code", after='torch.set_float32_matmul_precision("high")')

RULE = Rule(
    id="tf32-off",
    cause="tensor cores unused, TF32 off",
    layer=Layer.FRAMEWORK,
    about=Subject.DEVICE,
    verdict="computing-slowly",
    title=Text(
        en="Matrix products in fp32 leave the tensor cores idle: TF32 is off",
        zh="fp32 矩阵乘没有使用 tensor core：TF32 处于关闭状态",
    ),
    explanation=Text(
        en="The kernels are fp32 kernels of the vector units, on a device whose tensor cores do the same "
        "products in TF32 several times faster.",
        zh="这些是在向量单元上运行的 fp32 kernel，而该设备的 tensor core 以 TF32 做同样的乘法要快数倍。",
    ),
    when=(
        matrix_share >= 0.10,
        tf32_off_share >= 0.10,
    ),
    corroborated_by=(tensor_active_mean <= 0.05, fp32_active_mean >= 0.20),
    cost=tf32_saving_share,
    is_bound=True,
    checks=(
        Text(
            en="Does the training need all bits of fp32 in its products? TF32 keeps the range and rounds the "
            "mantissa to ten bits.",
            zh="训练是否需要 fp32 乘法的全部精度？TF32 保留数值范围，但尾数只有 10 位。",
        ),
        Text(
            en="Is autocast meant to be on? Then these products should not be in fp32 at all.",
            zh="是否本应开启 autocast？若是，这些乘法根本不该是 fp32。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Allow TF32 for products in fp32, and compare the loss of some hundred steps.",
                zh="允许 fp32 乘法使用 TF32，并对比数百步的 loss。",
            ),
            clears=tf32_off_share <= 0.02,
            patch=HIGH,
        ),
        Remedy(
            Text(
                en="Train in bf16 (autocast): twice the rate of TF32 and half the traffic.",
                zh="使用 bf16（autocast）训练：速率是 TF32 的两倍，数据量减半。",
            ),
            is_partial=True,
            clears=tf32_off_share <= 0.02,
        ),
    ),
    references={
        matrix_share: Text(
            en="our choice, as for those in fp32: they are a part of all matrix work",
            zh="自定，与 fp32 部分相同：它们是全部矩阵运算的一部分",
        ),
        tf32_off_share: TF32,
        tensor_active_mean: TENSOR_PIPES_REST,
        fp32_active_mean: FP32_PIPE_WORKS,
    },
    needs=FEW_STEPS,
    signature=Signature(
        caption=Text(
            en="Long matrix kernels of the fp32 kind (sgemm, ffma) fill the step.",
            zh="fp32 类型（sgemm、ffma）的长矩阵 kernel 占满一步。",
        ),
        lanes=(Lane(DEVICE, "xxxxxxxxxcxxxxxxxxxxcxxxxxxxxx"),),
    ),
)
