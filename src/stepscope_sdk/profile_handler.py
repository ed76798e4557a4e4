"""A handler for the user's own `torch.profiler.profile(on_trace_ready=…)`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from stepscope_sdk import ring_abi as abi
from stepscope_sdk.profile_folder import folder_of, remove_file

_BEGIN, _END = abi.kind_number("capture_begin"), abi.kind_number("capture_end")
NAN = float("nan")


class Handler:
    """Writes each trace into a folder that `stepscope diagnose` reads as one job, with the numbers that the
    monitor gives to the steps, and marks them."""

    def __init__(
        self,
        folder: str,
        name: str,
        about: Mapping[str, Any],
        step: Callable[[], int],
        write: Callable[..., object] | None,
    ) -> None:
        """`name` is that of each file and tells its rank; `step` is the newest step that began, -1 before the
        first; `write` is the ring's."""
        self._folder, self._name, self._about = folder, name, about
        self._step, self._write = step, write
        self._threads: list[threading.Thread] = []

    def __call__(self, profile: Any) -> None:
        """Called by the profiler. What fails is left out: the training goes on."""
        try:
            self._save(profile)
        except Exception:  # noqa: BLE001 - the profiler calls us inside of the training loop
            return

    def _save(self, profile: Any) -> None:
        from stepscope_sdk import profile_write  # not before there is a trace: every job imports this file

        first, last = recorded(profile)
        now = self._step()
        shift = now - last if now >= 0 else 0
        first, last = first + shift, last + shift
        folder = os.path.join(self._folder, f"steps-{first}-{last}")
        os.makedirs(folder, mode=0o750, exist_ok=True)
        path = os.path.join(folder, f"{self._name}.json.gz")
        raw = path + ".part.json"
        # Its results are gone when the next cycle begins: only the compression can wait.
        profile.export_chrome_trace(raw)
        told = {"capture": first, "first_step": first, "num_steps": last - first + 1, "mode": "own"}
        head = profile_write.members(self._about, told)
        if self._write is not None:
            self._write(_BEGIN, abi.FLAGS["captured"], first, first, 0.0)
            self._write(_END, abi.FLAGS["captured"], last, first, NAN)
        thread = threading.Thread(target=self._pack, args=(raw, path, head, shift), name="stepscope-trace")
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()

    def _pack(self, raw: str, path: str, head: Mapping[str, Any], shift: int) -> None:
        from stepscope_sdk import profile_write

        try:
            profile_write.write(raw, path, head, shift=shift)
        except OSError:
            return
        finally:
            remove_file(raw)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until what was handed over is written."""
        for each in self._threads:
            each.join(seconds)


def recorded(profile: Any) -> tuple[int, int]:
    """First and last step that a `torch.profiler.profile` has just recorded, by its own count."""
    number = int(profile.step_num)

    def action(step: int) -> str:
        return str(getattr(profile.schedule(step), "name", "")) if step >= 0 else ""

    # Inside of `step()` the count is one ahead of what was recorded, at the end of the block it is not.
    last = number - 1 if action(number - 1) == "RECORD_AND_SAVE" else number
    first = last
    while action(first - 1) == "RECORD":
        first -= 1
    return first, last


def on_trace_ready(folder: str | None = None) -> Handler:
    """What to give to `torch.profiler.profile(on_trace_ready=…)`: each trace goes to a folder of its own
    below `folder` (by default that of on-demand captures), one file a rank."""
    from stepscope_sdk.start import monitor

    made = monitor()
    ring, watch = made._ring, made._watch
    rank = os.environ.get("RANK", "")
    path = (
        f"rank{rank}-{os.getpid()}{abi.SUFFIX}" if rank.isdecimal() else f"process-{os.getpid()}{abi.SUFFIX}"
    )
    if ring is not None:
        path = ring.path
    return Handler(
        folder or (folder_of(path, os.environ) if watch is None else watch.folder).path,
        os.path.basename(abi.trace_place(path, 0)).removesuffix(".json.gz"),
        {} if watch is None else watch.about,
        lambda: made._next - 1,
        None if ring is None else ring.write,
    )
