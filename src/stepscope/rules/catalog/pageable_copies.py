"""Batches are copied from pageable memory, and the host waits for each copy.

The driver has to move pageable memory through a buffer of its own, so the call blocks whatever `non_blocking`
says, and the launches that should have run ahead come late.
"""

from stepscope.analyse.features import (
    copy_exposed_share,
    copy_stall_share,
    host_copy_call_share,
    idle_copy_wait_share,
    pcie_receive_link_share,
)
from stepscope.analyse.features.host import (
    pageable_upload_bytes,
    pageable_upload_share,
    pageable_upload_stall_share,
)
from stepscope.model.text import Text
from stepscope.rules.capture import KIND_OF_MEMORY
from stepscope.rules.patch import PINNED
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

ON_DEVICE = Patch(
    kind="code",
    before="scale = torch.tensor(value).to(device)",
    after="scale = torch.tensor(value, device=device)  # or once, before the loop",
)

RULE = Rule(
    id="pageable-copies",
    cause="copies from pageable memory",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="other-stall",
    title=Text(
        en="The device waits for copies from pageable memory, which block the host",
        zh="设备在等待来自可分页内存的拷贝，这类拷贝会阻塞主机",
    ),
    explanation=Text(
        en="Copies to the device from memory that is not pinned hold it up. Their calls "
        "return late, whatever non_blocking says, and what should be launched meanwhile is not.",
        zh="从未锁页内存到设备的拷贝拖住了设备。无论 non_blocking 如何设置，"
        "这类调用都会很晚返回，期间本应下发的任务被推迟。",
    ),
    when=(copy_stall_share >= 0.05, pageable_upload_stall_share >= 0.025),
    corroborated_by=(pcie_receive_link_share <= 0.50,),
    cost=pageable_upload_stall_share,
    shows=(
        pageable_upload_share,
        pageable_upload_bytes,
        copy_exposed_share,
        idle_copy_wait_share,
        host_copy_call_share,
    ),
    checks=(
        Text(
            en="Does the loader pin (pin_memory=True), and does the batch that it yields say is_pinned()? "
            "A batch of a class of your own needs a pin_memory method.",
            zh="加载器是否锁页（pin_memory=True）？取出的批次 is_pinned() 是否为真？"
            "自定义类型的批次需要自带 pin_memory 方法。",
        ),
        Text(
            en="Measure both: on a host that is short of memory, or where weights are swapped in and out, "
            "pinned memory is not always faster.",
            zh="两种方式都要测：在内存紧张的主机上，或反复换入换出权重时，锁页内存不一定更快。",
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
            unless=(pageable_upload_bytes < 65536,),
            clears=pageable_upload_stall_share <= 0.01,
            patch=PINNED,
            # The bytes still cross the bus, and nobody knows how much of that the rest of the step can hide.
            is_partial=True,
        ),
        Remedy(
            Text(
                en="These copies are small: make scalars and masks on the device, or copy them once before "
                "the loop.",
                zh="这些拷贝很小：直接在设备上创建标量和掩码，或在循环之前只拷贝一次。",
            ),
            only_if=(pageable_upload_bytes < 65536,),
            clears=pageable_upload_stall_share <= 0.01,
            patch=ON_DEVICE,
        ),
    ),
    references={
        copy_stall_share: Text(
            en="data transfer between host and device is 28 % of the issues of An Empirical Study on Low "
            "GPU Utilization (ICSE 2024); TraceLens flags copies above 5 % of the time",
            zh="主机与设备间的数据传输占 An Empirical Study on Low GPU Utilization（ICSE "
            "2024）所列问题的 28 %；TraceLens 在拷贝超过时间的 5 % 时标出",
        ),
        pageable_upload_stall_share: Text(
            en="our choice, half of those 5 %: of two parts one is as large; exposed-copy has the other",
            zh="自定，上述 5 % 的一半：两部分中至少有一部分达到；另一部分由 exposed-copy 报告",
        ),
        pageable_upload_bytes: Text(
            en="our choice, 64 KiB: the size up to which the driver may return before a copy from pageable "
            "memory is done; batches are larger",
            zh="自定，64 KiB：不超过此大小时，驱动可能在可分页内存的拷贝完成之前返回；批次通常更大",
        ),
        pcie_receive_link_share: Text(
            en="our choice, half a link: pageable copies do not fill it",
            zh="自定，链路的一半：可分页内存的拷贝达不到",
        ),
    },
    needs=KIND_OF_MEMORY,
    signature=Signature(
        caption=Text(
            en="The host stands in the copy until it is over, and the first launch of the step comes after "
            "it.",
            zh="主机停在拷贝调用中直到完成，之后才有这一步的第一次下发。",
        ),
        lanes=(
            Lane(HOST, "mmmmmlll....|mmmmmlll....|mmmmmlll...."),
            Lane(DEVICE, "..mmm.cccccc|..mmm.cccccc|..mmm.cccccc"),
        ),
    ),
    explains=("slow-rank",),
)
