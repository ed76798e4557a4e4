"""Puts a server together from what was asked for, runs it, and ends it in order."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from stepscope.model.capture import CaptureDocument
from stepscope.model.error import InputError, RefusedError, StepscopeError
from stepscope.server.audit import Audit
from stepscope.server.auth import Auth, TokenOf, read_tokens
from stepscope.server.clock import FollowingClock
from stepscope.server.feed import Feed
from stepscope.server.limit import Limits
from stepscope.server.parts import Parts
from stepscope.server.place import forget_address, write_address
from stepscope.server.serve import Served, bound, is_loopback, serve
from stepscope.server.tally import Labels, Tally
from stepscope.store.contract import Store

TEND_S = 30.0
_SIZES_S = 30.0
_READY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was asked for; `cli/serve.py` says what each is."""

    data: str
    host: str = "127.0.0.1"
    port: int = 9500
    token_file: str | None = None
    remote_write: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    time_scale: float = 1.0
    """How much faster than the machine's the clocks of jobs run: of simulated ones."""
    summarise: Callable[[str], bytes] | None = None
    """The op summary of a trace file, to keep in its place."""


@dataclass(slots=True)
class Running:
    """A server that runs. `parts` is what it is made of."""

    parts: Parts
    served: Served
    _stack: ExitStack

    @property
    def address(self) -> str:
        return self.served.address

    @property
    def is_running(self) -> bool:
        return self.served.is_running

    def stop(self) -> None:
        """Drain, end every part, and close the store: in the order opposite to that of the start."""
        self._stack.close()


def open_store(
    folder: str,
    now_ns: Callable[[], int] = time.time_ns,
    summarise: Callable[[str], bytes] | None = None,
) -> Store:
    """The store of a folder, for this process alone. RefusedError where another one has it."""
    from stepscope.store.store import Store as Kept

    return Kept.open(folder, now_ns=now_ns, summarise=summarise)


def tokens_of(store: Store) -> list[TokenOf]:
    """The tokens that a store keeps."""
    rows = store.documents("token", limit=100_000)
    return [msgspec.json.decode(each.body, type=TokenOf) for each in rows]


def assemble(
    wanted: Wanted,
    *,
    err: Callable[[str], None],
    store: Store | None = None,
    more: Callable[[Parts, ExitStack], Parts] | None = None,
) -> Running:
    """Start it: when this returns it answers. `more` adds what runs behind the paths (detection, captures,
    incidents, channels) and how each of it ends. `store` in the place of the folder's own.

    UsageError where the address is taken, RefusedError where it may be reached from elsewhere and there is no
    token, or another server has the folder.
    """
    with ExitStack() as stack:
        listener = bound(wanted.host, wanted.port)  # before the store is made: a wrong port makes no folder
        stack.callback(listener.close)
        now_ns = time.time_ns()
        fixed = _of_file(wanted.token_file, now_ns) if wanted.token_file else []
        follows = FollowingClock(wanted.time_scale) if wanted.time_scale != 1.0 else None
        clock: Callable[[], int] = time.time_ns if follows is None else follows
        own = store if store is not None else open_store(wanted.data, clock, wanted.summarise)
        stack.callback(own.close)
        auth = Auth(fixed, is_open=is_loopback(wanted.host))
        auth.set_stored(tokens_of(own))
        if not auth.num_tokens and not is_loopback(wanted.host):
            raise RefusedError(
                f"{wanted.host}: can be reached from elsewhere, and there is no token; make one: "
                f"stepscope token add --role admin --name NAME --data {wanted.data}"
            )
        parts = parts_of(own, auth, wanted, clock)
        if follows is not None:
            parts.feed.listen("batches", follows.heard)
        for url in wanted.remote_write:
            _write_to(url, parts, stack, err)
        _tend(own, stack, err)
        if more is not None:
            parts = more(parts, stack)
        served = serve(parts, listener, err)
        stack.callback(served.stop)
        if store is None:
            write_address(wanted.data, served.address)
            stack.callback(forget_address, wanted.data)
        return Running(parts, served, stack.pop_all())
    raise AssertionError  # what the block raises goes through


def parts_of(store: Store, auth: Auth, wanted: Wanted, clock_ns: Callable[[], int] = time.time_ns) -> Parts:
    """What the HTTP side is made of, on its own."""
    tally, folder = Tally(), Path(wanted.data)
    feed = Feed()
    tally.watch("stepscope_server_store_bytes", _Sizes(folder))
    tally.watch("stepscope_server_store_faults", lambda: _faults(store))
    _count(feed, tally)
    return Parts(
        store=store,
        feed=feed,
        auth=auth,
        clock_ns=clock_ns,
        audit=Audit(store, clock_ns),
        tally=tally,
        limits=wanted.limits,
        folder=folder if folder.is_dir() else None,
        is_ready=_Writable(store),
    )


