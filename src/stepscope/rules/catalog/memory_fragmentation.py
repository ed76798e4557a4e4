"""Reserved device memory lies free in pieces while more is asked of the driver.

Blocks of many sizes leave holes that no request fits. The allocator gives segments back and asks for others,
and may fail although enough is free in all.
"""

from stepscope.analyse.features import memory_used_share
from stepscope.analyse.features.memory import (
    expandable_segments_share,
    memory_in_pieces_share,
    memory_peak_bytes,
    memory_reserved_bytes,
    memory_retries,
)
from stepscope.model.text import Text
from stepscope.rules.capture import MEMORY
from stepscope.rules.catalog.allocator_thrash import EXPANDABLE
from stepscope.rules.rule import Layer, Remedy, Rule, Subject
from stepscope.rules.signature import HOST, Lane, Signature

RULE = Rule(
    id="memory-fragmentation",
    cause="reserved device memory in pieces",
    layer=Layer.FRAMEWORK,
    about=Subject.MEMORY,
    verdict="other-stall",
    severity="warning",
    title=Text(
        en="Reserved device memory lies free in pieces that nothing fits",
        zh="已保留的显存成碎片，无法满足请求",
    ),
    explanation=Text(
        en="Much of what the allocator holds is free, and still it gave memory back and asked the driver for "
        "other pieces. What that costs in time is allocator-thrash's matter; here it is room.",
        zh="分配器持有的显存中有相当一部分空闲，却仍要归还并重新向驱动申请。"
        "时间代价见 allocator-thrash；此处指空间。",
    ),
    when=(memory_in_pieces_share >= 0.20, memory_retries >= 2),
    corroborated_by=(memory_used_share >= 0.90,),
    shows=(memory_reserved_bytes, memory_peak_bytes),
    checks=(
        Text(
            en="Is torch.cuda.empty_cache() called in the loop? Then it gives back what the next step needs.",
            zh="循环中是否调用 torch.cuda.empty_cache()？它会归还下一步所需的显存。",
        ),
        Text(
            en="Do shapes change from step to step? Each new size leaves holes of the old ones.",
            zh="各步的形状是否变化？每种新尺寸都会留下旧尺寸的空洞。",
        ),
        Text(
            en="Take a memory snapshot: it shows the pieces, and who holds the blocks between them.",
            zh="保存一次显存快照：可看到碎片以及是谁占着其间的块。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Let segments grow, so that free pieces join.",
                zh="让段可以扩展，使空闲的碎片能够合并。",
            ),
            unless=(expandable_segments_share >= 1,),
            clears=memory_in_pieces_share <= 0.10,
            patch=EXPANDABLE,
        ),
        Remedy(
            Text(
                en="Pad to a few fixed shapes, or allocate the largest tensors first.",
                zh="把形状填充到少数固定尺寸，或先分配最大的张量。",
            ),
            clears=memory_in_pieces_share <= 0.10,
        ),
    ),
    references={
        memory_in_pieces_share: Text(
            en="our choice, a fifth of what is reserved: GMLake (ASPLOS 2024) won back 15 % on average and "
            "33 % at most",
            zh="自定，已保留显存的五分之一：GMLake（ASPLOS 2024）平均收回 15 %，最多 33 %",
        ),
        memory_retries: Text(
            en="our choice, twice: an allocator that has room never gives memory back inside steps, but once "
            "is what a single empty_cache() leaves behind too",
            zh="自定，两次：显存充裕的分配器不会在步内归还显存，但单独一次 empty_cache() 也会留下一次",
        ),
        memory_used_share: Text(
            en="PyTorch Profiler's TensorBoard plugin advises to save memory where its peak is above 90 % of "
            "the device's",
            zh="PyTorch Profiler 的 TensorBoard 插件在显存峰值超过设备的 90 % 时建议节省显存",
        ),
        expandable_segments_share: Text(
            en="our choice: 1 is on, and what is on needs no switching on",
            zh="自定：1 表示已打开，无需再打开",
        ),
    },
    needs=MEMORY,
    signature=Signature(
        caption=Text(
            en="Memory in use is full of holes, and the host frees and allocates segments inside steps.",
            zh="占用的显存布满空洞，主机在步内释放并重新申请段。",
        ),
        lanes=(
            Lane(HOST, "ll..aall|ll..aall|ll..aall"),
            Lane(Text(en="memory", zh="显存"), "bb.b.bb.|b.bb.b.b|bb..b.bb"),
            Lane(Text(en="in pieces", zh="碎片"), "..x.x..x|.x..x.x.|..xx.x.."),
        ),
    ),
)
