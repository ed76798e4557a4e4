"""Looks at the device every 100 ms in a thread, and writes what it saw as files that `diagnose` reads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from stepscope.sources.dcgm_field import FIELDS
from tools.gpu_check.sample import PERIOD_NS, Device, Reading

MEBI = 1 << 20
MARGIN_NS = 2_000_000
SLACK_NS = 200_000_000
"""Readings so long before a stretch still have to do with it."""


def dcgm_names() -> dict[str, tuple[str, float]]:
    """By signal: the name that dcgm-exporter gives it, and by what a value is divided to be in its unit."""
    rows = sorted(FIELDS.values(), key=lambda row: (row.field.rank, row.id), reverse=True)
    return {row.field.signal: (row.names[0], row.field.factor) for row in rows if not row.field.part}


class Recorder:
    """Reads a device until it is told to stop. What was seen so far may be asked for at any time."""

    def __init__(self, device: Device, sleep: Callable[[float], bool] | None = None) -> None:
        self.device = device
        self.readings: list[Reading] = []
        self.fault: str | None = None
        """Why the readings ended early; `None` where they did not."""
        self._end = threading.Event()
        self._sleep = sleep or self._end.wait
        self._thread = threading.Thread(target=self._run, name="gpu-check counters", daemon=True)

    def __enter__(self) -> Recorder:
        self._thread.start()
        return self

    def __exit__(self, *why: object) -> None:
        self._end.set()
        self._thread.join(timeout=5)
        self.device.end()

    def _run(self) -> None:
        while not self._end.is_set():
            start_ns = self.device.mono()
            try:
                self.readings.append(self.device.read())
            except self.device.nvml.NVMLError as error:
                self.fault = f"the driver stopped answering: {error}"
                return
            # From the look itself, not from a grid: one that is a little early would give no ratios.
            left_ns = start_ns + PERIOD_NS + MARGIN_NS - self.device.mono()
            if self._sleep(max(left_ns, 0) / 1e9):
                return

    def between(self, start_ns: int, end_ns: int) -> list[Reading]:
        """Readings of a stretch of wall time."""
        return [r for r in list(self.readings) if start_ns - SLACK_NS <= r.wall_ns <= end_ns + SLACK_NS]


def write(readings: Sequence[Reading], folder: Path, uuid: str, model: str) -> list[Path]:
    """`counters.prom` as dcgm-exporter prints it, each scrape with its time, and `processes.csv` as
    nvidia-smi does; the files that hold anything."""
    if not readings:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    names = dcgm_names()
    labels = f'{{gpu="0",UUID="{uuid}",modelName="{model}"}}'
    lines = []
    for each in readings:
        lines.append(f"# scraped_at_ns {each.wall_ns}")
        lines.append(f"# mono_ns {each.mono_ns} window_ns {each.window_ns or 'none'} took_ns {each.took_ns}")
        for signal, value in {**each.values, **each.ratios}.items():
            if signal in names:
                name, factor = names[signal]
                lines.append(f"{name}{labels} {value / factor:.9g}")
    counters = folder / "counters.prom"
    counters.write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = [(each.wall_ns, pid, held) for each in readings for pid, held in each.processes or ()]
    if not rows:
        return [counters]
    head = "timestamp, gpu_uuid, pid, used_gpu_memory [MiB]"
    told = [
        f"{wall // 10**9}.{wall % 10**9:09d}, {uuid}, {pid}, {f'{held // MEBI} MiB' if held else '[N/A]'}"
        for wall, pid, held in rows
    ]
    processes = folder / "processes.csv"
    processes.write_text("\n".join([head, *told]) + "\n", encoding="utf-8")
    return [counters, processes]
