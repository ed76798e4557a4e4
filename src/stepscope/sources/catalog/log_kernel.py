"""Lines of kernel logs, and of the NVIDIA fabric manager, that state something about a device or a host.

Xids are in every shape that drivers print; the codes' meanings are in `model/xid.py`.
"""

from __future__ import annotations

import re

from stepscope.sources.formats.log_event import Row, row

_PCI = r"(?P<pci>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?)"
_PID = r"(?:, pid=(?:(?P<pid>\d+)|[^,]*))?"

ROWS: tuple[Row, ...] = (
    # NVRM: Xid (PCI:0000:05:00): 79, pid=1234, name=python, …; (PCI:0000:9b:00 GPU-I:05); (0000:03:00)
    row("xid", "xid", "warning", "xid (",
        rf"\bXid \((?:PCI:)?{_PCI}(?: GPU-I:(?P<mig>\d+))?\): (?P<code>\d{{1,4}})\b{_PID}"),
    row("error", "nvswitch_error", "critical", "sxid (",
        rf"\bSXid \((?:PCI:)?{_PCI}\): (?P<code>\d{{1,6}}), (?!Non-?fatal)(?:Severity \d|Fatal)"),
    row("error", "nvswitch_error", "warning", "sxid (", rf"\bSXid \((?:PCI:)?{_PCI}\): (?P<code>\d{{1,6}})"
                                                        r"\b"),
    # fabric manager
    row("error", "nvswitch_error", "warning", "nvswitch non-fatal error",
        rf"NVSwitch non-fatal error (?P<code>\d+) on fid \d+ on NVSwitch pci bus id {_PCI}"
        r"(?: physical id (?P<switch>\d+))?(?: port (?P<port>\d+))?"),
    row("error", "nvswitch_error", "critical", "nvswitch fatal error",
        rf"NVSwitch fatal error (?P<code>\d+) on fid \d+ on NVSwitch pci bus id {_PCI}"
        r"(?: physical id (?P<switch>\d+))?(?: port (?P<port>\d+))?"),
    row("error", "nvlink_error", "critical", "nvlink",
        r"(?:failed to train|training failed|failed to configure)[^\n]{0,120}NVLink|NVLink[^\n]{0,120}"
        r"(?:failed to train|training failed|fatal error|link (?:is )?down)"),
    row("error", "nvlink_error", "warning", ("nvlink", "error"), r"NVRM:[^\n]{0,120}NVLink[^\n]{0,120}error"),
    row("error", "gpu_lost", "critical", "gpu is lost"),
    row("error", "gpu_lost", "critical", "rminitadapter failed",
        rf"NVRM: GPU {_PCI}: RmInitAdapter failed"),
    row("error", "gsp_error", "critical", "gpu likely needs to be reset"),
    row("error", "peermem_error", "warning", "nvidia-peermem", r"nvidia-peermem[^\n]{0,80}(?:ERROR|failed)",
        tells_once=True),
    row("error", "peermem_error", "warning", "nvidia_peermem",
        r"nvidia_peermem[^\n]{0,80}(?:ERROR|error|failed)",
        tells_once=True),
    row("error", "gpu_reset", "critical", "amdgpu", r"amdgpu[^\n]{0,60}(?:GPU reset begin|ring \w+ timeout)"),
    row("error", "cuda_error", "critical", "amdgpu", r"amdgpu[^\n]{0,60}\[gfxhub\d?\] (?:no-retry )?page "
                                                     "fault"),
    row("error", "ecc_error", "critical", "amdgpu", rf"amdgpu (?:{_PCI})?[^\n]{{0,80}}uncorrectable "
                                                    "hardware errors? detected"),
    # ── PCIe ──
    row("error", "pcie_error", "critical", "pcie bus error",
        rf"{_PCI}: (?:AER: )?PCIe Bus Error: severity=Uncorrect(?:ed|able) \(Fatal\)"),
    row("error", "pcie_error", "warning", "pcie bus error",
        rf"{_PCI}: (?:AER: )?PCIe Bus Error: severity=Uncorrect"),
    row("error", "pcie_error", "info", "pcie bus error", f"{_PCI}: (?:AER: )?PCIe Bus Error: "
                                                         "severity=Corrected"),
    row("error", "pcie_error", "warning", "aer:",
        r"AER: (?:Multiple )?Uncorrect(?:ed|able) (?:\((?:Non-)?Fatal\) )?error (?:message )"
        rf"?received:?(?: from)?(?: {_PCI}|.{{0,20}}\((?:[\w ]*)\))?"),
    row("error", "pcie_error", "info", "aer:",
        rf"AER: (?:Multiple )?Corrected error (?:message )?received:?(?: from)?(?: {_PCI})?"),
    row("error", "pcie_error", "critical", "pcieport", rf"pcieport {_PCI}: [^\n]{{0,40}}(?:Link Down"
                                                       "|Surprise Down)"),
    row("change", "pcie_link", "warning", "available pcie bandwidth",
        rf"{_PCI}: (?P<gigabits_per_second>[\d.]+) Gb/s available PCIe bandwidth, limited by"),
    # ── host memory ──
    row("oom", "host_out_of_memory", "critical", "killed process",
        r"(?:Out of memory|Memory cgroup out of memory): Killed process (?P<pid>\d+) \([^)]{0,64}\)"
        r"(?:[^\n]{0,80}?anon-rss:(?P<resident_bytes>\d+)kB)?", scale={"resident_bytes": 1024.0}),
    row("oom", "host_out_of_memory", "critical", "oom-kill:constraint",
        r"oom-kill:constraint=(?:CONSTRAINT_\w+)[^\n]*?pid=(?P<pid>\d+)"),
    # ── the host's parts ──
    row("error", "machine_check", "critical", "machine check",
        r"(?:mce:|\[Hardware Error\])[^\n]{0,120}(?:Machine Check|Uncorrected|Fatal)"
        r"|Kernel panic[^\n]{0,40}machine check"),
    row("error", "machine_check", "warning", "[hardware error]",
        r"mce: \[Hardware Error\]|\[Hardware Error\]: (?:Corrected|Deferred)",
        tells_once=True),
    row("error", "memory_error", "warning", "edac", r"EDAC [^\n]{0,40}\b\d+ (?:CE|UE)\b"),
    row("change", "thermal", "warning", "temperature above threshold", tells_once=True),
    row("error", "lockup", "critical", "soft lockup", r"soft lockup - CPU#\d+ stuck for "
                                                      r"(?P<stuck_seconds>\d+)s"),
    row("error", "lockup", "critical", "hard lockup"),
    row("error", "lockup", "warning", "rcu", r"rcu[^\n]{0,40}detected (?:expedited )?stalls"),
    row("error", "hung_task", "warning", "blocked for more than",
        r"task [^\n]{1,80}:(?P<pid>\d+) blocked for more than (?P<blocked_seconds>\d+) seconds"),
    row("error", "nfs_not_responding", "warning", "not responding",
        r"\bserver \S+ not responding,? (?:still trying|timed out)"),
    row("change", "nfs_ok", "info", "server", r"\bserver \S+ OK\b"),
    row("error", "lustre_error", "warning", "lustreerror"),
    row("error", "lustre_error", "warning", "lustre",
        r"Lustre: [^\n]{0,120}(?:timed out for|Connection to \S+ (?:\([^)]*\) )?was lost)"),
    row("error", "io_error", "critical", "i/o error", r"\bI/O error,? (?:on )?dev(?:ice)? \S+"),
    row("error", "io_error", "critical", "nvme", r"nvme\S*[^\n]{0,60}(?:timeout, (?:reset|abort)"
                                                 "|controller is down)"),
    row("error", "link_down", "warning", "link", r"(?:NIC |Ethernet )?\bLink is Down\b"
                                                 r"|mlx5_core[^\n]{0,80}\bLink down\b"
                                                 r"|IB[^\n]{0,40}port \d+[^\n]{0,20}link down"),
    row("change", "link_up", "info", "link is up", r"(?:NIC )?Link is Up\b"),
    row("error", "segfault", "critical", "segfault at", r"\[(?P<pid>\d+)\]: segfault at [^\n]* in "),
    row("error", "kernel_panic", "critical", "kernel panic"),
)  # fmt: skip

