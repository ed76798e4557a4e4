"""Names in sentences of who holds a job up."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.model.stuck import Frame

MOST = 6
_LIBRARY = ("torch/", "threading.py", "queue.py", "multiprocessing/", "selectors.py", "concurrent/",
            "asyncio/", "contextlib.py", "socket.py", "ssl.py", "deepspeed/comm", "importlib")  # fmt: skip


def ranks_en(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 0, 1, 2`, `ranks 0–7, 16`."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [
        part
        for run in runs
        for part in ([f"{run[0]}–{run[-1]}"] if len(run) > 2 else [str(rank) for rank in run])
    ]
    more = f" and {len(parts) - MOST} groups more" if len(parts) > MOST else ""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(parts[:MOST])}{more}"


def frame_of(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame of the job's own code, else the innermost of all; `None` of none."""
    own = (each for each in frames if not is_library(each))
    return next(own, frames[0] if frames else None)


def is_library(frame: Frame) -> bool:
    """Whether a frame is of Python's library or the framework, and not of the job."""
    return frame.file.startswith(_LIBRARY) or frame.function.startswith("<frozen")
