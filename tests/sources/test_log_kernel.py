"""Kernel logs in their forms, and the lines of devices, links, memory and file systems."""

from __future__ import annotations

import pytest

from stepscope.model.log import Log
from stepscope.sources.log import read_log

NOON = 1_714_564_800_000_000_000
"""2024-05-01 12:00:00 UTC."""
S = 1_000_000_000
XID = "NVRM: Xid (PCI:0000:05:00): 79, pid=1234, name=python, GPU has fallen off the bus."


def log_of(text: str) -> Log:
    return read_log("dmesg", data=text.encode())


@pytest.mark.parametrize(
    ("line", "at_ns", "host", "is_zone_assumed"),
    [
        (f"[Wed May  1 12:00:00 2024] {XID}", NOON, None, True),
        (f"2024-05-01T12:00:00,250000+00:00 {XID}", NOON + S // 4, None, False),
        (f"kern  :err   : 2024-05-01T14:00:00,250000+02:00 {XID}", NOON + S // 4, None, False),
        (f"2024-05-01T12:00:00+0000 node7 kernel: {XID}", NOON, "node7", False),
        (f"2024-05-01T12:00:00.5+00:00 node7 kernel: [  12.500000] {XID}", NOON + S // 2, "node7", False),
        (f"[  123.456789] {XID}", None, None, False),
        (f"<3>[  123.456789][ T1234] {XID}", None, None, False),
        (f"3,1234,123456789,-;{XID}", None, None, False),
    ],
)
def test_an_xid_is_read_in_every_form_of_kernel_log(
    line: str, at_ns: int | None, host: str | None, is_zone_assumed: bool
) -> None:
    log = log_of(line)
    (event,) = log.events
    assert (log.format, log.is_zone_assumed) == ("kernel", is_zone_assumed)
    assert (event.kind, event.what, event.code, event.severity) == ("xid", "xid", 79, "critical")
    assert (event.pci_bus_id, event.pid, event.at_ns, event.host) == ("0000:05:00.0", 1234, at_ns, host)
    if at_ns is None:
        assert event.numbers == {"boot_seconds": 123.456789}
        assert ("no_wall_time", 1) in [note[:2] for note in log.notes]


@pytest.mark.parametrize(
    ("line", "code", "pci", "pid", "severity"),
    [
        ("NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.", 79, "0000:05:00.0", None, "critical"),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", 14, "0000:03:00.0", None, "warning"),
        ("NVRM: Xid (PCI:0000:9b:00 GPU-I:05): 43, pid=7, name=python, Ch 00000008", 43, "0000:9b:00.0", 7,
            "warning"),
        ("NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen", 79,
            "0000:05:00.0", None,
         "critical"),
        ("NVRM: Xid (PCI:0000:05:00): 45, pid=7, name=python, Ch 00000008", 45, "0000:05:00.0", 7, "info"),
        ("NVRM: Xid (PCI:0000:05:00): 145, RLW_REMAP Nonfatal XC0 i0 Link 10", 145, "0000:05:00.0", None,
            "warning"),
        ("NVRM: Xid (PCI:0000:05:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 10", 149, "0000:05:00.0", None,
            "critical"),
        ("NVRM: Xid (PCI:0018:01:00): 999, something new", 999, "0018:01:00.0", None, "warning"),
    ],
)  # fmt: skip
def test_every_shape_of_an_xid_gives_code_device_process_and_severity(
    line: str, code: int, pci: str, pid: int | None, severity: str
) -> None:
    (event,) = log_of(line).events
    assert (event.code, event.pci_bus_id, event.pid, event.severity) == (code, pci, pid, severity)


def test_a_changed_recovery_action_is_a_number() -> None:
    (event,) = log_of(
        "NVRM: Xid (PCI:0000:05:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset "
        "Required)"
    ).events
    assert (event.numbers, event.severity) == ({"recovery_action": 1.0}, "warning")


def test_a_line_that_states_boot_and_wall_time_dates_all_others() -> None:
    log = log_of(
        "[    2.000000] rtc_cmos 00:01: setting system clock to 2024-05-01T12:00:02 UTC (1714564802)\n"
        "[   10.000000] audit: type=1404 audit(1714564810.250:2): enforcing=1\n"
        f"[  100.500000] {XID}\n"
    )
    (event,) = log.events
    # The nearest anchor is the audit line, which is good to a millisecond.
    assert event.at_ns == NOON + 100_750_000_000
    assert ("boot_anchor", 1) in [note[:2] for note in log.notes]
    assert "no_wall_time" not in [note[0] for note in log.notes]


def test_syslog_without_a_year_takes_that_of_a_line_with_one() -> None:
    log = log_of(f"2024-04-30 10:00:00 started\nMay  1 12:00:00 node7 kernel: [  9.500000] {XID}\n")
    assert [(event.at_ns, event.host) for event in log.events] == [(NOON, "node7")]
    assert "year_assumed" in [note[0] for note in log.notes]


def test_syslog_without_any_year_has_no_time() -> None:
    (event,) = log_of(f"May  1 12:00:00 node7 kernel: {XID}\n").events
    assert event.at_ns is None


@pytest.mark.parametrize(
    ("line", "kind", "what", "severity", "numbers"),
    [
        ("nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 12028, Non-fatal, Link 61 egress", "error",
            "nvswitch_error",
         "warning", {}),
        ("nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "error",
            "nvswitch_error",
         "critical", {}),
        ("pcieport 0000:00:1c.0: AER: Corrected error received: 0000:00:1c.0", "error", "pcie_error",
            "info", {}),
        ("pcieport 0000:00:1c.0: AER: Uncorrected (Non-Fatal) error received: 0000:00:1c.0", "error",
            "pcie_error",
         "warning", {}),
        ("nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer", "error",
            "pcie_error",
            "info",
         {}),
        ("nvidia 0000:3b:00.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
            "error",
         "pcie_error", "critical", {}),
        ("Out of memory: Killed process 123 (python) total-vm:9000kB, anon-rss:2048kB, file-rss:0kB", "oom",
         "host_out_of_memory", "critical", {"resident_bytes": 2048.0 * 1024}),
        ("Memory cgroup out of memory: Killed process 123 (python)", "oom", "host_out_of_memory",
            "critical", {}),
        ("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python,pid=123,uid=0", "oom",
         "host_out_of_memory", "critical", {}),
        ("nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context", "error",
            "peermem_error",
         "warning", {}),
        ("mce: [Hardware Error]: Machine check events logged", "error", "machine_check", "critical", {}),
        ("mlx5_core 0000:3b:00.0 ib0: Link down", "error", "link_down", "warning", {}),
        ("ixgbe 0000:01:00.0 eth0: NIC Link is Down", "error", "link_down", "warning", {}),
        ("INFO: task python:456 blocked for more than 120 seconds.", "error", "hung_task", "warning",
         {"blocked_seconds": 120.0}),
        ("nfs: server 10.0.0.3 not responding, still trying", "error", "nfs_not_responding", "warning", {}),
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:7]", "error", "lockup", "critical",
         {"stuck_seconds": 22.0}),
        ("NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x40:2393)", "error", "gpu_lost",
            "critical", {}),
    ],
)  # fmt: skip
def test_a_line_of_the_kernel_says_what_happened(
    line: str, kind: str, what: str, severity: str, numbers: dict[str, float]
) -> None:
    (event,) = log_of(f"[  1.500000] {line}").events
    assert (event.kind, event.what, event.severity) == (kind, what, severity)
    assert event.numbers == {"boot_seconds": 1.5, **numbers}


def test_a_kernel_log_with_nothing_wrong_is_a_log_without_events() -> None:
    log = log_of("[    0.000000] Linux version 5.15\n[   12.000000] eth0: link becomes ready\n")
    assert (log.format, log.events, log.num_known) == ("kernel", (), 0)


def test_of_a_flood_a_thousand_are_kept_and_the_rest_is_counted() -> None:
    line = "[{}.000000] pcieport 0000:00:1c.0: AER: Corrected error received: 0000:00:1c.0\n"
    log = log_of("".join(line.format(n) for n in range(1500)))
    assert len(log.events) == 1000
    assert ("events_left_out", 500) in [note[:2] for note in log.notes]
