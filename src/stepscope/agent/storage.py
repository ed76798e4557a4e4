"""Where a path lies: its mount, and on which medium."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from stepscope.agent.cgroup import read

MEDIA = {"rotational": 1, "solid_state": 2, "nvme": 3, "network": 4, "memory": 5}
"""Codes of the signal `storage_medium`."""
_FILE_SYSTEMS: dict[str, str] = {
    "tmpfs": "memory", "ramfs": "memory", "devtmpfs": "memory", "hugetlbfs": "memory",
    "nfs": "network", "nfs4": "network", "cifs": "network", "smb3": "network", "lustre": "network",
    "ceph": "network", "gpfs": "network", "beegfs": "network", "glusterfs": "network", "9p": "network",
    "virtiofs": "network", "afs": "network", "wekafs": "network", "panfs": "network",
    "fuse.glusterfs": "network", "fuse.juicefs": "network", "fuse.s3fs": "network",
    "fuse.gcsfuse": "network", "fuse.ceph-fuse": "network",
    "fuse.goofys": "network", "fuse.mount-s3": "network", "fuse.sshfs": "network",
    "fuse.alluxio-fuse": "network", "fuse.rclone": "network", "fuse.blobfuse": "network",
    "fuse.blobfuse2": "network", "fuse.cvmfs": "network", "fuse.dfuse": "network",
}  # fmt: skip
_OF_NO_USE = frozenset(("proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "overlay", "nsfs"))


@dataclass(frozen=True, slots=True)
class Mount:
    """`device` is the whole disk below it, as `/proc/diskstats` names it; `medium` a key of `MEDIA`. `None`
    where it cannot be told (an overlay, a stack of several disks)."""

    point: str
    file_system: str
    number: str
    """`major:minor`."""
    device: str | None = None
    medium: str | None = None


def mounts(text: str) -> list[Mount]:
    """Lines of `/proc/PID/mountinfo`."""
    found = []
    for line in text.splitlines():
        head, dash, tail = line.partition(" - ")
        words, types = head.split(), tail.split()
        if dash and len(words) >= 5 and types:
            point = words[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
            found.append(Mount(point, types[0], words[2]))
    return found


def mounts_of(paths: Iterable[str], there: Iterable[Mount]) -> set[Mount]:
    """The mounts on which the paths lie. The last of those mounted on one point covers the others."""
    by_point = {each.point: each for each in there}
    found = set()
    for path in paths:
        place = path
        while place not in by_point and place not in ("/", ""):
            place = os.path.dirname(place)
        if (mount := by_point.get(place or "/")) is not None and mount.file_system not in _OF_NO_USE:
            found.add(mount)
    return found


def placed(mount: Mount, sys: str) -> Mount:
    """The mount with its disk and medium."""
    medium = _FILE_SYSTEMS.get(mount.file_system)
    if medium is not None:
        return Mount(mount.point, mount.file_system, mount.number, None, medium)
    disk = whole_disk(mount.number, sys)
    if disk is None:
        return mount
    return Mount(mount.point, mount.file_system, mount.number, disk, medium_of(disk, sys))


def whole_disk(number: str, sys: str) -> str | None:
    """The disk of a `major:minor`: of a partition its disk, of a stack on one disk that disk."""
    place = f"{sys}/dev/block/{number}"
    if not os.path.exists(place):
        return None
    real = os.path.realpath(place)
    if os.path.exists(f"{real}/partition"):
        real = os.path.dirname(real)
    for _ in range(8):
        below = _names(f"{real}/slaves")
        if len(below) != 1:
            break
        slave = os.path.realpath(f"{real}/slaves/{below[0]}")
        real = os.path.dirname(slave) if os.path.exists(f"{slave}/partition") else slave
    return os.path.basename(real) if len(_names(f"{real}/slaves")) == 0 else None


def medium_of(disk: str, sys: str) -> str | None:
    """`nvme`, `rotational` or `solid_state`; `None` where the kernel does not say."""
    if disk.startswith("nvme"):
        return "nvme"
    said = read(f"{sys}/block/{disk}/queue/rotational").strip()
    return {"0": "solid_state", "1": "rotational"}.get(said)


def _names(place: str) -> list[str]:
    try:
        return os.listdir(place)
    except OSError:
        return []
