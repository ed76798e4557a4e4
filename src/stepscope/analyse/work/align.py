"""Whether the dimensions of a matrix product fill whole pieces of 16 bytes, as tensor cores read them.

NVIDIA's guide to matrix products: 16-byte multiples of each dimension (8 elements of fp16 or bf16, 4 of TF32,
16 of int8 or fp8) let the fast kernels be used; without it the library pads or takes a slower one.
"""

from __future__ import annotations

from stepscope.analyse.work.call import Call, Unknown

PIECE_BYTES = 16
_NARROW = frozenset({"fp16", "bf16", "fp8", "int8"})
"""Types of which a misaligned product loses its fast kernels."""
# op -> places of its two matrices, and whether a batch dimension leads.
_PRODUCTS: dict[str, tuple[int, int]] = {
    "aten::mm": (0, 1),
    "aten::addmm": (1, 2),
    "aten::bmm": (0, 1),
    "aten::baddbmm": (1, 2),
}


def dimensions(op: str, call: Call) -> tuple[int, int, int] | None:
    """(rows, columns, inner) of one product; `None` where the op is none or its shapes do not tell."""
    places = _PRODUCTS.get(op)
    if places is None:
        return None
    try:
        left, right = (call.shape(at)[-2:] for at in places)
    except Unknown:
        return None
    if len(left) != 2 or len(right) != 2 or left[1] != right[0]:
        return None
    return left[0], right[1], left[1]


def is_aligned(op: str, call: Call) -> bool | None:
    """Whether all three dimensions are whole pieces; `None` for other ops, wide types, and products so thin
    (a dimension of 1) that they are no matrix work."""
    found = dimensions(op, call)
    if found is None or min(found) <= 1:
        return None
    at = _PRODUCTS[op][0]
    try:
        precision, size = call.precision(at), call.size(at)
    except Unknown:
        return None
    if precision not in _NARROW:
        return None
    return all(size * each % PIECE_BYTES == 0 for each in found)
