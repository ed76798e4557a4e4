"""The training log of rank 0, as one of five frameworks writes it: steps, checkpoints, evaluations, its
end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

import numpy as np

from stepscope.simulate.clock import Clock, clock_of
from stepscope.simulate.config import LOG_STYLES, START_NS, Config
from stepscope.simulate.counter.place import Place
from stepscope.simulate.counter.timeline import LOADED_NS, STARTED_NS, Timeline
from stepscope.simulate.memory import footprint
from stepscope.simulate.plan import Plan

OUT_OF_MEMORY_SHARE = 0.1
"""A run whose allocator is cut up this badly (of a step) ends out of memory."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a step's line says. Rates are of the whole job."""

    step: int
    """Counted from 1, as frameworks do."""
    total: int
    at_ns: int
    since_ns: int
    """Of the run's first step."""
    seconds: float
    loss: float
    grad_norm: float
    learning_rate: float
    samples: int
    """In a step."""
    tokens: int
    flops: float
    """Of a step, on one device."""
    peak_flops: float
    memory_bytes: int
    capacity_bytes: int


def style_of(config: Config) -> str:
    """The framework whose lines are written."""
    given = "auto" if config.telemetry is None else config.telemetry.log_style
    if given != "auto":
        return given
    known = [style for style in LOG_STYLES if style != "auto"]
    return known[int(np.random.default_rng([config.seed, 30]).integers(len(known)))]


def lines(timeline: Timeline, here: list[Place]) -> Iterator[str]:
    """The log, line by line. `here` are the places of all ranks."""
    config = timeline.cluster.config
    clock, style = clock_of(config, 0), style_of(config)
    found: list[tuple[int, str]] = []
    found += [(START_NS - STARTED_NS, f"Initializing process group: backend nccl, world size {config.ranks}")]
    found += [(START_NS - LOADED_NS, stated(config))]
    written = [(at, worded(style, clock, at, text)) for at, text in found]
    for row in _progress(timeline):
        written.append((row.at_ns, "\n".join(STYLES[style](row, stamp_of(clock, row.at_ns)))))
    written += [(at, worded(style, clock, at, text)) for at, text in _phases(timeline)]
    written += [(at, text) for at, text in _ends(timeline, here, clock)]
    if timeline.hang is None and not out_of_memory(timeline):
        end = timeline.end_ns + 20_000_000
        written.append(
            (end, worded(style, clock, end, f"Training completed after {config.num_played} steps"))
        )
    written.sort(key=lambda pair: pair[0])
    for _at, text in written:
        yield text + "\n"


def out_of_memory(timeline: Timeline) -> list[int]:
    """The ranks that run out of device memory when the last step is done."""
    found = []
    for rank in range(timeline.cluster.config.ranks):
        last = timeline.cluster.plans[rank][-1]
        step_ns = timeline.cluster.config.step_ns
        cut = sum(plan.allocator_ns for plan in timeline.cluster.plans[rank])
        is_cut = last.unused > 0 and cut > OUT_OF_MEMORY_SHARE * step_ns * len(timeline.cluster.plans[rank])
        if last.leaked >= 1.0 or is_cut:
            found.append(rank)
    return found


