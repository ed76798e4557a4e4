"""The optimizer updates one tensor after another.

A loop over parameters launches a handful of kernels for each of them. Multi-tensor and fused implementations
update many tensors in one launch.
"""

from stepscope.analyse.features.kernel import (
    optimizer_has_fused,
    optimizer_kernels_per_step,
    optimizer_loop_share,
    optimizer_share,
)
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.reference import OUR_FIVE_PERCENT
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

FUSED = Patch(
    kind="code",
    before="torch.optim.AdamW(model.parameters(), lr=LR)",
    after="torch.optim.AdamW(model.parameters(), lr=LR, fused=True)",
)

RULE = Rule(
    id="unfused-optimizer",
    cause="optimizer updates tensors one by one",
    layer=Layer.FRAMEWORK,
    about=Subject.DEVICE,
    verdict="computing-slowly",
    title=Text(en="The optimizer updates one tensor after another", zh="优化器逐个张量地更新参数"),
    explanation=Text(
        en="Each parameter costs several short kernels and as many launches; a fused optimizer updates many "
        "parameters in one.",
        zh="每个参数都要若干短 kernel 和同样多的下发；融合优化器一次更新许多参数。",
    ),
    when=(optimizer_share >= 0.05, optimizer_kernels_per_step >= 100, optimizer_loop_share >= 0.50),
    cost=optimizer_share,
    is_bound=True,
    checks=(
        Text(
            en="Which arguments does the optimizer get? foreach=False, or parameters on several devices, "
            "forces the loop.",
            zh="优化器的参数是什么？foreach=False 或参数分布在多个设备上时只能逐个更新。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Use the fused optimizer (fused=True), or the multi-tensor one (foreach=True).",
                zh="使用融合优化器（fused=True），或多张量版本（foreach=True）。",
            ),
            only_if=(optimizer_has_fused >= 1,),
            clears=optimizer_kernels_per_step <= 20,
            patch=FUSED,
        ),
        Remedy(
            Text(
                en="Update many tensors in one launch: torch._foreach ops in the optimizer's step, or "
                "compile that step.",
                zh="让一次下发更新许多张量：在优化器的 step 中使用 torch._foreach 算子，或编译该 step。",
            ),
            unless=(optimizer_has_fused >= 1,),
            clears=optimizer_kernels_per_step <= 20,
        ),
    ),
    references={
        optimizer_share: OUR_FIVE_PERCENT,
        optimizer_kernels_per_step: Text(
            en="our choice: a multi-tensor step takes some ten launches; PyTorch's documentation of "
            "torch.optim ranks fused before multi-tensor before the loop",
            zh="自定：多张量更新一步约需十次下发；PyTorch 的 torch.optim 文档指出融合快于多张量，"
            "多张量快于循环",
        ),
        optimizer_has_fused: Text(
            en="PyTorch's documentation of torch.optim says which optimizers take fused=True",
            zh="哪些优化器支持 fused=True 见 PyTorch 的 torch.optim 文档",
        ),
        optimizer_loop_share: Text(
            en="our choice: most of its time updates one tensor at a time",
            zh="自定：其多数时间不在多张量 kernel 中",
        ),
    },
    needs=FEW_STEPS,
    signature=Signature(
        caption=Text(
            en="The step ends with a long row of short kernels, each with its own launch.",
            zh="一步的末尾是一长串短 kernel，每个都单独下发。",
        ),
        lanes=(
            Lane(HOST, "l.l.l..l.l.lllllllllllllll"),
            Lane(DEVICE, "ccccccccccccx.x.x.x.x.x.x."),
        ),
    ),
)
