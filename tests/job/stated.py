"""Counters and logs by hand: what an exporter and a training log would have written, number by number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

START_NS = 1_790_000_000_000_000_000
SECOND_NS = 1_000_000_000
Values = float | Sequence[float] | np.ndarray[tuple[int], np.dtype[np.float64]]
Device = Mapping[str, Values]
"""Field of DCGM -> what it reads each second, or always."""

BUSY, POWER, LIMIT = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT"
USED, FREE = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
SM_ACTIVE, TENSOR, DRAM = (
    f"DCGM_FI_PROF_{name}" for name in ("SM_ACTIVE", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE")
)


def uuid(index: int) -> str:
    """Of the device with this number."""
    return f"GPU-00000000-0000-4000-8000-{index:012d}"


def dcgm(folder: Path, devices: Sequence[Device], seconds: int, model: str = "NVIDIA H100 80GB HBM3") -> None:
    """`telemetry/dcgm.prom`: a scrape each second."""
    rows: dict[str, list[tuple[str, np.ndarray[tuple[int], np.dtype[np.float64]]]]] = {}
    for index, device in enumerate(devices):
        labels = (
            f'gpu="{index}",UUID="{uuid(index)}",device="nvidia{index}",modelName="{model}",Hostname="n1"'
        )
        for name, values in device.items():
            rows.setdefault(name, []).append((labels, np.broadcast_to(np.asarray(values, float), (seconds,))))
    _scrapes(folder / "telemetry" / "dcgm.prom", rows, seconds)


def host(folder: Path, written_bytes_per_second: Values, seconds: int) -> None:
    """`telemetry/node.prom`: the disk of the host."""
    written = np.cumsum(np.broadcast_to(np.asarray(written_bytes_per_second, float), (seconds,)))
    _scrapes(
        folder / "telemetry" / "node.prom",
        {
            "node_disk_written_bytes_total": [('device="nvme0n1"', written)],
            "node_memory_MemTotal_bytes": [("", np.full(seconds, 2e12))],
        },
        seconds,
    )


def processes(folder: Path, rows: Sequence[tuple[int, int, str, int]], seconds: int) -> None:
    """`telemetry/apps.csv`: (device, pid, name, MiB) as `nvidia-smi --query-compute-apps` lists them."""
    lines = ["timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]"]
    for second in range(0, seconds, 5):
        at = f"{_time(second):%Y/%m/%d %H:%M:%S.000}"
        lines += [f"{at}, {uuid(device)}, {pid}, {name}, {mib} MiB" for device, pid, name, mib in rows]
    _written(folder / "telemetry" / "apps.csv", lines)


def log(folder: Path, lines: Sequence[tuple[float, str]]) -> None:
    """`logs/train.log`: (second, text)."""
    _written(
        folder / "logs" / "train.log",
        [
            f"{_time(at):%Y-%m-%d %H:%M:%S},{round(1000 * (at % 1)):03d} INFO {text}"
            for at, text in sorted(lines, key=lambda line: line[0])
        ],
    )


def steps(
    first: float, last: float, every: float = 2.0, number: int = 1, total: int = 1_000_000
) -> list[tuple[float, str]]:
    """Lines of steps that end every so many seconds, the first at `first`, none after `last`."""
    return [
        (float(at), f"step={n}/{total} loss={8 / (1 + n) ** 0.5:.4f} step_time={every:.3f}s")
        for n, at in enumerate(np.arange(first, last + 1e-9, every), start=number)
    ]


def _time(second: float) -> datetime:
    return datetime.fromtimestamp(START_NS / SECOND_NS + int(second), tz=timezone.utc)


def _scrapes(
    path: Path,
    rows: Mapping[str, Sequence[tuple[str, np.ndarray[tuple[int], np.dtype[np.float64]]]]],
    seconds: int,
) -> None:
    lines = []
    for second in range(seconds):
        lines.append(f"# scraped_at_ns {START_NS + second * SECOND_NS}")
        for name, series in rows.items():
            lines.append(f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}")
            for labels, values in series:
                lines.append(
                    f"{name}{{{labels}}} {values[second]:g}" if labels else f"{name} {values[second]:g}"
                )
    _written(path, lines)


def _written(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
