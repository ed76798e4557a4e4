"""Kernel and fabric-manager logs of real hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.model.error import InputError
from stepscope.model.log import Log
from stepscope.model.xid import incidents
from stepscope.sources.log import is_log, read_log

S = 1_000_000_000


def gpud(shared_data: Path, name: str) -> Log:
    (path,) = (shared_data / "other" / "gpud").glob(f"*{name}")
    return read_log(str(path))


def test_five_timeouts_of_one_device_are_one_incident_of_six_minutes(shared_data: Path) -> None:
    log = gpud(shared_data, "dmesg-with-xid-119.log")
    assert (log.format, log.is_zone_assumed, log.num_lines, log.num_known) == ("kernel", True, 43, 7)
    assert log.uuids == {"0000:9b:00.0": "GPU-509665ad-b600-ac93-3616-d754b23d636d"}
    start = 1_740_327_858 * S  # Sun Feb 23 16:24:18 2025, as UTC
    xids = [event for event in log.events if event.kind == "xid"]
    assert [(event.code, event.line, event.pid, ((event.at_ns or 0) - start) // S) for event in xids] == [
        (119, 3, 2024380, 0),
        (119, 38, 2024380, 6),
        (119, 40, 2024380, 12),
        (119, 42, 1263500, 174),
        (119, 43, 1240590, 355),
    ]
    assert [(event.what, event.line) for event in log.events if event.kind != "xid"] == [("gsp_error", 41)]
    (incident,) = incidents(log.events)
    assert (incident.code, incident.count, incident.devices) == (119, 5, ("0000:9b:00.0",))
    assert incident.end_ns == start + 355 * S


def test_a_fabric_manager_states_one_error_among_its_notes(shared_data: Path) -> None:
    log = gpud(shared_data, "fabricmanager.log")
    (event,) = log.events
    assert (event.what, event.code, event.severity, event.pci_bus_id) == (
        "nvswitch_error", 12028, "warning", "0000:86:00.0",
    )  # fmt: skip
    assert event.numbers == {"switch": 3.0, "port": 61.0}
    assert event.at_ns == 1_740_669_002 * S  # Feb 27 2025 15:10:02
    assert log.format == "kernel"


def test_a_segfault_in_the_collective_library_is_told_with_its_zone(shared_data: Path) -> None:
    log = gpud(shared_data, "dmesg.decode.iso.log")
    assert [(event.what, event.at_ns, event.pid) for event in log.events] == [
        ("segfault", 1_737_434_504_285_060_000, 2536443),
        ("segfault", 1_737_434_564_285_060_000, 2536443),
    ]
    assert "libnccl.so.2" in log.events[0].text
    assert not log.is_zone_assumed


def test_a_kernel_buffer_without_a_fault_has_no_events(shared_data: Path) -> None:
    log = gpud(shared_data, "kmsg.1.log")
    assert (log.format, log.num_lines, log.events) == ("kernel", 47, ())


def test_a_flood_of_one_message_is_told_once_without_a_wall_time(shared_data: Path) -> None:
    log = gpud(shared_data, "kmsg.2.peermem.log")
    (event,) = log.events
    assert (event.what, event.at_ns, event.numbers) == ("peermem_error", None, {"boot_seconds": 227.996636})
    assert ("no_wall_time", 1) in [note[:2] for note in log.notes]


def test_other_real_files_are_not_taken_for_logs(shared_data: Path) -> None:
    wrong = []
    for folder in ("telemetry", "traces", "other", "labelled"):
        for path in sorted((shared_data / folder).rglob("*")):
            if path.is_file() and path.suffix not in (".log", ".gz", ".sqlite"):
                with path.open("rb") as file:
                    if is_log(path.name, file.read(4096)):
                        wrong.append(path.name)
    assert wrong == []


def test_a_profile_in_plain_text_is_no_log(shared_data: Path) -> None:
    path = shared_data / "other" / "snippets" / "deepspeed_flops_profiler_newunits.txt"
    with pytest.raises(InputError, match="none of its 8 lines"):
        read_log(str(path))
