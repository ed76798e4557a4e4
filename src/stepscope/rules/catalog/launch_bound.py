"""The device finishes its work faster than the host issues it.

Many short kernels, each launched by its own chain of calls: the queue is empty most of the time.
Short kernels alone are no sign of it; that the next launch came after the device went idle is.
"""

from stepscope.analyse.features import (
    backward_share,
    compiled_launch_share,
    host_launch_share,
    idle_compile_share,
    idle_launch_share,
    kernel_median_ns,
    late_start_launch_share,
    launches_per_step,
    sm_active_mean,
)
from stepscope.analyse.features.telemetry import power_limit_share
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.reference import LOW_POWER, LOW_SM_ACTIVE
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

COMPILE = Patch(
    kind="code",
    before="model = Model()",
    after='model = torch.compile(Model(), mode="reduce-overhead")',
)

GRAPHS = Patch(
    kind="code",
    before="model = torch.compile(Model())",
    after='model = torch.compile(Model(), mode="reduce-overhead")',
)

FUSED = Patch(
    kind="code",
    before="torch.optim.AdamW(model.parameters())",
    after="torch.optim.AdamW(model.parameters(), fused=True)",
)

RULE = Rule(
    id="launch-bound",
    cause="host issues work slower than the device does it",
    layer=Layer.FRAMEWORK,
    about=Subject.RANK,
    verdict="other-stall",
    title=Text(
        en="The device waits for the host to issue ops and launches", zh="设备在等待主机下发算子和 kernel"
    ),
    explanation=Text(
        en="The device's queue is empty between kernels, because the host needs longer to issue an op than "
        "the device to run it.",
        zh="kernel 之间设备队列为空：主机下发一个算子的时间比设备执行它还长。",
    ),
    when=(idle_launch_share >= 0.15,),
    unless=(idle_compile_share >= 0.05, late_start_launch_share >= 0.50),
    corroborated_by=(sm_active_mean <= 0.70, power_limit_share <= 0.60),
    cost=idle_launch_share,
    shows=(launches_per_step, kernel_median_ns, host_launch_share),
    checks=(
        Text(
            en="Double the batch: if the step takes as long as before, the host is the limit.",
            zh="把批次加倍：如果单步耗时几乎不变，瓶颈就在主机下发。",
        ),
        Text(
            en="Is one core at 100 %, or its clock low? The thread that launches cannot be spread over "
            "cores.",
            zh="是否有一个核 100 % 占用或频率偏低？下发线程无法分摊到多个核。",
        ),
        Text(
            en="Was the trace recorded with stacks and shapes? They slow the host; record again without "
            "them.",
            zh="录制时是否打开了调用栈和形状？它们会拖慢主机，关掉后重录一次。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Compile the model with CUDA graphs, so that one launch issues many kernels.",
                zh="编译模型并启用 CUDA graph，使一次下发包含多个 kernel。",
            ),
            unless=(compiled_launch_share >= 0.10,),
            clears=idle_launch_share <= 0.05,
            patch=COMPILE,
        ),
        Remedy(
            Text(
                en="The model is compiled already: let it replay CUDA graphs, so that one launch issues many "
                "kernels.",
                zh="模型已经编译：再启用 CUDA graph 重放，使一次下发包含多个 kernel。",
            ),
            only_if=(compiled_launch_share >= 0.10,),
            clears=idle_launch_share <= 0.05,
            patch=GRAPHS,
        ),
        Remedy(
            Text(
                en="Give each launch more work: a larger batch where memory allows.",
                zh="增加每次下发的工作量：显存允许时增大批次。",
            ),
            clears=idle_launch_share <= 0.05,
            is_partial=True,
        ),
        Remedy(
            Text(
                en="Use a fused optimizer: it updates all parameters in a few launches.",
                zh="使用融合优化器：只需几次下发即可更新全部参数。",
            ),
            only_if=(backward_share > 0.0,),
            clears=idle_launch_share <= 0.05,
            patch=FUSED,
            is_partial=True,
        ),
    ),
    references={
        idle_launch_share: Text(
            en="XProf's lines for kernel launch are 3 % and 15 % of a step",
            zh="XProf 对 kernel 下发的界线是一步的 3 % 与 15 %",
        ),
        idle_compile_share: Text(
            en="our choice, 5 % of a step in compilers: the window is a warm-up and not the steady state",
            zh="自定，编译占到一步的 5 %：窗口处于预热而非稳定状态",
        ),
        late_start_launch_share: Text(
            en="our choice, more than half: the host had issued the work, and it did not start "
            "for over a millisecond, a "
            "hundred times a launch",
            zh="自定，超过一半：主机已下发任务，而它超过一毫秒（约为一次下发的百倍）仍未开始",
        ),
        sm_active_mean: LOW_SM_ACTIVE,
        power_limit_share: LOW_POWER,
        compiled_launch_share: Text(
            en="our choice, a tenth of the launches in compiled regions: the model, or a part "
            "of it, is compiled",
            zh="自定，十分之一的下发位于编译区域内：模型或其一部分已经编译",
        ),
        backward_share: Text(
            en="any op of a backward pass: the run trains and has an optimizer",
            zh="只要有反向传播的算子，就是训练，因而有优化器",
        ),
    },
    needs=FEW_STEPS,
    signature=Signature(
        caption=Text(
            en="Short kernels with gaps between them: each waits for its own launch.",
            zh="短 kernel 之间都有空隙：每个都在等自己的下发。",
        ),
        lanes=(
            Lane(HOST, "llllllllllll|llllllllllll"),
            Lane(DEVICE, ".c..c..c..c.|.c..c..c..c."),
        ),
    ),
    explains=("slow-rank",),
)
