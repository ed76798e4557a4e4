"""Tables of what a process worked on, and what better kernels would save of each device's time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.analyse.device import DeviceResult
from stepscope.analyse.efficiency import efficiency
from stepscope.analyse.launched import Launched
from stepscope.analyse.module import module_table
from stepscope.analyse.operator import Calls, operator_table, phases_struct
from stepscope.analyse.recoverable import recoverable
from stepscope.analyse.shape import shape_table
from stepscope.model import report
from stepscope.model.trace import I64
from stepscope.trace.health import Issue, impossible_utilisation
from stepscope.trace.link import Activities
from stepscope.trace.nesting import HostRows


@dataclass(frozen=True, slots=True)
class Tables:
    """The report's tables of one process, and what they say of the trace's health."""

    operators: tuple[report.Operator, ...]
    shapes: tuple[report.OperatorShape, ...]
    modules: tuple[report.Module, ...]
    efficiency: tuple[report.Efficiency, ...]
    issues: tuple[Issue, ...]


def tables_of(
    calls: Calls,
    rows: Mapping[int, HostRows],
    rank: int | None,
    results: Sequence[DeviceResult],
    model_flops: int | None,
) -> Tables:
    """Everything by op, by shape, by module and by device; `model_flops` as in `analyse_rank`."""
    issues: list[Issue] = []
    arithmetic = []
    for each in results:
        if each.device is None:
            continue
        row = each.rows[0]
        # What is given is of one step of one device: a row without steps cannot use it, nor one of several.
        is_of_row = model_flops is not None and row.num_steps and len(results) == 1
        given = model_flops * row.num_steps if model_flops is not None and is_of_row else None
        reached, excess = efficiency(calls, each.device, row, rank, given)
        if excess is not None:
            issues.append(impossible_utilisation(excess, row.device.name, is_given=given is not None))
        arithmetic += [] if reached is None else [reached]
    operators, found = operator_table(calls, rows, rank)
    return Tables(
        operators,
        shape_table(calls, rank),
        module_table(calls, rows, rank),
        tuple(arithmetic),
        (*issues, *found),
    )


def with_recoverable(
    result: DeviceResult,
    calls: Calls,
    activities: Activities,
    who: Launched,
    chosen: npt.NDArray[np.bool_],
    owner: I64,
) -> DeviceResult:
    """The result of a device with phases, and with what better kernels would save of its compute time.

    `calls` are those of all devices; `activities` and `who` are all of the process, `chosen` those in
    scope, `owner` the step that launched each.
    """
    if result.own_ns is None or result.device is None:
        return result
    mine = activities.device == result.device
    if not mine.all():
        calls = Calls(calls.trace, activities, who, chosen & mine, calls.hardware)
    row = msgspec.structs.replace(result.rows[0], phases=phases_struct(calls, slice(None)))
    own, model = result.own_ns[chosen[mine]], calls.hardware.get(result.device)
    found = recoverable(calls, own, owner[chosen & mine], model, row.num_steps)
    analysis = replace(
        result.analysis,
        accounting=row,
        numbers={**result.analysis.numbers, **found.numbers},
        culprits={**result.analysis.culprits, **found.culprits},
    )
    return replace(result, analysis=analysis, rows=(row, *result.rows[1:]))
