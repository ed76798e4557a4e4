"""PyTorch's profiler, driven by hand: one recording, and whether one may begin.

The classes of `torch.autograd.profiler` are used, not `torch.profiler.profile`: the latter imports the
compiler's configuration when it warms up, which took 4 s of a step where it was not loaded before.
Nothing is imported that the process has not imported itself.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from stepscope_sdk import profile_write
from stepscope_sdk import ring_abi as abi
from stepscope_sdk.capture_job import Job
from stepscope_sdk.profile_folder import Folder, remove, remove_file
from stepscope_sdk.profile_phase import marked

FOREIGN = (
    ("NSYS_PROFILING_SESSION_ID", "Nsight Systems"),
    ("CUDA_INJECTION64_PATH", "a tool injected into CUDA (Nsight Systems, a CUPTI tool)"),
    ("NV_COMPUTE_PROFILER_PERFWORKS_DIR", "Nsight Compute"),
    ("NV_NSIGHT_INJECTION_TRANSPORT_TYPE", "Nsight Compute"),
    ("KINETO_USE_DAEMON", "a Kineto daemon that may begin a trace at any time"),
    ("KINETO_CONFIG", "Kineto's own configuration"),
    ("HSA_TOOLS_LIB", "rocprof"),
    ("ROCP_TOOL_LIB", "rocprof"),
)
"""Variables that say that another profiler has, or may take, the device's only tracing session."""
ROOM_BYTES = {"full": 256 << 20, "light": 64 << 20}
"""Room that must be free: traces of a few steps measured 2 to 150 MB before compression."""
_TASK = "ProfilerStep"


class Torch:
    """Where this process's recordings come from and go to."""

    def __init__(self, folder: Folder, ring_path: str, about: Mapping[str, Any]) -> None:
        """`about`: rank, world_size, job, run, host as far as known; they go into each trace."""
        self._folder, self._ring_path = folder, ring_path
        self._about = about

    def path(self, job: Job) -> str:
        """The file of this capture."""
        return os.path.join(self._folder.path, abi.trace_place(self._ring_path, job.capture))

    def refusal(self, job: Job) -> str | None:
        """Why not now: `failed` without PyTorch, `busy` beside another profiler, `refused` without room."""
        torch = sys.modules.get("torch")
        if torch is None or not torch.autograd.kineto_available():
            return "failed"
        if other_profiler(torch, os.environ) is not None:
            return "busy"
        return None if self._folder.has_room(ROOM_BYTES[job.mode]) else "refused"

    def recorder(self, job: Job) -> Recording:
        """A profiler for this job."""
        return Recording(self.path(job), job, self._about, self._folder, self._ring_path)

    def remove(self, job: Job) -> None:
        """Remove the trace, and its folder where it was the last."""
        remove(self.path(job))


def other_profiler(torch: Any, environment: Mapping[str, str]) -> str | None:
    """What profiles this process already or is about to, `None` where nothing does.

    A `torch.profiler.profile` whose schedule waits is not enabled yet, but counts steps from the moment it
    is entered; a profiler of Python's (cProfile) is seen in this thread only.
    """
    found = next((what for name, what in FOREIGN if environment.get(name)), None)
    if found is not None:
        return found
    profiler = torch.autograd.profiler
    if getattr(profiler, "_is_profiler_enabled", False) or torch.autograd._profiler_enabled():
        return "PyTorch's profiler"
    tracker = getattr(profiler, "KinetoStepTracker", None)
    if tracker is not None and _TASK in getattr(tracker, "_step_dict", ()):
        return "PyTorch's profiler, waiting for its steps"
    return "a profiler of Python" if sys.getprofile() is not None else None


