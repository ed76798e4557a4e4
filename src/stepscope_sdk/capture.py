"""The on-demand profiler of one training process: what it answers, and when it runs.

Two phases: a step T is proposed, this process says whether it can (`armed`); only where the same is then
committed, and seen before step T − 1 begins, does the profiler warm up in T − 1 and record T … T + n − 1. No
commit, no capture. A cancel is obeyed at any time, also behind the end: then the trace is removed.
The steps of the profiler tile as in PyTorch's own: from the end of one step to the end of the next, so that
the wait for data in front of a step belongs to it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from stepscope_sdk import ring_abi as abi
from stepscope_sdk.capture_job import Bench, Job, Recorder
from stepscope_sdk.control import Command

_ANSWER, _BEGIN, _END = (abi.kind_number(each) for each in ("answer", "capture_begin", "capture_end"))
_PHASE_BEGIN, _PHASE_END = abi.kind_number("phase_begin"), abi.kind_number("phase_end")
_PROFILER = abi.PHASES.index("profiler")
CAPTURED, STALLED = abi.FLAGS["captured"], abi.FLAGS["stalled"]
NAN = float("nan")
EXIT_SECONDS = 10.0
"""So long may the writing of a trace hold up the end of the process."""
MOST_STEPS = 1000


class Capturer:
    """The state of this process: idle, armed (committed or not), warm, active; then writing in a thread."""

    def __init__(
        self,
        write: Callable[..., object],
        bench: Bench,
        *,
        now: Callable[[], int] = time.perf_counter_ns,
        sample: Callable[[int], Job | None] = lambda _: None,
        spawn: Callable[[Callable[[], None]], threading.Thread] | None = None,
    ) -> None:
        """`write` is that of the ring; `sample` gives a capture of our own, if one is due, as a step
        begins; `spawn` runs what may take long beside the training."""
        self._write, self._bench, self._now = write, bench, now
        self._sample, self._spawn = sample, spawn or _beside
        self._state = "idle"
        self._job: Job | None = None
        self._is_committed = False
        self._recorder: Recorder | None = None
        self._stall_ns = 0
        self._is_held = False
        self._newest = 0
        self._step = -1
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._written: Job | None = None
        self._is_decided = False

    @property
    def is_busy(self) -> bool:
        """Whether steps must come by here although no word changed."""
        return self._state != "idle" or self._is_held or self._is_writing

    @property
    def _is_writing(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def begin(self, step: int, command: Command | None) -> int:
        """Step `step` is about to begin: flags for its records."""
        self._step = step
        if command is not None:
            self._obey(command, step)
        job = self._job
        if job is None and (job := self._sample(step)) is not None and job.first_step > step:
            if not self._is_writing and self._bench.refusal(job) is None:
                self._job, self._state, self._is_committed, self._stall_ns = job, "armed", True, 0
            else:
                job = None
        if job is not None and self._job is job:
            if self._state == "armed" and step >= job.first_step - 1:
                self._warm(job, step)
            elif self._state == "warm" and step != job.first_step - 1:
                self._end("failed")
            elif self._state == "active" and not job.first_step <= step <= job.last_step:
                self._end("failed")  # the numbers jumped: these are not the steps of the agreement
        flags = STALLED if self._is_held or self._is_writing else 0
        self._is_held = False
        return flags | (CAPTURED if self._state == "active" else 0)

    def end(self, step: int, command: Command | None) -> int:
        """Step `step` has ended."""
        if command is not None:
            self._obey(command, step)
        job = self._job
        if job is None:
            return 0
        if self._state == "warm" and step == job.first_step - 1:
            self._do(step, lambda recorder: recorder.start(step + 1))
            self._state = "active"
            self._write(_BEGIN, CAPTURED, job.first_step, job.capture, float(abi.MODES.index(job.mode)))
        elif self._state == "active" and step < job.last_step:
            self._do(None, lambda recorder: recorder.mark(step + 1))
        elif self._state == "active":
            self._do(step, lambda recorder: recorder.stop())
            self._write(_END, CAPTURED, job.last_step, job.capture, float(self._stall_ns))
            self._export(job)
        return 0

    def give_up(self) -> None:
        """Something of ours broke: the profiler ends, the capture has failed."""
        if self._job is not None:
            self._end("failed")

    def close(self) -> None:
        """The process ends."""
        if self._job is not None:
            self._end("cancelled")
        if self._thread is not None:
            self._thread.join(EXIT_SECONDS)

    def _obey(self, command: Command, step: int) -> None:
        if command.command == "cancel":
            self._cancel(command.capture)
        elif command.command == "commit":
            job = self._job
            if job is not None and (job.capture, job.first_step) == (command.capture, command.first_step):
                self._is_committed = True
        elif command.command == "propose" and command.capture > self._newest:
            self._newest = command.capture
            self._answer(self._consider(command, step), command.capture, command.first_step)

    def _consider(self, command: Command, step: int) -> str:
        if self._job is not None and self._state == "armed" and not self._is_committed:
            self._end("cancelled")  # by a proposal that takes its place
        if self._job is not None or self._is_writing:
            return "busy"
        if command.first_step - 1 <= step:  # a commit could not be seen before step T - 1 begins
            return "too_late"
        if not 1 <= command.num_steps <= MOST_STEPS:
            return "refused"
        job = Job(*command[1:], dropped=command.first_step if command.num_steps > 1 else None)
        refusal = self._bench.refusal(job)
        if refusal is None:
            self._job, self._state, self._is_committed, self._stall_ns = job, "armed", False, 0
        return refusal or "armed"

    def _warm(self, job: Job, step: int) -> None:
        if not self._is_committed:
            self._end("cancelled")
        elif step > job.first_step - 1:
            self._end("failed")  # T - 1 was jumped over
        elif (refusal := self._bench.refusal(job)) is not None:
            self._end(refusal)  # another profiler began since
        else:
            self._recorder = self._bench.recorder(job)
            self._do(step, lambda recorder: recorder.prepare())
            self._state = "warm"

    def _do(self, step: int | None, what: Callable[[Recorder], None]) -> None:
        """Call the profiler: what it takes is our stall, and where `step` is given the marks say so."""
        recorder = self._recorder
        if recorder is None:
            raise RuntimeError("no profiler")
        if step is not None:
            self._write(_PHASE_BEGIN, 0, -1, _PROFILER)
            self._is_held = True
        start = self._now()
        try:
            what(recorder)
        finally:
            self._stall_ns += self._now() - start
            if step is not None:
                self._write(_PHASE_END, 0, -1, _PROFILER)

    def _cancel(self, capture: int) -> None:
        if self._job is not None and self._job.capture == capture:
            self._end("cancelled")
            return
        if capture > self._newest:  # it took the place of a proposal that was never seen
            self._newest = capture
            self._answer("cancelled", capture, abi.ABSENT)
            return
        with self._lock:  # the thread decides under the same lock whether its trace is still wanted
            written = self._written
            if written is None or written.capture != capture:
                return
            self._written = None
            if not self._is_decided:
                return  # the thread finds that nobody wants it
        self._bench.remove(written)
        self._answer("cancelled", capture, written.first_step)

    def _end(self, answer: str) -> None:
        """End what is under way, without a trace."""
        job, recorder, state = self._job, self._recorder, self._state
        self._job, self._recorder, self._state = None, None, "idle"
        if job is None:
            return
        try:
            if recorder is not None:
                start = self._now()
                recorder.discard()
                self._stall_ns += self._now() - start
                self._is_held = True
        finally:
            if state == "active":
                self._write(_END, CAPTURED, self._step, job.capture, float(self._stall_ns))
            self._answer(answer, job.capture, job.first_step)

    def _export(self, job: Job) -> None:
        recorder, stall_ns = self._recorder, self._stall_ns
        self._job, self._recorder, self._state = None, None, "idle"
        self._written, self._is_decided = job, False
        if recorder is not None:
            self._thread = self._spawn(lambda: self._in_background(job, recorder, stall_ns))

    def _in_background(self, job: Job, recorder: Recorder, stall_ns: int) -> None:
        try:
            self._finish(job, recorder, stall_ns)
        except Exception:  # noqa: BLE001 - such as a ring that was closed meanwhile: nobody is left to tell
            self._bench.remove(job)

    def _finish(self, job: Job, recorder: Recorder, stall_ns: int) -> None:
        num_bytes = None
        try:
            num_bytes, held_ns = recorder.write(job)
            stall_ns += held_ns
        except Exception:  # noqa: BLE001 - in a thread of the training process nobody would catch it
            num_bytes = None
        with self._lock:
            self._is_decided = True
            is_wanted = self._written is job
            if num_bytes is not None and is_wanted:
                self._write(_END, CAPTURED, job.last_step, job.capture, float(stall_ns), float(num_bytes))
                self._answer("done", job.capture, job.first_step)
                return
            self._written = None
        self._bench.remove(job)
        self._answer("cancelled" if not is_wanted else "failed", job.capture, job.first_step)

    def _answer(self, answer: str, capture: int, first_step: int) -> None:
        place = float(abi.ANSWERS.index(answer))
        self._write(_ANSWER, 0, self._step, capture, place, float(first_step))


def _beside(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, name="stepscope-trace", daemon=True)
    thread.start()
    return thread
