"""PCIe throughput by NVML, of devices without GPM. Each direction blocks for 20 ms: it has its own thread."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.agent.context import Context
from stepscope.agent.nvml import Driver, Handle
from stepscope.agent.source import Kind, NotHere, Reading, Sample, Source
from stepscope.sources.nvml_field import CALLS

WINDOW_NS = 20_000_000
_ROWS = (
    ("nvmlDeviceGetPcieThroughput.tx", "NVML_PCIE_UTIL_TX_BYTES"),
    ("nvmlDeviceGetPcieThroughput.rx", "NVML_PCIE_UTIL_RX_BYTES"),
)


class PcieSource:
    """One device, one direction at a time: between two calls others may ask the driver."""

    name = "nvml-pcie"

    def __init__(self, context: Context, driver: Driver) -> None:
        self._context, self._driver = context, driver

    def read(self) -> Sequence[Reading]:
        clock = self._context.clock
        reading = Reading(clock.real_ns(), window_ns=WINDOW_NS, lag_ns=0)
        with self._driver.pass_() as handles:
            mine = [each for each in handles if not each.is_instance and not self._has_gpm(each)]
        if not mine:
            raise NotHere("every device has GPM, which counts PCIe itself")
        for handle in mine:
            for row, constant in _ROWS:
                with self._driver.pass_() as handles:
                    if all(each is not handle for each in handles):
                        break
                    nvml = self._driver.library
                    said = self._driver.call(
                        handle,
                        row,
                        nvml.nvmlDeviceGetPcieThroughput,
                        handle.raw,
                        getattr(nvml, constant),
                    )
                if said is None:
                    reading.missing[row, handle.silent.get(row, "blank")] += 1
                else:
                    field = CALLS[row]
                    value = said * field.factor
                    reading.samples.append(Sample(handle.owner, field.signal, value, (), clock.real_ns()))
        return [reading]

    def close(self) -> None:
        """Nothing is held."""

    def _has_gpm(self, handle: Handle) -> bool:
        nvml = self._driver.library
        name = "nvmlGpmQueryDeviceSupport"
        said = self._driver.call(handle, name, nvml.nvmlGpmQueryDeviceSupport, handle.raw)
        return said is not None and bool(said.isSupportedDevice)


def _make(context: Context) -> Sequence[Source]:
    driver = context.driver()
    return [PcieSource(context, driver)] if driver is not None else []


SOURCE = Kind(
    name="nvml-pcie",
    title="PCIe throughput (NVML)",
    gives="PCIe bytes per second of devices older than Hopper, over 20 ms of each look",
    make=_make,
    least_ns=5_000_000_000,
)
