"""A window of the store is what a spool of the same batches gives."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from stepscope.model.batch import Batch, Lines, Marks, Samples
from stepscope.model.sample import Telemetry
from stepscope.sources.catalog.spool import SpoolRead, read_spool
from stepscope.sources.formats.frame import Header, pack_frame, pack_header
from stepscope.sources.marks import marks_of_batches
from stepscope.store.retention import DAY_NS, HOUR_NS, SECOND_NS
from stepscope.store.store import Store
from tests.store.made import AGENT, BATCH_NS, HOST, START_NS, device, event, request

END_NS = START_NS + DAY_NS


def as_spool(batches: list[Batch], folder: Path, agent: str = AGENT) -> SpoolRead:
    folder.mkdir()
    body = pack_header(Header(agent, 1)) + b"".join(pack_frame(each) for each in batches)
    (folder / "1.spool").write_bytes(body)
    return read_spool(str(folder))


def node() -> list[Batch]:
    """Two hours and more of a node: devices, a host, marks, a kernel log, an Xid."""
    found: list[Batch] = []
    for number in range(1, 8):
        for each in request(number):
            found.append(each)
    first = found[0]
    assert isinstance(first, Samples)
    host = [
        msgspec.structs.replace(
            each, signal="cpu_user_ratio", owner=msgspec.structs.replace(device(0), kind="host", uuid=None),
            value=[0.5] * len(each.at_ns), labels={},
        )
        for each in first.series[:1]
    ]  # fmt: skip
    missing = [("DCGM_FI_PROF_SM_ACTIVE", "not_supported", 3)]
    found.append(Samples(AGENT, 0, HOST, "host", host, SECOND_NS, None, 0, missing))
    text = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."
    found.append(Lines(AGENT, 0, HOST, "kernel", "kernel", [START_NS + HOUR_NS], [text]))
    found.append(event(0, "driver_back", None, START_NS + HOUR_NS))
    return [msgspec.structs.replace(each, seq=seq) for seq, each in enumerate(found, start=1)]


def assert_alike(found: tuple[Telemetry, ...], wanted: tuple[Telemetry, ...]) -> None:
    assert len(found) == len(wanted)
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.name.split(" ", 1)[1] == theirs.name.split(" ", 1)[1]
        for name in ("window_ns", "collect_ns", "lag_ns", "marks", "num_samples", "time"):
            assert getattr(mine, name) == getattr(theirs, name), name
        assert set(mine.missing) == set(theirs.missing)
        assert {o.key: dict(v) for o, v in mine.labels.items()} == {
            o.key: dict(v) for o, v in theirs.labels.items()
        }
        of = {(each.signal, each.owner): each for each in theirs.series}
        assert {(each.signal, each.owner) for each in mine.series} == set(of)
        for each in mine.series:
            other = of[each.signal, each.owner]
            np.testing.assert_array_equal(each.at_ns, other.at_ns)
            np.testing.assert_array_equal(each.value, other.value)
            assert each.num_resets == other.num_resets


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_whole_window_equals_the_spool_it_came_from(tmp_path: Path, is_sealed: bool) -> None:
    batches = node()
    wanted = as_spool(batches, tmp_path / "spool")
    store = Store.open(str(tmp_path / "store"), now_ns=lambda: START_NS + 7 * BATCH_NS)
    for each in batches:
        store.keep([each])
    if is_sealed:
        store.tend()
        assert list((tmp_path / "store").rglob("device-*.parquet"))
    assert_alike(store.telemetry("llama", "r1", START_NS, END_NS), wanted.telemetry)
    (mine,), (theirs,) = (
        store.marks("llama", "r1", START_NS, END_NS),
        marks_of_batches(wanted.marks, wanted.ends),
    )
    assert mine.identity == theirs.identity
    assert (mine.num_lost, mine.num_missing, mine.is_alive) == (
        theirs.num_lost,
        theirs.num_missing,
        theirs.is_alive,
    )
    np.testing.assert_array_equal(mine.steps.start_ns, theirs.steps.start_ns)
    assert [log.events for log in store.logs("llama", None, START_NS, END_NS)] == [
        log.events for log in wanted.logs
    ]
    # And what the store gives as batches, read as a spool, is the same again.
    again = list(store.batches("llama", "r1", START_NS, END_NS))
    assert [each.seq for each in again] == list(range(1, len(again) + 1))
    assert_alike(as_spool(again, tmp_path / "again", "store").telemetry, wanted.telemetry)
    store.close()


def test_a_part_of_a_run_misses_no_record_before_it(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path), now_ns=lambda: START_NS + 7 * BATCH_NS)
    for each in node():
        store.keep([each])
    start = START_NS + 2 * BATCH_NS
    (marks,) = store.marks("llama", "r1", start, start + BATCH_NS)
    assert (marks.num_missing, marks.num_lost, len(marks.steps)) == (0, 0, 60)
    assert marks.steps.step[0] == 120
    assert marks.is_alive
    assert store.marks("other", "r1", start, start + BATCH_NS) == ()
    store.close()


def test_another_job_s_samples_are_not_in_a_window_and_nobody_s_are(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path), now_ns=lambda: START_NS)
    first = request(1)[0]
    assert isinstance(first, Samples)
    other = [
        msgspec.structs.replace(each, owner=device(7), labels={"job": "other", "run": "x"})
        for each in first.series[:3]
    ]
    nobody = [msgspec.structs.replace(each, owner=device(8), labels={}) for each in first.series[:3]]
    store.keep([msgspec.structs.replace(first, series=[*first.series, *other, *nobody])])
    owners = {
        each.owner.uuid
        for batch in store.batches("llama", "r1", START_NS, END_NS)
        if isinstance(batch, Samples)
        for each in batch.series
    }
    assert owners == {"GPU-0000", "GPU-0001", "GPU-0008"}
    assert not any(isinstance(each, Marks) for each in store.batches("other", None, START_NS, END_NS))
    store.close()
