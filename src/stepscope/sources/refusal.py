"""Files that lie beside telemetry and are none: said by name, so that nobody looks for a fault in them."""

from __future__ import annotations

import re

_COUNTERS = "a list of counters for dcgm-exporter, no samples"
_KNOWN: tuple[tuple[str, str], ...] = (
    (r"(?m)^\s*DCGM_FI_\w+\s*,\s*(gauge|counter|label)", _COUNTERS),
    (r"(?m)^\s*dcgm_\w+\s*,\s*(gauge|counter|label)", _COUNTERS),
    (r"(?m)^# DCGM FIELD, Prometheus metric type", _COUNTERS),
    (r'(?s)^\s*\{.*"(__requires|__inputs|panels|dashboard)"\s*:', "a Grafana dashboard, no samples"),
    (
        r"(?m)^GPU \d+: .*\(UUID: .*\)\s*\n\s*(Link \d+:|Nvlink|NVLink)",
        "the output of nvidia-smi nvlink: links and their speeds, no samples over time",
    ),
    (r"(?m)^GPU \d+: .*\(UUID: ", "a list of devices (nvidia-smi -L, or nvlink without a link), no samples"),
    (r"(?m)^=+NVSMI LOG=+", "the long form of nvidia-smi -q, not read: use --query-gpu --format=csv"),
    (r"(?m)^\| NVIDIA-SMI \d", "the table of nvidia-smi for people: use --query-gpu --format=csv"),
    (
        r"(?m)^\s*(GPU|GPU-I|GPU-CI) \d+(\s+(-?[\d.]+|N/A)){2,}\s*$",
        "rows of dcgmi dmon without the line that names the columns",
    ),
    (
        r"(?m)^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d+, ",
        "rows of nvidia-smi --query-gpu without the line that names the columns (noheader)",
    ),
    (r"FLOPS profiler|DeepSpeed Flops Profiler|(?:^|\n)params per", "a FLOPS profile, no samples"),
)
_BINARY: tuple[tuple[bytes, str], ...] = (
    (b"SQLite format 3\0", "an SQLite file, no telemetry"),
    (b"PK\x03\x04", "a zip archive: unpack it"),
    (b"PAR1", "a Parquet file, which is not read as telemetry yet"),
    (b"\x28\xb5\x2f\xfd", "a zstd file: unpack it"),
)


def refusal(raw: bytes, name: str) -> str | None:
    """What a file is that is no telemetry, `None` where it is not known either."""
    for start, what in _BINARY:
        if raw.startswith(start):
            return what
    if raw[257:262] == b"ustar":
        is_infiniband = b"infiniband" in raw[:4096]
        return (
            "a tar of InfiniBand counters of sysfs, which is not read yet"
            if is_infiniband
            else "a tar: unpack it"
        )
    text = raw[: 64 << 10].decode("utf-8", "replace")
    for pattern, what in _KNOWN:
        if re.search(pattern, text):
            return what
    if re.match(r'\s*(\[\s*)?\{\s*"', text):
        return "JSON that is no answer of Prometheus' API"
    return None
