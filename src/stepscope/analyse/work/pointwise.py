"""Everything that does a little arithmetic on each element: its time is the memory's.

Arithmetic is counted in operations of the definition, a transcendental function as one. The least traffic is
each operand once and the result once; gathered rows count, the table they come from does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from stepscope.analyse.work.call import TYPES, Call, Shape, Unknown, Work

_FLOATS = ("fp64", "fp32", "fp16", "bf16", "fp8")


def _tensors(call: Call) -> list[int]:
    return [at for at in range(len(call)) if call.has(at)]


def _broadcast(shapes: list[Shape]) -> Shape:
    rank = max(map(len, shapes))
    result = []
    for sizes in zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True):
        large = {size for size in sizes if size != 1}
        if len(large) > 1:
            raise Unknown
        result.append(large.pop() if large else 1)
    return tuple(result)


def _result_type(call: Call, places: list[int]) -> tuple[str, int]:
    """What operands of several types come to: floats before whole numbers, then the larger; a tensor without
    dimensions changes nothing."""
    with_dims = [at for at in places if call.shape(at)] or places
    found = [TYPES[call.types[at]] for at in with_dims]
    floats = [one for one in found if one[0] in _FLOATS]
    if {"fp16", "bf16"} <= {name for name, _ in floats}:
        floats.append(("fp32", 4))
    return max(floats or found, key=lambda one: one[1])


def _each(flops: int, *, is_test: bool = False) -> Callable[[Call], Work]:
    """A new result, of the operands' shape; `is_test`: of one byte."""

    def work(call: Call) -> Work:
        places = _tensors(call)
        if not places:
            raise Unknown
        num = math.prod(_broadcast([call.shape(at) for at in places]))
        precision, size = _result_type(call, places)
        moved = sum(map(call.bytes, places)) + num * (1 if is_test else size)
        return Work(flops * num, moved, precision, is_matrix=False)

    return work


def _in_place(flops: int) -> Callable[[Call], Work]:
    """The first operand is the result."""

    def work(call: Call) -> Work:
        places = _tensors(call)
        if not places or places[0] != 0:
            raise Unknown
        moved = sum(map(call.bytes, places)) + call.bytes(0)
        return Work(flops * math.prod(call.shape(0)), moved, call.precision(0), is_matrix=False)

    return work


def _copy(call: Call) -> Work:
    if not (call.has(0) and call.has(1)):
        raise Unknown
    return Work(0, call.bytes(0) + call.bytes(1), call.precision(0), is_matrix=False)


def _set(call: Call) -> Work:
    if not call.has(0):
        raise Unknown
    return Work(0, call.bytes(0), call.precision(0), is_matrix=False)


def _reduce(flops: int) -> Callable[[Call], Work]:
    """The result is small beside the operand, and its shape is not recorded."""

    def work(call: Call) -> Work:
        if not call.has(0):
            raise Unknown
        return Work(flops * math.prod(call.shape(0)), call.bytes(0), call.precision(0), is_matrix=False)

    return work


def _normalise(flops: int, *parameters: int) -> Callable[[Call], Work]:
    """As large a result as the first operand; one operation more for each parameter that is given."""

    def work(call: Call) -> Work:
        given = [at for at in parameters if call.has(at)]
        num, moved = math.prod(call.shape(0)), 2 * call.bytes(0) + sum(map(call.bytes, given))
        return Work((flops + len(given)) * num, moved, call.precision(0), is_matrix=False)

    return work


def _backward(flops: int) -> Callable[[Call], Work]:
    """Two operands of one shape, the gradient and what was given or computed forward; a gradient as large."""

    def work(call: Call) -> Work:
        shape = call.shape(0)
        if shape != call.shape(1):
            raise Unknown
        moved = call.bytes(0) + call.bytes(1) + math.prod(shape) * call.size(0)
        return Work(flops * math.prod(shape), moved, call.precision(0), is_matrix=False)

    return work


def _gather(table: int, index: int) -> Callable[[Call], Work]:
    """Rows of a table along its first dimension."""

    def work(call: Call) -> Work:
        rows = math.prod(call.shape(index)) * math.prod(call.shape(table)[1:])
        return Work(
            0, call.bytes(index) + 2 * rows * call.size(table), call.precision(table), is_matrix=False
        )

    return work


def _index_select(call: Call) -> Work:
    if call.number(1) != 0:
        raise Unknown
    return _gather(0, 2)(call)


def _table_gradient(call: Call) -> Work:
    """`embedding_dense_backward`: every row of the gradient is added to one of a table of zeros."""
    size = call.shape(0)[-1] if call.shape(0) else 0
    written = call.number(2) * size * call.size(0)
    return Work(
        math.prod(call.shape(0)), call.bytes(0) + call.bytes(1) + written, call.precision(0), is_matrix=False
    )


