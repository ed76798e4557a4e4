"""What a process's control group tells: its pod, container and Slurm job, and how its quota treats it.

The kubelet's pod-resources socket would tell the same of devices, at the price of gRPC; the path of the
control group and the ring's own identity do without it (docs/decisions/0018-agent-labels.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_POD = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")
_STATIC_POD = re.compile(r"pod([0-9a-f]{32})(?=[/.\s]|$)")
_CONTAINER = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?=\.scope|[/\s]|$)")
_SLURM = re.compile(r"/job_(\d+)(?=[/\s]|$)")
_MOST = 4 << 20


def labels_of(text: str) -> dict[str, str]:
    """`pod_uid`, `container_id` and `scheduler_job`, as far as the lines of `/proc/PID/cgroup` tell."""
    found: dict[str, str] = {}
    if match := _POD.search(text):
        found["pod_uid"] = match[1].replace("_", "-")
    elif match := _STATIC_POD.search(text):
        found["pod_uid"] = match[1]
    if ids := _CONTAINER.findall(text):
        found["container_id"] = ids[-1]
    if match := _SLURM.search(text):
        found["scheduler_job"] = match[1]
    return found


def folders(text: str, root: str) -> Iterator[Path]:
    """Where the CPU controller of the group may lie, innermost first, then what it is in: of version 2, and
    of version 1's `cpu`."""
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            base = Path(root)
        elif "cpu" in controllers.split(","):
            base = Path(root, controllers)
        else:
            continue
        place = base / path.strip("/")
        if ".." in place.parts:
            continue  # of a namespace above ours
        while True:
            yield place
            if place == base:
                break
            place = place.parent


def cpu(text: str, root: str) -> tuple[float | None, tuple[int, int] | None]:
    """(cores of the narrowest quota or None, (periods, throttled periods) of the same group or None)."""
    best: tuple[float, tuple[int, int] | None] | None = None
    for place in folders(text, root):
        quota = _quota(place)
        if quota is not None and (best is None or quota < best[0]):
            best = (quota, _periods(place))
    return best if best is not None else (None, None)


def _quota(place: Path) -> float | None:
    words = read(place / "cpu.max").split()
    if len(words) == 2:
        return int(words[0]) / int(words[1]) if words[0].isdigit() and words[1].isdigit() else None
    quota, period = read(place / "cpu.cfs_quota_us").strip(), read(place / "cpu.cfs_period_us").strip()
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def _periods(place: Path) -> tuple[int, int] | None:
    said = dict(line.split(None, 1) for line in read(place / "cpu.stat").splitlines() if " " in line)
    num, throttled = said.get("nr_periods", ""), said.get("nr_throttled", "")
    return (int(num), int(throttled)) if num.isdigit() and throttled.isdigit() else None


def read(path: Path | str) -> str:
    """The text of a small file of the kernel, empty where there is none or it may not be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(_MOST).decode("utf-8", "replace")
    except OSError:
        return ""
