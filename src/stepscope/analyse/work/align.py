"""Whether a matrix product reads and writes rows of whole 16-byte pieces, as the fast kernels need.

NVIDIA's guide to matrix products: the leading dimensions of all three matrices are multiples of 16 bytes (8
elements of fp16 or bf16, 16 of int8 or fp8), or the library pads or takes a slower kernel. What counts is the
step from one row to the next in memory, not the number of rows.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stepscope.analyse.work.call import Call, Unknown

PIECE_BYTES = 16
_NARROW = frozenset({"fp16", "bf16", "fp8", "int8"})
"""Types of which a misaligned product loses its fast kernels."""
# op -> places of its two matrices.
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


def is_aligned(op: str, call: Call, strides: str = "") -> bool | None:
    """Whether all three matrices have aligned rows.

    The result is written row by row, so that its columns tell; of the operands `strides` tell (the text of
    "Input Strides"), and without them only dimensions that are whole pieces either way do. `None` where that
    leaves it open, for other ops, for wide types, and for products with a vector (no matrix work).
    """
    found = dimensions(op, call)
    if found is None or min(found) <= 1:
        return None
    places = _PRODUCTS[op]
    try:
        precision, size = call.precision(places[0]), call.size(places[0])
    except Unknown:
        return None
    if precision not in _NARROW:
        return None
    rows, columns, inner = (size * each % PIECE_BYTES == 0 for each in found)
    if not columns:
        return False
    steps = [_row_step(strides, at) for at in places]
    if None not in steps:
        return all(step is not None and size * step % PIECE_BYTES == 0 for step in steps)
    return True if rows and inner else None


def _row_step(strides: str, at: int) -> int | None:
    """Elements from one row of a matrix (or column, where it is stored so) to the next; `None` where the
    strides do not tell, or where neither direction is dense."""
    try:
        known: Any = msgspec.json.decode(strides) if strides else None
    except (msgspec.DecodeError, RecursionError):
        return None
    own = known[at] if isinstance(known, list) and at < len(known) else None
    if not isinstance(own, list) or len(own) < 2 or not all(isinstance(n, int) for n in own[-2:]):
        return None
    slow, fast = own[-2:]
    return slow if fast == 1 else fast if slow == 1 else None
