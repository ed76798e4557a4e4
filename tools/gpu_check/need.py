"""What must be there before anything is measured: each want is one line with its mend."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from stepscope.model.error import InputError, RefusedError, UnusableError
from tools.gpu_check.sample import Device, Reading

BUSY_RATIO = 0.05
"""A device that is busier than this before we begin would be measured with somebody else's work on it."""
LOOK_SECONDS = 1.0


def check_torch(answer: dict[str, Any], python: str) -> None:
    """Refuse a Python without torch."""
    if "error" in answer:
        raise InputError(python, str(answer["error"]), "install torch there, or name another with --python")


def check_probe(found: dict[str, Any]) -> None:
    """Refuse a torch that cannot use or record the device."""
    if "error" in found:
        raise UnusableError(f"the device cannot be tried: {found['error']}; free it, or run --device cpu")
    why = found.get("why", "")
    mends = {
        "no-cuda": (f"no CUDA device for torch: {why}", "run --device cpu, or install a torch built for it"),
        "old-driver": (f"the driver is too old: {why}", "update it, or install a torch for an older CUDA"),
        "broken": (f"the device does not answer: {why}", "look at nvidia-smi and the kernel's log"),
    }
    if found.get("fault") in mends:
        what, mend = mends[found["fault"]]
        raise UnusableError(f"{what}; {mend}")
    if found.get("num_kernels") == 0:
        under = found.get("injectors") or []
        where = f" ({', '.join(under)} is set)" if under else ""
        raise RefusedError(
            f"the profiler records no kernel: another profiler is active{where}; end it, "
            "or start this outside of it"
        )


def open_nvml(load: Callable[[], Any]) -> Any:
    """The driver's module, ready. `load` imports it."""
    try:
        nvml = load()
    except ImportError as error:
        raise InputError("nvidia-ml-py", "is not installed here", "pip install nvidia-ml-py") from error
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise UnusableError(
            f"the driver's library does not answer: {error}; look whether nvidia-smi works here"
        ) from error
    return nvml


def find_device(nvml: Any, uuid: str | None) -> Any:
    """The handle of torch's device: by UUID, or the only one there is."""
    count = nvml.nvmlDeviceGetCount()
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
    wanted = (uuid or "").removeprefix("GPU-")
    for handle in handles:
        told = nvml.nvmlDeviceGetUUID(handle)
        told = told.decode() if isinstance(told, bytes) else told
        if wanted and told.removeprefix("GPU-") == wanted:
            return handle
    if count == 1:
        return handles[0]
    raise UnusableError(
        f"which of {count} devices torch uses is not known (it tells no UUID); "
        "set CUDA_VISIBLE_DEVICES to one UUID"
    )


def counter_note(device: Device) -> str:
    """How the device is read, and what that leaves out."""
    if device.reads_gpm:
        return "counters: GPM every 100 ms"
    return (
        "counters: no GPM on this device or driver (Hopper and newer have it): basic values only, "
        "thresholds of SM, tensor and DRAM activity are not judged"
    )


def check_free(readings: Sequence[Reading], is_forced: bool) -> str | None:
    """Refuse a device that others use, by what was measured before anything of ours ran. With `is_forced`
    the same line comes back as a note; `None` where nothing was seen."""
    busy = [r.values["compute_busy_ratio"] for r in readings if "compute_busy_ratio" in r.values]
    share = statistics.median(busy) if busy else 0.0  # our own probe may still be in the first
    processes = max((len(r.processes) for r in readings if r.processes), default=0)
    used = max((r.values.get("memory_used_bytes", 0.0) for r in readings), default=0.0)
    if not processes and share <= BUSY_RATIO:
        return None
    line = (
        f"the device is in use: {share:.0%} busy, {processes} processes, {used / 2**30:.1f} GiB held before "
        "anything of ours ran"
    )
    if is_forced or share <= BUSY_RATIO:
        return f"{line}: figures may be off"
    raise RefusedError(f"{line}; wait for it, or measure all the same with --busy-ok")
