"""The accelerators that can be simulated: the driver's name for each, and what a kernel costs on it."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.model.error import UsageError
from stepscope.model.hardware import Hardware, hardware_of

# What runs reach of the data sheet's figure when they are tuned well: vendors' own benchmarks print 60–75 %
# of the dense matrix rate for large products and 85–92 % of the memory's for streaming kernels; NCCL's
# all-reduce reaches about 80 % of a link's one direction.
GEMM_SHARE = 0.62
ATTENTION_SHARE = 0.45
CONVOLUTION_SHARE = 0.45
MEMORY_SHARE = 0.85
LINK_SHARE = 0.80
PCIE_SHARE = 0.80
IDLE_POWER_SHARE, FULL_POWER_SHARE = 0.11, 0.92
"""Of a board's limit: with nothing to do, and in large matrix products."""
POWER_OF_CLOCK = 2.4
"""Dynamic power grows with the clock times the square of a voltage that follows it, in part."""
SHORTEST_NS = 2_000
"""No kernel is shorter than its own start and end."""


@dataclass(frozen=True, slots=True)
class _Model:
    key: str
    name: str
    """As the driver prints it."""
    memory_bytes: int
    compute: tuple[int, int]
    is_hopper: bool
    """Whether its matrix kernels are the ones made for Hopper and later."""
    clocks_mhz: tuple[int, int]
    """Highest clocks of multiprocessors and memory."""
    idle_watts: float
    """With a context on it and nothing to do."""
    slowdown_celsius: int
    """Where the driver begins to lower the clock."""
    is_power_instant: bool = False
    """Whether its power reading is of the instant; else it is a mean over a second."""


# Clocks, idle power and temperatures as `nvidia-smi -q` prints them on such boards; which power reading is a
# mean: NVML's page of nvmlDeviceGetPowerUsage.
_MODELS = (
    _Model("A100", "NVIDIA A100-SXM4-80GB", 84_974_239_744, (8, 0), False, (1410, 1593), 58.0, 89, True),
    _Model("A800", "NVIDIA A800-SXM4-80GB", 84_974_239_744, (8, 0), False, (1410, 1593), 58.0, 89, True),
    _Model("L4", "NVIDIA L4", 23_580_639_232, (8, 9), False, (2040, 6251), 16.0, 85),
    _Model("L40S", "NVIDIA L40S", 47_697_362_944, (8, 9), False, (2520, 9001), 35.0, 88),
    _Model("RTX4090", "NVIDIA GeForce RTX 4090", 25_386_352_640, (8, 9), False, (2520, 10501), 22.0, 84),
    _Model("H100", "NVIDIA H100 80GB HBM3", 85_029_158_912, (9, 0), True, (1980, 2619), 74.0, 89),
    _Model("H200", "NVIDIA H200", 150_110_011_392, (9, 0), True, (1980, 3201), 78.0, 89),
    _Model("B200", "NVIDIA B200", 191_503_138_816, (10, 0), True, (1965, 3996), 140.0, 89),
)
GPUS = tuple(model.key for model in _MODELS)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One accelerator: FLOP/s in bfloat16 and bytes per second, as a well-tuned run reaches them."""

    name: str
    memory_bytes: int
    compute: tuple[int, int]
    is_hopper: bool
    num_sm: int
    warps_per_sm: int
    peak_flops: float
    memory_rate: float
    link_rate: float
    """Bus bandwidth that a large collective reaches; over PCIe where the model has no link of its own."""
    pcie_rate: float
    fp32_flops: float
    """Of the ordinary pipes, at the highest clock."""
    memory_peak: float
    """Bytes per second of the data sheet: what `DRAM active` is a share of."""
    has_link: bool
    """Whether it has a link of its own to its peers."""
    pcie_gen: int
    tdp_watts: float
    idle_watts: float
    sm_mhz: int
    memory_mhz: int
    slowdown_celsius: int
    is_power_instant: bool

    def time_ns(self, flops: float, num_bytes: float, share: float) -> float:
        """A kernel's duration: the longer of computing (at `share` of the peak) and moving its bytes."""
        return max(1e9 * max(flops / (self.peak_flops * share), num_bytes / self.memory_rate), SHORTEST_NS)


def gpu_of(name: str) -> Gpu:
    """The accelerator of that name (`GPUS`), whatever its case. Raises UsageError where it is not known."""
    model = next((m for m in _MODELS if name.lower() in (m.key.lower(), m.name.lower())), None)
    known = hardware_of(model.name) if model else None
    if model is None or known is None:
        raise UsageError(f"gpu {name}: is not simulated; take one of {', '.join(GPUS)}")
    return _gpu(model, known)


def _gpu(model: _Model, known: Hardware) -> Gpu:
    pcie = (known.pcie_bytes_per_second or 3.2e10) * PCIE_SHARE
    return Gpu(
        name=model.name,
        memory_bytes=model.memory_bytes,
        compute=model.compute,
        is_hopper=model.is_hopper,
        num_sm=known.num_sm or 100,
        warps_per_sm=known.max_warps_per_sm or 64,
        peak_flops=known.peak_flops["bf16"],
        memory_rate=(known.memory_bytes_per_second or 1e12) * MEMORY_SHARE,
        link_rate=known.link_bytes_per_second * LINK_SHARE if known.link_bytes_per_second else pcie,
        pcie_rate=pcie,
        fp32_flops=known.peak_flops["fp32"],
        memory_peak=known.memory_bytes_per_second or 1e12,
        has_link=bool(known.link_bytes_per_second),
        pcie_gen=5 if pcie > 4e10 else 4,
        tdp_watts=known.tdp_watts or 300.0,
        idle_watts=model.idle_watts,
        sm_mhz=model.clocks_mhz[0],
        memory_mhz=model.clocks_mhz[1],
        slowdown_celsius=model.slowdown_celsius,
        is_power_instant=model.is_power_instant,
    )