class Recording:
    """One run of the profiler. Made on the thread that trains; `write` may run on another."""

    def __init__(self, path: str, job: Job, about: Mapping[str, Any], folder: Folder, ring_path: str) -> None:
        self._ring_path, self._thread = ring_path, threading.get_native_id()
        self._path, self._job, self._about, self._folder = path, job, about, folder
        self._torch = torch = sys.modules["torch"]
        self._profiler_class = torch.autograd.profiler.profile
        device = _device(torch)
        self._profile = self._make(device, use_cpu=job.mode == "full" or device is None)
        self._state = "made"
        self._note: Any = None
        self._steps: list[tuple[int, int, int]] = []
        self._open: tuple[int, int] | None = None
        self._watched: dict[str, Any] = {}

    def _make(self, device: str | None, *, use_cpu: bool) -> Any:
        flags = self._job.flags
        options: dict[str, Any] = {
            "use_cpu": use_cpu,
            "use_kineto": True,
            "with_stack": bool(flags & abi.CAPTURE_FLAGS["stacks"]),
            "record_shapes": bool(flags & abi.CAPTURE_FLAGS["shapes"]),
            "profile_memory": bool(flags & abi.CAPTURE_FLAGS["memory"]),
        }
        if device is not None and _numbers(self._torch.__version__) >= (2, 3):
            options["use_device"] = device
        elif device == "cuda":
            options["use_cuda"] = True
        if device == "cuda" and _numbers(str(self._torch.version.cuda)) < (12, 6):
            # As PyTorch does where it knows of CUDA graphs: before 12.6 replays crash when CUPTI, let go of
            # after one recording, is taken up again for the next. We cannot know of every graph.
            os.environ.setdefault("DISABLE_CUPTI_LAZY_REINIT", "1")
            os.environ.setdefault("TEARDOWN_CUPTI", "0")
        return self._profiler_class(**options)

    def prepare(self) -> None:
        """Warm up. From here to the end a profiler of the user's own has precedence."""
        self._yield_to_others()
        self._profile._prepare_trace()
        self._state = "prepared"

    def start(self, step: int) -> None:
        """Record from now, the annotation of this step first."""
        self._require("prepared")
        self._profile._start_trace()
        self._state = "started"
        self._open_step(step)

    def mark(self, step: int) -> None:
        """The annotation of one step ends and that of the next begins."""
        self._require("started")
        self._close_step()
        self._open_step(step)

    def _open_step(self, step: int) -> None:
        self._open = (step, time.time_ns())
        self._note = self._torch.autograd.profiler.record_function(f"{_TASK}#{step}")
        self._note.__enter__()

    def _close_step(self) -> None:
        note, begun, self._note, self._open = self._note, self._open, None, None
        if note is not None and begun is not None:
            note.__exit__(None, None, None)
            self._steps.append((*begun, time.time_ns()))

    def stop(self) -> None:
        """Record no more. A session that somebody else ended would give results that crash when written."""
        self._require("started")
        self._close_step()
        self._unwatch()
        if not self._torch.autograd._profiler_enabled():
            self._state = "lost"
        self._require("started")
        self._state = "stopped"
        self._profile.__exit__(None, None, None)

    def discard(self) -> None:
        """End it, keep nothing. A session that was only prepared is started first: left as it is it would
        warn on the user's terminal in their next profile."""
        self._unwatch()
        state, self._state = self._state, "discarded"
        if state == "prepared":
            self._profile._start_trace()
        self._close_step()
        if state in ("prepared", "started") and self._torch.autograd._profiler_enabled():
            self._profile.__exit__(None, None, None)

    def write(self, job: Job) -> tuple[int, int]:
        """Write the trace: its bytes, and the nanoseconds in which Python could run nothing else (the library
        holds the interpreter's lock while it writes)."""
        self._require("stopped")
        self._folder.make(os.path.dirname(self._path))
        raw = self._path + ".part"
        try:
            start = time.perf_counter_ns()
            self._profile.kineto_results.save(raw)
            held_ns = time.perf_counter_ns() - start
            if not os.path.exists(raw):  # the library logs what failed, and returns
                raise OSError(f"{raw}: nothing was written")
            said = marked(self._ring_path, self._steps[0][1], self._steps[-1][2])
            told = {**profile_write.about(job), **({"tiled": True} if said.is_tiled else {})}
            head = profile_write.members(self._about, told)
            most = profile_write.LIGHT if job.mode == "light" else None
            num_bytes = profile_write.write(
                raw, self._path, head, self._steps, said.phases, self._thread, most=most
            )
        finally:
            remove_file(raw)
            self._profile = None
        self._folder.make_room(keep=os.path.dirname(self._path))
        return num_bytes, held_ns

    def _require(self, state: str) -> None:
        if self._state != state:
            raise RuntimeError(f"the profiler is {self._state}, not {state}")

    def _yield_to_others(self) -> None:
        """While this runs, a profile that anyone else begins ends ours first: theirs must not fail, and two
        sessions at once crash the process when the second is written."""
        ours = self._profile
        for name in ("_prepare_trace", "_start_trace"):
            self._watched[name] = original = getattr(self._profiler_class, name)

            def watched(other: Any, *given: Any, _original: Any = original, **named: Any) -> Any:
                if other is not ours and self._state in ("prepared", "started"):
                    self.discard()
                    self._state = "taken over"
                return _original(other, *given, **named)

            setattr(self._profiler_class, name, watched)

    def _unwatch(self) -> None:
        while self._watched:
            setattr(self._profiler_class, *self._watched.popitem())


def _device(torch: Any) -> str | None:
    """The kind of accelerator that this process uses already; none is woken for a capture."""
    for kind in ("cuda", "xpu"):
        module = getattr(torch, kind, None)
        if module is not None and getattr(module, "is_initialized", lambda: False)():
            return kind
    return None


def _numbers(version: str) -> tuple[int, ...]:
    """The first two numbers of a version."""
    return tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())
