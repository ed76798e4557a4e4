"""Device memory is allocated and freed in the middle of steps.

A caching allocator that works calls the driver in the first steps only. Calls in later ones mean
that it gave memory back to make room: too little memory, or memory in pieces of the wrong size.
"""

from stepscope.analyse.features import idle_allocator_share, memory_used_share
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

EXPANDABLE = Patch(kind="env", after="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")

RULE = Rule(
    id="allocator-thrash",
    cause="device memory allocated and freed inside steps",
    layer=Layer.FRAMEWORK,
    about=Subject.RANK,
    verdict="other-stall",
    title=Text(en="The device waits while the host allocates device memory", zh="设备在等待主机分配设备显存"),
    explanation=Text(
        en="The allocator calls the driver inside steps, which waits for the device and stops all launches.",
        zh="缓存分配器在训练步内调用驱动，既要等待设备，又使下发中断。",
    ),
    when=(idle_allocator_share >= 0.05,),
    corroborated_by=(memory_used_share >= 0.90,),
    cost=idle_allocator_share,
    checks=(
        Text(
            en="Read num_alloc_retries in torch.cuda.memory_stats(): above 0, memory was given back and "
            "asked for again.",
            zh="查看 torch.cuda.memory_stats() 中的 num_alloc_retries：大于 0 说明显存被归还后又重新申请。",
        ),
        Text(
            en="Compare reserved with allocated bytes: far apart means fragments, close together means "
            "too little.",
            zh="对比 reserved 与 allocated：相差大说明碎片多，接近说明显存确实不足。",
        ),
        Text(
            en="Do shapes change from step to step? Each new size asks for new blocks.",
            zh="各步的形状是否变化？每种新尺寸都会申请新的显存块。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Let the allocator grow its segments instead of replacing them.",
                zh="让分配器扩展已有段，而不是反复释放再申请。",
            ),
            clears=idle_allocator_share <= 0.02,
            patch=EXPANDABLE,
        ),
        Remedy(
            Text(
                en="Pad to a few fixed shapes, so that freed blocks fit again.",
                zh="把形状填充到少数几个固定尺寸，使释放的块可以复用。",
            ),
            clears=idle_allocator_share <= 0.02,
        ),
    ),
    references={
        idle_allocator_share: Text(
            en="Understanding Stragglers in Large Model Training Using What-if Analysis (OSDI 2025) finds "
            "allocator calls inside steps to be a cause of slow ranks; 5 % of a step is where a finding "
            "becomes a warning here",
            zh="Understanding Stragglers in Large Model Training Using What-if Analysis（OSDI "
            "2025）发现步内分配显存会拖慢 rank；一步的 5 % 是本工具由提示升为警告的界线",
        ),
        memory_used_share: Text(
            en="PyTorch Profiler's TensorBoard plugin advises to save memory where its peak is above 90 % of "
            "the device's",
            zh="PyTorch Profiler 的 TensorBoard 插件在显存峰值超过设备的 90 % 时建议节省显存",
        ),
    },
    needs=FEW_STEPS,
    explains=("periodic-stall", "slow-rank"),
    explains_peers=("waiting-for-peers",),
    signature=Signature(
        caption=Text(
            en="The allocator calls the driver in the middle of each step; the device drains and waits.",
            zh="每一步中间分配器都在调用驱动，设备排空并等待。",
        ),
        lanes=(
            Lane(HOST, "lllaaaalllll|lllaaaalllll"),
            Lane(DEVICE, ".ccc....cccc|.ccc....cccc"),
        ),
    ),
)