UUID = re.compile(rf"NVRM: GPU at (?:PCI:)?{_PCI}: (?P<uuid>GPU-[0-9a-f\-]{{36}})")
"""Tells the UUID of the device at an address, before its first Xid."""

FORMS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:<\d+>)?\[ {0,8}\d{1,8}\.\d{6}\]",  # dmesg
        r"\[\w{3} \w{3} {1,2}\d{1,2} \d\d:\d\d:\d\d \d{4}\] ",  # dmesg -T
        r"\d{1,4},\d{1,18},\d{1,18},[^;]{1,8};",  # /dev/kmsg
        r"[a-z]{2,9} {0,4}:[a-z]{2,9} {0,4}: ",  # dmesg --decode
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:\d\d ",  # dmesg --time-format=iso
        r"(?:\w{3} {1,2}\d{1,2} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S{8,32}) [\w.\-]+ (?:kernel"
        r"|systemd)[\[:]",  # syslog
        r"\[\w{3} \d\d \d{4} \d\d:\d\d:\d\d\] \[\w+\] \[tid \d+\]",  # fabric manager
    )
)
"""How lines of a kernel log begin: such a file that states nothing wrong is a log all the same."""

# Lines that give a wall time to the seconds since boot.
ANCHORS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("audit(", re.compile(r"audit\((?P<epoch>\d{10}\.\d{3}):\d+\)")),  # milliseconds
    (
        "setting system clock to",
        re.compile(r"setting system clock to [^(\n]{0,64}\((?P<epoch>\d{10})\)"),
    ),  # seconds
)
