"""What an agent does with a server's orders, and what it refuses: rings that it does not follow, and what
goes beyond this node's own budget, which has the last word.

Commands are written at once. Traces and stacks take long: they have threads of their own, so that no command
waits behind one.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from stepscope.act.capture import Budget, Spent, refusal
from stepscope.act.capture.budget import HOUR_NS
from stepscope.act.capture.control import ControlWriter
from stepscope.agent.job import Labels, LiveRank
from stepscope.agent.source import Line, Reading
from stepscope.model.error import StepscopeError
from stepscope.model.order import Command, Order, Stacks, Upload
from stepscope_sdk import ring_abi as abi

HURRY_NS = 100_000_000
"""How often rings are read while a capture is under way: its answers are in them."""
HURRIED_NS, COMMITTED_NS = 20_000_000_000, 120_000_000_000
"""For how long, after a proposal or a cancel, and after a commit."""
NUM_UPLOADING, NUM_LOOKING = 2, 4
MOST_WAITING = 1024
MOST_STEPS = 1000
NOT_HERE = "captures are switched off on this node (--no-capture)"

T = TypeVar("T")
Stack = Callable[[int, int], list[Line]]
"""`agent.stacks.stacks_of`."""


class Speaks(Protocol):
    """What is told, and who is hurried: the agent's loop."""

    def tell(self, what: str, text: str, code: int | None = None, labels: Labels = ()) -> None: ...
    def take(self, source: str, reading: Reading) -> None: ...
    def hurry(self, source: str, period_ns: int, for_ns: int) -> None: ...


class Sends(Protocol):
    """`agent.upload.Uploader`."""

    def send(self, ring: str, capture: int) -> None: ...
    def stop(self) -> None: ...


