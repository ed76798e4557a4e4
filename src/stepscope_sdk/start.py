"""The monitor of this process: the only place of the core that reads environment, clock and files.

`STEPSCOPE_DISABLE=1` or `STEPSCOPE=off` switches all off; `STEPSCOPE_VERBOSE=1` says on stderr why there are
no marks.
"""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping

from stepscope_sdk import control
from stepscope_sdk import ring_abi as abi
from stepscope_sdk.folder import open_folder, remove_old, rights, run_dir
from stepscope_sdk.identity import identify, safe
from stepscope_sdk.monitor import Monitor, _monitors
from stepscope_sdk.ring import Ring

Given = Mapping[str, "str | int | None"]
_OFF = ("off", "0", "false", "no")
MOST_READ = 1 << 20

_monitor: Monitor | None = None
_lock = threading.Lock()
_opened_as: str | None = None
"""`RANK` when this process, or the one that it was forked from, made its ring."""


def monitor(
    job: str | None = None,
    run: str | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    local_rank: int | None = None,
    *,
    sample_every: int | None = None,
    shadow_every: int | None = None,
) -> Monitor:
    """The monitor of this process, made at the first call. What is given goes before the environment.

    `sample_every`: a light capture of every so many-th step (`$STEPSCOPE_SAMPLE_EVERY`); `shadow_every`:
    every second block of so many steps goes without inner marks (`$STEPSCOPE_SHADOW_EVERY`). Both are off
    by default.

    Never raises: where marks cannot be kept the monitor is inert.
    """
    global _monitor
    given = {"job": job, "run": run, "rank": rank, "world_size": world_size, "local_rank": local_rank}
    if _monitor is None:
        with _lock:
            if _monitor is None:
                _monitor = _start(given, sample_every, shadow_every)
                return _monitor
    elif any(value is not None for value in given.values()):
        _tell(_monitor, given)
    return _monitor


def is_off(env: Mapping[str, str]) -> bool:
    """Whether the environment switches marks off."""
    disable = env.get("STEPSCOPE_DISABLE", "").strip().lower()
    return env.get("STEPSCOPE", "").strip().lower() in _OFF or disable not in ("", *_OFF)


def _start(given: Given, sample_every: int | None = None, shadow_every: int | None = None) -> Monitor:
    if is_off(os.environ):
        return Monitor(None)
    ring = None if _is_helper() else _open(given)
    shadow_every = shadow_every or control.number(os.environ, "STEPSCOPE_SHADOW_EVERY")

    def reopen() -> Ring | None:
        ring = _open_in_child(given)
        is_rank = ring is not None and ring.identity["rank"] != abi.ABSENT
        made._watch = _watch(ring, sample_every) if is_rank else None
        return ring

    made = Monitor(ring, reopen, watch=_watch(ring, sample_every), shadow_every=shadow_every)
    if _is_helper():
        made.sleep()
    atexit.register(_at_exit, made)
    return made


def _watch(ring: Ring | None, sample_every: int | None) -> control.Watch | None:
    """What obeys the ring's control file; None where there can be none."""
    if ring is None:
        return None
    try:
        watch = control.watch(ring.path, ring.write, os.environ, sample_every=sample_every)
        if watch is not None:
            watch.about.update(ring.identity)
        return watch
    except Exception as error:  # noqa: BLE001 - the outer wall: marks go on without captures
        _say(f"no captures: {error}")
        return None


def _open(given: Given, *, is_child: bool = False) -> Ring | None:
    """A ring in the run directory; None where that cannot be, for whatever reason."""
    global _opened_as
    try:
        env = dict(os.environ)
        now_ns = time.time_ns()
        identity = identify(
            env, _read, host=socket.gethostname(), argv=sys.argv, pid=os.getpid(), parent=os.getppid(),
            now_ns=now_ns, given=given,
        )  # fmt: skip
        if is_child and given.get("rank") is None and env.get("RANK") == _opened_as:
            identity |= {"rank": abi.ABSENT, "local_rank": abi.ABSENT}  # its parent is the rank
        _opened_as = env.get("RANK")
        may = rights(env)
        path = run_dir(env, str(identity.get("pod_uid", "")) or None)
        folder = open_folder(path)
        try:
            who = f"rank{identity['rank']}" if identity["rank"] != abi.ABSENT else "process"
            name = f"{who}-{os.getpid()}-{now_ns:x}{abi.SUFFIX}"
            _clean(folder, now_ns)
            ring = Ring(name, identity, mode=may.mode, group=may.group, folder=folder)
            ring.path = os.path.join(path, name)
        finally:
            os.close(folder)
        return ring
    except Exception as error:  # noqa: BLE001 - the outer wall: a job must not fail for want of marks
        _say(f"no marks: {error}")
        return None


def _clean(folder: int, now_ns: int) -> None:
    try:
        remove_old(folder, now_ns)
    except Exception as error:  # noqa: BLE001 - what others left there is no reason to have no marks
        _say(f"old rings stay: {error}")


def _open_in_child(given: Given) -> Ring | None:
    """A ring for a forked child that marks; none for a loader's worker, whose work is not a rank's."""
    worker = sys.modules.get("torch.utils.data._utils.worker")
    if getattr(worker, "_worker_info", None) is not None:
        return None
    ring = _open({name: value for name, value in given.items() if name in ("job", "run")}, is_child=True)
    if ring is not None and "multiprocessing.util" in sys.modules and _monitor is not None:
        # Such a child ends without `atexit`.
        sys.modules["multiprocessing.util"].Finalize(None, _at_exit, (_monitor,), exitpriority=0)
    return ring


def _tell(made: Monitor, given: Given) -> None:
    """Later words of who this is."""
    try:
        if made._ring is not None:
            told = {name: value for name, value in given.items() if value is not None}
            if made._watch is not None:
                made._watch.about.update(told)
            made._ring.set(**{k: safe(v) if isinstance(v, str) else int(v) for k, v in told.items()})
    except Exception as error:  # noqa: BLE001 - the outer wall
        _say(f"not told: {error}")


def _at_exit(made: Monitor) -> None:
    # An exception that nobody caught was shown before this runs, and is kept here.
    last = getattr(sys, "last_value", None)
    made.close(has_failed=last is not None, was_interrupted=isinstance(last, KeyboardInterrupt))


def _is_helper() -> bool:
    """Whether this process may be one that only helps, such as a loader's worker that was started anew and
    imports the training script: it gets a ring when it marks, not when it asks for a monitor."""
    module = sys.modules.get("multiprocessing.process")
    current = None if module is None else module.current_process()
    return current is not None and bool(getattr(current, "_inheriting", False) or current.daemon)


def _after_fork() -> None:
    for each in list(_monitors):
        each._after_fork()


os.register_at_fork(after_in_child=_after_fork)


def _read(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return file.read(MOST_READ).decode("utf-8", "replace")
    except OSError:
        return None


def _say(text: str) -> None:
    if os.environ.get("STEPSCOPE_VERBOSE", "").lower() not in ("", *_OFF):
        print(f"stepscope: {text}", file=sys.stderr)  # noqa: T201 - asked for
