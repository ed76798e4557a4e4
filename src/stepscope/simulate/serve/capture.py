"""The on-demand profiler of one rank: what it answers to its control file, and when it runs.

As a monitor in a training process does it: a step T is proposed, the rank says whether it can; only where the
same is then committed before step T - 1 begins does the profiler warm up in T - 1 and record T … T + n - 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stepscope.simulate.row import ROW_CALL, ROW_COPY, ROW_EXCHANGE, ROW_KERNEL, ROW_MARK, Row
from stepscope.simulate.serve.mark import KIND, PHASE, Record
from stepscope.simulate.serve.player import LivePlayer
from stepscope.simulate.serve.ring import Command
from stepscope_sdk import ring_abi as abi

PREPARE_NS, START_NS, STOP_NS = 4_000_000, 15_000_000, 40_000_000
"""What the profiler holds the host up for: as it warms up, as it starts and as it stops."""
EXPORT_NS = 500_000_000
"""From its stop until the trace is written, in the background."""
MOST_STEPS = 50
LIGHT = 200
"""Activities of the device that a light trace keeps."""
CAPTURED, STALLED = abi.FLAGS["captured"], abi.FLAGS["stalled"]


@dataclass(frozen=True, slots=True)
class Job:
    """One capture of one rank, from its first to its last active step."""

    capture: int
    first_step: int
    num_steps: int
    mode: str
    flags: int

    @property
    def last_step(self) -> int:
        """The last active step."""
        return self.first_step + self.num_steps - 1

    @property
    def about(self) -> dict[str, object]:
        """What the trace says of its capture."""
        told: dict[str, object] = {
            "capture": self.capture, "first_step": self.first_step, "num_steps": self.num_steps,
            "mode": self.mode,
        }  # fmt: skip
        return told if self.num_steps == 1 else told | {"dropped_step": self.first_step}


Written = Callable[[Job, list[Row]], int]


class Capturer:
    """One rank. `write` puts the trace of a job into a file and says how many bytes it has; a record goes to
    `tell`."""

    def __init__(self, player: LivePlayer, tell: Callable[[Record], None], write: Written) -> None:
        self._player, self._tell, self._write = player, tell, write
        self._job: Job | None = None
        self._state = "idle"
        self._is_committed = False
        self._newest = 0
        self._stall_ns = 0
        self._is_held = False
        self._step = self._played = -1
        self._exports: list[tuple[int, Job, list[Row]]] = []

    def begin(self, step: int, command: Command | None) -> int:
        """Step `step` is about to be played: flags of its records."""
        self._step = step
        if command is not None:
            self._obey(command, step)
        job = self._job
        if job is not None and self._state in ("warm", "active") and not self._is_next(step):
            self._end("failed")  # a step that hung is not one of the agreement
        elif job is not None and self._state == "armed" and step >= job.first_step - 1:
            if not self._is_committed:
                self._end("cancelled")
            elif step > job.first_step - 1:
                self._end("failed")
            else:
                self._hold(PREPARE_NS)
                self._state = "warm"
                self._player.programs.drained |= {step, job.last_step}
        flags = STALLED if self._is_held or self._exports else 0
        self._is_held = False
        if job is not None and self._state == "active":
            flags |= CAPTURED
        return flags

    def _is_next(self, step: int) -> bool:
        return step == self._played + 1

    def end(self, step: int) -> None:
        """Step `step` was played."""
        self._played = step
        job, player = self._job, self._player
        if job is None:
            return
        if self._state == "warm" and step == job.first_step - 1:
            self._hold(START_NS)
            self._state = "active"
            player.captured = []
            mode = float(abi.MODES.index(job.mode))
            self._say("capture_begin", CAPTURED, job.first_step, job.capture, mode)
        elif self._state == "active" and step >= job.last_step:
            self._hold(STOP_NS)
            self._say("capture_end", CAPTURED, job.last_step, job.capture, float(self._stall_ns))
            self._exports.append((player.host_ns + EXPORT_NS, job, player.captured or []))
            player.captured, self._job, self._state = None, None, "idle"

    def poll(self, now_ns: int) -> None:
        """Write what is due by now."""
        while self._exports and self._exports[0][0] <= now_ns:
            at, job, rows = self._exports.pop(0)
            try:
                num_bytes = self._write(job, light(rows) if job.mode == "light" else rows)
            except OSError:
                self._answer("failed", job.capture, job.first_step, at)
                continue
            told = (job.capture, float(self._stall_ns), float(num_bytes))
            self._tell(Record(at, KIND["capture_end"], CAPTURED, job.last_step, *told))
            self._answer("done", job.capture, job.first_step, at)

    def give_up(self) -> None:
        """The process is ended: nothing of it is said any more."""
        self._exports, self._job, self._state = [], None, "idle"
        self._player.captured = None

    def _obey(self, command: Command, step: int) -> None:
        job = self._job
        if command.command == "cancel":
            if job is not None and job.capture == command.capture:
                self._end("cancelled")
        elif command.command == "commit":
            if job is not None and (job.capture, job.first_step) == (command.capture, command.first_step):
                self._is_committed = True
        elif command.command == "propose" and command.capture > self._newest:
            self._newest = command.capture
            self._answer(self._consider(command, step), command.capture, command.first_step)

    def _consider(self, command: Command, step: int) -> str:
        if self._job is not None and self._state == "armed" and not self._is_committed:
            self._end("cancelled")
        if self._job is not None or self._exports:
            return "busy"
        if command.first_step - 1 <= step:
            return "too_late"
        if not 1 <= command.num_steps <= MOST_STEPS:
            return "refused"
        self._job = Job(command.capture, command.first_step, command.num_steps, command.mode, command.flags)
        self._state, self._is_committed, self._stall_ns = "armed", False, 0
        return "armed"

    def _end(self, answer: str) -> None:
        job = self._job
        self._job, self._state, self._player.captured = None, "idle", None
        if job is not None:
            self._player.programs.drained -= {job.first_step - 1, job.last_step}
            self._answer(answer, job.capture, job.first_step)

    def _hold(self, takes_ns: int) -> None:
        """The host does nothing but call the profiler for so long."""
        start = self._player.host_ns
        self._player.wait(start + takes_ns)
        self._stall_ns += takes_ns
        self._is_held = True
        place = PHASE["profiler"]
        self._tell(Record(start, KIND["phase_begin"], 0, -1, place, -1.0))
        self._tell(Record(start + takes_ns, KIND["phase_end"], 0, -1, place, -1.0, -float(takes_ns)))

    def _answer(self, answer: str, capture: int, first_step: int, at_ns: int | None = None) -> None:
        place = float(abi.ANSWERS.index(answer))
        self._say("answer", 0, self._step, capture, place, float(first_step), at_ns)

    def _say(
        self,
        kind: str,
        flags: int,
        step: int,
        a: int,
        b: float,
        c: float = float("nan"),
        at: int | None = None,
    ) -> None:
        self._tell(Record(self._player.host_ns if at is None else at, KIND[kind], flags, step, a, b, c))


def light(rows: list[Row]) -> list[Row]:
    """The last activities of the device, the calls that launched them and the annotations that they lie in,
    cut where the first of them begins: what a profiler of the device alone has."""
    work = sorted(
        (row for row in rows if row.kind in (ROW_KERNEL, ROW_COPY, ROW_EXCHANGE)),
        key=lambda row: row.start_ns,
    )[-LIGHT:]
    if not work:
        return []
    cut, numbers = work[0].start_ns, {row.correlation for row in work}
    kept = set(map(id, work))
    found = []
    for row in rows:
        if id(row) in kept or (row.kind == ROW_CALL and row.correlation in numbers):
            found.append(row)
        elif row.kind == ROW_MARK and row.end_ns > cut:
            found.append(row._replace(start_ns=max(row.start_ns, cut)))
    return found
