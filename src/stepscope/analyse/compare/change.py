"""What of a step changed: parts of the accounting, ops, collectives, signals, memory, findings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepscope.analyse.compare.likeness import num_rank_steps
from stepscope.analyse.compare.noise import difference_noise
from stepscope.analyse.compare.side import Side, parts_of, step_rows
from stepscope.model.comparison import (
    CollectiveChange,
    FindingChange,
    MemoryChange,
    OpChange,
    OpStatus,
    PartChange,
    SignalChange,
)
from stepscope.model.report import Accounting, Collective, Finding, Operator, OperatorShape, Report

MOST_OPS = 20
LEAST_STEP_SHARE = 0.002
"""Of the base's step: smaller differences of an op are not told."""
LEAST_OWN_SHARE = 0.05
"""Of the op's own time: an op of the same speed scatters by a few percent."""
LEAST_EXPLAINABLE = 0.01


def mean_step_ns(report: Report) -> float:
    """Mean time of a step of one rank; of a trace without steps all of it."""
    rows = step_rows(report)
    return sum(row.total_ns for row in rows) / max(sum(max(row.num_steps, 1) for row in rows), 1)


def part_changes(base: Side, new: Side) -> tuple[PartChange, ...]:
    """Every part that takes time on a side, largest difference first."""
    rows = [step_rows(side.report) for side in (base, new)]
    means = [_mean_parts(each) for each in rows]
    series = [_part_series(each) for each in rows]
    step = mean_step_ns(base.report)
    found = []
    for part in {**means[0], **means[1]}:
        before, after = (mean.get(part, 0.0) for mean in means)
        if not (before or after) or not step:
            continue
        noise = None
        if part in series[0] and part in series[1]:
            noise = difference_noise(series[0][part], series[1][part])
        found.append(
            PartChange(
                part=part,
                base_ns=round(before),
                new_ns=round(after),
                difference_ns=round(after) - round(before),
                share=(after - before) / step,
                noise_ns=None if noise is None else round(noise),
                is_beyond=None if noise is None else bool(abs(after - before) > noise),
            )
        )
    return tuple(sorted(found, key=lambda each: (-abs(each.difference_ns), each.part)))


def _mean_parts(rows: Sequence[Accounting]) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    num = max(sum(max(row.num_steps, 1) for row in rows), 1)
    for row in rows:
        for part, took in parts_of(row).items():
            total[part] += took / num
    return dict(total)


def _part_series(rows: Sequence[Accounting]) -> dict[str, np.ndarray]:
    """Part -> its time step by step, the mean over rows; empty where a row is not told whole."""
    if not rows or any(row.steps_left_out or not row.by_step for row in rows):
        return {}
    steps: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        for each in row.by_step:
            of = steps[each.step]
            for name in ("compute", "communication_exposed", "copy_exposed"):
                of[name].append(getattr(each, f"{name}_ns"))
            for name in each.idle.__struct_fields__:
                of[f"idle.{name.removesuffix('_ns')}"].append(getattr(each.idle, name))
    parts = next(iter(steps.values()))
    return {part: np.array([np.mean(steps[step][part]) for step in sorted(steps)]) for part in parts}


@dataclass(slots=True)
class _Op:
    """One op, summed over ranks."""

    class_: str | None = None
    device_ns: int = 0
    count: int = 0
    ranks: set[int | None] = field(default_factory=set)


def operator_changes(base: Side, new: Side) -> tuple[OpChange, ...]:
    """Ops by name."""
    return _op_changes(base, new, [side.report.operators for side in (base, new)])


def shape_changes(base: Side, new: Side) -> tuple[OpChange, ...]:
    """Ops by name, shapes and types."""
    return _op_changes(base, new, [side.report.operator_shapes for side in (base, new)])


def _op_changes(
    base: Side, new: Side, tables: Sequence[Sequence[Operator] | Sequence[OperatorShape]]
) -> tuple[OpChange, ...]:
    if not (tables[0] and tables[1]):
        return ()
    nums = [num_rank_steps(side.report) for side in (base, new)]
    ops = [_summed(table) for table in tables]
    least = [_least_listed(table) / num for table, num in zip(tables, nums, strict=True)]
    step = mean_step_ns(base.report)
    slower_by = mean_step_ns(new.report) - step
    found = []
    for key in {**ops[0], **ops[1]}:
        mine = [of.get(key, _Op()) for of in ops]
        before, after = (op.device_ns / num for op, num in zip(mine, nums, strict=True))
        calls = [op.count / num for op, num in zip(mine, nums, strict=True)]
        by = after - before
        if (not calls[0] and after <= least[0]) or (not calls[1] and before <= least[1]):
            continue  # the other side may have it below the last of its list
        if abs(by) < max(LEAST_STEP_SHARE * step, LEAST_OWN_SHARE * min(before, after)):
            continue
        name, shapes, types = key
        found.append(
            OpChange(
                name=name,
                class_=mine[1].class_ or mine[0].class_,
                shapes=shapes,
                types=types,
                status=_status(before, after, calls),
                base_ns=round(before),
                new_ns=round(after),
                difference_ns=round(after) - round(before),
                base_calls=round(calls[0], 3),
                new_calls=round(calls[1], 3),
                explains=by / slower_by if abs(slower_by) >= LEAST_EXPLAINABLE * step else None,
            )
        )
    return tuple(sorted(found, key=lambda each: (-abs(each.difference_ns), each.name)))[:MOST_OPS]


_Key = tuple[str, str | None, str | None]


