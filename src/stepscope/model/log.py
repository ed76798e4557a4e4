"""Logs: what a training log, a NCCL log or a kernel log says, in columns and instants.

A log file becomes one `Log`. Lines that say nothing we know are counted, not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from stepscope.model.sample import F64
from stepscope.model.trace import I64

ABSENT_NS = np.iinfo(np.int64).min
"""`Progress.at_ns` of a line without a time."""

PROGRESS_FIELDS = (
    "loss", "grad_norm", "learning_rate", "loss_scale", "tokens_per_second", "samples_per_second",
    "steps_per_second", "step_seconds", "tflops_per_device", "mfu_ratio", "memory_bytes", "epoch",
    "data_seconds", "tokens", "samples", "sequence_length",
)  # fmt: skip
"""Columns that `Progress.values` may hold."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Lines that state a step, in the order of the file: `at_ns` is `ABSENT_NS` where the line has no time.

    `values` holds a column a field of `PROGRESS_FIELDS` that any line stated, NaN where a line did not (it
    is seen here only; `column` leaves those lines out). `total` is the last step
    that the log promises, `None` where it does not say.
    """

    at_ns: I64
    step: I64
    values: Mapping[str, F64] = field(default_factory=dict)
    total: int | None = None

    def __len__(self) -> int:
        return len(self.step)

    def column(self, name: str) -> tuple[I64, I64, F64]:
        """(times, steps, values) of the lines that state a field; empty where none does."""
        values = self.values.get(name)
        if values is None:
            return self.at_ns[:0], self.step[:0], np.empty(0)
        known = ~np.isnan(values)
        return self.at_ns[known], self.step[known], values[known]


@dataclass(frozen=True, slots=True)
class LogEvent:
    """An instant that a log states.

    `kind` is one of `report.EventKind`; `what` a finer word for rules: `xid`, `cuda_out_of_memory`,
    `host_out_of_memory`, `cuda_error`, `nccl_error`, `nccl_watchdog`, `nvlink_error`, `pcie_error`,
    `checkpoint_start`, `checkpoint_end`, `eval_start`, `eval_end`, `start`, `init`, `restart`, `compile`,
    `training_end`, `exit`, `non_finite`, … : `docs/reference/logs.md` lists them.
    `at_ns` is `None` where neither the line nor its neighbours have a time. `numbers` are what it states:
    `requested_bytes`, `free_bytes`, `reserved_bytes`, `allocated_bytes`, `capacity_bytes`, `timeout_seconds`;
    `boot_seconds` of a kernel log whose times count from the host's start.
    """

    kind: str
    what: str
    text: str
    at_ns: int | None
    line: int
    """Counted from 1."""
    severity: str = "info"
    code: int | None = None
    rank: int | None = None
    host: str | None = None
    pci_bus_id: str | None = None
    pid: int | None = None
    step: int | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Nccl:
    """What a NCCL log says of how ranks are joined.

    `transports` counts channels by kind (`P2P/CUMEM`, `P2P/IPC`, `SHM`, `NET/IB`, `NET/Socket`, …);
    `network` is the plugin in use (`IB`, `Socket`, `AWS Libfabric`, …) and `nics` its devices.
    `is_p2p_disabled`, `has_gdr` are `None` where the log does not say.
    `variables` are NCCL_… variables that the log shows as set; `warnings` its WARN lines.
    """

    version: str | None = None
    transports: Mapping[str, int] = field(default_factory=dict)
    network: str | None = None
    nics: tuple[str, ...] = ()
    is_p2p_disabled: bool | None = None
    has_gdr: bool | None = None
    num_nodes: int | None = None
    num_ranks: int | None = None
    num_channels: int | None = None
    algorithms: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    devices: Mapping[int, str] = field(default_factory=dict)
    """Rank -> PCI bus id of its device, where the log says (`cudaDev 0 nvmlDev 3 busId 3b000`)."""
    device_index: Mapping[int, int] = field(default_factory=dict)
    """Rank -> the driver's number of its device (`nvmlDev`)."""


@dataclass(frozen=True, slots=True)
class Log:
    """One log file.

    `format` is that of most of its lines: `plain`, `tqdm`, `hugging-face`, `lightning`, `megatron`,
    `deepspeed`, `torchtitan`, `keras`, `nccl`, `kernel` or `pattern`. `is_zone_assumed`: its times name no
    zone, and UTC was taken.
    """

    name: str
    format: str
    progress: Progress | None = None
    events: tuple[LogEvent, ...] = ()
    nccl: Nccl | None = None
    rank: int | None = None
    host: str | None = None
    uuids: Mapping[str, str] = field(default_factory=dict)
    """PCI bus id -> UUID of a device, where a kernel log says it."""
    is_zone_assumed: bool = False
    num_lines: int = 0
    num_known: int = 0
    """Lines that said something."""
    num_redacted: int = 0
    notes: tuple[tuple[str, int, str], ...] = ()
