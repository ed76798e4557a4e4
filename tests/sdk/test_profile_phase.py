"""What a trace is told by the ring of its process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from stepscope import offline
from stepscope_sdk.monitor import Monitor
from stepscope_sdk.profile_phase import Marked, Stretch, marked
from stepscope_sdk.ring import Ring
from tests.sdk.test_profile_write import BASE_NS, device_trace, written

EVER = (0, 1 << 62)
MS = 1_000_000


def read(tmp_path: Path, marks: Callable[[Monitor], None], when: tuple[int, int] = EVER) -> Marked:
    """What the ring holds of a time when a loop has marked."""
    ring = Ring(str(tmp_path / "rank0.ring"), {"rank": 0}, num_records=64)
    monitor = Monitor(ring)
    marks(monitor)
    found = marked(ring.path, *when)
    monitor.close()
    ring.close()
    return found


def one_step(monitor: Monitor) -> None:
    with monitor.step():
        for name in ("forward", "logging", "data", "my own"):
            with monitor.phase(name):
                pass


def test_phases_that_a_profiler_cannot_know_are_told_and_passes_are_not(tmp_path: Path) -> None:
    found = read(tmp_path, one_step)
    assert [each.name for each in found.phases] == ["logging", "data_wait", "my own"]
    assert all(each.end_ns > each.start_ns > 1_600_000_000_000_000_000 for each in found.phases)


@pytest.mark.parametrize("is_tiled", [False, True])
def test_steps_that_attach_mode_found_are_told_apart_from_those_of_the_loop(
    tmp_path: Path, is_tiled: bool
) -> None:
    def marks(monitor: Monitor) -> None:
        monitor.is_tiled = is_tiled
        one_step(monitor)

    assert read(tmp_path, marks).is_tiled is is_tiled


def test_nothing_is_told_of_another_time_nor_of_a_ring_that_is_gone(tmp_path: Path) -> None:
    assert read(tmp_path, one_step, (0, 1)) == Marked([])
    assert marked(str(tmp_path / "none.ring"), *EVER) == Marked([])


@pytest.mark.parametrize("most", [None, 200])
def test_phases_are_annotations_of_the_thread_in_the_time_of_the_trace(
    tmp_path: Path, most: int | None
) -> None:
    phases = [Stretch("logging", BASE_NS + 20_000, BASE_NS + 50_000)]
    got = json.loads(written(tmp_path, device_trace(10, has_steps=True), phases=phases, thread=42, most=most))
    (own,) = [each for each in got["traceEvents"] if each["name"] == "logging"]
    assert (own["cat"], own["tid"], own["ts"], own["dur"]) == ("user_annotation", 42, 20.0, 30.0)
    assert len(got["traceEvents"]) == len(device_trace(10, has_steps=True)["traceEvents"]) + 1


def host_trace(*, is_tiled: bool, has_loader: bool) -> dict[str, object]:
    """Four steps of 20 ms on a host: 12 ms of Python, with a loader's wait of 1 ms in the middle where there
    is one, then one op."""
    events: list[dict[str, object]] = []

    def add(cat: str, name: str, start_ms: float, took_ms: float) -> None:
        row = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1}
        events.append({**row, "ts": start_ms * 1000, "dur": took_ms * 1000})

    for step in range(4):
        at = 20 * step
        add("user_annotation", f"ProfilerStep#{step}", at, 20)
        if has_loader:
            add("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 6, 1)
        add("cpu_op", "aten::addmm", at + 12, 8)
    told = {"stepscope": {"capture": 1, **({"tiled": True} if is_tiled else {})}}
    return {"schemaVersion": 1, **told, "traceEvents": events}


def shares(tmp_path: Path, **what: bool) -> tuple[dict[str, float], list[str]]:
    """(idle parts of the step in ms, findings) of such a trace."""
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(host_trace(**what)))
    report = offline.diagnose([str(path)])
    row = report.accounting[0]
    parts = {name: getattr(row.idle, f"{name}_ns") for name in ("input", "preprocess", "python", "launch")}
    found = {name: round(ns / row.num_steps / MS, 3) for name, ns in parts.items() if ns}
    return found, [each.rule for each in report.findings]


def test_a_capture_in_attach_mode_takes_no_work_behind_the_optimizer_for_preparation(tmp_path: Path) -> None:
    assert shares(tmp_path, is_tiled=True, has_loader=False) == ({"python": 12.0}, ["between-steps"])
    assert shares(tmp_path, is_tiled=False, has_loader=False) == (
        {"preprocess": 12.0},
        ["host-preprocessing"],
    )


def test_the_loaders_wait_tells_it_apart_in_a_capture_too(tmp_path: Path) -> None:
    found, rules = shares(tmp_path, is_tiled=True, has_loader=True)
    assert found == {"input": 1.0, "preprocess": 5.0, "python": 6.0}
    assert "host-preprocessing" in rules
    assert "between-steps" not in rules
