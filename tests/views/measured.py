"""Two ranks on one host with telemetry and logs, made by hand: every part of a report that speaks of them."""

from __future__ import annotations

import math
from typing import Literal

from msgspec.structs import replace

from stepscope.model import report
from stepscope.model.signal import SIGNALS
from stepscope.model.text import Lang
from tests.diagnose import build
from tests.diagnose.build import MS

S = 1_000_000_000
T0 = 1_714_566_790 * S
"""2024-05-01 12:33:10 UTC: the first traced step begins."""
STEP, NUM_STEPS = 2 * S, 8
PARTS = ("signals", "events", "progress", "patterns", "walks", "hints")
H100 = "NVIDIA H100 80GB HBM3"
DEVICES = (
    report.Device(index=0, uuid="GPU-5f0c9a31-0000-4000-8000-000000000000", name=H100),
    report.Device(index=1, uuid="GPU-5f0c9a31-0000-4000-8000-000000000001", name=H100),
)
HOST = report.Device(kind="host")
DCGM, SMI, NODE = "dcgm-exporter.prom", "nvidia-smi.csv", "node-exporter.prom"
LAG = 600 * MS


def points(
    level: float, swing: float = 0.0, *, number: int = 60, gap: tuple[int, int] = (0, 0), lag: int = LAG
) -> tuple[tuple[int, float], ...]:
    """One sample a second from 20 s before the window on, as read; none within the gap (seconds)."""
    return tuple(
        (T0 - 20 * S + n * S + lag, level + swing * math.sin(n / 3))
        for n in range(number)
        if not gap[0] <= n < gap[1]
    )


def signal(
    rank: int, name: str, level: float, swing: float = 0.0, source: str = DCGM, **more: object
) -> report.SignalSummary:
    """A device's signal with its samples; those of the window are its figures."""
    made = points(level, swing, **more)  # type: ignore[arg-type]
    inside = [value for at, value in made if T0 <= at - LAG < T0 + NUM_STEPS * STEP]
    return report.SignalSummary(
        device=DEVICES[rank],
        signal=name,
        unit=SIGNALS[name].unit,
        mean=sum(inside) / len(inside) if SIGNALS[name].aggregate == "mean" else None,
        min=min(inside),
        max=max(inside),
        samples=len(inside),
        coverage=len(inside) / 16,
        rank=rank,
        host="node1",
        source=source,
        points=made,
        by_step=tuple(
            report.SignalStep(step=5 + n, value=level + n / 1000, samples=2) for n in range(NUM_STEPS)
        )
        if name == "sm_active_ratio"
        else (),
    )


def _device(rank: int) -> tuple[report.SignalSummary, ...]:
    gap = (30, 42) if rank else (0, 0)
    common = (
        signal(rank, "compute_busy_ratio", 0.98, 0.01, gap=gap),
        signal(rank, "sm_active_ratio", 0.71 - 0.2 * rank, 0.12, gap=gap),
        signal(rank, "power_watts", 612.0 - 180 * rank, 40.0, SMI, gap=gap),
        signal(rank, "power_limit_watts", 700.0, 0.0, SMI),
        signal(rank, "sm_clock_hertz", 1.755e9 - 5.1e8 * rank, 2e7, gap=gap),
        signal(rank, "sm_clock_max_hertz", 1.98e9),
        signal(rank, "memory_used_bytes", 61.5 * 2**30, 0.0),
        signal(rank, "memory_total_bytes", 79.6 * 2**30, 0.0),
        signal(rank, "temperature_celsius", 64.0 + 22 * rank, 2.0, gap=gap),
        signal(rank, "slowdown_temperature_celsius", 87.0),
        signal(rank, "pcie_rx_bytes_per_second", 1.21e9, 2e8),
        signal(rank, "pcie_tx_bytes_per_second", 3.4e8, 1e8),
    )
    if rank:
        return common
    return (
        *common,
        signal(rank, "tensor_active_ratio", 0.32, 0.1),
        signal(rank, "dram_active_ratio", 0.44, 0.1),
        signal(rank, "nvlink_rx_bytes_per_second", 8.1e10, 2e10),
        signal(rank, "nvlink_tx_bytes_per_second", 7.9e10, 2e10),
    )


def _reasons() -> report.SignalSummary:
    """The second device is held down by heat from the tenth second of the window on."""
    bits = tuple((T0 + LAG + n * S, float(0x60 if n >= 10 else 0x4)) for n in range(20))
    return report.SignalSummary(
        device=DEVICES[1],
        signal="clock_event_reasons",
        unit="mask",
        samples=16,
        coverage=1.0,
        rank=1,
        host="node1",
        source=DCGM,
        points=bits,
    )


