"""Arithmetic and traffic that an op's recorded shapes imply: one formula for each op, in tables by kind."""

from __future__ import annotations

from stepscope.analyse.work import attention, convolution, matrix, pointwise
from stepscope.analyse.work.call import Call, Unknown, Work, call_of

__all__ = ["FORMULAS", "Call", "Work", "call_of", "work_of"]

FORMULAS = {**pointwise.FORMULAS, **matrix.FORMULAS, **convolution.FORMULAS, **attention.FORMULAS}


def work_of(op: str, call: Call) -> Work | None:
    """The work of one call of an op; `None` where no formula is known or the arguments do not tell."""
    formula = FORMULAS.get(op)
    if formula is None:
        return None
    try:
        work = formula(call)
    except Unknown:
        return None
    # Sizes below zero are no arguments: nothing can be told from them.
    return None if work is None or work.bytes < 0 or work.flops < 0 else work
