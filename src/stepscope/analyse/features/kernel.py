"""Features of what kernels do: time that better kernels would take away, and how it is known.

The amounts are from `analyse.recoverable`; shares are of the row's total time.
"""

from __future__ import annotations

from collections.abc import Callable

from stepscope.analyse.features import has_device
from stepscope.model.feature import Feature, Observed


def _known(observed: Observed, key: str) -> float | None:
    """A number of the analysis; absent for a run without an accelerator."""
    return observed.device.numbers.get(key) if has_device(observed) else None


def _number(name: str, unit: str, help: str) -> Feature:
    return Feature(name, unit, help, lambda observed: _known(observed, name))


def _share(
    name: str, help: str, key: str, *of: str, blame: str | None = None, needs_peaks: bool = False
) -> Feature:
    """A share of the step from a number in nanoseconds."""
    return Feature(
        name,
        "ratio",
        help,
        _of_total(key),
        of=of,
        needs_causes=False,
        needs_peaks=needs_peaks,
        blame=(blame,) if blame else (),
    )


def _of_total(key: str) -> Callable[[Observed], float | None]:
    def value(observed: Observed) -> float | None:
        time, total = _known(observed, key), observed.device.accounting.total_ns
        return time / total if time is not None and total > 0 else None

    return value


elementwise_kernel_share = _number(
    "elementwise_kernel_share",
    "ratio",
    "Elementwise kernels, copies and casts among them, of all compute kernel time.",
)
normalization_kernel_share = _number(
    "normalization_kernel_share", "ratio", "Normalisation kernels, as a share of all compute kernel time."
)
convolution_kernel_share = _number(
    "convolution_kernel_share", "ratio", "Convolution kernels, as a share of all compute kernel time."
)


def _unfused(observed: Observed) -> float | None:
    parts = [feature.value(observed) for feature in (elementwise_kernel_share, normalization_kernel_share)]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


memory_bound_kernel_share = Feature(
    "memory_bound_kernel_share",
    "ratio",
    "Elementwise and normalisation kernels, as a share of all compute kernel time.",
    _unfused,
)
fusion_handed_share = _share(
    "fusion_handed_share",
    "Compute time in which elementwise ops hand tensors to the next op through memory, as a share of the "
    "step.",
    "fusion_handed_ns",
)
fusion_bound_share = _share(
    "fusion_bound_share",
    "The most that fusing runs of elementwise kernels saves: all their traffic but the first operand and the "
    "last result, as a share of the step.",
    "fusion_bound_ns",
    "compute.elementwise",
    "compute.normalization",
    "compute.softmax",
    "compute.reduction",
    "compute.copy",
    blame="fusion_bound",
)
attention_scores_share = _share(
    "attention_scores_share",
    "Softmax and elementwise ops over attention scores that a matrix product wrote to memory, as a share of "
    "the step.",
    "attention_scores_ns",
    "compute.softmax",
    "compute.elementwise",
    blame="attention_scores",
)
tf32_off_share = _share(
    "tf32_off_share",
    "Matrix work in fp32 on the vector units of a device that has TF32, as a share of the step.",
    "tf32_off_ns",
    "compute.gemm",
    "compute.convolution",
    blame="tf32_off",
    needs_peaks=True,
)
tf32_saving_share = _share(
    "tf32_saving_share",
    "What TF32 saves of it at most, at the same share of the peak and not beyond the memory's rate, as a "
    "share of the step.",
    "tf32_off_saving_ns",
    "compute.gemm",
    "compute.convolution",
    blame="tf32_off",
    needs_peaks=True,
)
off_tensor_cores_share = _share(
    "off_tensor_cores_share",
    "Matrix work in fp32 on a device whose tensor cores take half precision only, as a share of the step.",
    "off_tensor_cores_ns",
    "compute.gemm",
    "compute.convolution",
    blame="off_tensor_cores",
    needs_peaks=True,
)
off_tensor_cores_saving_share = _share(
    "off_tensor_cores_saving_share",
    "What half precision saves of it at most, at the same share of the peak and not beyond the memory's "
    "rate, as a share of the step.",
    "off_tensor_cores_saving_ns",
    "compute.gemm",
    "compute.convolution",
    blame="off_tensor_cores",
    needs_peaks=True,
)
misaligned_share = _share(
    "misaligned_share",
    "Matrix products whose rows in memory are no whole 16-byte pieces, as a share of the step.",
    "misaligned_ns",
    "compute.gemm",
    blame="misaligned",
)
misaligned_saving_share = _share(
    "misaligned_saving_share",
    "What the rate of aligned products of the same size in this run saves of it, as a share of the step.",
    "misaligned_saving_ns",
    "compute.gemm",
    blame="misaligned",
)


