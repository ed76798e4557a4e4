"""The device waits for a compiler.

Compilation belongs to the first steps. In a recording that begins too early it is warm-up, and says nothing
of the job; steps that compile after one that did not are the job itself: shapes or guards change, and the
same code is compiled again.
"""

from stepscope.analyse.features import idle_compile_share
from stepscope.analyse.features.host import cudnn_search_share, kernel_loading_share, recompiling_steps
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.rule import Layer, OnHost, Patch, Question, Reading, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

REASONS = Patch(kind="env", after="TORCH_LOGS=recompiles,graph_breaks")
DYNAMIC = Patch(
    kind="code",
    before="output = model(batch)",
    after="torch._dynamo.mark_dynamic(batch, 0)  # the dimension that changes\noutput = model(batch)",
)
NO_SEARCH = Patch(
    kind="config",
    before="torch.backends.cudnn.benchmark = True",
    after="torch.backends.cudnn.benchmark = False",
)
EAGER_LOADING = Patch(kind="env", after="CUDA_MODULE_LOADING=EAGER")

RULE = Rule(
    id="compile-in-window",
    cause="code compiled or tuned while the device waits",
    layer=Layer.FRAMEWORK,
    about=Subject.RANK,
    verdict="other-stall",
    title=Text(en="The device waits while code is compiled or tuned", zh="设备在等待编译或自动调优"),
    explanation=Text(
        en="Compilers, autotuners or the loading of kernels run on the host, and nothing is launched "
        "meanwhile. In the first steps that is warm-up; in later ones it is a cost of the job.",
        zh="主机在编译、自动调优或加载 kernel，期间没有任何下发。"
        "出现在最初几步属于预热，出现在之后的步则是作业本身的开销。",
    ),
    when=(idle_compile_share >= 0.05,),
    cost=idle_compile_share,
    readings=(
        Reading(
            Text(
                en="The device waits while kernels are loaded at their first use",
                zh="设备在等待 kernel 首次使用时的加载",
            ),
            only_if=(kernel_loading_share >= 0.50,),
        ),
        Reading(
            Text(
                en="The device waits while code is compiled again and again in the steady state",
                zh="设备在等待编译：稳态中仍在反复重新编译",
            ),
            only_if=(recompiling_steps >= 2,),
        ),
        Reading(
            Text(
                en="The device waits while code is compiled or tuned: the recording holds warm-up",
                zh="设备在等待编译或自动调优：录制包含了预热",
            ),
            only_if=(recompiling_steps <= 0,),
        ),
    ),
    questions=(Question(settled_by=(recompiling_steps >= 0,), missing=("steady_state",), capture=FEW_STEPS),),
    shows=(recompiling_steps, kernel_loading_share, cudnn_search_share),
    checks=(
        Text(
            en="In which steps? In the first ones only, it is warm-up: leave it out of the recording.",
            zh="出现在哪些步？若只在最初几步，则是预热：不要录进来。",
        ),
        Text(
            en="Do long steps come with new shapes? TORCH_LOGS=recompiles names the guard that failed.",
            zh="慢步是否伴随新的形状？TORCH_LOGS=recompiles 会给出失效的 guard。",
        ),
        Text(
            en="With torch.backends.cudnn.benchmark on, every new shape of a convolution is tuned again.",
            zh="若打开了 torch.backends.cudnn.benchmark，卷积每遇到新形状都会重新调优。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Let the compiler say why it compiles again, before changing anything.",
                zh="改动之前，先让编译器说明为何重新编译。",
            ),
            only_if=(recompiling_steps >= 2,),
            unless=(kernel_loading_share >= 0.50, cudnn_search_share >= 0.50),
            clears=idle_compile_share <= 0.02,
            patch=REASONS,
            is_step_towards=True,
        ),
        Remedy(
            Text(
                en="Mark the dimension that changes as dynamic, or pad it to a few sizes, so that one "
                "compilation serves all steps.",
                zh="把会变化的维度标记为动态，或填充到少数几种尺寸，使一次编译适用于所有步。",
            ),
            only_if=(recompiling_steps >= 2,),
            unless=(kernel_loading_share >= 0.50, cudnn_search_share >= 0.50),
            clears=idle_compile_share <= 0.02,
            patch=DYNAMIC,
        ),
        Remedy(
            Text(
                en="cuDNN searches anew for every shape: fix the shapes, or switch the search off.",
                zh="cuDNN 对每种新形状都要重新搜索算法：固定形状，或关闭搜索。",
            ),
            only_if=(cudnn_search_share >= 0.50, recompiling_steps >= 2),
            clears=idle_compile_share <= 0.02,
            patch=NO_SEARCH,
        ),
        Remedy(
            Text(
                en="Load all kernels at the start: the first use of each then waits for nothing.",
                zh="启动时加载全部 kernel：此后首次使用无需等待。",
            ),
            only_if=(kernel_loading_share >= 0.50,),
            clears=idle_compile_share <= 0.02,
            patch=EAGER_LOADING,
        ),
        Remedy(
            Text(
                en="Record after the warm-up: raise wait and warmup of the profiler's schedule until no step "
                "compiles.",
                zh="在预热之后录制：增大 profiler schedule 的 wait 和 warmup，直到不再有编译的步。",
            ),
            unless=(recompiling_steps >= 2,),
            clears=idle_compile_share <= 0.02,
            is_step_towards=True,
        ),
    ),
    references={
        idle_compile_share: Text(
            en="our choice, 5 % of a step in compilers: the same share by which a step counts as warm-up, "
            "and from which launch-bound is silent",
            zh="自定，编译占到一步的 5 %：与判定预热步、以及 launch-bound 不再触发所用的比例相同",
        ),
        kernel_loading_share: Text(
            en="our choice: more than half of the time names the kind",
            zh="自定：占一半以上时间者即为其类型",
        ),
        cudnn_search_share: Text(
            en="our choice: more than half of the time names the kind",
            zh="自定：占一半以上时间者即为其类型",
        ),
        recompiling_steps: Text(
            en="our choice: once may be the first use of a part of the model, twice is no accident",
            zh="自定：一次可能是模型某部分首次使用，两次则并非偶然",
        ),
    },
    needs=FEW_STEPS,
    explains=("periodic-stall", "slow-rank"),
    on_host=OnHost(
        title=Text(
            en="Training stands still while code is compiled or tuned", zh="训练在编译或自动调优期间停住"
        ),
        explanation=Text(
            en="A compiler runs in the loop. In the first steps that is warm-up; in later ones it is a "
            "cost of the job.",
            zh="编译在训练循环中进行。出现在最初几步属于预热，出现在之后的步则是作业本身的开销。",
        ),
        checks=(
            Text(
                en="Do long steps come with new shapes? TORCH_LOGS=recompiles names the guard that failed.",
                zh="慢步是否伴随新的形状？TORCH_LOGS=recompiles 会给出失效的 guard。",
            ),
        ),
        remedies=(
            Remedy(
                Text(
                    en="Find what is compiled again, and keep its shapes or mark them as dynamic.",
                    zh="找出被反复编译的部分，固定其形状或标为动态。",
                ),
                clears=idle_compile_share <= 0.02,
                patch=REASONS,
                is_partial=True,
            ),
        ),
    ),
    signature=Signature(
        caption=Text(
            en="Compilation returns after steps that did without it, and the device waits for it.",
            zh="有的步已不再编译，之后编译却再次出现，设备只能等待。",
        ),
        lanes=(
            Lane(HOST, "kkkkkkll..|ll..|ll..|kkkkll..|ll..|kkkkll.."),
            Lane(DEVICE, "......cccc|cccc|cccc|....cccc|cccc|....cccc"),
        ),
    ),
)
