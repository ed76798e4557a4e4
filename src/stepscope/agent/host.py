"""The host's counters, from the kernel's own text files to numbers. Pure: text in, numbers out."""

from __future__ import annotations

import re
from typing import NamedTuple

_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
CPU_RATIOS: dict[str, tuple[str, ...]] = {
    "cpu_user_ratio": ("user", "nice"),
    "cpu_system_ratio": ("system", "irq", "softirq"),
    "cpu_iowait_ratio": ("iowait",),
    "cpu_steal_ratio": ("steal",),
}
"""Of all time that passed. Guests' time is in `user` already."""
MEMORY: dict[str, str] = {"MemAvailable": "memory_available_bytes", "MemTotal": "memory_present_bytes"}
SECTOR_BYTES = 512
"""Of `/proc/diskstats`, whatever the disk's own sectors are."""
_STACKED_DISK = re.compile(
    r"(dm-|md|loop|ram|zram|sr|fd|nbd)\d+|(sd|hd|vd|xvd)[a-z]+\d+|(nvme\d+n\d+|mmcblk\d+)p\d+"
)
_STACKED_INTERFACE = re.compile(
    r"lo|veth.*|docker.*|br-.*|virbr.*|cni.*|cali.*|flannel.*|cilium.*|lxc.*|bond\d*|team\d*|tun.*|tap.*|.*\.\d+"
)
PORT_BYTES: dict[str, str] = {
    "port_xmit_data": "rdma_tx_bytes_per_second",
    "port_rcv_data": "rdma_rx_bytes_per_second",
}
"""Counters of an InfiniBand port, in words of four bytes."""
WORD_BYTES = 4
PORT_ERRORS = (
    "port_rcv_errors", "symbol_error", "link_error_recovery", "link_downed", "port_xmit_constraint_errors",
    "port_rcv_constraint_errors",
)  # fmt: skip


class Processors(NamedTuple):
    """Ticks by mode over all cores; cores; processes that run or want to."""

    ticks: dict[str, int]
    num_cores: int
    num_running: int | None


class Disk(NamedTuple):
    """Sums since the host began: operations, bytes, and nanoseconds with a request outstanding."""

    reads: int
    read_bytes: int
    writes: int
    written_bytes: int
    busy_ns: int


def processors(text: str) -> Processors | None:
    """`/proc/stat`; `None` where it is empty."""
    ticks: dict[str, int] = {}
    num_cores, num_running = 0, None
    for line in text.splitlines():
        words = line.split()
        if not words:
            continue
        if words[0] == "cpu":
            ticks = {mode: int(word) for mode, word in zip(_MODES, words[1:], strict=False)}
        elif words[0].startswith("cpu"):
            num_cores += 1
        elif words[0] == "procs_running":
            num_running = int(words[1])
    return Processors(ticks, num_cores, num_running) if ticks else None


def major_faults(text: str) -> int | None:
    """Of `/proc/vmstat`."""
    found = re.search(r"^pgmajfault (\d+)$", text, re.M)
    return int(found[1]) if found else None


def memory(text: str) -> dict[str, float]:
    """Signals of `/proc/meminfo`, in bytes."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name in MEMORY:
            found[MEMORY[name]] = float(rest.split()[0]) * 1024
    return found


def disks(text: str) -> dict[str, Disk]:
    """Whole disks of `/proc/diskstats`: those stacked on others would count twice."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 13 and not _STACKED_DISK.fullmatch(words[2]):
            reads, sectors_read, writes, sectors_written = (int(words[at]) for at in (3, 5, 7, 9))
            found[words[2]] = Disk(
                reads,
                sectors_read * SECTOR_BYTES,
                writes,
                sectors_written * SECTOR_BYTES,
                int(words[12]) * 1_000_000,
            )
    return found


def interfaces(text: str) -> dict[str, tuple[int, int]]:
    """(bytes received, bytes sent) by interface, of `/proc/net/dev`; without those that carry what others
    carry."""
    found = {}
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        words = rest.split()
        if colon and len(words) >= 9 and not _STACKED_INTERFACE.fullmatch(name.strip()):
            found[name.strip()] = (int(words[0]), int(words[8]))
    return found


def pressure_ns(text: str) -> int | None:
    """Nanoseconds in which some task waited, of a file of `/proc/pressure`."""
    found = re.search(r"^some .*total=(\d+)", text, re.M)
    return int(found[1]) * 1000 if found else None