class Obeyer:
    """Obeys orders about the rings in `living()`. `budget`: of each job on this node, `None` where captures
    are refused here."""

    def __init__(
        self,
        living: Callable[[], Sequence[LiveRank]],
        loop: Speaks,
        uploaders: Callable[[], Sends],
        stacks: Stack,
        *,
        budget: Budget | None,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._living, self._loop, self._stacks = living, loop, stacks
        self._budget, self._wall_ns = budget, wall_ns
        self._committed: dict[int, tuple[int, tuple[str | None, str | None]]] = {}
        """Of each capture that ran here: when, and of which job."""
        self._senders = [uploaders() for _ in range(NUM_UPLOADING)]
        self._uploads: queue.Queue[Upload | None] = queue.Queue(MOST_WAITING)
        self._looks: queue.Queue[tuple[LiveRank, int] | None] = queue.Queue(MOST_WAITING)

    def start(self) -> None:
        """Begin with what takes long."""
        for sender in self._senders:
            self._thread(lambda sender=sender: self._upload(sender))  # type: ignore[misc]
        for _ in range(NUM_LOOKING):
            self._thread(self._look)

    def stop(self) -> None:
        """End it; what is under way is cut."""
        for sender in self._senders:
            sender.stop()
        for waiting, num in ((self._uploads, NUM_UPLOADING), (self._looks, NUM_LOOKING)):
            for _ in range(num):
                try:
                    waiting.put_nowait(None)
                except queue.Full:
                    break  # they are daemons

    def __call__(self, order: Order) -> None:
        """Do it, or have it done; never raises for what an order says."""
        ranks = {os.path.basename(each.ring): each for each in self._living()}
        if isinstance(order, Stacks):
            for ring in order.rings:
                if ring in ranks:
                    self._put(self._looks, (ranks[ring], order.seq))
            return
        rank = ranks.get(order.ring)
        if rank is None:
            self._refuse(order, "no such rank marks its steps here", None)
        elif self._budget is None:
            self._refuse(order, NOT_HERE, rank)
        elif isinstance(order, Upload):
            self._put(self._uploads, order)
        else:
            self._command(order, rank)

    # ── commands ──

    def _command(self, order: Command, rank: LiveRank) -> None:
        job, now_ns = (rank.identity.job, rank.identity.run), self._wall_ns()
        if order.command == "propose" and (why := self._over_budget(job, order.capture, now_ns)) is not None:
            self._refuse(order, why, rank)
        elif not (
            1 <= order.num_steps <= MOST_STEPS
            and 0 <= order.first_step < 1 << 62
            and 0 <= order.capture < 1 << 62
            and abi.CAPTURE_FLAGS.keys() >= set(order.flags)
        ):
            self._refuse(order, "it makes no sense", rank)
        elif self._write(order, rank):
            is_commit = order.command == "commit"
            if is_commit:
                self._committed.setdefault(order.capture, (now_ns, job))
            self._loop.hurry("rings", HURRY_NS, COMMITTED_NS if is_commit else HURRIED_NS)

    def _write(self, order: Command, rank: LiveRank) -> bool:
        try:
            control = ControlWriter(rank.ring)
            try:
                control.write(
                    order.command, order.capture, order.first_step, order.num_steps, order.mode,
                    frozenset(order.flags),
                )  # fmt: skip
                control.look(time.monotonic_ns())
            finally:
                control.close()
        except (StepscopeError, OSError) as error:
            self._refuse(order, str(error), rank)
            return False
        return True

    def _over_budget(self, job: tuple[str | None, str | None], capture: int, now_ns: int) -> str | None:
        self._committed = {each: said for each, said in self._committed.items() if now_ns - said[0] < HOUR_NS}
        assert self._budget is not None
        costs = [(each.identity.job, each.identity.run, each.captures) for each in self._living()]
        spent = []
        for each, (at_ns, whose) in self._committed.items():
            if whose != job or each == capture:
                continue
            mine = [held.get(each, (0, 0)) for name, run, held in costs if (name, run) == job]
            spent.append(
                Spent(
                    at_ns,
                    bytes=sum(num_bytes for _, num_bytes in mine),
                    stall_ns=max((stall_ns for stall_ns, _ in mine), default=0),
                )
            )
        return refusal(self._budget, spent, now_ns)

    def _refuse(self, order: Command | Upload, why: str, rank: LiveRank | None) -> None:
        if isinstance(order, Command) and order.command == "cancel":
            return  # nothing of it is here
        what = "capture_refused" if isinstance(order, Command) else "capture_not_sent"
        labels = {**(rank.labels() if rank is not None else {}), "ring": order.ring}
        self._loop.tell(what, f"no capture: {why}", order.capture, tuple(sorted(labels.items())))

    # ── what takes long ──

    def _upload(self, sender: Sends) -> None:
        while (order := self._uploads.get()) is not None:
            rank = next((each for each in self._living() if os.path.basename(each.ring) == order.ring), None)
            if rank is None:
                self._refuse(order, "its rank has ended", None)
                continue
            try:
                sender.send(rank.ring, order.capture)
            except (StepscopeError, OSError) as error:
                self._refuse(order, str(error), rank)
            except Exception as error:  # noqa: BLE001  the thread must live for the next one
                self._refuse(order, f"a fault of stepscope ({type(error).__name__}: {error})", rank)

    def _look(self) -> None:
        while (asked := self._looks.get()) is not None:
            rank, _ = asked
            labels = tuple(sorted({**rank.labels(), "ring": os.path.basename(rank.ring)}.items()))
            at_ns = self._wall_ns()
            try:
                if rank.pid is None:
                    raise OSError("its process cannot be seen from here")
                lines = self._stacks(rank.pid, at_ns)
            except (StepscopeError, OSError) as error:
                self._loop.tell("stacks_failed", f"no stacks: {error}", None, labels)
                continue
            except Exception as error:  # noqa: BLE001  as above
                self._loop.tell("stacks_failed", f"a fault of stepscope: {error}", None, labels)
                continue
            self._loop.take("stacks", Reading(at_ns, lines=[each._replace(labels=labels) for each in lines]))

    def _put(self, waiting: queue.Queue[T | None], what: T) -> None:
        try:
            waiting.put_nowait(what)
        except queue.Full:
            self._loop.tell("orders_dropped", f"{MOST_WAITING} orders wait already: one more is left out")

    @staticmethod
    def _thread(work: Callable[[], None]) -> None:
        threading.Thread(target=work, name="stepscope-obey", daemon=True).start()
