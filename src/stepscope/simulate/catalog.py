"""The faults: a table. Each row changes the plan of a rank's step, by how much its severity says."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from stepscope.model.signal import POWER_BRAKE_REASON, POWER_CAP_REASON
from stepscope.simulate.gpu import FULL_POWER_SHARE, IDLE_POWER_SHARE, POWER_OF_CLOCK
from stepscope.simulate.model import Variation
from stepscope.simulate.plan import Place, Plan

SEVERITIES = ("mild", "medium", "severe")
GC_PERIOD = 8
"""Steps from one full collection of a rank to its next."""
PAGE_PERIOD, PAGE_PHASE = 10, 4
"""Steps from one batch that lies on disk to the next, and the first of them."""
APPLICATION_CLOCKS, HARDWARE_SLOWDOWN, SOFTWARE_THERMAL, HARDWARE_THERMAL = 0x2, 0x8, 0x20, 0x40
"""Bits of NVML's clock event reasons."""

Apply = Callable[[Plan, float, Place], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """A row of the catalogue. `magnitudes` are mild, medium and severe, in `unit`; `reason` is what a
    report should say of whoever is late for it; `who` is "rank" (one, by number or by seed), "any" (every
    rank, or one by number) or "all" (nobody can be chosen)."""

    name: str
    text: str
    magnitudes: tuple[float, float, float]
    unit: str
    reason: str
    who: str
    apply: Apply
    models: tuple[str, ...] = ()
    least_ranks: int = 1
    is_piped: bool = False
    is_costly: bool = True
    """Whether steps take longer for it. One that is not is a decoy, or ends the run."""

    def magnitude(self, severity: str) -> float:
        """How much of it."""
        return self.magnitudes[SEVERITIES.index(severity)]

    @property
    def range(self) -> tuple[float, float]:
        """What a magnitude must lie between: shares that divide a step by what is left of it stay below 1."""
        return _RANGES.get(self.unit, (0.0, 1e6)) if self.name not in _WIDE else (0.0, 100.0)

    def is_within(self, much: float) -> bool:
        """Whether a magnitude can be simulated."""
        least, most = self.range
        return least < much < most


_RANGES = {
    "of a step": (0.0, 0.97),
    "of a length": (0.0, 2.0),
    "of the clock": (0.1, 1.001),
    "of the power": (0.15, 1.001),
    "of products": (0.0, 1.001),
    "of what is free": (0.0, 1.001),
    "passes": (0.99, 64.0),
    "batches": (0.99, 1e5),
    "°C": (40.0, 95.0),
}
_WIDE = ("straggler-python", "cpu-contention", "fragmentation")


# ── one rank, or the job, takes longer ──────────────────────────────────────────────────────────────────


def _straggler(plan: Plan, much: float, at: Place) -> None:
    plan.compute *= much


def _straggler_python(plan: Plan, much: float, at: Place) -> None:
    plan.sleep_ns += int(much * at.step_ns)


def _moving_straggler(plan: Plan, much: float, at: Place) -> None:
    if at.step % at.num_ranks == at.rank:
        plan.sleep_ns += int(1e6 * much)


def _late_loader_ns(share: float, at: Place) -> int:
    """How long a batch takes so that the device idles for about this share of the step."""
    # The loader adds to the host's own work: together they are as long as the step becomes. Where the host
    # waits for each step, it adds to the device's.
    beside_ns = at.host_ns if at.run_ahead else at.step_ns
    return max(int(at.step_ns / (1 - share)) - beside_ns, int(share * at.step_ns))


def _loader_stall(plan: Plan, much: float, at: Place) -> None:
    plan.loader_ns = _late_loader_ns(much, at)
    plan.is_decoding = True


def _page_cache_miss(plan: Plan, much: float, at: Place) -> None:
    if at.step % PAGE_PERIOD == PAGE_PHASE:
        # What is queued on the device hides about a step of it.
        plan.loader_ns = (at.step_ns if at.run_ahead else 0) + int(1e6 * much)
        plan.is_reading = True


def _page_cache_thrash(plan: Plan, much: float, at: Place) -> None:
    share = min(much * at.progress, 0.95)
    plan.loader_ns = _late_loader_ns(share, at)
    plan.is_reading = True


def _host_sync(plan: Plan, much: float, at: Place) -> None:
    plan.sync_ns = int(1000 * much)


def _pageable_copy(plan: Plan, much: float, at: Place) -> None:
    plan.pageable_ns = int(much * at.step_ns)


def _launch_bound(plan: Plan, much: float, at: Place) -> None:
    plan.is_tiny = True
    plan.host *= much


def _cpu_contention(plan: Plan, much: float, at: Place) -> None:
    plan.preempted_ns = int(much * at.step_ns)
    plan.run_queue = 1.0 + 2.0 * much


def _slow_link(plan: Plan, much: float, at: Place) -> None:
    plan.transfer *= much
    plan.link_errors_per_second = 3.0 * much


SOCKET_RATE = 4.0
"""GB/s: below that an exchange of one node is not over the host's memory but over a socket."""


def _wrong_transport(plan: Plan, much: float, at: Place) -> None:
    plan.bandwidth = 1e9 * much
    plan.path = "network" if much < SOCKET_RATE else "host"


def _pcie_downgrade(plan: Plan, much: float, at: Place) -> None:
    plan.copy *= much
    plan.pcie = (1, 16) if much < 12 else (1, 8)


def _sequence_imbalance(plan: Plan, much: float, at: Place) -> None:
    drawn = at.draw(len(plan.lengths))
    wanted = [at.length * math.exp(much * z - much * much / 2) for z in drawn]
    plan.lengths = tuple(max(min(64 * round(n / 64), 2 * at.length), 64) for n in wanted)


def _stage_imbalance(plan: Plan, much: float, at: Place) -> None:
    if at.stage == at.num_stages - 1:
        plan.compute *= much


def expert_imbalance(plan: Plan, much: float, at: Place) -> None:
    """The one row that changes its culprit's mates too."""
    if at.culprit // at.num_ranks != at.stage:
        return
    # What one rank's experts get more, those of the others in its group get less.
    others = max((at.num_ranks - much) / max(at.num_ranks - 1, 1), 0.05)
    plan.load = much if at.rank == at.culprit else round(others, 3)


def _gc(plan: Plan, much: float, at: Place) -> None:
    order = np.random.default_rng([at.seed, 8, at.number]).permutation(max(at.num_ranks, GC_PERIOD))
    if at.step % GC_PERIOD == int(order[at.rank]) % GC_PERIOD:
        plan.gc_ns += int(1e6 * much)


def _checkpoint(plan: Plan, much: float, at: Place) -> None:
    if at.step % at.period == at.period - 1:
        plan.checkpoint_ns = int(much * at.step_ns)


def _eval(plan: Plan, much: float, at: Place) -> None:
    if at.step % at.period == at.period - 1:
        plan.eval_batches = int(much)


# ── the device is slower, or shared ─────────────────────────────────────────────────────────────────────


def _thermal_throttle(plan: Plan, much: float, at: Place) -> None:
    plan.clock *= much
    plan.reasons |= SOFTWARE_THERMAL if much > 0.6 else HARDWARE_SLOWDOWN | HARDWARE_THERMAL
    plan.celsius = THROTTLING


THROTTLING = 1000.0
"""Hotter than any device lets itself become: it stays just under its own limit."""


def _power_cap(plan: Plan, much: float, at: Place) -> None:
    # The clock at which a device that would draw `FULL_POWER_SHARE` draws no more than the limit.
    share = max(much - IDLE_POWER_SHARE, 0.02) / (FULL_POWER_SHARE - IDLE_POWER_SHARE)
    plan.clock *= min(share ** (1 / POWER_OF_CLOCK), 1.0)
    plan.reasons |= POWER_CAP_REASON
    plan.power_limit = min(much, 1.0)


def _power_brake(plan: Plan, much: float, at: Place) -> None:
    plan.clock *= much
    plan.reasons |= POWER_BRAKE_REASON | HARDWARE_SLOWDOWN


def _clock_lock(plan: Plan, much: float, at: Place) -> None:
    plan.clock *= much
    # Application clocks have a bit of their own, locked clocks have none.
    plan.reasons |= APPLICATION_CLOCKS if at.seed % 2 else 0


def _foreign_process(plan: Plan, much: float, at: Place) -> None:
    plan.compute *= much
    plan.foreign = 1 - 1 / much


def _ecc(plan: Plan, much: float, at: Place) -> None:
    plan.compute *= much
    plan.ecc_errors_per_second = 50 * (much - 1)
    plan.num_remapped = 1 + round(60 * (much - 1))


def _hot(plan: Plan, much: float, at: Place) -> None:
    plan.celsius = much


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────


def _fragmentation(plan: Plan, much: float, at: Place) -> None:
    (z,) = at.draw(1)
    plan.allocator_ns = int(much * at.step_ns * math.exp(0.6 * z - 0.18))  # mean of the factor: 1
    plan.unused = min(0.80 + 0.4 * much, 0.93)


def _memory_leak(plan: Plan, much: float, at: Place) -> None:
    plan.leaked = min(much * at.progress, 1.0)


# ── the kernels are the wrong ones ──────────────────────────────────────────────────────────────────────


def _unfused(plan: Plan, much: float, at: Place) -> None:
    plan.variation = Variation(int(much), plan.variation.plain_share, plan.variation.misaligned)


def _no_tensor_core(plan: Plan, much: float, at: Place) -> None:
    plan.variation = Variation(plan.variation.num_passes, min(much, 1.0), plan.variation.misaligned)


def _misaligned(plan: Plan, much: float, at: Place) -> None:
    plan.variation = Variation(plan.variation.num_passes, plan.variation.plain_share, much)


def _hang(plan: Plan, much: float, at: Place) -> None:
    """Nothing in a step: the run ends with the step before (`Config.num_played`)."""


_ROWS = (
    Fault("straggler", "one rank's kernels take longer, by this factor", (1.1, 1.3, 2.0), "times",
          "slower_kernels", "rank", _straggler, least_ranks=2),
    Fault("straggler-python", "after forward, one rank launches nothing until its device has idled that long",
          (0.1, 0.3, 1.0), "of a step", "python", "rank", _straggler_python, least_ranks=2),
    Fault("moving-straggler", "rank n mod R is late in step n by so much: the same, moving on",
          (20, 50, 150), "ms", "python", "all", _moving_straggler, least_ranks=2),
    Fault("loader-stall", "the next batch is late, its workers' cores are full: the device idles for about "
          "this share of the step",
          (0.15, 0.35, 0.6), "of a step", "input", "any", _loader_stall),
    Fault("page-cache-miss", "every tenth batch is read from disk, and the device idles for about so long",
          (100, 200, 600), "ms", "input", "any", _page_cache_miss),
    Fault("page-cache-thrash", "ever more of each batch is read from disk: the device idles for this share "
          "of the last step",
          (0.15, 0.38, 0.6), "of a step", "input", "any", _page_cache_thrash),
    Fault("host-sync", "an .item() in every layer, and host work of this length after each",
          (100, 400, 1000), "µs", "host_sync", "any", _host_sync),
    Fault("pageable-copy", "batches come from pageable memory, and a copy takes this share of the step",
          (0.08, 0.2, 0.4), "of a step", "copy_wait", "any", _pageable_copy),
    Fault("launch-bound", "kernels of a few microseconds, and a host that takes this factor longer",
          (1.0, 2.0, 4.0), "times", "launch", "all", _launch_bound),
    Fault("cpu-contention", "others have the host's cores: its threads wait for one for this share of a step",
          (1.1, 1.5, 2.5), "of a step", "launch", "any", _cpu_contention),
    Fault("unfused", "after each elementwise op and norm, forward and backward, so many passes that a fused "
          "kernel would not need", (1, 3, 8), "passes", "more_work", "all", _unfused),
    Fault("no-tensor-core", "this share of the matrix products runs in single precision on the ordinary "
          "cores", (0.02, 0.1, 1.0), "of products", "slower_kernels", "all", _no_tensor_core),
    Fault("misaligned", "sizes that are no multiple of 8: matrix products take longer, by this factor",
          (1.3, 2.0, 4.0), "times", "slower_kernels", "all", _misaligned, ("transformer", "moe")),
    Fault("slow-link", "every exchange takes longer, by this factor, and the links count errors", (2, 4, 10),
          "times", "unknown", "all", _slow_link, least_ranks=2),
    Fault("wrong-transport", "exchanges go over a path of this bandwidth: the host's memory, "
          "a socket below 4",
          (10, 6, 3), "GB/s", "unknown", "all", _wrong_transport, least_ranks=2),
    Fault("pcie-downgrade", "one device's PCIe runs at its lowest rate: copies take longer, by this factor",
          (4, 8, 16), "times", "copy_wait", "rank", _pcie_downgrade),
    Fault("sequence-imbalance", "sequence lengths differ by rank, step and micro-batch, with this deviation",
          (0.15, 0.3, 0.6), "of a length", "more_work", "all", _sequence_imbalance,
          ("transformer", "moe"), 2),
    Fault("stage-imbalance", "the kernels of the pipeline's last stage take longer, by this factor",
          (1.15, 1.4, 2.0), "times", "slower_kernels", "all", _stage_imbalance, least_ranks=2, is_piped=True),
    Fault("expert-imbalance", "the experts of one rank get this many times their share of the tokens",
          (1.3, 1.8, 3.0), "times", "more_work", "rank", expert_imbalance, ("moe",), 2),
    Fault("thermal-throttle", "one device is too hot, and runs at this share of its clock",
          (0.9, 0.75, 0.55), "of the clock", "slower_kernels", "rank", _thermal_throttle),
    Fault("power-cap", "the power limit is this share of the one as shipped, and clocks follow",
          (0.75, 0.6, 0.45), "of the power", "slower_kernels", "any", _power_cap),
    Fault("power-brake", "the rack's power brake: this share of the clock",
          (0.8, 0.65, 0.5), "of the clock", "slower_kernels", "any", _power_brake),
    Fault("clock-lock", "clocks are locked at this share of the highest; of odd seeds by application clocks",
          (0.9, 0.75, 0.5), "of the clock", "slower_kernels", "any", _clock_lock),
    Fault("foreign-process", "another process computes on one device: kernels take longer, by this factor",
          (1.15, 1.4, 2.0), "times", "slower_kernels", "rank", _foreign_process),
    Fault("ecc", "one device corrects memory errors and remaps rows: kernels take longer, by this factor",
          (1.02, 1.08, 1.2), "times", "slower_kernels", "rank", _ecc),
    Fault("hot", "one device is at so many degrees and not slower for it: a decoy",
          (80, 85, 88), "°C", "none", "rank", _hot, is_costly=False),
    Fault("fragmentation", "the allocator frees and allocates again within the step, for this share of it on "
          "average; medium and severe end out of memory",
          (0.05, 0.15, 0.35), "of a step", "allocator", "any", _fragmentation),
    Fault("memory-leak", "this share of the free device memory is gone by the last step; at 1 the run ends "
          "out of memory",
          (0.4, 0.7, 1.0), "of what is free", "none", "any", _memory_leak, is_costly=False),
    Fault("gc", "Python collects garbage for so long, each rank in every eighth step, at steps of its own",
          (100, 200, 500), "ms", "gc", "any", _gc),
    Fault("checkpoint", "every fifth step (`--period`) ends with a marked checkpoint of this length",
          (0.5, 2, 10), "steps", "checkpoint", "any", _checkpoint),
    Fault("eval", "every fifth step (`--period`) ends with a marked evaluation of so many batches",
          (2, 5, 10), "batches", "eval", "any", _eval),
    Fault("hang", "one rank never comes to its next exchange; so long after, the watchdog ends the run",
          (30, 60, 120), "s", "none", "rank", _hang, is_costly=False),
)  # fmt: skip
FAULTS: Mapping[str, Fault] = {row.name: row for row in _ROWS}
