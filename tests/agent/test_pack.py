"""Readings to batches: what is held together, and how labels are given."""

from __future__ import annotations

from stepscope.agent.context import Context
from stepscope.agent.job import LiveRank
from stepscope.agent.pack import Packer
from stepscope.agent.source import Event, Line, Reading, Sample
from stepscope.model.batch import Happened, Lines, Samples
from stepscope.model.mark import Identity
from stepscope.model.sample import Owner

S = 1_000_000_000
GPU = Owner(uuid="GPU-0", index=0, host="n1")


def made() -> tuple[Packer, Context]:
    context = Context(host="n1")
    return Packer(agent="a", host="n1", jobs=context.jobs, devices=context.devices, hold_ns=5 * S), context


def power(at: int, value: float = 300.0, window: int | None = None) -> Reading:
    return Reading(at * S, [Sample(GPU, "power_watts", value)], window_ns=window, lag_ns=0)


def flushed(packer: Packer) -> list[Samples]:
    return [each for each in packer.flush() if isinstance(each, Samples)]


def test_values_of_five_seconds_are_one_series() -> None:
    packer, _ = made()
    for at in range(5):
        assert packer.add("nvml", power(at, 300.0 + at), at * S) == []
    assert packer.due(4 * S) == []
    (batch,) = packer.due(5 * S)
    assert isinstance(batch, Samples)
    (series,) = batch.series
    assert series.at_ns == [0, S, 2 * S, 3 * S, 4 * S]
    assert series.value == [300.0, 301.0, 302.0, 303.0, 304.0]
    assert (batch.source, batch.seq, batch.lag_ns) == ("nvml", 0, 0)


def test_another_window_begins_another_batch_and_the_mean_of_like_ones_is_told() -> None:
    packer, _ = made()
    batches = packer.add("gpm", power(1, window=1_000_000_000), 0)
    batches += packer.add("gpm", power(2, window=1_040_000_000), 0)
    assert batches == []
    (first,) = packer.add("gpm", power(12, window=10 * S), 0)
    assert isinstance(first, Samples)
    assert first.window_ns == 1_020_000_000
    assert [each.window_ns for each in flushed(packer)] == [10 * S]


def test_a_series_is_cut_where_the_job_begins_and_ends() -> None:
    packer, context = made()
    for at in range(5):
        packer.add("nvml", power(at), at * S)
    identity = Identity(job="j", run="r", rank=2, device_uuids=("GPU-0",))
    context.jobs.put(LiveRank("a.ring", identity, S))
    context.jobs.end("a.ring", 3 * S)
    (batch,) = flushed(packer)
    assert [(each.at_ns[0] // S, each.at_ns[-1] // S, each.labels.get("rank")) for each in batch.series] == [
        (0, 0, None),
        (1, 2, "2"),
        (3, 4, None),
    ]


def test_steps_are_those_that_ran_over_the_windows() -> None:
    packer, context = made()
    rank = LiveRank("a.ring", Identity(job="j", rank=0, device_uuids=("GPU-0",)), 0)
    for step in range(10):
        rank.begin_step(step * S, 100 + step)
    context.jobs.put(rank)
    packer.add("gpm", power(4, window=S), 0)
    packer.add("gpm", power(5, window=S), 0)
    (batch,) = flushed(packer)
    assert batch.series[0].steps == (103, 105)
    assert batch.series[0].labels == {"job": "j", "rank": "0"}


def test_a_clock_that_was_set_back_gives_no_two_values_of_one_time() -> None:
    packer, _ = made()
    for at in (3, 2, 3, 4):
        packer.add("nvml", power(at), 0)
    (batch,) = flushed(packer)
    assert batch.series[0].at_ns == [3 * S, 4 * S]


def test_an_event_leaves_at_once_with_the_labels_of_its_device_then() -> None:
    packer, context = made()
    context.jobs.put(LiveRank("a.ring", Identity(job="j", rank=1, device_uuids=("GPU-0",)), 5 * S))
    for at, expected in ((4, {}), (6, {"job": "j", "rank": "1"})):
        (event,) = packer.add("x", Reading(0, events=[Event(at * S, "xid", "Xid 79", 79, GPU)]), 0)
        assert isinstance(event, Happened)
        assert (event.labels, event.code) == (expected, 79)


def test_secrets_leave_no_line_and_no_event() -> None:
    packer, _ = made()
    token = "hf_" + "a1B2c3D4" * 5
    line = Line("nccl", "f", 0, f"NCCL WARN token={token}")
    lines, event = sorted(
        packer.add("x", Reading(0, lines=[line], events=[Event(0, "start", f"--token {token}")]), 0),
        key=lambda each: isinstance(each, Happened),
    )
    assert isinstance(lines, Lines)
    assert isinstance(event, Happened)
    assert token not in lines.text[0] + event.text


def test_missing_fields_are_counted_together() -> None:
    packer, _ = made()
    for at in range(3):
        reading = power(at)
        reading.missing["X", "blank"] += 2
        packer.add("nvml", reading, 0)
    (batch,) = flushed(packer)
    assert batch.missing == [("X", "blank", 6)]
