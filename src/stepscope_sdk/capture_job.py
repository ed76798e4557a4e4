"""What a capture consists of: the job, and what carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Job:
    """One capture. `dropped` is the step that the analysis is to leave out, `None` where there is none."""

    capture: int
    first_step: int
    num_steps: int
    mode: str
    flags: int
    dropped: int | None = None

    @property
    def last_step(self) -> int:
        """The last active step."""
        return self.first_step + self.num_steps - 1


class Recorder(Protocol):
    """A profiler, once: `profile_torch.Recording` is the real one. Each may raise."""

    def prepare(self) -> None:
        """Warm up."""

    def start(self, step: int) -> None:
        """Record from now, the annotation of this step first."""

    def mark(self, step: int) -> None:
        """The annotation of one step ends and that of the next begins."""

    def stop(self) -> None:
        """Record no more."""

    def discard(self) -> None:
        """End it in any state, keep nothing."""

    def write(self, job: Job) -> tuple[int, int]:
        """Write the trace: its bytes, and for how long nothing else could run in nanoseconds."""


class Bench(Protocol):
    """Where recordings come from and go to: `profile_torch.Torch` is the real one."""

    def refusal(self, job: Job) -> str | None:
        """`busy`, `refused` or `failed` where it cannot be done now, else `None`."""

    def recorder(self, job: Job) -> Recorder:
        """A profiler for this job."""

    def remove(self, job: Job) -> None:
        """Remove what was written of it."""