def _host(name: str, level: float, swing: float = 0.0, part: str | None = None) -> report.SignalSummary:
    made = signal(0, name, level, swing, NODE, lag=0)
    return replace(made, device=HOST, rank=None, name=part, by_step=())


SIGNALS_ = (
    *_device(0),
    *_device(1),
    _reasons(),
    _host("cpu_user_ratio", 0.31, 0.05),
    _host("cpu_iowait_ratio", 0.12, 0.02),
    _host("cpu_run_queue", 18.0),
    _host("cpu_cores", 96.0),
    _host("major_page_faults_per_second", 240.0, 20.0),
    _host("disk_read_bytes_per_second", 8.2e8, 1e8),
    _host("disk_busy_ratio", 0.93, 0.02),
    _host("network_rx_bytes_per_second", 1.4e8, 1e7, "eth0"),
    _host("memory_available_bytes", 412.0 * 2**30),
    _host("memory_present_bytes", 1007.0 * 2**30),
)
CLOCKS = (
    report.TelemetryClock(
        source=DCGM, status="found", window_ns=S, lag_ns=LAG, lag_range_ns=(500 * MS, 700 * MS)
    ),
    report.TelemetryClock(source=SMI, status="ambiguous", window_ns=S, lag_range_ns=(0, 4 * S)),
    report.TelemetryClock(source=NODE, status="unknown", lag_range_ns=(0, 30 * S)),
)
_OFF = "GPU has fallen off the bus."
EVENTS = (
    report.Event(
        at_ns=T0 - 15 * S,
        kind="start",
        severity="info",
        text="process group of 2 ranks initialised",
        rank=0,
    ),
    report.Event(
        at_ns=T0 + 11 * S,
        kind="xid",
        severity="critical",
        text=_OFF,
        code=79,
        device=DEVICES[1],
        rank=1,
    ),
    report.Event(
        at_ns=T0 + 13 * S,
        kind="oom",
        severity="critical",
        text="CUDA out of memory. Tried to allocate 2.00 GiB",
        rank=0,
    ),
    *(
        report.Event(
            at_ns=T0 + n * S,
            kind="error",
            severity="warning",
            text="pcieport: AER: Corrected error received",
            device=DEVICES[0],
        )
        for n in range(14)
    ),
)
PROGRESS = report.Progress(
    source="train.log",
    first_step=1,
    last_step=4_812,
    total_steps=20_000,
    start_ns=T0 - 9_600 * S,
    end_ns=T0 + 16 * S,
    step_ns=1_998 * MS,
    step_growth_ratio=1.083,
    tokens_per_second=131_072.0,
    samples_per_second=64.0,
    loss_first=10.92,
    loss_last=3.417,
    rank=0,
)


def _evidence(feature: str, value: float, unit: str, op: report.Op, limit: float) -> report.Evidence:
    return report.Evidence(
        from_="telemetry",
        feature=feature,
        value=value,
        unit=unit,
        op=op,
        threshold=limit,
        reference="the specification",
    )


def patterns(lang: Lang = "en") -> tuple[report.Pattern, ...]:
    """A holds on the first device, D as written alone, the second could not be told of B."""
    zh = lang == "zh"
    compute = report.Pattern(
        pattern="A",
        title="compute-bound",
        device=DEVICES[0],
        rank=0,
        as_written=report.PatternSide(
            holds=False,
            evidence=(_evidence("sm_occupancy_mean", 0.41, "ratio", ">", 0.90),),
            missing=("long_matmul_share",),
        ),
        effective=report.PatternSide(
            holds=True,
            evidence=(
                _evidence("sm_active_mean", 0.93, "ratio", ">", 0.90),
                _evidence("slow_gemm_share", 0.27, "ratio", ">=", 0.20),
            ),
        ),
        advice="先查 cuBLASLt 调优缓存" if zh else "the tuning cache of cuBLASLt",
    )
    return (
        report.Pattern(
            pattern="B",
            title="memory-bound",
            device=DEVICES[1],
            rank=1,
            as_written=report.PatternSide(missing=("dram_active_mean",)),
            effective=report.PatternSide(missing=("dram_active_mean", "tensor_active_mean")),
        ),
        report.Pattern(
            pattern="D",
            title="input",
            device=DEVICES[1],
            rank=1,
            as_written=report.PatternSide(
                holds=True, evidence=(_evidence("loader_share", 0.38, "ratio", ">=", 0.38),)
            ),
            effective=report.PatternSide(
                holds=False, evidence=(_evidence("idle_input_share", 0.02, "ratio", ">=", 0.10),)
            ),
        ),
        compute,
    )