def _summed(table: Iterable[Operator | OperatorShape]) -> dict[_Key, _Op]:
    found: dict[_Key, _Op] = {}
    for row in table:
        op = found.setdefault((row.name, getattr(row, "shapes", None), getattr(row, "types", None)), _Op())
        op.class_ = op.class_ or getattr(row, "class_", None)
        op.device_ns += row.device_ns
        op.count += row.count
    return found


def _least_listed(table: Sequence[Operator | OperatorShape]) -> int:
    """The least device time in a list that may be cut: of the rank with most rows the last one's; 0 of a list
    that is shorter than any that is cut."""
    rows: dict[int | None, list[int]] = defaultdict(list)
    for row in table:
        rows[row.rank].append(row.device_ns)
    full = [min(each) for each in rows.values() if len(each) >= 10]
    return len(rows) * max(full, default=0)


def _status(before: float, after: float, calls: Sequence[float]) -> OpStatus:
    if not calls[0]:
        return "new"
    if not calls[1]:
        return "gone"
    by_calls = (calls[1] - calls[0]) * before / calls[0]
    by_speed = after - before - by_calls
    if abs(by_calls) > abs(by_speed):
        return "more_calls" if by_calls > 0 else "fewer_calls"
    return "slower" if by_speed > 0 else "faster"


def collective_changes(base: Side, new: Side) -> tuple[CollectiveChange, ...]:
    """Collectives by kind and size; groups are summed, their names differ from run to run."""
    sides = []
    for side in (base, new):
        num = max((max(row.num_steps, 1) for row in step_rows(side.report)), default=1)
        rows: dict[tuple[str, int | None], list[Collective]] = defaultdict(list)
        for row in side.report.collectives:
            rows[row.kind, row.bytes].append(row)
        sides.append({key: _collective(of, num) for key, of in rows.items()})
    found = []
    for key in sorted({**sides[0], **sides[1]}, key=lambda each: (each[0], -(each[1] or 0))):
        told: dict[str, Any] = {}
        for prefix, of in zip(("base", "new"), sides, strict=True):
            told |= {f"{prefix}_{name}": value for name, value in of.get(key, {"calls": 0.0}).items()}
        found.append(CollectiveChange(kind=key[0], bytes=key[1], **told))
    return tuple(found)


def _collective(rows: Sequence[Collective], num_steps: int) -> dict[str, Any]:
    count = sum(row.count for row in rows)
    told: dict[str, Any] = {"calls": round(count / num_steps, 3)}
    for name in ("transfer", "wait"):
        # Sums are over calls and ranks.
        known = [
            (getattr(row, f"{name}_ns"), row.count * (row.num_ranks or 1))
            for row in rows
            if getattr(row, f"{name}_ns") is not None
        ]
        calls = sum(number for _, number in known)
        told[f"{name}_ns"] = round(sum(took for took, _ in known) / calls) if calls else None
    rates = [r.bus_bytes_per_second for r in rows if r.bus_bytes_per_second]
    told["bus_bytes_per_second"] = float(np.median(rates)) if rates else None
    return told


def signal_changes(base: Side, new: Side) -> tuple[SignalChange, ...]:
    """Signals that both sides have, the mean over devices."""
    means = []
    for side in (base, new):
        of: dict[tuple[str, str], list[float]] = defaultdict(list)
        for row in side.report.signals:
            if row.mean is not None and row.name is None:
                of[row.signal, row.unit].append(row.mean)
        means.append({key: float(np.mean(values)) for key, values in of.items()})
    return tuple(
        SignalChange(
            signal=key[0], unit=key[1], base=means[0][key], new=means[1][key],
            difference=means[1][key] - means[0][key],
        )
        for key in sorted(means[0].keys() & means[1].keys())
    )  # fmt: skip


def memory_change(base: Side, new: Side) -> MemoryChange | None:
    """The highest peak of any rank; `None` where the sides have none by the same kind of recording."""
    peaks = []
    for side in (base, new):
        of = {
            (row.source, row.basis): row.peak.allocated_bytes
            for row in sorted(side.report.memory, key=lambda r: r.peak.allocated_bytes if r.peak else 0)
            if row.peak is not None and row.device.kind != "cpu"
        }
        peaks.append(of)
    for key in sorted(peaks[0].keys() & peaks[1].keys()):
        before, after = peaks[0][key], peaks[1][key]
        if before > 0:
            return MemoryChange(base_bytes=before, new_bytes=after, share=after / before - 1)
    return None


def finding_changes(base: Side, new: Side) -> tuple[FindingChange, ...]:
    """Rules that fired on a side: appeared first, then gone, then kept; the costliest first."""
    worst = [_worst(side.report.findings) for side in (base, new)]
    found = []
    for rule in {**worst[0], **worst[1]}:
        before, after = (of.get(rule) for of in worst)
        shown = after or before
        assert shown is not None
        found.append(
            FindingChange(
                rule=rule,
                status="kept" if before and after else "appeared" if after else "gone",
                title=shown.title,
                severity=shown.severity,
                base_share=before.cost.share if before and before.cost else None,
                new_share=after.cost.share if after and after.cost else None,
            )
        )
    order = ("appeared", "gone", "kept")
    return tuple(
        sorted(found, key=lambda e: (order.index(e.status), -(e.new_share or e.base_share or 0.0), e.rule))
    )


def _worst(findings: Sequence[Finding]) -> dict[str, Finding]:
    """Rule -> its costliest finding; what praises a run is no finding here."""
    found: dict[str, Finding] = {}
    for each in findings:
        known = found.get(each.rule)
        cost = each.cost.share if each.cost else 0.0
        if known is None or cost > (known.cost.share if known.cost else 0.0):
            found[each.rule] = each
    return found