_ONE = (
    "add sub rsub mul div neg abs reciprocal sqrt rsqrt exp log log2 log1p sin cos tanh sigmoid relu silu "
    "gelu pow clamp clamp_min clamp_max maximum minimum where masked_fill hardtanh leaky_relu elu softplus "
    "erf threshold square sign floor ceil round nan_to_num"
)
_GRADIENTS = "tanh sigmoid threshold silu gelu hardtanh leaky_relu elu softplus"
_TESTS = "eq ne lt le gt ge isnan isinf logical_not logical_and logical_or bitwise_and bitwise_or bitwise_not"
# Operations of the definition on each element, and one more for each scale and shift: the mean (1), the
# variance (3), the division (1); of the root mean square, the squares' sum (2) and the division (1).
_CENTRED, _UNCENTRED = 5, 3
# Gradients of both, of the operand (two sums, and what is made of them) and of the parameters.
_CENTRED_BACK, _UNCENTRED_BACK = 11, 7

FORMULAS: Mapping[str, Callable[[Call], Work]] = {
    **{f"aten::{name}": _each(1) for name in _ONE.split()},
    **{f"aten::{name}_": _in_place(1) for name in _ONE.split()},
    **{f"aten::{name}": _each(1, is_test=True) for name in _TESTS.split()},
    **{f"aten::{name}_backward": _backward(2) for name in _GRADIENTS.split()},
    "aten::addcmul": _each(3),
    "aten::addcdiv": _each(3),
    "aten::addcmul_": _in_place(3),
    "aten::addcdiv_": _in_place(3),
    "aten::lerp": _each(3),
    "aten::lerp_": _in_place(3),
    "aten::copy_": _copy,
    "aten::fill_": _set,
    "aten::zero_": _set,
    "aten::sum": _reduce(1),
    "aten::mean": _reduce(1),
    "aten::max": _reduce(1),
    "aten::min": _reduce(1),
    "aten::argmax": _reduce(1),
    "aten::norm": _reduce(2),
    "aten::linalg_vector_norm": _reduce(2),
    "aten::var": _reduce(4),
    "aten::native_layer_norm": _normalise(_CENTRED, 2, 3),
    "aten::native_batch_norm": _normalise(_CENTRED, 1, 2),
    "aten::cudnn_batch_norm": _normalise(_CENTRED, 1, 2),
    "aten::miopen_batch_norm": _normalise(_CENTRED, 1, 2),
    "aten::native_group_norm": _normalise(_CENTRED, 1, 2),
    "aten::_fused_rms_norm": _normalise(_UNCENTRED, 2),
    "aten::native_layer_norm_backward": _backward(_CENTRED_BACK),
    "aten::native_batch_norm_backward": _backward(_CENTRED_BACK),
    "aten::cudnn_batch_norm_backward": _backward(_CENTRED_BACK),
    "aten::miopen_batch_norm_backward": _backward(_CENTRED_BACK),
    "aten::native_group_norm_backward": _backward(_CENTRED_BACK),
    "aten::_fused_rms_norm_backward": _backward(_UNCENTRED_BACK),
    # The greatest, the difference, the power, the sum, the division; of the logarithm one operation less.
    "aten::_softmax": _normalise(5),
    "aten::_log_softmax": _normalise(5),
    "aten::_softmax_backward_data": _backward(4),
    "aten::_log_softmax_backward_data": _backward(4),
    "aten::embedding": _gather(0, 1),
    "aten::index_select": _index_select,
    "aten::embedding_dense_backward": _table_gradient,
}

_TABLES = frozenset({"aten::embedding", "aten::index_select", "aten::embedding_dense_backward"})
FUSIBLE = frozenset(FORMULAS) - _TABLES
"""Ops that a compiler can join with the ones before and after them: each element needs few others."""
_FIRST = frozenset(
    name
    for name in FUSIBLE
    if (name.endswith("_") or name.removeprefix("aten::").endswith(("norm", "softmax")))
)
"""Ops whose result is as large as their first operand."""
_REDUCED = frozenset(
    f"aten::{name}" for name in "sum mean max min argmax norm linalg_vector_norm var".split()
)


def result(op: str, call: Call) -> tuple[Shape, int] | None:
    """Shape and bytes of what a fusible op writes; `None` where that is small (a reduction) or not known."""
    if op not in FUSIBLE or op in _REDUCED:
        return None
    try:
        if op in _FIRST:
            return call.shape(0), call.bytes(0)
        places = _tensors(call)
        if not places:
            return None
        is_gradient = op.endswith(("_backward", "_data"))
        shape = call.shape(0) if is_gradient else _broadcast([call.shape(at) for at in places])
        size = 1 if op.removeprefix("aten::") in _TESTS.split() else _result_type(call, places)[1]
        return shape, math.prod(shape) * size
    except Unknown:
        return None
