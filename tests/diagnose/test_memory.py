"""Findings about memory beside those about time, and snapshots that stand alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec
import pytest

from stepscope.analyse.features import facts
from stepscope.analyse.features import memory as features
from stepscope.analyse.rank import analyse_rank
from stepscope.diagnose import Options, diagnose
from stepscope.diagnose.memory import with_snapshots
from stepscope.model import report
from stepscope.model.analysis import RankAnalysis
from stepscope.model.feature import Feature, Observed
from stepscope.trace.load import load_bytes
from tests.analyse.build import Build
from tests.diagnose.build import CATALOG, MS, rank, row, told, trace
from tests.views.contract import broken

MB, GB = 1 << 20, 1 << 30
DEVICE = report.Device(index=0)
OOM = report.OutOfMemory(
    requested_bytes=4 * GB,
    reason="too_big",
    reserved_bytes=40 * GB,
    allocated_bytes=39 * GB,
    unallocated_bytes=GB,
    num_free_blocks=9,
    largest_free_bytes=GB // 2,
    device_free_bytes=GB,
    is_estimate=False,
)


def of_trace(**more: object) -> report.Memory:
    return report.Memory(source="trace", device=DEVICE, basis="totals", num_events=9, rank=0, **more)


def of_snapshot(device: int = 0, number: int | None = None, **more: object) -> report.Memory:
    return report.Memory(
        source="snapshot",
        device=report.Device(index=device),
        basis="totals",
        num_events=9,
        rank=number,
        input=0,
        unverified=True,
        **more,
    )


def with_memory(analysis: RankAnalysis, *memory: report.Memory) -> RankAnalysis:
    return dataclasses.replace(analysis, memory=memory)


def answered(analyses: Sequence[RankAnalysis], *memory: report.Memory) -> report.Report:
    snapshot = report.Input(kind="snapshot", name="s.pickle", events=9)
    inputs = [snapshot, *(trace(f"rank{a.rank}.json", a.rank) for a in analyses)]
    made = diagnose(analyses, inputs, Options(catalog=CATALOG), memory)
    assert broken(msgspec.json.decode(report.encode(made))) == []
    return made


GROWTH = report.MemoryGrowth(
    bytes_per_step=40.0 * MB, error_bytes_per_step=MB, certainty=4.2, steady_share=0.9, num_steps=12
)


def test_growing_memory_is_a_warning_without_a_cost() -> None:
    answer = told(with_memory(rank(row(input=30 * MS)), of_trace(growth=GROWTH)))
    assert [(f.rule, f.severity) for f in answer.findings] == [
        ("input-starvation", "critical"),
        ("memory-creep", "warning"),
    ]
    assert answer.findings[1].cost is None
    assert answer.verdict.class_ == "waiting-for-data"
    assert [card.id for card in answer.cards] == ["input-starvation", "memory-creep"]


def test_a_healthy_device_whose_memory_grows_is_not_just_called_healthy() -> None:
    """A rule calls the device healthy; the answer of a run that is going to fail says that too."""
    healthy = rank(row(queued=2 * MS))
    assert told(healthy).verdict.class_ == "healthy"
    answer = told(with_memory(healthy, of_trace(growth=GROWTH)))
    assert answer.verdict.class_ == "healthy"
    assert answer.verdict.text.endswith("; but device memory grows from step to step.")


def test_a_snapshot_alone_is_judged_by_the_rules_of_memory_alone() -> None:
    answer = answered(
        [],
        of_snapshot(
            out_of_memory=(OOM,), driver=report.DriverCalls(num_allocations=1, num_frees=0, num_retries=0)
        ),
    )
    assert [f.rule for f in answer.findings] == ["out-of-memory"]
    assert answer.findings[0].title.endswith("it was larger than all that was free")
    assert answer.verdict.class_ == "undecided"
    assert answer.verdict.row is None
    assert answer.health.verdict == "ok"
    assert answer.accounting == ()
    assert answer.undecided == ()
    assert answer.next == "stepscope diagnose s.pickle TRACE  # TRACE: a trace of the same run"


def test_a_snapshot_without_a_finding_is_still_an_answer() -> None:
    answer = answered([], of_snapshot())
    assert answer.findings == ()
    assert answer.verdict.text.endswith("give a trace of the run too.")
    assert len(answer.memory) == 1


def test_several_snapshots_that_failed_share_a_card_and_have_ids_of_their_own() -> None:
    driver = report.DriverCalls(num_allocations=1, num_frees=0, num_retries=0)
    answer = answered(
        [], *(of_snapshot(number=n, out_of_memory=(OOM,), driver=driver) for n in (0, 1, None, None))
    )
    assert len({f.id for f in answer.findings}) == 4
    assert len(answer.cards) == 1
    assert answer.cards[0].title.endswith("(ranks 0, 1)")


@pytest.mark.parametrize(
    ("snapshot", "owners"),
    [
        (of_snapshot(0, 1), [1]),
        (of_snapshot(0, 7), []),
        (of_snapshot(3, 1), []),
        # Of two ranks with a device 0 it may be of either.
        (of_snapshot(0, None), []),
    ],
)
def test_a_snapshot_is_of_the_only_rank_it_can_be_of(snapshot: report.Memory, owners: list[int]) -> None:
    ranks = [rank(row(rank=0)), rank(row(rank=1))]
    attached, alone = with_snapshots(ranks, [snapshot])
    assert [a.rank for a in attached if a.memory] == owners
    assert len(alone) == (0 if owners else 1)
    assert len(answered(ranks, snapshot).memory) == 1


def test_a_snapshot_without_rank_is_of_the_only_trace() -> None:
    attached, alone = with_snapshots([rank(row(rank=5))], [of_snapshot(0, None)])
    assert (len(attached[0].memory), alone) == (1, [])


def value(feature: Feature, *memory: report.Memory) -> float | None:
    analysis = with_memory(rank(row()), *memory)
    return facts(Observed(analysis, analysis.devices[0]), [feature]).get(feature)


HELD = report.HeldMemory(
    reserved_bytes=10 * GB,
    allocated_bytes=6 * GB,
    requested_bytes=6 * GB,
    pending_bytes=0,
    free_bytes=4 * GB,
    largest_free_bytes=GB,
    free_in_pieces_share=0.75,
    inactive_split_bytes=4 * GB,
    num_segments=9,
    num_blocks=90,
    num_free_blocks=40,
    expandable_segments=True,
)


def reserve(grew: bool) -> report.MemoryReserve:
    return report.MemoryReserve(
        at_ns=5, reserved_bytes=12 * GB, allocated_bytes=9 * GB, unused_share=0.25, grew=grew
    )


def test_what_lies_in_pieces_is_the_snapshots_number_before_the_traces() -> None:
    pieces = features.memory_in_pieces_share
    assert value(pieces, of_trace(reserve=reserve(True))) == 0.25
    # A reserve that did not grow served every request.
    assert value(pieces, of_trace(reserve=reserve(False))) is None
    assert value(pieces, of_trace(reserve=reserve(True)), of_snapshot(held=HELD)) == 0.3
    # At the failure half a GiB of 40 lay in smaller pieces.
    assert value(pieces, of_snapshot(held=HELD, out_of_memory=(OOM,))) == 0.0125


def test_memory_of_other_devices_and_of_the_host_is_not_this_ones() -> None:
    pieces = features.memory_in_pieces_share
    assert value(pieces, of_snapshot(1, held=HELD)) is None
    host = msgspec.structs.replace(of_trace(reserve=reserve(True)), device=report.Device(kind="cpu"))
    assert value(pieces, host) is None


def test_failures_are_counted_only_where_a_history_was_recorded() -> None:
    calls = report.DriverCalls(num_allocations=1, num_frees=0, num_retries=0)
    assert value(features.oom_count, of_trace(driver=calls)) is None
    assert value(features.oom_count, of_snapshot(held=HELD)) is None
    assert value(features.oom_count, of_snapshot(driver=calls)) == 0
    assert value(features.oom_count, of_snapshot(driver=calls, out_of_memory=(OOM,))) == 1
    assert value(features.oom_too_big_share, of_snapshot(out_of_memory=(OOM,))) == 1
    assert value(features.oom_fragmented_share, of_snapshot(out_of_memory=(OOM,))) == 0
    assert value(features.oom_fragmented_share, of_snapshot()) is None


def test_growth_is_told_for_fifty_steps() -> None:
    assert value(features.memory_growth_50_steps, of_trace(growth=GROWTH)) == 2000 * MB
    assert value(features.memory_growth_50_steps, of_trace()) is None


def test_the_remedy_against_fragments_is_not_given_twice() -> None:
    """Where segments grow already, switching that on again helps nobody."""
    driver = report.DriverCalls(num_allocations=9, num_frees=9, num_retries=9)
    for grows in (True, False):
        held = msgspec.structs.replace(HELD, expandable_segments=grows)
        answer = answered([], of_snapshot(held=held, driver=driver))
        (finding,) = answer.findings
        assert finding.rule == "memory-fragmentation"
        patches = [remedy.patch.after for remedy in finding.remedies if remedy.patch is not None]
        assert bool(patches) is not grows


def training(grows_mb: int) -> Build:
    """Twelve steps; each keeps `grows_mb` of what it made."""
    b = Build().steps(1, [100 * i for i in range(13)])
    kept = 1000
    for i in range(12):
        start = 100 * i
        b.kernel("gemm", start + 1, start + 99, launched=(start + 0.5, start + 0.8))
        b.op("aten::mm", start + 10, start + 90)
        b.memory(start + 20, 200 * MB, address=7, allocated=(kept + 200) * MB, reserved=4000 * MB)
        kept += grows_mb
        b.memory(start + 60, (grows_mb - 200) * MB, address=7, allocated=kept * MB, reserved=4000 * MB)
    return b


def test_a_trace_of_a_leak_is_found_from_its_bytes_to_the_report() -> None:
    for grows, rules in ((0, []), (25, ["memory-creep"])):
        analyses = analyse_rank(load_bytes(training(grows).bytes(), "t.json"), rank=0)
        answer = answered(analyses)
        assert [f.rule for f in answer.findings if f.rule.startswith("memory")] == rules
        (memory,) = answer.memory
        assert memory.growth is not None
        assert memory.growth.bytes_per_step == grows * MB
        assert memory.peak is not None
        assert memory.peak.step == (12 if grows else 1)
