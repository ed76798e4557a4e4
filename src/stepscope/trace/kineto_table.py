"""Which argument of an event goes to which column: one table, read by both parsers.

A *slot* is one number of the event at hand. `KEYS` says which argument fills which slot and how it is read;
profilers spelled some arguments differently over the years, so several keys may share a slot. `TABLES`
says which slots make up a row, and which of them must be present for a row to be written at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Read(IntEnum):
    """How an argument is read."""

    INT = 0
    """A whole number, also in quotes; beyond 64 bits signed but within unsigned it wraps, an opaque id."""
    STRING = 1
    """Interned text."""
    RAW = 2
    """Interned JSON as written (a string without its quotes)."""
    FLOAT = 3
    PERCENT = 4
    """Percent, stored as a ratio."""
    TRIPLE = 5
    """[x, y, z] into three slots."""


class Type(IntEnum):
    """A column's type; what is absent is the smallest number, NaN, or -1 for an id."""

    I64 = 0
    I32 = 1
    F32 = 2
    ID = 3


_SPELLINGS: tuple[tuple[str, Read, tuple[str, ...]], ...] = (
    ("correlation", Read.INT, ("correlation",)),
    ("external_id", Read.INT, ("External id", "external id")),
    ("sequence", Read.INT, ("Sequence number", "sequence number")),
    ("fwd_thread", Read.INT, ("Fwd thread id", "fwd thread id")),
    ("dims", Read.RAW, ("Input Dims", "Input dims")),
    ("types", Read.RAW, ("Input type", "Input Type")),
    ("concrete", Read.RAW, ("Concrete Inputs",)),
    ("strides", Read.RAW, ("Input Strides",)),
    ("stack", Read.STRING, ("Call stack",)),
    ("module", Read.STRING, ("Module Hierarchy",)),
    ("python_id", Read.INT, ("Python id",)),
    ("python_parent", Read.INT, ("Python parent id",)),
    ("python_module", Read.INT, ("Python module id",)),
    ("device", Read.INT, ("device",)),
    ("stream", Read.INT, ("stream",)),
    ("bytes", Read.INT, ("bytes",)),
    ("grid_x", Read.TRIPLE, ("grid",)),
    ("grid_y", Read.INT, ()),
    ("grid_z", Read.INT, ()),
    ("block_x", Read.TRIPLE, ("block",)),
    ("block_y", Read.INT, ()),
    ("block_z", Read.INT, ()),
    ("registers", Read.INT, ("registers per thread",)),
    ("shared_bytes", Read.INT, ("shared memory",)),
    ("occupancy", Read.PERCENT, ("est. achieved occupancy %",)),
    ("warps_per_sm", Read.FLOAT, ("warps per SM",)),
    ("blocks_per_sm", Read.FLOAT, ("blocks per SM",)),
    ("graph_id", Read.INT, ("graph id",)),
    ("graph_node_id", Read.INT, ("graph node id",)),
    ("collective", Read.STRING, ("Collective name",)),
    ("dtype", Read.STRING, ("dtype",)),
    ("group", Read.STRING, ("Process Group Name",)),
    ("group_desc", Read.STRING, ("Process Group Description",)),
    ("ranks", Read.RAW, ("Process Group Ranks",)),
    ("in_nelems", Read.INT, ("In msg nelems",)),
    ("out_nelems", Read.INT, ("Out msg nelems",)),
    ("group_size", Read.INT, ("Group size",)),
    ("comm_sequence", Read.INT, ("Seq", "seq")),
    ("src_rank", Read.INT, ("Src Rank",)),
    ("dst_rank", Read.INT, ("Dst Rank",)),
    ("wait_stream", Read.INT, ("wait_on_stream",)),
    ("wait_correlation", Read.INT, ("wait_on_cuda_event_record_corr_id",)),
    ("wait_event", Read.INT, ("wait_on_cuda_event_id",)),
    ("address", Read.INT, ("Addr",)),
    ("memory_bytes", Read.INT, ("Bytes",)),
    ("device_type", Read.INT, ("Device Type",)),
    ("memory_device", Read.INT, ("Device Id",)),
    ("total_allocated", Read.INT, ("Total Allocated",)),
    ("total_reserved", Read.INT, ("Total Reserved",)),
    ("meta", Read.STRING, ("name", "labels")),
)  # fmt: skip

SLOTS: dict[str, int] = {name: slot for slot, (name, _, _) in enumerate(_SPELLINGS)}
KEYS: dict[str, tuple[Read, int]] = {
    key: (read, slot) for slot, (_, read, keys) in enumerate(_SPELLINGS) for key in keys
}
"""Argument name -> how it is read, and its (first) slot."""
META_SLOT = SLOTS["meta"]


@dataclass(frozen=True, slots=True)
class Table:
    """A side table: rows of events of one phase that have one of the trigger slots; columns in order."""

    name: str
    phase: str
    triggers: tuple[str, ...]
    columns: tuple[tuple[str, Type], ...]


_I64, _I32, _F32, _ID = Type.I64, Type.I32, Type.F32, Type.ID
TABLES: tuple[Table, ...] = (
    Table("correlations", "X", ("correlation",), (("correlation", _I64),)),
    Table(
        "ops",
        "X",
        ("external_id", "sequence", "dims", "types", "concrete", "strides", "stack", "module"),
        (
            ("external_id", _I64), ("sequence", _I64), ("fwd_thread", _I64), ("dims", _ID), ("types", _ID),
            ("concrete", _ID), ("strides", _ID), ("stack", _ID), ("module", _ID),
        ),
    ),
    Table(
        "python",
        "X",
        ("python_id", "python_module"),
        (("python_id", _I64), ("python_parent", _I64), ("python_module", _I64)),
    ),
    Table(
        "gpu",
        "X",
        ("device", "stream"),
        (
            ("device", _I32), ("stream", _I64), ("bytes", _I64),
            ("grid_x", _I32), ("grid_y", _I32), ("grid_z", _I32),
            ("block_x", _I32), ("block_y", _I32), ("block_z", _I32),
            ("registers", _I32), ("shared_bytes", _I64),
            ("occupancy", _F32), ("warps_per_sm", _F32), ("blocks_per_sm", _F32), ("graph_id", _I64),
            ("graph_node_id", _I64),
        ),
    ),
    Table(
        "comms",
        "X",
        ("collective", "group_size", "in_nelems"),
        (
            ("collective", _ID), ("dtype", _ID), ("group", _ID), ("group_desc", _ID), ("ranks", _ID),
            ("in_nelems", _I64), ("out_nelems", _I64), ("group_size", _I64), ("comm_sequence", _I64),
            ("src_rank", _I64), ("dst_rank", _I64),
        ),
    ),
    Table(
        "syncs",
        "X",
        ("wait_stream", "wait_correlation", "wait_event"),
        (("wait_stream", _I64), ("wait_correlation", _I64), ("wait_event", _I64)),
    ),
    Table(
        "memory",
        "i",
        ("memory_bytes", "address"),
        (
            ("memory_bytes", _I64), ("address", _I64), ("device_type", _I32), ("memory_device", _I32),
            ("total_allocated", _I64), ("total_reserved", _I64),
        ),
    ),
)  # fmt: skip
