"""Where rings lie: which folder, whether it is safe to write in, and what old rings leave it."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from stepscope_sdk import ring_abi as abi
from stepscope_sdk.ring import is_held

DEFAULT = "/dev/shm/stepscope"
KUBERNETES = "/run/stepscope"
MODE = 0o640
OLD_NS = 24 * 3600 * 1_000_000_000
MOST_LOOKED_AT = 4096
_NUM_WRITTEN = abi.place(abi.HEADER, "num_written").offset
_REAL = abi.place(abi.RECORD, "real_ns").offset
_CREATED = abi.place(abi.HEADER, "created_real_ns").offset


class Rights(NamedTuple):
    """Of new files: permission bits, and the group's number or None for the process's own."""

    mode: int
    group: int | None


def run_dir(env: Mapping[str, str] = os.environ, pod_uid: str | None = None) -> str:
    """`$STEPSCOPE_RUN_DIR`, else the pod's folder where it is mounted, else `/dev/shm/stepscope`."""
    given = env.get("STEPSCOPE_RUN_DIR")
    if given:
        return given
    pod_uid = pod_uid or env.get("POD_UID")
    if pod_uid and "/" not in pod_uid and pod_uid not in (".", ".."):
        path = os.path.join(KUBERNETES, pod_uid)
        if os.path.isdir(path):
            return path
    return DEFAULT


def rights(env: Mapping[str, str] = os.environ) -> Rights:
    """`$STEPSCOPE_RUN_MODE` (octal) and `$STEPSCOPE_RUN_GROUP` (name or number). ValueError for nonsense.

    Others never get to write, whatever is asked: whoever can cut the file can end the training process.
    """
    mode = int(env.get("STEPSCOPE_RUN_MODE") or f"{MODE:o}", 8)
    group = env.get("STEPSCOPE_RUN_GROUP")
    if not group:
        return Rights(mode & 0o664 | 0o600, None)
    if group.isdigit():
        return Rights(mode & 0o664 | 0o600, int(group))
    import grp

    try:
        return Rights(mode & 0o664 | 0o600, grp.getgrnam(group).gr_gid)
    except KeyError:
        raise ValueError(f"STEPSCOPE_RUN_GROUP: no group {group!r} here") from None


def open_folder(path: str) -> int:
    """The folder, made where it is missing and opened; files are made through it, so that nobody can put
    another in its place. OSError where it cannot be used.

    The default is for all users of a host, as `/tmp` is: whoever comes first makes it, with the sticky bit.
    """
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        os.mkdir(path)
        if path == DEFAULT:
            os.chmod(path, 0o1777)
    except FileExistsError:
        pass
    # A link in the place of the last part is refused: in a folder for all, anybody may have planted it.
    how = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (os.O_NOFOLLOW if path == DEFAULT else 0)
    folder = os.open(path, how)
    why = why_unsafe(os.fstat(folder), os.geteuid())
    if why:
        os.close(folder)
        raise PermissionError(f"{path}: {why}")
    return folder


def why_unsafe(at: os.stat_result, user: int) -> str | None:
    """Why nobody should write in a folder; None where it is safe.

    Somebody else's folder that all may write to needs the sticky bit: without it anybody may put a file of
    his own in the place of ours. Root's is for us all, such as a volume of a pod.
    """
    if at.st_uid in (0, user) or not at.st_mode & stat.S_IWOTH or at.st_mode & stat.S_ISVTX:
        return None
    return f"all may write there, it belongs to user {at.st_uid}, and it has no sticky bit"


def remove_old(folder: int, now_ns: int) -> int:
    """Remove rings, with their control files, whose writer is dead and whose last record is a day old; how
    many. A living one's is never touched: its writer holds it."""
    num_removed = 0
    for name in sorted(os.listdir(folder))[:MOST_LOOKED_AT]:
        if not name.endswith(abi.SUFFIX):
            continue
        with suppress(OSError, OverflowError, struct.error):  # whatever the file says, it is no ring then
            if _is_old(folder, name, now_ns):
                os.unlink(name, dir_fd=folder)
                num_removed += 1
                os.unlink(name.removesuffix(abi.SUFFIX) + abi.CONTROL_SUFFIX, dir_fd=folder)
    return num_removed


def _is_old(folder: int, name: str, now_ns: int) -> bool:
    # O_NONBLOCK: what has the name of a ring may be a pipe, and opening must not wait for its other end.
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        at = os.fstat(file)
        head = os.pread(file, abi.HEADER_BYTES, 0)
        if not stat.S_ISREG(at.st_mode) or at.st_uid != os.geteuid() or is_held(file):
            return False
        if head[:8] != abi.MAGIC:  # never got ready: its maker died, or makes it now
            return now_ns - at.st_mtime_ns > OLD_NS
        return now_ns - _last_ns(file, head) > OLD_NS
    finally:
        os.close(file)


def _last_ns(file: int, head: bytes) -> int:
    """Wall time of the newest record, else of the ring: a mapped file's own time of change does not move."""
    (num_written,) = struct.unpack_from("<Q", head, _NUM_WRITTEN)
    (header, record, num) = struct.unpack_from("<III", head, abi.place(abi.HEADER, "header_bytes").offset)
    if num_written and num:
        raw = os.pread(file, 8, header + (num_written - 1) % num * record + _REAL)
        return int(struct.unpack("<q", raw)[0])
    return int(struct.unpack_from("<q", head, _CREATED)[0])
