"""Whether steps of both sides are the same amount of work, and which settings differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from stepscope.analyse.compare.side import Side, step_rows
from stepscope.model.comparison import Basis, ConfigDifference, Obstacle
from stepscope.model.report import HOST_KINDS, Operator, Report

WORK_SHARE = 0.10
"""Arithmetic, tokens or calls of a step that differ by more are other work: padding and dropped tails of a
data set move them by a few percent."""
CALLS_SHARE = 0.25
"""Calls of matrix work: fusion and caching change some of them, another depth of the model all."""
LEAST_COMMON = 0.5
"""Of the device time of either side, so much must be in ops that the other side has too."""
LEAST_LISTED = 10
"""With fewer ops listed no set of ops is told."""
MATRIX = ("gemm", "convolution", "attention")


@dataclass(frozen=True, slots=True)
class Unlike:
    """Something that makes steps differ in what they are. Values are as shown; `None` is not known."""

    what: Obstacle
    base: str | None
    new: str | None
    reason: str = ""
    """Of `work`: `flops`, `calls` or `ops`."""


def unlike(base: Side, new: Side, worlds: tuple[int | None, int | None]) -> tuple[Unlike, ...]:
    """What forbids to compare times of steps; empty where nothing is known to. `worlds` are how many ranks
    the jobs have: the sides may be of those only that both have."""
    found: list[Unlike] = []
    devices = [device_models(side.report) for side in (base, new)]
    if all(devices) and devices[0] != devices[1]:
        names = [", ".join(sorted(each)) for each in devices]
        found.append(Unlike("device", names[0], names[1]))
    if None not in worlds and worlds[0] != worlds[1]:
        found.append(Unlike("world_size", str(worlds[0]), str(worlds[1])))
    if (work := _other_work(base, new)) is not None:
        found.append(work)
    if not (_has_steps(base) and _has_steps(new)):
        nums = [str(len(side.steps.counted_ns)) for side in (base, new)]
        found.append(Unlike("no_steps", nums[0], nums[1]))
    return tuple(found)


def _has_steps(side: Side) -> bool:
    return len(side.steps.counted_ns) > 0


def device_models(report: Report) -> frozenset[str]:
    """Names of the accelerators; of a run on the host its kind."""
    rows = step_rows(report)
    return frozenset(
        row.device.name or (row.device.kind if row.device.kind in HOST_KINDS else None) or "" for row in rows
    ) - {""}


def world_size(report: Report) -> int | None:
    """How many ranks the job has, by what the inputs say, else by how many ranks they are of."""
    told = {each.world_size for each in report.inputs if each.world_size is not None}
    if told:
        return max(told)
    ranks = {row.rank for row in report.accounting if row.rank is not None}
    return len(ranks) if len(ranks) > 1 else None


def world_sizes(base: Side, new: Side) -> tuple[int | None, int | None]:
    """Ranks of both jobs. A side that does not say, shows one rank at most and never communicates is a job of
    one, where the other side has several ranks that do: their trace alone would show collectives."""
    told = [world_size(side.report) for side in (base, new)]
    for mine, other, place in ((base, new, 0), (new, base, 1)):
        size = told[1 - place]
        is_one = size is not None and size > 1 and not communicates(mine.report)
        if told[place] is None and is_one and communicates(other.report):
            told[place] = 1
    return told[0], told[1]


def communicates(report: Report) -> bool:
    """Whether any collective ran."""
    return bool(report.collectives) or any(row.communication is not None for row in report.accounting)


def flops_per_step(report: Report) -> float | None:
    """Arithmetic of the model in one step of one rank, the median rank; `None` where it is not known."""
    steps = {(row.rank, row.device.index): row.num_steps for row in step_rows(report)}
    known = [
        row.model_flops / (steps.get((row.rank, row.device.index)) or 1)
        for row in report.efficiency
        if row.model_flops
    ]
    return median(known) if known else None


def matrix_calls_per_step(report: Report) -> float | None:
    """Calls of matrix products, convolutions and attention in one step of one rank; `None` without any."""
    num = num_rank_steps(report)
    calls = sum(op.count for op in report.operators if op.class_ in MATRIX)
    return calls / num if calls and num else None


def num_rank_steps(report: Report) -> int:
    """Steps of all ranks that the tables of ops are over; a trace without steps counts as one."""
    return sum(max(row.num_steps, 1) for row in step_rows(report))


def _other_work(base: Side, new: Side) -> Unlike | None:
    flops = [flops_per_step(side.report) for side in (base, new)]
    if flops[0] is not None and flops[1] is not None:
        # What is computed is known: however it is computed, it is the same work.
        if differ(flops[0], flops[1], WORK_SHARE):
            return Unlike("work", f"{flops[0]:.3e} FLOP", f"{flops[1]:.3e} FLOP", "flops")
        return None
    calls = [matrix_calls_per_step(side.report) for side in (base, new)]
    if calls[0] is not None and calls[1] is not None and differ(calls[0], calls[1], CALLS_SHARE):
        return Unlike("work", f"{calls[0]:.4g}", f"{calls[1]:.4g}", "calls")
    mine = common_share(base.report.operators, new.report.operators)
    other = common_share(new.report.operators, base.report.operators)
    if mine is not None and other is not None and min(mine, other) < LEAST_COMMON:
        return Unlike("work", f"{mine:.0%}", f"{other:.0%}", "ops")
    return None


def common_share(mine: Sequence[Operator], other: Sequence[Operator]) -> float | None:
    """Device time of ops of these that the others have too, by name; `None` of few ops, or no device time."""
    if min(len({op.name for op in mine}), len({op.name for op in other})) < LEAST_LISTED:
        return None
    names = {op.name for op in other}
    total = sum(op.device_ns for op in mine)
    return sum(op.device_ns for op in mine if op.name in names) / total if total else None


def differ(base: float, new: float, share: float) -> bool:
    """Whether two amounts differ by more than this share of the smaller."""
    return abs(new - base) > share * min(abs(base), abs(new))


def per_step(report: Report, basis: Basis) -> float | None:
    """Tokens or samples of a step of one rank, by what logs and marks state; `None` where none does."""
    name = {"token": "tokens_per_second", "sample": "samples_per_second"}.get(basis)
    if name is None:
        return 1.0
    known = [
        float(getattr(each, name)) * each.step_ns / 1e9
        for each in report.progress
        if getattr(each, name) and each.step_ns
    ]
    return median(known) if known else None


def basis_of(base: Side, new: Side) -> Basis:
    """Of what times are compared: of a step, or of a token or sample where steps differ in these."""
    bases: tuple[Basis, ...] = ("token", "sample")
    for basis in bases:
        amounts = [per_step(side.report, basis) for side in (base, new)]
        if amounts[0] and amounts[1]:
            return basis if differ(amounts[0], amounts[1], WORK_SHARE) else "step"
    return "step"


def config_of(side: Side, world: int | None) -> dict[str, str]:
    """Settings of a side by name: what the report tells, and what the recording states. `world` is how many
    ranks its job has."""
    report = side.report
    found = dict(side.settings)
    told = {
        "device": ", ".join(sorted(device_models(report))) or None,
        "world_size": world,
        "precision": ", ".join(sorted({e.precision for e in report.efficiency if e.precision})) or None,
    }
    for basis in ("token", "sample"):
        amount = per_step(report, "token" if basis == "token" else "sample")
        told[f"{basis}s_per_step"] = None if amount is None else f"{amount:.3g}"
    return found | {key: str(value) for key, value in told.items() if value is not None}


def config_differences(
    base: Side, new: Side, worlds: tuple[int | None, int | None]
) -> tuple[ConfigDifference, ...]:
    """Settings that both sides state and that differ, then those that only one states of its recording."""
    mine, other = config_of(base, worlds[0]), config_of(new, worlds[1])
    for name in ("tokens_per_step", "samples_per_step"):
        if name in mine and name in other and not differ(float(mine[name]), float(other[name]), WORK_SHARE):
            del mine[name], other[name]  # medians of logs, which scatter
    both = [key for key in sorted(mine.keys() & other.keys()) if mine[key] != other[key]]
    one: list[str] = []
    if base.settings and new.settings:
        one = sorted(base.settings.keys() ^ new.settings.keys())
    return tuple(ConfigDifference(key=key, base=mine.get(key), new=other.get(key)) for key in (*both, *one))