def _of_file(path: str, now_ns: int) -> list[TokenOf]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = ((error.strerror if isinstance(error, OSError) else None) or "not text").lower()
        raise InputError(path, f"cannot be read: {why}", "give a file with ROLE NAME TOKEN lines") from error
    return read_tokens(text, path, now_ns)


class _Writable:
    """Why the store cannot be written to; asked of it now and then, whoever asks how often."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._asked_s = float("-inf")
        self._why: str | None = None

    def __call__(self) -> str | None:
        with self._lock:
            if time.monotonic() - self._asked_s < _READY_S:
                return self._why
            try:
                self._store.put("ready", "ready", b"{}", at_ns=time.time_ns())
                self._why = None
            except (OSError, StepscopeError):
                self._why = "the store cannot be written to: see the line that the server wrote"
            self._asked_s = time.monotonic()
            return self._why


class _Sizes:
    """Bytes on the disk by what lies in the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._asked_s = float("-inf")
        self._sizes: list[tuple[Labels, float]] = []

    def __call__(self) -> Iterable[tuple[Labels, float]]:
        if time.monotonic() - self._asked_s > _SIZES_S:
            self._sizes = list(self._look())
            self._asked_s = time.monotonic()
        return self._sizes

    def _look(self) -> Iterable[tuple[Labels, float]]:
        with contextlib.suppress(OSError):
            for entry in sorted(os.scandir(self._folder), key=lambda each: each.name):
                size = (
                    sum(_size(path) for path in _files(entry.path)) if entry.is_dir() else _size(entry.path)
                )
                yield (("part", entry.name),), float(size)


def _faults(store: Store) -> Iterable[tuple[Labels, float]]:
    counts: dict[str, int] = {}
    for code, num, _ in store.notes():
        counts[code] = counts.get(code, 0) + num
    return [((("code", code),), float(num)) for code, num in sorted(counts.items())]


def _files(folder: str) -> Iterable[str]:
    for inside, _, names in os.walk(folder):
        yield from (os.path.join(inside, name) for name in names)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:  # sealed or removed meanwhile
        return 0


def _count(feed: Feed, tally: Tally) -> None:
    def alarm(what: Any) -> None:
        if what.end_ns is None:
            tally.add("stepscope_server_alarms_total", level=what.level)

    def incident(what: Any) -> None:
        if what.state == "open" and what.report is None and len(what.history) <= 1:
            tally.add("stepscope_server_incidents_total")

    def capture(what: Any) -> None:
        if isinstance(what, CaptureDocument) and (what.report or what.no_report):
            return  # it was counted when it was done
        state = what.get("state") if isinstance(what, dict) else getattr(what, "state", None)
        tally.add("stepscope_server_captures_total", state=str(state or "unknown"))
        if isinstance(what, CaptureDocument) and what.state in ("done", "failed"):
            for name, cost in (
                ("seconds", what.seconds), ("bytes", what.bytes),
                ("stall_seconds", (what.stall_ns or 0) / 1e9),
            ):  # fmt: skip
                tally.add(f"stepscope_server_capture_{name}_total", cost or 0.0, job=what.job)

    feed.listen("alarm", alarm)
    feed.listen("incident", incident)
    feed.listen("card", lambda _: tally.add("stepscope_server_cards_total"))
    feed.listen("capture", capture)


def _write_to(url: str, parts: Parts, stack: ExitStack, err: Callable[[str], None]) -> None:
    """Samples go on to a metrics store as they come."""
    from stepscope.agent.remote_write import RemoteWriter

    writer = RemoteWriter(url)

    def update(batches: Any) -> None:
        for each in batches:
            writer.update(each)

    parts.feed.listen("batches", update)
    writer.start(lambda _what, text: err(text))
    stack.callback(writer.stop)


def _tend(store: Store, stack: ExitStack, err: Callable[[str], None]) -> None:
    """Seal, roll up and forget now and then, in a thread of its own."""
    stop = threading.Event()

    def run() -> None:
        told = ""
        noted: set[str] = set()
        while not stop.wait(TEND_S):
            try:
                store.tend()
                told = ""
                for code, _, detail in store.notes():
                    # What is counted changes with every request: it is told once.
                    key = detail if code == "store_damage" else code
                    if key not in noted:
                        noted.add(key)
                        err(detail)
            except Exception as error:  # noqa: BLE001  a loop that must live: the next turn tries again
                line = f"{type(error).__name__}: {error}"
                if line != told:
                    err(f"the store could not be tended ({line})")
                told = line

    thread = threading.Thread(target=run, name="stepscope-tend", daemon=True)
    thread.start()

    def end() -> None:
        stop.set()
        thread.join(60)

    stack.callback(end)


__all__ = ["Running", "Wanted", "assemble", "open_store", "parts_of", "tokens_of"]
