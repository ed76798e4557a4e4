"""Xids: what the table holds, and which codes are one incident."""

from __future__ import annotations

from stepscope.model.log import LogEvent
from stepscope.model.sample import Mark, Owner
from stepscope.model.xid import XIDS, incidents, severity_of, xid

S = 1_000_000_000
A, B = "0000:05:00.0", "0000:3b:00.0"


def seen(
    code: int, second: float | None, pci: str = A, host: str | None = None, boot: float | None = None
) -> LogEvent:
    numbers = {} if boot is None else {"boot_seconds": boot}
    return LogEvent(
        "xid", "xid", f"Xid {code}", None if second is None else int(second * S), 1, severity_of(code),
        code=code, host=host, pci_bus_id=pci, numbers=numbers,
    )  # fmt: skip


def test_every_code_of_the_catalogue_has_a_meaning_in_both_languages() -> None:
    assert sorted(XIDS) == list(range(1, 174))
    assert XIDS[79].mnemonic == "ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS"
    assert XIDS[119].mnemonic == "GSP_RPC_TIMEOUT"
    assert XIDS[173].mnemonic is None
    assert (XIDS[39].meaning.en, XIDS[135].meaning.en) == (
        "Copy engine 0 reported an error.",
        "Copy engine 19 reported an error.",
    )
    assert all(each.effect is None or each.advice is not None for each in XIDS.values())


def test_severities_follow_what_a_training_job_should_do() -> None:
    assert [severity_of(code) for code in (79, 48, 119, 13, 94, 45, 63, 1, 9999)] == [
        "critical", "critical", "critical", "warning", "warning", "info", "info", "warning", "warning",
    ]  # fmt: skip
    assert {code for code, each in XIDS.items() if each.is_consequence} == {43, 45}
    assert {code for code, each in XIDS.items() if each.is_disputed} >= {32, 38, 44, 63, 121}
    assert xid(9999).mnemonic is None


def test_a_memory_error_and_its_details_are_one_incident_led_by_48() -> None:
    (incident,) = incidents([seen(63, 100), seen(48, 101), seen(94, 102), seen(171, 103), seen(45, 105)])
    assert (incident.code, incident.codes, incident.count) == (48, (63, 48, 94, 171, 45), 5)
    assert (incident.start_ns, incident.end_ns, incident.severity) == (100 * S, 105 * S, "critical")


def test_45_on_other_devices_follows_and_never_leads() -> None:
    (incident,) = incidents([seen(79, 10, A), seen(45, 12, B), seen(45, 13, A)])
    assert (incident.code, incident.devices) == (79, (A, B))


def test_45_alone_and_45_long_after_are_their_own() -> None:
    told = incidents([seen(79, 10, A), seen(45, 1000, B)])
    assert [(each.code, each.severity) for each in told] == [(79, "critical"), (45, "info")]


def test_43_that_follows_13_is_one_and_two_devices_are_two() -> None:
    told = incidents([seen(13, 10, A), seen(43, 10.5, A), seen(13, 2000, A), seen(31, 2000, B)])
    assert [(each.codes, each.devices) for each in told] == [((13, 43), (A,)), ((13,), (A,)), ((31,), (B,))]


def test_repeats_within_ten_minutes_are_one() -> None:
    told = incidents([seen(119, at) for at in (0, 6, 12, 174, 355, 5000)])
    assert [(each.code, each.count) for each in told] == [(119, 5), (119, 1)]


def test_times_since_boot_are_compared_where_there_is_no_other() -> None:
    told = incidents([seen(48, None, boot=100), seen(94, None, boot=101), seen(79, None, boot=9000)])
    assert [(each.codes, each.start_ns) for each in told] == [((48, 94), None), ((79,), None)]


def test_the_same_code_on_two_hosts_is_two_incidents() -> None:
    told = incidents([seen(79, 10, A, "node1"), seen(79, 11, A, "node2")])
    assert [each.host for each in told] == ["node1", "node2"]


def test_a_gauge_that_stood_at_its_code_when_first_read_may_be_old() -> None:
    owner = Owner(uuid="GPU-1", pci_bus_id=A)
    stale = Mark(500 * S, "xid", "Xid 79", 79, owner, is_new=False)
    (old,) = incidents([stale])
    assert (old.is_new, old.severity) == (False, "info")
    # A log that states the same code of the same device proves it: it is told once, as new.
    (known,) = incidents([stale, seen(79, 10)])
    assert (known.is_new, known.count, known.severity) == (True, 1, "critical")
    # And it never joins what is new of another code.
    assert [each.code for each in incidents([stale, seen(13, 500)])] == [13, 79]


def test_an_edge_of_a_gauge_joins_the_line_of_the_log() -> None:
    edge = Mark(130 * S, "xid", "Xid 79", 79, Owner(pci_bus_id=A))
    (incident,) = incidents([edge, seen(79, 100)])
    assert (incident.count, incident.start_ns) == (2, 100 * S)


def test_other_events_and_code_0_are_passed_over() -> None:
    other = LogEvent("error", "cuda_error", "x", 0, 1)
    assert incidents([other, Mark(0, "xid", "none", 0), Mark(0, "start", "x")]) == []
