"""What is asked for: a run's shape, its clocks, its faults. Checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from stepscope.model.error import UsageError
from stepscope.simulate.fault import Chosen, check
from stepscope.simulate.gpu import Gpu, gpu_of
from stepscope.simulate.model import PLAIN, Variation, Workload
from stepscope.simulate.workload import SIZES, Size, fitted, update_bytes, workload

MODELS = tuple(SIZES)
START_NS = 1_790_000_000_000_000_000
"""When every simulated run begins, in true time since the Unix epoch."""
MOST_RANKS = 4096
MOST_LAYERS = 200


COUNTERS = ("default", "full")
FIELD_NAMES = ("4.5", "4.6")
LOG_STYLES = ("auto", "plain", "megatron", "hugging-face", "torchtitan", "deepspeed")


@dataclass(frozen=True)
class Recording:
    """What is recorded beside the traces, and with which habits.

    `counters` is the exporter's list of fields, `names` the release whose names it prints. It reads the
    device every `collect_ms` and is scraped every `scrape_ms`; a scrape is lost with the chance `lost`; the
    clock of what scrapes is ahead by `skew_ms`. `memory_gb` is what the job uses of a device (`None`: what
    the model needs), `workers` are loader processes of each rank, `worker_busy` the share of a core that
    each takes in a slow loader (`None`: all of it, or little where disks are slow).
    """

    counters: str = "default"
    names: str = "4.5"
    collect_ms: int = 1000
    scrape_ms: int = 1000
    skew_ms: float = 0.0
    lost: float = 0.01
    log_style: str = "auto"
    memory_gb: float | None = None
    workers: int = 8
    worker_busy: float | None = None

    def __post_init__(self) -> None:
        within("collect-ms", self.collect_ms, 100, 600_000)
        within("scrape-ms", self.scrape_ms, 100, 600_000)
        within("telemetry-skew-ms", self.skew_ms, -3.6e6, 3.6e6)
        within("scrape-loss", self.lost, 0, 0.9)
        within("workers", self.workers, 0, 128)
        for name, given, known in (
            ("counters", self.counters, COUNTERS),
            ("field-names", self.names, FIELD_NAMES),
            ("log-style", self.log_style, LOG_STYLES),
        ):
            if given not in known:
                raise UsageError(f"{name} {given}: is not simulated; take one of {', '.join(known)}")
        if self.memory_gb is not None:
            within("memory-gb", self.memory_gb, 0.1, 1000)
        if self.worker_busy is not None:
            within("worker-busy", self.worker_busy, 0, 1)


@dataclass(frozen=True)
class Config:
    """One simulated run. Steps are numbered from 0; rates and shares 0..1.

    `step_ms` is about how long computing one step takes (`None`: the model's own size decides); `layers`
    and `micro_batches` are the model's own where `None`. `clock_offset_ms` and `clock_drift_ppm` are the
    most by which a rank's clock is off, either way; `base_spread_s` the same for the
    `baseTimeNanoseconds` from which its file counts. `jitter` is the standard deviation of every duration
    against itself, `tail` the share of kernels that take two to five times as long. `run_ahead` is how
    many steps the host may be ahead of the device. `period` is steps from one checkpoint or evaluation to
    the next. `overlap` is whether gradients are exchanged beside the backward pass, `shard` whether each
    rank updates a share of the parameters that is gathered then, `exchange_scale` multiplies the bytes of
    both. `trace_steps` are the first and the last step that are traced (`None`: all). `telemetry` is what
    is recorded beside the traces (`None`: nothing).
    """

    seed: int = 0
    ranks: int = 1
    gpu: str = "H100"
    model: str = "transformer"
    steps: int = 10
    faults: tuple[Chosen, ...] = ()
    step_ms: float | None = None
    layers: int | None = None
    buckets: int = 8
    micro_batches: int | None = None
    pipeline_stages: int = 1
    clock_offset_ms: float = 0.0
    clock_drift_ppm: float = 0.0
    base_spread_s: int = 0
    jitter: float = 0.01
    tail: float = 0.0
    run_ahead: int = 1
    period: int = 5
    overlap: bool = True
    shard: bool = False
    exchange_scale: float = 1.0
    trace_steps: tuple[int, int] | None = None
    telemetry: Recording | None = None

    def __post_init__(self) -> None:
        within("seed", self.seed, 0, 2**63 - 1)
        within("ranks", self.ranks, 1, MOST_RANKS)
        within("steps", self.steps, 1, 1_000_000)
        within("buckets", self.buckets, 1, 1000)
        within("run-ahead", self.run_ahead, 0, 100)
        within("clock-offset-ms", self.clock_offset_ms, 0, 3.6e6)
        within("clock-drift-ppm", self.clock_drift_ppm, 0, 1000)
        within("base-spread-s", self.base_spread_s, 0, 10_000_000)
        within("jitter", self.jitter, 0, 0.3)
        within("tail", self.tail, 0, 0.5)
        within("period", self.period, 1, 1_000_000)
        within("exchange-scale", self.exchange_scale, 0.01, 100)
        if self.model not in SIZES:
            raise UsageError(f"model {self.model}: is not simulated; take one of {', '.join(MODELS)}")
        if self.layers is not None:
            within("layers", self.layers, 1, MOST_LAYERS if self.model != "resnet" else 16)
        if self.micro_batches is not None:
            within("micro-batches", self.micro_batches, 1, 256)
        if self.step_ms is not None:
            within("step-ms", self.step_ms, 0.01, 3.6e6)
        self._check_pipeline()
        gpu_of(self.gpu)
        for chosen in self.faults:
            check(chosen, self.ranks, self.steps, self.model, self.pipeline_stages)
        if self.trace_steps is not None:
            first, last = self.trace_steps
            if not 0 <= first <= last < self.num_played:
                raise UsageError(
                    f"trace-steps {first}:{last}: the run has steps 0 to {self.num_played - 1}; "
                    "give A:B within them"
                )
        _ = self.sized  # so that a step that cannot be is refused here

    def _check_pipeline(self) -> None:
        stages = self.pipeline_stages
        within("pipeline-stages", stages, 1, self.ranks)
        if self.ranks % stages:
            raise UsageError(
                f"pipeline-stages {stages}: {self.ranks} ranks cannot be shared out evenly; take a divisor"
            )
        if stages > self.num_layers:
            raise UsageError(
                f"pipeline-stages {stages}: the model has {self.num_layers} layers; ask for more"
            )
        if stages > 1 and self.model == "resnet":
            raise UsageError("pipeline-stages: resnet is not cut into stages; take transformer or moe")

    @cached_property
    def hang_step(self) -> int | None:
        """The step that no rank finishes, `None` where all do. At least one step comes before it."""
        hangs = [chosen for chosen in self.faults if chosen.name == "hang"]
        begins = [self.steps // 2 if chosen.first is None else chosen.first for chosen in hangs]
        return max(min(begins), 1) if begins else None

    @property
    def num_played(self) -> int:
        """Steps that end."""
        return self.steps if self.hang_step is None else min(self.hang_step, self.steps)

    @cached_property
    def traced(self) -> range:
        """The steps that are traced."""
        first, last = (0, self.num_played - 1) if self.trace_steps is None else self.trace_steps
        return range(first, last + 1)

    @cached_property
    def drained_steps(self) -> tuple[int, ...]:
        """Steps at whose end the host waits for the device, since the profiler starts or stops."""
        return (self.traced.start - 1, self.traced.stop - 1)

    @property
    def num_layers(self) -> int:
        """Layers between the first (embedding, stem) and the last (head)."""
        return self.layers if self.layers is not None else SIZES[self.model].num_layers

    @property
    def num_micro_batches(self) -> int:
        """Micro-batches in a step: twice the stages of a pipeline unless told, else one."""
        if self.micro_batches is not None:
            return self.micro_batches
        return 2 * self.pipeline_stages if self.pipeline_stages > 1 else 1

    @cached_property
    def device(self) -> Gpu:
        """The accelerator."""
        return gpu_of(self.gpu)

    @cached_property
    def sized(self) -> tuple[Size, float]:
        """Sizes of one micro-batch on the whole model, and the factor on every kernel's duration."""
        own = SIZES[self.model]
        batch = max(own.batch // self.num_micro_batches, 1)
        size = Size(batch, own.length, own.width, self.num_layers)
        if self.step_ms is None:
            return size, 1.0
        share = self.num_micro_batches / self.pipeline_stages  # of the whole model, a rank's work in a step
        return fitted(self.model, self.gpu, size, 1e6 * self.step_ms / share)

    def work(self, size: Size, load: float = 1.0, variation: Variation = PLAIN) -> Workload:
        """The model at this size, on this run's device."""
        return workload(self.model, self.gpu, size, self.sized[1], load, variation)

    @cached_property
    def _cuts(self) -> tuple[int, ...]:
        """The first layer of each stage, and one past the last: stages take about as long as one another."""
        work, num, stages = self.work(self.sized[0]), self.num_layers + 2, self.pipeline_stages
        done = [0.0]
        for at in range(num):
            done.append(done[-1] + work.compute_ns(at, at + 1))
        cuts = [0]
        for stage in range(1, stages):
            choices = range(cuts[-1] + 1, num - (stages - stage) + 1)
            cuts.append(min(choices, key=lambda at: abs(done[at] - done[-1] * stage / stages)))
        return (*cuts, num)

    def layers_of(self, stage: int) -> tuple[int, int]:
        """First and last-but-one layer of a stage, the ends of the model included."""
        return self._cuts[stage], self._cuts[stage + 1]

    @cached_property
    def step_ns(self) -> int:
        """About how long a step without fault takes: computing, updating and the pipeline's bubble."""
        work = self.work(self.sized[0])
        stages, num = self.pipeline_stages, self.num_micro_batches
        longest = max(
            work.compute_ns(*self.layers_of(stage)) * (num + stages - 1)
            + 1e9
            * update_bytes(work.optimizer)
            * work.num_parameters(*self.layers_of(stage))
            / self.device.memory_rate
            for stage in range(stages)
        )
        exchanged = 2 * num * sum(node.exchange_bytes for layer in work.layers for node in layer)
        return int(longest + (1e9 * exchanged / self.device.link_rate if self.ranks > 1 else 0.0))


def within(name: str, given: float, least: float, most: float) -> None:
    """Refuse a number outside its range."""
    if not least <= given <= most:
        raise UsageError(f"{name} {given:g}: must be between {least:g} and {most:g}")
