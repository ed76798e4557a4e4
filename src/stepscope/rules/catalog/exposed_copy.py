"""Copies hold up the device: between host and device, or within it.

The copy engine works while no kernel runs, or the host blocks in a copy of pageable memory and
issues nothing. `non_blocking=True` changes nothing for memory that is not pinned: only the kind in
the copy's name tells.
"""

from stepscope.analyse.features import (
    copy_exposed_share,
    copy_stall_share,
    from_device_copy_share,
    host_copy_call_share,
    idle_copy_wait_share,
    pageable_copy_share,
    pcie_receive_link_share,
    to_device_copy_share,
    within_device_copy_share,
)
from stepscope.analyse.features.host import other_copy_stall_share, pageable_upload_share
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.patch import PINNED
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

_MOST = Text(en="our choice: more than half of what these copies cost", zh="自定：超过这些拷贝所耗时间的一半")
READ_LATE = Patch(
    kind="code",
    before="log(loss.item())",
    after="losses.append(loss.detach())  # .item() or .cpu() only in the steps that log",
)

RULE = Rule(
    id="exposed-copy",
    cause="copies that nothing hides",
    layer=Layer.FRAMEWORK,
    about=Subject.RANK,
    verdict="other-stall",
    title=Text(en="The device waits for copies", zh="设备在等待数据拷贝"),
    explanation=Text(
        en="Copies run while no kernel does, or the host blocks in them and issues nothing meanwhile.",
        zh="拷贝进行时没有任何 kernel 在运行，或主机阻塞在拷贝中而无法继续下发任务。",
    ),
    when=(copy_stall_share >= 0.05, other_copy_stall_share >= 0.025),
    corroborated_by=(pcie_receive_link_share >= 0.30,),
    cost=other_copy_stall_share,
    shows=(
        copy_exposed_share,
        idle_copy_wait_share,
        to_device_copy_share,
        from_device_copy_share,
        within_device_copy_share,
        pageable_copy_share,
        host_copy_call_share,
    ),
    checks=(
        Text(
            en="Read the kind in the copy's name: Pageable means that the host blocks, whatever "
            "non_blocking says.",
            zh="看拷贝名称中的类型：Pageable 表示主机会阻塞，与 non_blocking 参数无关。",
        ),
        Text(
            en="If pinned copies are slow too, compare the link's generation and width with the slot's.",
            zh="如果锁页内存的拷贝也慢，检查 PCIe 链路的代次和宽度是否低于插槽规格。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Pin the batches in the loader and copy with non_blocking=True.",
                zh="在加载器中使用锁页内存，并以 non_blocking=True 拷贝。",
            ),
            # Where names tell the memory, pageable-copies has these.
            unless=(
                pageable_upload_share >= 0,
                from_device_copy_share >= 0.50,
                within_device_copy_share >= 0.50,
            ),
            clears=other_copy_stall_share <= 0.01,
            patch=PINNED,
            is_partial=True,
        ),
        Remedy(
            Text(
                en="Copy the next batch on a stream of its own while the device works on this one.",
                zh="在单独的流上提前拷贝下一个批次，与当前批次的计算重叠。",
            ),
            unless=(from_device_copy_share >= 0.50, within_device_copy_share >= 0.50),
            clears=other_copy_stall_share <= 0.01,
        ),
        Remedy(
            Text(
                en="Leave results on the device: .item(), .cpu() and saving wait for copies back to the "
                "host. Read them only in the steps that need them.",
                zh="把结果留在设备上：.item()、.cpu() 和保存都要等待拷回主机；只在需要的步读取。",
            ),
            only_if=(from_device_copy_share >= 0.50,),
            clears=other_copy_stall_share <= 0.01,
            patch=READ_LATE,
        ),
        Remedy(
            Text(
                en="These copies do not leave the device: write into the tensor that is wanted instead of "
                "clone(), contiguous() or cat(), or let torch.compile fuse them.",
                zh="这些拷贝没有离开设备：直接写入目标张量，避免 clone()、contiguous() 或 cat()，"
                "或用 torch.compile 融合。",
            ),
            only_if=(within_device_copy_share >= 0.50,),
            clears=other_copy_stall_share <= 0.01,
        ),
    ),
    references={
        copy_stall_share: Text(
            en="data transfer between host and device is 28 % of the issues of An Empirical Study on Low "
            "GPU Utilization (ICSE 2024); TraceLens flags copies above 5 % of the time",
            zh="主机与设备间的数据传输占 An Empirical Study on Low GPU Utilization（ICSE "
            "2024）所列问题的 28 %；TraceLens 在拷贝超过时间的 5 % 时标出",
        ),
        other_copy_stall_share: Text(
            en="our choice, half of those 5 %: of two parts one is as large; pageable-copies has the other",
            zh="自定，上述 5 % 的一半：两部分中至少有一部分达到；另一部分由 pageable-copies 报告",
        ),
        pageable_upload_share: Text(
            en="our choice: any value, for then the names tell what memory a copy is from",
            zh="自定：任意值，有值即表示名称说明了拷贝所用的内存",
        ),
        from_device_copy_share: _MOST,
        within_device_copy_share: _MOST,
        pcie_receive_link_share: Text(
            en="our choice: 30 % of the link on average is more than batches need that hide behind computing",
            zh="自定：平均达到链路的 30 %，已超出能被计算掩盖的批次所需",
        ),
    },
    needs=FEW_STEPS,
    signature=Signature(
        caption=Text(
            en="A copy runs while no kernel does, and the next kernel waits for it.",
            zh="拷贝进行时没有 kernel 运行，下一个 kernel 要等它完成。",
        ),
        lanes=(
            Lane(HOST, "llll........|llll........"),
            Lane(DEVICE, "mmmmcccccccc|mmmmcccccccc"),
        ),
    ),
    explains=("slow-rank",),
)