def stated(config: Config) -> str:
    """What the script says of itself when it begins."""
    num = config.work(config.sized[0]).num_parameters()
    batch = config.sized[0].batch * config.num_micro_batches * (config.ranks // config.pipeline_stages)
    workers = 0 if config.telemetry is None else config.telemetry.workers
    return (
        f"model {config.model}, {num / 1e6:.1f}M parameters, global batch size {batch}, sequence length "
        f"{config.sized[0].length}, num_workers={workers}, max steps {config.steps}"
    )


@dataclass(frozen=True, slots=True)
class Figures:
    """What the lines of all steps have in common. Rates are of the whole job."""

    total: int
    samples: int
    """In a step."""
    tokens: int
    flops: float
    """Of a step, on one device."""
    peak_flops: float
    allocated_bytes: int
    free_bytes: int
    capacity_bytes: int

    @classmethod
    def of(cls, config: Config) -> Figures:
        """Of a run."""
        size, replicas = config.sized[0], config.ranks // config.pipeline_stages
        samples = size.batch * config.num_micro_batches * replicas
        nodes = [node for layer in config.work(size).layers for node in layer]
        flops = sum(k.tensor_flops for n in nodes for op in (*n.forward, *n.backward) for k in op.kernels)
        needs, capacity = footprint(config, 0), config.device.memory_bytes
        return cls(
            total=config.steps,
            samples=samples,
            tokens=samples * size.length,
            flops=flops * config.num_micro_batches / config.pipeline_stages,
            peak_flops=config.device.peak_flops,
            allocated_bytes=needs.allocated_bytes,
            free_bytes=capacity - needs.total_bytes,
            capacity_bytes=capacity,
        )

    def progress(
        self, step: int, end_ns: int, before_ns: int, leaked: float, noise: tuple[float, float]
    ) -> Progress:
        """A step's line, when rank 0 has done it. `noise`: a standard normal number and one of 0..1."""
        return Progress(
            step=step + 1,
            total=self.total,
            at_ns=end_ns + 300_000,
            since_ns=START_NS,
            seconds=(end_ns - before_ns) / 1e9,
            loss=2.1 + 8.6 / math.sqrt(step + 2) + 0.03 * noise[0],
            grad_norm=0.8 + 2.0 / math.sqrt(step + 1) + 0.05 * noise[1],
            learning_rate=3e-4 * min((step + 1) / 20, 1.0),
            samples=self.samples,
            tokens=self.tokens,
            flops=self.flops,
            peak_flops=self.peak_flops,
            memory_bytes=int(self.allocated_bytes + leaked * self.free_bytes),
            capacity_bytes=self.capacity_bytes,
        )


def with_rate(row: Progress, factor: float) -> Progress:
    """The same after the learning rate was multiplied."""
    return replace(row, learning_rate=row.learning_rate * factor)


def _progress(timeline: Timeline) -> Iterator[Progress]:
    """A line a step."""
    cluster = timeline.cluster
    figures, draw = Figures.of(cluster.config), np.random.default_rng([cluster.config.seed, 31])
    before = START_NS
    for step, at in enumerate(cluster.step_end_ns[0]):
        noise = (float(draw.standard_normal()), float(draw.random()))
        yield figures.progress(step, at, before, cluster.plans[0][step].leaked, noise)
        before = at


def _phases(timeline: Timeline) -> Iterator[tuple[int, str]]:
    """Checkpoints, evaluations, and what an allocator says that had to flush."""
    cluster = timeline.cluster
    happened: dict[int, list[tuple[str, int, int, int]]] = {}
    for each in cluster.happenings[0]:
        happened.setdefault(each[3], []).append(each)
    for step, plan in enumerate(cluster.plans[0]):
        yield from phases_of(step, plan, cluster.step_end_ns[0][step], happened.get(step, ()))


def phases_of(
    step: int, plan: Plan, end_ns: int, happened: Sequence[tuple[str, int, int, int]]
) -> Iterator[tuple[int, str]]:
    """The same of one step, of what rank 0's host did for long in it."""
    has_evaluated = False
    for kind, start, end, _ in happened:
        if kind == "save_checkpoint":
            yield start, f"Saving model checkpoint to checkpoints/step-{step + 1}"
            yield end, f"Saved checkpoint at step {step + 1} in {(end - start) / 1e9:.2f} s"
        elif kind == "evaluate" and not has_evaluated:
            has_evaluated = True
            yield start, "***** Running Evaluation *****"
    if plan.allocator_ns:
        yield (
            end_ns + 350_000,
            "3 pytorch allocator cache flushes since last step. this happens when there is high memory "
            "pressure and is detrimental to performance. if this is happening frequently consider "
            "adjusting "
            "settings to reduce memory consumption.",
        )
    if plan.eval_batches:
        yield end_ns + 400_000, f"eval at step {step + 1}: {plan.eval_batches} batches, eval_loss 2.41"


def _ends(timeline: Timeline, here: list[Place], clock: Clock) -> Iterator[tuple[int, str]]:
    """What is written when the run does not end by itself."""
    config = timeline.cluster.config
    at = timeline.end_ns + 40_000_000
    for rank in out_of_memory(timeline):
        needs = footprint(config, rank)
        total, last = config.device.memory_bytes, timeline.cluster.plans[rank][-1]
        free_when_healthy = total - needs.total_bytes
        unused = int(last.unused * free_when_healthy) if last.unused else int(0.01 * total)
        used = int(total - 0.012 * total)
        allocated = used - needs.context_bytes - unused
        yield (
            at,
            (
                f"[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.53 GiB. "
                f"GPU {here[rank].local_rank} has a total capacity of {total / 2**30:.2f} GiB of which "
                f"{(total - used) / 2**30:.2f} GiB is free. Process {here[rank].pid} has "
                f"{used / 2**30:.2f} GiB "
                f"memory in use. Of the allocated memory {allocated / 2**30:.2f} GiB is allocated by "
                f"PyTorch, and "
                f"{unused / 2**30:.2f} GiB is reserved by PyTorch but unallocated. If reserved but "
                f"unallocated "
                "memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
                "fragmentation."
            ),
        )
    if timeline.hang is not None:
        culprit, waits = timeline.hang
        step = len(timeline.cluster.step_end_ns[0])
        yield from watchdog(config, clock, timeline.stop_ns, step, culprit, waits)


def watchdog(
    config: Config, clock: Clock, at_ns: int, step: int, culprit: int, waits_ns: int
) -> Iterator[tuple[int, str]]:
    """What ends a job whose ranks have waited too long for one of them."""
    ms = waits_ns // 1_000_000
    shown = f"{_time(clock, at_ns):%m%d %H:%M:%S}.{at_ns % 1_000_000_000:09d}"
    for rank in range(config.ranks):
        if rank != culprit:
            yield (
                at_ns,
                (
                    f"[rank{rank}]:[E{shown} ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught "
                    f"collective "
                    f"operation timeout: WorkNCCL(SeqNum={step * config.buckets + 1}, OpType=ALLREDUCE, "
                    f"NumelIn=25165824, NumelOut=25165824, Timeout(ms)={ms}) ran for {ms + 41} "
                    f"milliseconds "
                    "before timing out."
                ),
            )


def _time(clock: Clock, true_ns: int) -> datetime:
    local = int(clock.local_ns(np.array([true_ns], dtype=np.int64))[0])
    return datetime.fromtimestamp(local // 1_000 / 1e6, tz=timezone.utc)


def stamp_of(clock: Clock, true_ns: int) -> str:
    """A time as most loggers write it."""
    shown = _time(clock, true_ns)
    return f"{shown:%Y-%m-%d %H:%M:%S},{shown.microsecond // 1000:03d}"


def worded(style: str, clock: Clock, at_ns: int, text: str) -> str:
    """A line of the style's own logger."""
    stamp = stamp_of(clock, at_ns)
    if style == "megatron":
        return f"[{stamp.partition(',')[0]}] {text}"
    if style == "torchtitan":
        return f"[titan] {stamp} - root - INFO - {text}"
    if style == "deepspeed":
        level = "WARNING" if "flushes" in text else "INFO"
        return f"[{stamp}] [{level}] [stage3.py:2020:step] {text}"
    if style == "hugging-face":
        return f"[INFO|trainer.py:2409] {stamp} >> {text}"
    return f"{stamp} INFO {text}"


def _megatron(row: Progress, stamp: str) -> list[str]:
    return [
        f" [{stamp.partition(',')[0]}] iteration {row.step:8d}/{row.total:8d} | consumed samples: "
        f"{row.step * row.samples:12d} | elapsed time per iteration (ms): {1000 * row.seconds:.1f} | "
        f"throughput per GPU (TFLOP/s/GPU): {row.flops / row.seconds / 1e12:.1f} | learning rate: "
        f"{row.learning_rate:.6E} | global batch size: {row.samples:5d} | lm loss: {row.loss:.6E} | "
        f"loss scale: 1.0 | grad norm: {row.grad_norm:.3f} | number of skipped iterations:   0 | number of "
        "nan iterations:   0 |"
    ]


def _torchtitan(row: Progress, stamp: str) -> list[str]:
    rate = row.flops / row.seconds
    return [
        f"[titan] {stamp} - root - INFO - step: {row.step:2d}  loss: {row.loss:8.4f}  grad_norm: "
        f"{row.grad_norm:7.4f}  memory: {row.memory_bytes / 2**30:5.2f}GiB"
        f"({100 * row.memory_bytes / row.capacity_bytes:.2f}%)  tps: {round(row.tokens / row.seconds):,}  "
        f"tflops: "
        f"{rate / 1e12:,.2f}  mfu: {100 * rate / row.peak_flops:.2f}%"
    ]


def _deepspeed(row: Progress, stamp: str) -> list[str]:
    elapsed = max(row.at_ns - row.since_ns, 1) / 1e9
    return [
        f"[{stamp}] [INFO] [logging.py:128:log_dist] [Rank 0] step={row.step}, skipped=0, "
        f"lr=[{row.learning_rate:.6g}], mom=[(0.9, 0.95)]",
        f"[{stamp}] [INFO] [timer.py:264:stop] epoch=0/micro_step={row.step}/global_step={row.step}, "
        f"RunningAvgSamplesPerSec={row.step * row.samples / elapsed:.6f}, "
        f"CurrSamplesPerSec={row.samples / row.seconds:.6f}, MemAllocated={row.memory_bytes / 2**30:.2f}GB, "
        f"MaxMemAllocated={row.memory_bytes / 2**30:.2f}GB",
    ]


def _hugging_face(row: Progress, stamp: str) -> list[str]:
    elapsed, left = (row.at_ns - row.since_ns) / 1e9, (row.total - row.step) * row.seconds
    done = row.step / row.total
    bar = ("█" * round(10 * done)).ljust(10)
    rate = f"{1 / row.seconds:.2f}it/s" if row.seconds < 1 else f"{row.seconds:.2f}s/it"
    return [
        f"{100 * done:3.0f}%|{bar}| {row.step}/{row.total} [{_clocked(elapsed)}<{_clocked(left)}, {rate}]",
        f""
        f"{{'loss': {row.loss:.4f}, 'grad_norm': {row.grad_norm:.6f}, "
        f"'learning_rate': {row.learning_rate:.6g}, "
        f"'epoch': {row.step / 1000:.3f}}}",
    ]


def _clocked(seconds: float) -> str:
    minutes, rest = divmod(int(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def _plain_step(row: Progress, stamp: str) -> list[str]:
    return [
        f"{stamp} INFO step={row.step}/{row.total} loss={row.loss:.4f} grad_norm={row.grad_norm:.3f} "
        f"lr={row.learning_rate:.3e} step_time={row.seconds:.4f}s "
        f"tokens_per_second={row.tokens / row.seconds:.0f}"
    ]


STYLES: dict[str, Callable[[Progress, str], list[str]]] = {
    "plain": _plain_step,
    "megatron": _megatron,
    "hugging-face": _hugging_face,
    "torchtitan": _torchtitan,
    "deepspeed": _deepspeed,
}