def _kind(kind: str) -> Callable[[Observed], float | None]:
    def value(observed: Observed) -> float | None:
        row = observed.device.accounting
        if row.compute is None or row.total_ns <= 0:
            return None
        time: int = getattr(row.compute, f"{kind}_ns")
        return time / row.total_ns

    return value


gemm_share = Feature(
    "gemm_share", "ratio", "Matrix products, as a share of the step.", _kind("gemm"), of=("compute.gemm",)
)


softmax_share = Feature(
    "softmax_share",
    "ratio",
    "Softmax kernels, as a share of the step.",
    _kind("softmax"),
    of=("compute.softmax",),
)


def _matrix(observed: Observed) -> float | None:
    parts = [_kind("gemm")(observed), _kind("convolution")(observed)]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


matrix_share = Feature(
    "matrix_share",
    "ratio",
    "Matrix products and convolutions, as a share of the step.",
    _matrix,
    of=("compute.gemm", "compute.convolution"),
)
layout_share = Feature(
    "layout_share",
    "ratio",
    "Kernels that only move elements to another layout, as a share of the step.",
    _kind("layout"),
    of=("compute.layout",),
    needs_causes=False,
    blame=("layout",),
)


def _phased(kind: str) -> Callable[[Observed], float | None]:
    """Absent where no op was recorded; where ops were and none is autograd's or the optimizer's, it is 0."""
    share = _kind(kind)
    return lambda observed: share(observed) if _known(observed, "num_ops") else None


recompute_share = Feature(
    "recompute_share",
    "ratio",
    "Forward work done again in the backward pass, as a share of the step.",
    _phased("recompute"),
    of=("compute.recompute",),
    needs_causes=False,
    blame=("recompute",),
)


def _optimizer(observed: Observed) -> float | None:
    loop = _of_total("optimizer_loop_ns")(observed)
    waiting = _of_total("optimizer_idle_ns")(observed)
    return None if loop is None else loop + (waiting or 0.0)


optimizer_share = Feature(
    "optimizer_share",
    "ratio",
    "Kernels that update one tensor of the optimizer each, and idle time while the host issues its work, "
    "as a share of the step.",
    _optimizer,
    of=("compute.optimizer", "idle.launch", "idle.python"),
    needs_causes=False,
    blame=("optimizer_loop",),
)
optimizer_has_fused = _number(
    "optimizer_has_fused", "optimizers", "1 where every optimizer of the run has a fused version, else 0."
)
optimizer_kernels_per_step = _number(
    "optimizer_kernels_per_step", "kernels", "Kernels of a step that update one tensor of the optimizer each."
)
optimizer_loop_share = _number(
    "optimizer_loop_share",
    "ratio",
    "Kernels that update one tensor each, as a share of the optimizer's kernel time.",
)
math_attention = _number(
    "math_attention", "ops", "1 where PyTorch's attention took its path without a fused kernel, else 0."
)
batched_launch_share = _number(
    "batched_launch_share",
    "ratio",
    "Kernels of which one launch issued several (a graph), as a share of their number.",
)
kernel_gap_share = _share(
    "kernel_gap_share",
    "Pauses of up to 5 µs between kernels that were queued already, as a share of the step.",
    "kernel_gap_ns",
    "idle.queued",
)


def _gaps_of_idle(observed: Observed) -> float | None:
    time, whole = _known(observed, "kernel_gap_ns"), observed.device.accounting.idle_ns
    return None if time is None else time / whole if whole else 0.0


kernel_gap_idle_share = Feature(
    "kernel_gap_idle_share",
    "ratio",
    "Pauses of up to 5 µs between kernels that were queued already, as a share of idle time.",
    _gaps_of_idle,
)
short_kernel_share = _number(
    "short_kernel_share", "ratio", "Compute kernels of up to 10 µs, as a share of their number."
)
