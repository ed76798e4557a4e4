"""Ops by shape: the calls of one op with the same arguments, each group with its place on the roofline."""

from __future__ import annotations

import numpy as np

from stepscope.analyse.group import alike, groups, percentile_99
from stepscope.analyse.operator import Calls
from stepscope.analyse.work import call_of
from stepscope.analyse.work.align import is_aligned
from stepscope.model import report
from stepscope.model.trace import I32

MAX_SHAPES = 50


def shape_table(calls: Calls, rank: int | None) -> tuple[report.OperatorShape, ...]:
    """The hottest (op, shapes, types) by device time launched; empty where no shapes were recorded."""
    trace, ops = calls.trace, calls.trace.ops
    mine = np.flatnonzero(calls.who.op_row >= 0)
    if not len(ops.row) or not len(mine):
        return ()
    at = np.minimum(np.searchsorted(ops.row, calls.who.op_row[mine]), len(ops.row) - 1)
    known = (ops.row[at] == calls.who.op_row[mine]) & (ops.dims_id[at] >= 0)
    mine, at = mine[known], at[known]
    if not len(mine):
        return ()
    first, kind_of = alike(calls.name_id[mine], ops.dims_id[at], ops.types_id[at])
    device_ns = np.zeros(len(first), dtype=np.int64)
    np.add.at(device_ns, kind_of, calls.duration_ns[mine])
    hottest = np.argsort(-device_ns, kind="stable")[:MAX_SHAPES]
    is_hot = np.isin(kind_of, hottest)
    mine, kind_of, strides = mine[is_hot], kind_of[is_hot], ops.strides_id[at[is_hot]]
    result = []
    for kind, members in groups(kind_of.astype(np.int64)):
        which = mine[members]
        dims, types = (int(ids[at[first[kind]]]) for ids in (ops.dims_id, ops.types_id))
        name = trace.names[calls.name_id[which[0]]]
        place, _, per_call = calls.place(which)
        shapes, kinds = trace.texts[dims], trace.texts[types] if types >= 0 else None
        result.append(
            report.OperatorShape(
                rank=rank,
                name=name,
                shapes=shapes,
                types=kinds,
                count=len(per_call),
                device_ns=int(device_ns[kind]),
                share=float(device_ns[kind] / calls.total_ns) if calls.total_ns else None,
                mean_ns=int(per_call.mean()),
                p99_ns=percentile_99(per_call),
                tensor_core=calls.tensor_core(which),
                flops=place.flops,
                bytes=place.num_bytes,
                peak_share=place.peak_share,
                memory_peak_share=place.memory_peak_share,
                bound=place.bound,
                is_aligned=_aligned(calls, name, shapes, kinds or "", strides[members]),
            )
        )
    result.sort(key=lambda row: (-row.device_ns, row.name, row.shapes, row.types or ""))
    return tuple(result)


def _aligned(calls: Calls, op: str, shapes: str, types: str, strides_id: I32) -> bool | None:
    """Whether all calls of these shapes are; `None` where that is open for one and no other is not."""
    call, texts = call_of(shapes, types, ""), calls.trace.texts
    found = {
        is_aligned(op, call, texts[strides] if strides >= 0 else "")
        for strides in np.unique(strides_id).tolist()
    }
    return False if False in found else None if None in found else True
