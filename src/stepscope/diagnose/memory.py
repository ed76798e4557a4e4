"""Memory snapshots beside the ranks: which device each is of, and those that stand alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stepscope.diagnose.row import Row, judged
from stepscope.model import report
from stepscope.model.analysis import DeviceAnalysis, RankAnalysis
from stepscope.model.feature import Observed
from stepscope.rules import Catalog
from stepscope.rules.rule import Subject


def with_snapshots(
    analyses: Sequence[RankAnalysis], snapshots: Sequence[report.Memory]
) -> tuple[list[RankAnalysis], list[report.Memory]]:
    """The analyses with the memory of their devices, and the memory that is of none or of no certain one.

    A snapshot knows its device's number and, by its file's name, perhaps the rank: it is of a rank if that is
    the only one it can be of.
    """
    result, alone = list(analyses), []
    for each in snapshots:
        places = [
            place
            for place, analysis in enumerate(analyses)
            if (each.rank is None or analysis.rank in (None, each.rank))
            and any(device.accounting.device.index == each.device.index for device in analysis.devices)
        ]
        if len(places) == 1:
            owner = result[places[0]]
            result[places[0]] = replace(owner, memory=(*owner.memory, each))
        else:
            alone.append(each)
    return result, alone


def bare_rows(alone: Sequence[report.Memory], catalog: Catalog) -> list[Row]:
    """Rows of devices of which nothing but memory is known, judged by the rules about memory."""
    rules = [rule for rule in catalog if rule.about is Subject.MEMORY]
    return [judged(_observed(each), None, rules) for each in alone]


def _observed(memory: report.Memory) -> Observed:
    """A device of which only its memory is known."""
    bare = observed_device(memory.device, {}, memory.rank, memory.input)
    return replace(bare, rank=replace(bare.rank, memory=(memory,)))


def observed_device(
    device: report.Device, numbers: Mapping[str, float], rank: int | None, input_: int | None = None
) -> Observed:
    """A device without any time, which is in no row of the accounting, and what else is known of it."""
    account = report.Accounting(
        rank=rank,
        device=device,
        scope="trace",
        window="host",
        num_steps=0,
        total_ns=0,
        compute_ns=0,
        communication_exposed_ns=0,
        copy_exposed_ns=0,
        idle_ns=0,
        idle=report.Idle(),
        status="ok",
        input=input_,
    )
    whose = RankAnalysis(
        rank=rank,
        world_size=None,
        issues=(),
        withheld=(),
        steps=(),
        accounting=(),
        devices=(),
        operators=(),
        kernels=(),
        collectives=(),
    )
    return Observed(whose, DeviceAnalysis(account, numbers=numbers))
