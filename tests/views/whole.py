"""Reports that hold every part that a page shows of a device's work and memory."""

from __future__ import annotations

import pickle
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

import stepscope
from stepscope.model import report
from stepscope.model.text import Lang
from tests.analyse.test_snapshot_memory import pinned
from tests.diagnose import build
from tests.diagnose.build import MS

MIB, GIB = 1 << 20, 1 << 30
PHASES = report.Phases(
    forward_ns=9 * MS, backward_ns=17 * MS, recompute_ns=2 * MS, optimizer_ns=MS, other_ns=3 * MS
)
OPERATOR = report.Operator(
    rank=0,
    name="aten::addmm",
    class_="gemm",
    count=48,
    device_ns=30 * MS,
    share=0.5,
    tensor_core=True,
    flops=6_000_000_000_000,
    bytes=40_000_000_000,
    achieved_flops_per_second=2e14,
    achieved_bytes_per_second=1.33e12,
    peak_share=0.21,
    memory_peak_share=0.4,
    bound="memory",
    total_ns=31 * MS,
    host_ns=7 * MS,
    mean_ns=625_000,
    p99_ns=701_000,
    launch_latency_ns=23_000,
    phases=PHASES,
    called_from="job/model.py(217): forward",
)
SHAPE = report.OperatorShape(
    rank=0,
    name="aten::addmm",
    shapes="[[4096],[8192,4096],[4096,4096],[],[]]",
    types='["c10::BFloat16","c10::BFloat16","c10::BFloat16","Scalar","Scalar"]',
    count=24,
    device_ns=18 * MS,
    share=0.3,
    mean_ns=750_000,
    p99_ns=760_000,
    tensor_core=True,
    flops=3_000_000_000_000,
    bytes=20_000_000_000,
    peak_share=0.22,
    memory_peak_share=0.41,
    bound="compute",
    is_aligned=False,
)
KERNEL = report.Kernel(
    rank=0,
    name="sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
    class_="gemm",
    count=48,
    device_ns=29 * MS,
    share=0.48,
    mean_ns=604_000,
    p99_ns=690_000,
    launch_latency_ns=24_000,
    after_idle_count=7,
    after_idle_ratio=1.31,
)


def _module(path: str, total: int, own: int) -> report.Module:
    return report.Module(
        rank=0,
        path=path,
        total_ns=total * MS,
        device_ns=own * MS,
        share=total / 64,
        forward_ns=total * MS // 3,
        backward_ns=total * MS // 2,
    )


MODULES = (
    _module("GPT_0", 60, 2),
    _module("GPT_0/Block_1", 32, 3),
    _module("GPT_0/Block_0", 25, 1),
    _module("GPT_0/Block_1/Attention_1", 19, 19),
    _module("GPT_0/Block_0/ModuleList_0/MLP_0", 14, 14),
    _module("Loss_0", 4, 4),
)
EFFICIENCY = report.Efficiency(
    rank=0,
    device=report.Device(index=0),
    total_ns=100 * MS,
    flops=8_000_000_000_000,
    recomputed_flops=1_500_000_000_000,
    known_share=0.93,
    model_flops=6_500_000_000_000,
    is_given=False,
    hfu=0.41,
    mfu=0.33,
    precision="bf16",
    peak_flops_per_second=9.89e14,
)


def _points() -> tuple[report.MemoryPoint, ...]:
    """Four steps of 25 ms: memory rises through each and falls at its end."""
    return tuple(
        report.MemoryPoint(
            at_ns=125 * MS + place * MS,
            allocated_bytes=2 * GIB + (place % 25) * 170 * MIB,
            reserved_bytes=(7 if place < 40 else 8) * GIB,
        )
        for place in range(100)
    )


