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


_MODELS = (
    _Model("A100", "NVIDIA A100-SXM4-80GB", 84_974_239_744, (8, 0), False),
    _Model("A800", "NVIDIA A800-SXM4-80GB", 84_974_239_744, (8, 0), False),
    _Model("L4", "NVIDIA L4", 23_580_639_232, (8, 9), False),
    _Model("L40S", "NVIDIA L40S", 47_697_362_944, (8, 9), False),
    _Model("RTX4090", "NVIDIA GeForce RTX 4090", 25_386_352_640, (8, 9), False),
    _Model("H100", "NVIDIA H100 80GB HBM3", 85_029_158_912, (9, 0), True),
    _Model("H200", "NVIDIA H200", 150_110_011_392, (9, 0), True),
    _Model("B200", "NVIDIA B200", 191_503_138_816, (10, 0), True),
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
    )
