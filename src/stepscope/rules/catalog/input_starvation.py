"""The device waits for its next batch.

Steps begin with a gap in which nothing runs on the device while the loader is still working. Seen
after a move to faster devices, with few loader workers, or on a cold shared file system. A slow
loader that hides behind queued device work is not this: it costs nothing.
"""

from stepscope.analyse.features import (
    host_cpu_busy,
    host_loader_share,
    idle_input_share,
    pcie_receive_link_share,
    sm_active_mean,
)
from stepscope.analyse.features.telemetry import major_faults_with_loader
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.reference import BUSY_CORES, LOW_SM_ACTIVE
from stepscope.rules.rule import Layer, OnHost, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

LOADER_WORKERS = Patch(
    kind="code",
    before="DataLoader(dataset, batch_size=B)",
    after="DataLoader(dataset, batch_size=B, num_workers=N, pin_memory=True, prefetch_factor=2, "
    "persistent_workers=True)  # N: cores per device",
)

WORKERS = Patch(
    kind="code",
    before="DataLoader(dataset, batch_size=B)",
    after="DataLoader(dataset, batch_size=B, num_workers=N, prefetch_factor=2, persistent_workers=True)"
    "  # N: cores that training leaves free",
)

RULE = Rule(
    id="input-starvation",
    cause="slow data loader",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="waiting-for-data",
    title=Text(en="The device waits for its next batch", zh="设备在等待下一个批次"),
    explanation=Text(
        en="Nothing runs on the device while the loader is still fetching: the device could have worked.",
        zh="数据加载尚未完成，设备上没有任何任务在运行，这段时间本可用于计算。",
    ),
    when=(idle_input_share >= 0.10,),
    corroborated_by=(
        sm_active_mean <= 0.70,
        pcie_receive_link_share <= 0.50,
        major_faults_with_loader >= 0.50,
    ),
    cost=idle_input_share,
    shows=(host_loader_share,),
    checks=(
        Text(
            en="Read num_workers, pin_memory and prefetch_factor of the loader: num_workers=0 loads in the "
            "step itself.",
            zh="查看 DataLoader 的 num_workers、pin_memory、prefetch_factor："
            "num_workers=0 表示在训练步内同步加载。",
        ),
        Text(
            en="Feed one batch in memory again and again: if the gap goes, the loader is the cause; if it "
            "stays, it is not.",
            zh="反复使用内存中的同一个批次：空隙消失则原因在加载，空隙仍在则不是。",
        ),
        Text(
            en="Then read from cached files: if the gap goes now, storage is slow; if it stays, decoding is.",
            zh="再改为读取已缓存的文件：空隙消失说明存储慢，空隙仍在说明解码或增强慢。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Raise num_workers towards the cores per device, pin memory, prefetch two batches, keep "
                "the workers between epochs.",
                zh="将 num_workers 提高到接近每设备可用的核数，启用锁页内存，"
                "预取两个批次，并在各 epoch 间保留 worker。",
            ),
            unless=(host_cpu_busy >= 0.90,),
            clears=idle_input_share <= 0.05,
            patch=LOADER_WORKERS,
        ),
        Remedy(
            Text(
                en="Decode on the device or ahead of time: the host has no cores left for more workers.",
                zh="改为在设备上解码或离线预处理：主机已没有空闲核可供更多 worker 使用。",
            ),
            only_if=(host_cpu_busy >= 0.90,),
            clears=idle_input_share <= 0.05,
        ),
    ),
    references={
        idle_input_share: Text(
            en="TraceML warns where waiting for input takes 10 % of a step and calls 20 % critical; "
            "cleared at the 5 % up to which PyTorch Profiler's TensorBoard plugin and XProf say nothing",
            zh="TraceML 在等待输入占一步的 10 % 时告警，20 % 时为严重；"
            "降到 5 %（PyTorch Profiler 的 TensorBoard 插件与 XProf 不再提及）视为消除",
        ),
        sm_active_mean: LOW_SM_ACTIVE,
        host_cpu_busy: BUSY_CORES,
        pcie_receive_link_share: Text(
            en="our choice, half a link: above it the transfer itself may be the limit (Analyzing and "
            "Mitigating Data Stalls in DNN Training, VLDB 2021, separates fetch, preparation and copy)",
            zh="自定，链路的一半：超过后传输本身可能就是瓶颈（Analyzing and Mitigating Data Stalls in DNN "
            "Training，VLDB 2021，区分了读取、预处理与拷贝）",
        ),
        major_faults_with_loader: Text(
            en="our choice: faults and waiting for input rise and fall together",
            zh="自定：缺页与等待输入同升同降",
        ),
    },
    needs=FEW_STEPS,
    explains=("periodic-stall", "slow-rank"),
    on_host=OnHost(
        title=Text(en="The training loop waits for its next batch", zh="训练循环在等待下一个批次"),
        explanation=Text(
            en="The training process runs no op while the loader is still fetching.",
            zh="数据加载尚未完成，训练进程没有在执行任何算子。",
        ),
        checks=(
            Text(
                en="Read num_workers and prefetch_factor of the loader: num_workers=0 loads in the step "
                "itself.",
                zh="查看 DataLoader 的 num_workers、prefetch_factor：num_workers=0 表示在训练步内同步加载。",
            ),
            Text(
                en="Feed one batch in memory again and again: if the gap goes, the loader is the cause; if "
                "it stays, it is not.",
                zh="反复使用内存中的同一个批次：空隙消失则原因在加载，空隙仍在则不是。",
            ),
            Text(
                en="Then read from cached files: if the gap goes now, storage is slow; if it stays, decoding "
                "is.",
                zh="再改为读取已缓存的文件：空隙消失说明存储慢，空隙仍在说明解码或增强慢。",
            ),
        ),
        remedies=(
            Remedy(
                Text(
                    en="Load in workers, on cores that training leaves free: raise num_workers, prefetch two "
                    "batches, keep the workers between epochs.",
                    zh="在训练未占用的核上用 worker 加载：提高 num_workers，预取两个批次，"
                    "并在各 epoch 间保留 worker。",
                ),
                unless=(host_cpu_busy >= 0.90,),
                clears=idle_input_share <= 0.05,
                patch=WORKERS,
            ),
            Remedy(
                Text(
                    en="Prepare the data ahead of time: the host has no cores left for workers.",
                    zh="离线预处理数据：主机已没有空闲核可供 worker 使用。",
                ),
                only_if=(host_cpu_busy >= 0.90,),
                clears=idle_input_share <= 0.05,
            ),
        ),
    ),
    signature=Signature(
        caption=Text(
            en="Each step begins with a gap in which the loader is still working.",
            zh="每一步开头都有空隙，此时加载器仍在工作。",
        ),
        lanes=(
            Lane(HOST, "dddddlll....|dddddlll...."),
            Lane(DEVICE, ".....ccccccc|.....ccccccc"),
        ),
    ),
)