MEMORY = report.Memory(
    source="trace",
    device=report.Device(index=0),
    basis="totals",
    num_events=9000,
    rank=0,
    timeline=_points(),
    peak=report.MemoryPeak(
        at_ns=149 * MS,
        allocated_bytes=2 * GIB + 24 * 170 * MIB,
        reserved_bytes=7 * GIB,
        step=5,
        op="aten::empty",
        within="MulBackward0",
    ),
    reserve=report.MemoryReserve(
        at_ns=165 * MS, reserved_bytes=8 * GIB, allocated_bytes=4 * GIB, unused_share=0.5, grew=True
    ),
    steps=tuple(report.MemoryStep(step=n, peak_bytes=6 * GIB + n * MIB) for n in range(5, 9)),
    growth=report.MemoryGrowth(
        bytes_per_step=40.0 * MIB, error_bytes_per_step=2.0 * MIB, certainty=4, steady_share=0.9, num_steps=12
    ),
    categories=(
        report.MemoryCategory(kind="before", bytes=2 * GIB, share=0.34),
        report.MemoryCategory(kind="activations", bytes=3 * GIB, share=0.5),
        report.MemoryCategory(kind="gradients", bytes=GIB, share=0.16),
    ),
    driver=report.DriverCalls(num_allocations=4, num_frees=3, num_retries=1, steps=(6, 7)),
)
_STACK = ("/home/ada/job/train.py:42 forward", "/home/ada/job/train.py:7 main")
SNAPSHOT = report.Memory(
    source="snapshot",
    device=report.Device(index=0),
    basis="totals",
    num_events=120,
    rank=0,
    unverified=True,
    held=report.HeldMemory(
        reserved_bytes=41 * MIB,
        allocated_bytes=19 * MIB,
        requested_bytes=18 * MIB,
        pending_bytes=2 * MIB,
        free_bytes=20 * MIB,
        largest_free_bytes=MIB,
        free_in_pieces_share=0.95,
        inactive_split_bytes=17 * MIB,
        num_segments=3,
        num_blocks=40,
        num_free_blocks=21,
        expandable_segments=False,
    ),
    sites=tuple(
        report.MemorySite(bytes=(9 - n) * MIB, count=n + 4, share=(9 - n) / 45, name=_STACK[0], stack=_STACK)
        for n in range(7)
    ),
    out_of_memory=tuple(
        report.OutOfMemory(
            requested_bytes=(4 + n) * MIB,
            reason="fragmented",
            at_ns=140 * MS,
            device_free_bytes=MIB,
            reserved_bytes=41 * MIB,
            allocated_bytes=21 * MIB,
            unallocated_bytes=20 * MIB,
            num_free_blocks=22,
            largest_free_bytes=3 * MIB,
            is_estimate=True,
            name=_STACK[0],
            stack=_STACK,
        )
        for n in range(3)
    ),
)


def whole(lang: Lang = "en") -> report.Report:
    """A report with every part of a device's work and memory."""
    row = build.row(queued=8 * MS, communication=3 * MS)
    made = replace(
        row,
        phases=PHASES,
        compute=report.Compute(
            recompute_ns=2 * MS, optimizer_ns=MS, gemm_ns=60 * MS, other_ns=row.compute_ns - 63 * MS
        ),
    )
    answer = build.told(
        build.rank(made, operators=(OPERATOR, *build.OPERATORS[1:]), numbers={"gemm_share": 0.6}), lang=lang
    )
    return replace(
        answer,
        operator_shapes=(SHAPE, replace(SHAPE, name="aten::mul", is_aligned=None, bound="memory")),
        modules=MODULES,
        efficiency=(EFFICIENCY,),
        kernels=(KERNEL, replace(KERNEL, name="triton_poi_fused_add_0", class_="triton")),
        memory=(MEMORY, SNAPSHOT),
    )


def snapshot_alone(lang: Lang = "en") -> report.Report:
    """A memory snapshot and nothing else: no row of accounting, no step."""
    held = pinned()
    held.alloc(4 * MIB)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "oom.pickle"
        path.write_bytes(pickle.dumps(held.snapshot()))
        return stepscope.diagnose(path, lang=lang)
