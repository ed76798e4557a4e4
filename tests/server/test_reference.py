"""A healthy trace is taken once of a job that runs well, and later reports are held against it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stepscope.model import report
from stepscope.offline.stored import diagnose_window
from stepscope.server import reference as places
from stepscope.server.judge import Judge
from stepscope.server.judge.case import Case
from stepscope.server.reference import LOOK_NS, OpTime, Reference, ReferenceTrace, references, slower_ops
from tests.server.looping import NS, Loop, Played, played

THEN = ReferenceTrace(
    job="llama", run="r1", capture=3, at_ns=1, world_size=8, steps=(120, 123), report="reference-3",
    ops=(
        OpTime("aten::mm", "[[8, 8], [8, 8]]", 40, 40_000_000, 0.4),
        OpTime("aten::add", "", 10, 10_000_000, 0.3),
    ),
)  # fmt: skip


def _report(mm_ns: int, add_ns: int, share: float = 0.4) -> report.Report:
    return report.Report(
        tool=report.Tool(name="stepscope", version="0"),
        verdict=report.Verdict(class_="healthy", text="ok"),
        inputs=(),
        health=report.Health(verdict="ok"),
        operators=tuple(
            report.Operator(name=name, count=10, device_ns=10 * ns, rank=rank, share=share)
            for rank in (0, 1)
            for name, ns in (("aten::mm", 7), ("aten::add", add_ns))
        ),
        operator_shapes=tuple(
            report.OperatorShape(
                name="aten::mm", shapes=shapes, count=10, device_ns=10 * ns, rank=rank, share=share
            )
            for rank, shapes, ns in (
                (0, "[[8, 8], [8, 8]]", 1_000_000), (1, "[[8, 8], [8, 8]]", mm_ns), (1, "[[9, 9]]", 10**9)
            )
        ),
    )  # fmt: skip


def test_an_op_of_the_same_shapes_that_takes_longer_is_told_with_its_ranks() -> None:
    assert slower_ops(_report(1_500_000, 1_000_000), THEN, "en") == (
        "aten::mm [[8, 8], [8, 8]] takes 1.50 ms a call on rank 1, 1.00 ms in the job's healthy trace "
        "of step 120: 1.5 times as long",
    )


def test_an_op_without_shapes_is_compared_by_name_and_others_not_at_all() -> None:
    (line,) = slower_ops(_report(1_190_000, 3_000_000), THEN, "zh")
    assert line.startswith("aten::add 在 rank 0, 1 上每次调用 3.00 ms")
    assert slower_ops(_report(1_190_000, 1_190_000), THEN, "en") == ()
    assert slower_ops(_report(9_000_000, 9_000_000, share=0.01), THEN, "en") == ()


@pytest.fixture(scope="module")
def well(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return played(tmp_path_factory.mktemp("well"), None)


def _reference(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> Reference:
    """Of a job that counts as learned after 10 s and 20 steps."""
    monkeypatch.setattr(places, "AFTER_NS", 10 * NS)
    monkeypatch.setattr(places, "LEAST_STEPS", 20)
    return Reference(
        loop.store, loop.feed, loop.asking, lambda window, asked: diagnose_window(window, asked).report,
        lambda: loop.watched.now_ns + loop.ahead_ns,
    )  # fmt: skip


def test_a_job_that_runs_well_gives_one_reference(
    well: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = well.loop(tmp_path)
    reference = _reference(loop, monkeypatch)
    reference.tick()
    (asked,) = loop.asking.asked
    assert (asked.num_steps, asked.flags) == (4, frozenset({"shapes"}))
    loop.feed.tell("capture", loop.asking.make())
    reference.tick()
    row = loop.store.runs()[0]
    (kept,) = references(loop.store, row.job)
    assert (kept.capture, kept.world_size, reference.num_kept) == (1, 2, 1)
    assert kept.ops[0].device_ns > 0
    assert loop.store.get("reference", f"{row.job}/{row.run}/1") is not None
    assert loop.store.traces(row.job, row.run, 1)  # stays whole

    loop.ahead_ns += LOOK_NS
    reference.tick()
    assert len(loop.asking.asked) == 1


def test_nothing_is_asked_of_a_job_that_is_young_or_has_an_open_incident(
    well: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = well.loop(tmp_path)
    reference = _reference(loop, monkeypatch)
    monkeypatch.setattr(places, "AFTER_NS", 3600 * NS)
    reference.tick()
    monkeypatch.setattr(places, "AFTER_NS", 10 * NS)
    loop.alarm("ecc-uncorrected", well.onset_ns, level="resource")
    loop.ahead_ns += LOOK_NS
    reference.tick()
    assert not loop.asking.asked


def test_the_card_of_a_throttled_device_says_which_ops_are_slower_than_in_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = played(tmp_path / "hot", "thermal-throttle#1:severe")
    loop = made.loop(tmp_path)
    reference = _reference(loop, monkeypatch)
    row = loop.store.runs()[0]
    case = Case("i", row.job, row.run, {})
    loop.alarm("clock-thermal", made.onset_ns, level="resource")
    loop.traces()
    _, found = loop.told[-1]
    ops = places.op_times(found)
    half = tuple(msgspec.structs.replace(each, device_ns=each.device_ns // 2) for each in ops)
    kept = msgspec.structs.replace(THEN, job=row.job, run="before", ops=half, world_size=2)
    loop.store.put("reference", "x", msgspec.json.encode(kept), job=row.job, at_ns=1)
    (first, *_) = reference.notes(case, found)
    assert "in the job's healthy trace of step 120" in first
    judge = Judge(loop.store, loop.feed, loop.asking, loop._diagnose, lambda: 1, notes_of=reference.notes)
    assert judge.handling.telling._notes_of(case, found) == reference.notes(case, found)
