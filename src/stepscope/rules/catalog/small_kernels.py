"""Kernels so short that the pauses between them count.

The host is ahead: everything is queued. But a device needs some microseconds to start each queued kernel, and
where kernels are no longer than that, a good part of the time is lost between them.
"""

from stepscope.analyse.features import idle_launch_share, kernel_median_ns, launches_per_step
from stepscope.analyse.features.kernel import batched_launch_share, kernel_gap_share, short_kernel_share
from stepscope.analyse.features.telemetry import power_limit_share
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.reference import LOW_POWER, OUR_FIVE_PERCENT
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

GRAPHS = Patch(
    kind="code",
    before="model = Model()",
    after='model = torch.compile(Model(), mode="reduce-overhead")',
)

RULE = Rule(
    id="small-kernels",
    cause="kernels too short for the device",
    layer=Layer.MODEL,
    about=Subject.DEVICE,
    verdict="computing-slowly",
    title=Text(
        en="Kernels are so short that the pauses between them count", zh="kernel 过短，彼此之间的间隙不可忽略"
    ),
    explanation=Text(
        en="The work is queued in time, but the device pauses for some microseconds before each kernel, "
        "and the kernels are hardly longer.",
        zh="任务已及时排队，但设备启动每个 kernel 前都要停顿几微秒，而 kernel 本身也长不了多少。",
    ),
    when=(kernel_gap_share >= 0.05, short_kernel_share >= 0.50),
    unless=(idle_launch_share >= 0.15,),
    corroborated_by=(power_limit_share <= 0.60,),
    cost=kernel_gap_share,
    is_bound=True,
    shows=(kernel_median_ns, launches_per_step),
    checks=(
        Text(
            en="Double the batch: if the step takes hardly longer, the kernels were too short.",
            zh="把批次加倍：如果单步耗时几乎不变，说明 kernel 过短。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Compile with CUDA graphs: fewer, longer kernels with shorter pauses between them.",
                zh="编译并启用 CUDA graph：kernel 更少、更长，间隙更短。",
            ),
            unless=(batched_launch_share >= 0.50,),
            clears=kernel_gap_share <= 0.02,
            patch=GRAPHS,
        ),
        Remedy(
            Text(
                en="The kernels come out of a graph already: fuse them (torch.compile), so that fewer do the "
                "same.",
                zh="这些 kernel 已来自 CUDA graph：请融合它们（torch.compile），"
                "以更少的 kernel 完成同样的工作。",
            ),
            only_if=(batched_launch_share >= 0.50,),
            clears=kernel_gap_share <= 0.02,
        ),
        Remedy(
            Text(
                en="Give each kernel more work: a larger batch where memory allows.",
                zh="让每个 kernel 做更多工作：显存允许时增大批次。",
            ),
            clears=kernel_gap_share <= 0.02,
            is_partial=True,
        ),
    ),
    references={
        kernel_gap_share: OUR_FIVE_PERCENT,
        power_limit_share: LOW_POWER,
        short_kernel_share: Text(
            en="our choice: half of the kernels are no longer than a few times the pause that starts one",
            zh="自定：一半的 kernel 不超过启动间隙的数倍",
        ),
        batched_launch_share: Text(
            en="our choice, most of them: the step replays graphs",
            zh="自定，多数来自图：该步在重放 CUDA graph",
        ),
        idle_launch_share: Text(
            en="XProf's line for kernel launch is 15 % of a step: then the host is the limit, and not the "
            "device",
            zh="XProf 对 kernel 下发的界线为一步的 15 %：此时瓶颈在主机而非设备",
        ),
    },
    needs=FEW_STEPS,
    signature=Signature(
        caption=Text(
            en="The host is far ahead; on the device kernels and pauses are equally long.",
            zh="主机遥遥领先；设备上 kernel 与间隙一样长。",
        ),
        lanes=(Lane(HOST, "llllllll............"), Lane(DEVICE, "...c.c.c.c.c.c.c.c.c")),
    ),
)
