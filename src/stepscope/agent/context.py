"""What sources are made from: the machine's places and the agent's shared tables. Only `cli/` knows the real
ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stepscope.agent.clock import Clock, RealClock
from stepscope.agent.device import DeviceTable
from stepscope.agent.job import JobTable
from stepscope.agent.nvml import Driver
from stepscope.agent.ring_read import RingRead

RUN_DIRS = ("/dev/shm/stepscope", "/run/stepscope", "/run/stepscope/*")
"""Where rings may lie: of a bare host, and of pods, a folder each."""


@dataclass(slots=True)
class Tally:
    """What the agent itself has done so far. One writer a field: counts that are read meanwhile are whole."""

    num_samples: int = 0
    num_batches: int = 0
    num_dropped: int = 0
    """Samples that were read and could not be kept."""
    num_late: int = 0
    """Looks that were left out since the one before lasted too long."""
    num_reads: dict[str, int] = field(default_factory=dict)
    num_failed: dict[str, int] = field(default_factory=dict)
    read_seconds: dict[str, float] = field(default_factory=dict)
    """How long all looks at a source took together."""


@dataclass(slots=True, kw_only=True)
class Context:
    """`exporters` are URLs to scrape; `has_default_exporter`: they are no one's wish, and where none answers
    none is missed. `load_nvml` imports the driver's binding and may raise ImportError. `root` is put before
    `/proc`, `/sys` and `/dev`."""

    host: str
    agent: str = ""
    clock: Clock = field(default_factory=RealClock)
    root: str = ""
    run_dirs: tuple[str, ...] = RUN_DIRS
    exporters: tuple[str, ...] = ()
    has_default_exporter: bool = False
    nccl_logs: tuple[str, ...] = ()
    """Patterns of files that NCCL writes, beside those that jobs name themselves."""
    load_nvml: Callable[[], Any] | None = None
    load_dcgm: Callable[[], Any] | None = None
    timeout_seconds: float = 5.0
    """Of one scrape."""
    devices: DeviceTable = field(default_factory=DeviceTable)
    jobs: JobTable = field(default_factory=JobTable)
    tally: Tally = field(default_factory=Tally)
    ring_read: Callable[[str], RingRead | None] = field(default=lambda ring: None)
    """How far an earlier agent read a ring, by the name of its file."""
    _driver: Driver | None = None

    def driver(self) -> Driver | None:
        """The one connection to the NVIDIA driver, `None` where none is wanted."""
        if self._driver is None and self.load_nvml is not None:
            self._driver = Driver(self.load_nvml, host=self.host, clock=self.clock, devices=self.devices)
        return self._driver
