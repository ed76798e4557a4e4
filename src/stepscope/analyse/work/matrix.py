"""Matrix products: 2·M·N·K. What is added to the product (a bias, beta·C) is not counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from stepscope.analyse.work.call import Call, Unknown, Work


def _product(call: Call, batch: int, m: int, n: int, k: int, k_again: int, at: int, num_bytes: int) -> Work:
    """`at` is the place of the first factor; `num_bytes` of all that is read, without the result."""
    if k != k_again:
        raise Unknown
    # Products of eight-bit numbers are written in two bytes or four.
    result = batch * m * n * max(call.size(at), 2)
    return Work(2 * batch * m * n * k, num_bytes + result, call.precision(at), is_matrix=True)


def _mm(at: int, *also_read: int) -> Callable[[Call], Work]:
    def work(call: Call) -> Work:
        (m, k), (again, n) = call.shape(at, 2), call.shape(at + 1, 2)
        read = call.bytes(at) + call.bytes(at + 1) + sum(map(call.bytes, also_read))
        return _product(call, 1, m, n, k, again, at, read)

    return work


def _bmm(at: int, *also_read: int) -> Callable[[Call], Work]:
    def work(call: Call) -> Work:
        (batch, m, k), (same, again, n) = call.shape(at, 3), call.shape(at + 1, 3)
        if batch != same:
            raise Unknown
        read = call.bytes(at) + call.bytes(at + 1) + sum(map(call.bytes, also_read))
        return _product(call, batch, m, n, k, again, at, read)

    return work


def _mv(at: int, *also_read: int) -> Callable[[Call], Work]:
    def work(call: Call) -> Work:
        (m, k), (again,) = call.shape(at, 2), call.shape(at + 1, 1)
        read = call.bytes(at) + call.bytes(at + 1) + sum(map(call.bytes, also_read))
        return _product(call, 1, m, 1, k, again, at, read)

    return work


def _dot(call: Call) -> Work:
    (k,), (again,) = call.shape(0, 1), call.shape(1, 1)
    return _product(call, 1, 1, 1, k, again, 0, call.bytes(0) + call.bytes(1))


def _linear(call: Call) -> Work:
    """Rows of the input times the transposed weight (out, in)."""
    rows, (n, again) = call.shape(0), call.shape(1, 2)
    if not rows:
        raise Unknown
    return _product(
        call, 1, math.prod(rows[:-1]), n, rows[-1], again, 0, sum(map(call.bytes, range(min(3, len(call)))))
    )


FORMULAS: Mapping[str, Callable[[Call], Work]] = {
    "aten::mm": _mm(0),
    "aten::_int_mm": _mm(0),
    "aten::_scaled_mm": _mm(0),
    "aten::addmm": _mm(1, 0),
    "aten::addmm_": _mm(1, 0),
    "aten::_addmm_activation": _mm(1, 0),
    "aten::bmm": _bmm(0),
    "aten::baddbmm": _bmm(1, 0),
    "aten::baddbmm_": _bmm(1, 0),
    "aten::mv": _mv(0),
    "aten::addmv": _mv(1, 0),
    "aten::addmv_": _mv(1, 0),
    "aten::dot": _dot,
    "aten::vdot": _dot,
    "aten::linear": _linear,
    "aten::_linear": _linear,
    "aten::mkldnn_linear": _linear,
    "vllm::rocm_unquantized_gemm": _linear,
    "aiter::gemm_a16w16": _linear,
}