def walks(lang: Lang = "en") -> tuple[report.Walk, ...]:
    """One walk with a station of each kind."""
    zh = lang == "zh"
    told: tuple[tuple[str, Literal["ok", "suspect", "unknown"], str], ...] = (
        ("作业步进", "ok", "每步 2.00 s，未变慢") if zh else ("step progress", "ok", "2.00 s a step, steady"),
        ("原始曲线", "suspect", "SM 活跃 51.0 %") if zh else ("raw curve", "suspect", "SM active 51.0 %"),
        ("各卡对比", "unknown", "只有一台主机")
        if zh
        else ("cards against each other", "unknown", "one host was given"),
    )
    steps = tuple(report.WalkStep(text=text, status=status, said=said) for text, status, said in told)
    return (
        report.Walk(walk="low-utilisation", title="low utilisation", device=DEVICES[1], rank=1, steps=steps),
        report.Walk(walk="busy-low-power", title="busy but low power", steps=steps[1:]),
    )


def hints(lang: Lang = "en") -> tuple[report.Hint, ...]:
    """One signal that suggests something."""
    text = (
        "占用率低于 60 %：大矩阵 kernel 本就如此"
        if lang == "zh"
        else "low occupancy: large matrix kernels run so"
    )
    return (
        report.Hint(
            hint="low-occupancy",
            text=text,
            device=DEVICES[0],
            rank=0,
            evidence=(_evidence("sm_occupancy_mean", 0.41, "ratio", "<", 0.60),),
        ),
    )


def timeline(row: int) -> report.Timeline:
    """One step of two lanes, on the wall clock of the telemetry."""
    return report.Timeline(
        row=row,
        step=7,
        start_ns=T0 + 2 * STEP,
        dur_ns=STEP,
        resolution_ns=2 * MS,
        lanes=(
            report.Lane(
                kind="stream",
                what="gemm",
                stream=7,
                start_ns=(0, S),
                dur_ns=(800 * MS, 900 * MS),
                busy_ns=(800 * MS, 850 * MS),
                count=(1, 40),
                name=(0, 0),
                span=(11, 12),
            ),
            report.Lane(
                kind="idle",
                what="launch",
                start_ns=(800 * MS,),
                dur_ns=(200 * MS,),
                busy_ns=(200 * MS,),
                count=(1,),
            ),
        ),
        names=("sm90_xmma_gemm",),
    )


def _step(rank: int, n: int) -> report.Step:
    start = T0 + n * STEP
    return report.Step(rank=rank, step=5 + n, start_ns=start, end_ns=start + STEP, dur_ns=STEP, use="counted")


def measured(lang: Lang = "en") -> report.Report:
    """The whole: traces of two ranks, three sources of telemetry with lags of three kinds, and a log."""
    rows = [build.row(total=NUM_STEPS * STEP, num_steps=NUM_STEPS, rank=n, launch=S) for n in (0, 1)]
    answer = build.told(*(build.rank(row) for row in rows), lang=lang)
    why = (
        "与前一小时的 3,600 个样本相比，SM 活跃高 14 个百分点"
        if lang == "zh"
        else "SM active is 14 points above that of the hour before, of 3,600 samples"
    )
    given = tuple(
        report.Input(kind="telemetry", format=format_, name=name)
        for name, format_ in ((DCGM, "dcgm-exporter"), (SMI, "nvidia-smi"), (NODE, "node-exporter"))
    )
    return replace(
        answer,
        inputs=(*answer.inputs, *given, report.Input(kind="log", format="plain", name="train.log")),
        clocks=report.Clocks(telemetry=CLOCKS),
        window=report.Window(
            start_ns=T0,
            end_ns=T0 + NUM_STEPS * STEP,
            steps=(5, 12),
            representative=report.Representative(status="no", why=why),
        ),
        steps=tuple(_step(rank, n) for rank in (0, 1) for n in range(NUM_STEPS)),
        timelines=(timeline(0),),
        signals=SIGNALS_,
        events=EVENTS,
        progress=(PROGRESS,),
        patterns=patterns(lang),
        walks=walks(lang),
        hints=hints(lang),
    )


def telemetry_alone(lang: Lang = "en") -> report.Report:
    """The same without any trace: no row of accounting, no step, no lag that could be found."""
    whole = measured(lang)
    text = "没有 trace，无从判断" if lang == "zh" else "No trace was given: nothing is judged"
    clocks = tuple(report.TelemetryClock(source=each.source, status="unknown") for each in CLOCKS)
    return report.Report(
        tool=whole.tool,
        lang=lang,
        verdict=report.Verdict(class_="undecided", text=text),
        health=report.Health(verdict="ok", issues=(), withheld=()),
        inputs=whole.inputs[2:],
        clocks=report.Clocks(telemetry=clocks),
        signals=tuple(replace(each, rank=None, by_step=()) for each in whole.signals),
        events=whole.events,
        progress=whole.progress,
        walks=whole.walks,
        hints=whole.hints,
    )
