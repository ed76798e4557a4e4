"""The device waits for transfers that run near the speed of the link.

A rank that waits for a late peer holds its collective open without moving bytes, so the rate seen from its
own start is a lower bound: at half the link or more, at most half of the time was waiting. The volume is the
cause, and fewer bytes, or bytes that move beside computing, are the cure.
"""

from stepscope.analyse.features import (
    backward_share,
    bus_bandwidth_link_share,
    bus_bytes_per_second,
    exposed_communication_share,
    nvlink_link_share,
)
from stepscope.analyse.features.communication import (
    gradient_syncs_per_update,
    hidden_of_communication_share,
    small_of_communication_share,
)
from stepscope.analyse.features.peer import transfer_exposed_share
from stepscope.analyse.features.telemetry import nvlink_peak_link_share, sm_active_in_collectives
from stepscope.model.text import Text
from stepscope.rules.capture import SIZES
from stepscope.rules.rule import Layer, Patch, Reading, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

HALF_PRECISION = Patch(
    kind="code",
    before="model = DistributedDataParallel(model)",
    after="from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
    "model = DistributedDataParallel(model)\n"
    "model.register_comm_hook(None, default_hooks.bf16_compress_hook)",
)

RULE = Rule(
    id="communication-bound",
    cause="more bytes to exchange than the link carries beside computing",
    layer=Layer.MODEL,
    about=Subject.RANK,
    verdict="waiting-for-communication",
    title=Text(
        en="The device waits for transfers that run near the link's speed: the volume is the limit",
        zh="设备在等待接近链路速率的传输：瓶颈在通信量",
    ),
    explanation=Text(
        en="Collectives run while no compute kernel does, and they move their bytes at half the link or "
        "more: neither a late peer nor a wrong transport takes the larger part of the time.",
        zh="集合通信进行时没有计算 kernel，且传输速率不低于链路的一半："
        "大部分时间既不是在等迟到的对端，也不是因为传输通道不对。",
    ),
    when=(exposed_communication_share >= 0.10, bus_bandwidth_link_share >= 0.50),
    # Half the link is a lower bound; what the peers say of it where they were recorded is no bound.
    unless=(small_of_communication_share >= 0.50, transfer_exposed_share < 0.10),
    corroborated_by=(nvlink_link_share >= 0.10,),
    cost=exposed_communication_share,
    readings=(
        Reading(
            Text(
                en="The device waits for transfers at the link's speed that nothing overlaps: computing "
                "stops for them",
                zh="设备在等待接近链路速率的传输，且没有任何计算与之重叠：传输期间计算停止",
            ),
            only_if=(hidden_of_communication_share <= 0.10,),
        ),
    ),
    shows=(
        bus_bytes_per_second,
        gradient_syncs_per_update,
        hidden_of_communication_share,
        nvlink_peak_link_share,
        sm_active_in_collectives,
    ),
    checks=(
        Text(
            en="Which collective is the largest, and over which group? Within a node the link is many times "
            "faster than between nodes.",
            zh="哪种集合通信量最大，在哪个进程组上？节点内的链路比节点间快很多倍。",
        ),
        Text(
            en="Does it begin only when the backward pass is over? Then buckets or prefetching are set so "
            "that nothing can overlap.",
            zh="是否在反向过程结束之后才开始？若是，说明 bucket 或预取的设置使其无法重叠。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Let it run beside computing: smaller buckets that start earlier, or prefetching of the "
                "next layer's parameters.",
                zh="让通信与计算重叠：用更小的 bucket 更早开始，或预取下一层的参数。",
            ),
            clears=exposed_communication_share <= 0.05,
            is_overlap=True,
        ),
        Remedy(
            Text(
                en="Reduce gradients in bfloat16: half the bytes, where the model bears it.",
                zh="以 bfloat16 归约梯度：模型允许时字节数减半。",
            ),
            only_if=(backward_share > 0.0,),
            clears=exposed_communication_share <= 0.05,
            patch=HALF_PRECISION,
            is_partial=True,
        ),
        Remedy(
            Text(
                en="Exchange less often: accumulate gradients over more micro-batches, or shard within the "
                "node and replicate between nodes.",
                zh="降低通信频率：在更多微批次上累积梯度，或在节点内切分、节点间复制。",
            ),
            only_if=(backward_share > 0.0,),
            clears=exposed_communication_share <= 0.05,
            is_partial=True,
        ),
    ),
    references={
        exposed_communication_share: Text(
            en="PyTorch Profiler's TensorBoard plugin advises where communication takes more than 10 % of a "
            "step; cleared at the 5 % above which TraceLens flags it",
            zh="PyTorch Profiler 的 TensorBoard 插件在通信超过一步的 10 % 时给出建议；"
            "降到 5 %（TraceLens 标出的界线）视为消除",
        ),
        bus_bandwidth_link_share: Text(
            en="nccl-tests defines bus bandwidth so that it can be held against the link's peak; half is our "
            "choice: seen from one rank the rate is a lower bound, so less than half of the time was waiting",
            zh="nccl-tests 定义的总线带宽可直接与链路峰值比较；一半为本工具自定：从单个 rank 看到的速率是下"
            "限，因此等待不足一半时间",
        ),
        small_of_communication_share: Text(
            en="our choice: where more than half of it is of small messages, tiny-collectives speaks",
            zh="自定：过半来自小消息时，由 tiny-collectives 报告",
        ),
        transfer_exposed_share: Text(
            en="the TensorBoard plugin's 10 %, of what is left once every rank had come: before that nothing "
            "is transferred",
            zh="TensorBoard 插件的 10 %，仅计所有 rank 到齐之后：到齐之前并无数据传输",
        ),
        backward_share: Text(
            en="any op of a backward pass: the run trains and has gradients to reduce",
            zh="只要有反向传播的算子，就是训练，有梯度需要归约",
        ),
        hidden_of_communication_share: Text(
            en="our choice, a tenth: what data parallelism reduces beside the backward pass hides far more",
            zh="自定，十分之一：数据并行在反向传播期间规约的部分通常远高于此",
        ),
        nvlink_link_share: Text(
            en="our choice: a tenth of the link on average, seen by the device's own counters",
            zh="自定：平均达到链路的十分之一，由设备自身计数器给出",
        ),
    },
    needs=SIZES,
    signature=Signature(
        caption=Text(
            en="Transfers fill the link, and computing is over before they are.",
            zh="传输占满链路，计算结束时传输仍未完成。",
        ),
        lanes=(
            Lane(DEVICE, "cccccccc........|cccccccc........"),
            Lane(Text(en="link", zh="链路"), "....nnnnnnnnnnnn|....nnnnnnnnnnnn"),
        ),
    ),
)
