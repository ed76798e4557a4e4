"""A spool read with no server: what of it becomes telemetry, logs and marks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from stepscope.agent.spool import Spool
from stepscope.model.batch import Batch, BatchOwner, Lines
from stepscope.model.error import InputError, UsageError
from stepscope.model.sample import Telemetry
from stepscope.offline import diagnose
from stepscope.sources.catalog.spool import read_spool
from stepscope.sources.formats.spool import batches_of, is_spool, open_spool
from tests.agent.made import HOST, NS, START_NS, device, event, job, marked, samples, series

MINUTE_NS = 60 * NS


def _write(folder: Path, batches: Iterable[Batch], **options: int) -> Path:
    spool = Spool(folder, is_threaded=False, **options)
    for each in batches:
        spool.append(each)
    spool.close()
    return folder


def _notes(parts: tuple[Telemetry, ...]) -> dict[str, tuple[int, str]]:
    return {code: (count, text) for part in parts for code, count, text in part.notes}


def _power(
    values: list[float], second: int = 0, rank: int = 0, name: str = "llama", host: str = HOST
) -> Batch:
    row = series("power_watts", values, device(rank, host), second=second, labels=job(rank, name))
    return samples(row, host=host)


def test_samples_come_back_with_their_times_windows_and_labels(tmp_path: Path) -> None:
    host = BatchOwner(kind="host", host=HOST)
    odd = msgspec.structs.replace(samples(series("cpu_run_queue", 3, host), source="host"), lag_ns=None)
    folder = _write(tmp_path / "s", [_power([600, 601]), odd, _power([602, 603], 2)])
    found = read_spool(str(folder))
    nvml, of_host = found.telemetry
    (power,) = nvml.series
    assert power.at_ns.tolist() == [START_NS + n * NS for n in range(4)]
    assert power.value.tolist() == [600, 601, 602, 603]
    assert (nvml.window_ns, nvml.lag_ns, nvml.num_samples) == (NS, 0, 4)
    assert (of_host.window_ns, of_host.lag_ns) == (NS, None)
    assert of_host.series[0].owner.kind == "host"
    assert nvml.labels[power.owner] == {"job": "llama", "run": "r1", "rank": "0"}
    assert (found.job, found.jobs) == ("llama", ("llama",))


def test_a_window_that_changed_is_not_stated(tmp_path: Path) -> None:
    slow = msgspec.structs.replace(_power([1, 2], 10), window_ns=10 * NS)
    assert read_spool(str(_write(tmp_path / "s", [_power([1, 2]), slow]))).telemetry[0].window_ns is None


def test_a_damaged_segment_is_named_with_its_place_and_the_rest_is_used(tmp_path: Path) -> None:
    folder = _write(tmp_path / "s", [_power([float(n)] * 40, 40 * n) for n in range(30)], segment_bytes=4000)
    names = sorted(folder.glob("*.spool"))
    assert len(names) > 3
    data = bytearray(names[1].read_bytes())
    data[200] ^= 0xFF
    names[1].write_bytes(bytes(data))
    names[2].write_bytes(b"nothing of ours")
    found = read_spool(str(folder))
    notes = [note for part in found.telemetry for note in part.notes if note[0] == "spool_damage"]
    assert sorted(text.partition(":")[0] for _, _, text in notes) == [
        f"{names[1].name} at byte 64",
        f"{names[2].name} at byte 0",
    ]
    assert found.content.num_batches >= 20
    assert found.telemetry[0].num_samples == 40 * found.content.num_batches


def test_a_batch_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    folder = _write(tmp_path / "s", [_power([600, 601])])
    (segment,) = folder.glob("*.spool")
    (folder / "copy.spool").write_bytes(segment.read_bytes())
    found = read_spool(str(folder))
    assert found.telemetry[0].num_samples == 2
    assert _notes(found.telemetry)["spool_duplicate"][0] == 1


def test_a_segment_that_the_agent_drops_while_it_is_read_is_no_fault(tmp_path: Path) -> None:
    folder = _write(tmp_path / "s", [_power([float(n)] * 40, 40 * n) for n in range(30)], segment_bytes=4000)
    content = open_spool(str(folder))
    batches = batches_of(content)
    next(batches)
    sorted(folder.glob("*.spool"))[2].unlink()
    assert 10 < 1 + len(list(batches)) < 30
    assert content.faults == []


def test_spools_of_two_nodes_in_one_folder_are_two_sources(tmp_path: Path) -> None:
    one = _write(tmp_path / "a", [_power([1, 2], rank=0, host="node-a")])
    other = _write(tmp_path / "b", [_power([3, 4], rank=1, host="node-b")])
    both = tmp_path / "both"
    both.mkdir()
    for folder in (one, other):
        for each in folder.glob("*.spool"):
            (both / f"{folder.name}-{each.name}").write_bytes(each.read_bytes())
    found = read_spool(str(both))
    assert len(found.content.agents) == 2
    assert sorted(part.series[0].owner.host or "" for part in found.telemetry) == ["node-a", "node-b"]


def _two_jobs(tmp_path: Path) -> Path:
    idle = series("power_watts", [70.0] * 60, device(0), second=100)  # of nobody, between the two
    far = series("power_watts", [71.0] * 60, device(0), second=5000)
    return _write(
        tmp_path / "s",
        [
            _power([600.0] * 100, 0, name="first"),
            samples(idle),
            _power([500.0] * 50, 200, name="second"),
            samples(far),
        ],
    )


def test_of_several_jobs_the_largest_is_read_and_the_others_are_named(tmp_path: Path) -> None:
    found = read_spool(str(_two_jobs(tmp_path)))
    assert found.job == "first"
    (power,) = found.telemetry[0].series
    assert power.value.tolist() == [600.0] * 100 + [70.0] * 60  # and what was beside it, ten minutes on
    assert _notes(found.telemetry)["spool_jobs"] == (
        1,
        "job first was read; there are also second: choose by --job",
    )


def test_the_job_that_is_named_is_read_and_one_that_is_not_there_is_refused(tmp_path: Path) -> None:
    folder = _two_jobs(tmp_path)
    (power,) = read_spool(str(folder), job="second").telemetry[0].series
    assert power.value.tolist() == [70.0] * 60 + [500.0] * 50
    with pytest.raises(UsageError, match=r"no job third in the spool; there are: first, second"):
        read_spool(str(folder), job="third")
    with pytest.raises(UsageError, match="there are: first, second"):
        diagnose(telemetry=[folder], job="third")
    assert diagnose(telemetry=[folder], job="second").inputs[0].events == 110


def test_an_xid_and_the_kernels_line_of_it_are_an_event_and_a_log(tmp_path: Path) -> None:
    xid = msgspec.structs.replace(
        event("Xid 79"), what="xid", code=79, owner=device(1), at_ns=START_NS + 5 * NS
    )
    said = "4,1234,98765,-;NVRM: Xid (PCI:0000:54:00): 79, pid=1, name=python, GPU has fallen off the bus."
    lines = Lines("", 0, HOST, "kernel", "kmsg", [START_NS + 5 * NS + 7000], [said])
    found = read_spool(str(_write(tmp_path / "s", [_power([600] * 9, rank=1), xid, lines])))
    (mark,) = found.telemetry[0].marks
    assert (mark.kind, mark.code, mark.at_ns) == ("xid", 79, START_NS + 5 * NS)
    assert mark.owner is not None
    assert mark.owner.index == 1
    (log,) = found.logs
    (told,) = log.events
    assert (told.code, told.at_ns, told.host) == (79, START_NS + 5 * NS + 7000, HOST)


def test_what_the_kernel_said_is_told_once_although_it_leaves_the_node_twice(tmp_path: Path) -> None:
    at_ns = START_NS + 5 * NS
    xid = msgspec.structs.replace(
        event("Xid 79"), what="xid", code=79, owner=device(1), at_ns=at_ns, labels={"log": "kernel"}
    )
    said = "4,1234,98765,-;NVRM: Xid (PCI:0000:54:00): 79, pid=1, name=python, GPU has fallen off the bus."
    lines = Lines("", 0, HOST, "kernel", "kmsg", [at_ns], [said])
    found = read_spool(str(_write(tmp_path / "s", [_power([600] * 9, rank=1), xid, lines])))
    assert [mark for part in found.telemetry for mark in part.marks] == []
    assert [told.code for log in found.logs for told in log.events] == [79]
    # Where the line was lost, the event is what is left of it.
    alone = read_spool(str(_write(tmp_path / "t", [_power([600] * 9, rank=1), xid])))
    assert [mark.code for part in alone.telemetry for mark in part.marks] == [79]


def test_what_the_agent_gave_up_is_told(tmp_path: Path) -> None:
    rows = [_power([float(n)] * 40, 40 * n) for n in range(100)]
    folder = _write(tmp_path / "s", rows, segment_bytes=2000, max_bytes=8000)
    count, text = _notes(read_spool(str(folder)).telemetry)["spool_gap"]
    assert count > 10
    assert "no room: batches" in text


@pytest.mark.parametrize("times", [[1 << 63], [-(1 << 62)], [1 << 62], [5, 4, 4, 3]])
def test_times_that_none_can_be_break_nothing(tmp_path: Path, times: list[int]) -> None:
    row = msgspec.structs.replace(series("power_watts", [1.0] * len(times)), at_ns=times)
    lines = Lines(
        "", 0, HOST, "kernel", "kmsg", times, ["NVRM: Xid (PCI:0000:54:00): 79, pid=1"] * len(times)
    )
    folder = _write(tmp_path / "s", [_power([600] * 9), samples(row), lines])
    assert read_spool(str(folder)).telemetry[0].num_samples >= 9


def test_a_folder_without_batches_and_a_file_that_is_none_are_refused_in_one_line(tmp_path: Path) -> None:
    folder = _write(tmp_path / "s", [])
    assert not is_spool(str(folder))
    torn = tmp_path / "t"
    torn.mkdir()
    (torn / "1.spool").write_bytes(b"STEPSPUL")
    with pytest.raises(InputError, match="no segment of a spool"):
        read_spool(str(torn))
    only = _write(tmp_path / "u", [event("nothing of use")])
    with pytest.raises(InputError, match="no samples, marks or logs"):
        read_spool(str(only))
    report = None
    with pytest.raises(Exception, match="no samples, marks or logs"):
        report = diagnose(telemetry=[only])
    assert report is None


def test_a_loader_slowed_in_some_steps_is_found_with_those_steps(tmp_path: Path) -> None:
    steps = [(0.2 if 120 <= n < 180 else 0.002, 0.1) for n in range(400)]
    host = BatchOwner(kind="host", host=HOST)
    cpu = [
        samples(series("cpu_iowait_ratio", [0.01] * 10, host, second=10 * n, labels=job(0)), source="host")
        for n in range(5)
    ]
    folder = _write(tmp_path / "s", [*marked(steps), *cpu])
    report = diagnose(telemetry=[folder])
    (given,) = report.inputs
    assert (given.kind, given.format) == ("telemetry", "spool")
    assert given.events is not None
    assert given.events > 2000
    found = [each for each in report.findings if each.rule == "input-starvation"]
    assert found, [each.rule for each in report.findings]
    steps_told = found[0].subject.steps
    assert steps_told
    assert abs(steps_told[0] - 120) <= 1
    assert abs(steps_told[-1] - 179) <= 1


def test_a_healthy_run_in_a_spool_has_no_finding(tmp_path: Path) -> None:
    folder = _write(tmp_path / "s", marked([(0.002, 0.1)] * 300))
    assert [each.rule for each in diagnose(telemetry=[folder]).findings if each.severity != "info"] == []


def test_a_process_that_lived_when_the_agent_last_looked_does_not_hang_since_then(tmp_path: Path) -> None:
    folder = _write(tmp_path / "s", marked([(0.002, 0.1)] * 300, is_alive=True))
    # Read years after it was written: what came later nobody knows.
    report = diagnose(telemetry=[folder])
    assert "no-progress" not in {each.rule for each in report.findings}
