"""The communication of several ranks in one set of columns: what of it may belong together.

A *call* is one row of one rank's collective table. Calls that may be the same collective have the same token:
process group, kind, message size, dtype. A token is compared over ranks, so it is made of texts, not of ids.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model.peer import PeerTable
from stepscope.model.trace import ABSENT_I64, I64

SYNCHRONISING = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Kinds that no rank leaves before the last one has come: their ends agree, and their waiting is split."""
POINT_TO_POINT = ("send", "recv", "send_recv")
_CUT_LIST = re.compile(r"\.\.\.")
"""A writer shortens long lists of ranks."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Columns over all calls of all ranks; `rank` is a position among the tables, `row` the row in that
    table.

    `token` is equal for calls that may be the same collective, `group` for those of one process group;
    `has_sequence` where the framework numbered them. Times are of the rank's own clock.
    """

    rank: I64
    row: I64
    group: I64
    token: I64
    kind: tuple[str, ...]
    """The kind of each token."""
    group_names: tuple[str | None, ...]
    sequence: I64
    start_ns: I64
    end_ns: I64
    step: I64
    src: I64
    dst: I64
    num_ranks: int

    def __len__(self) -> int:
        return len(self.rank)

    def of_rank(self, place: int) -> npt.NDArray[np.intp]:
        """The calls of one rank: they are sorted by rank."""
        low, high = np.searchsorted(self.rank, (place, place + 1)).tolist()
        return np.arange(low, high)

    def is_of(self, *kinds: str) -> npt.NDArray[np.bool_]:
        """Calls of these kinds."""
        of_token = np.array([kind in kinds for kind in self.kind] or [False], dtype=bool)
        return of_token[self.token] if len(self) else np.zeros(0, dtype=bool)


def calls_of(tables: Sequence[PeerTable]) -> Calls:
    """All calls of these ranks, by rank, then by start."""
    groups: dict[tuple[object, ...], int] = {}
    tokens: dict[tuple[object, ...], int] = {}
    kinds: list[str] = []
    names: list[str | None] = []
    columns: dict[str, list[npt.NDArray[np.int64]]] = {
        name: []
        for name in ("rank", "row", "group", "token", "sequence", "start", "end", "step", "src", "dst")
    }
    for place, table in enumerate(tables):
        of, texts = table.collectives, table.texts
        group_ids, token_ids = [], []
        for kind_id, group_id, ranks_id, size, dtype_id in zip(
            of.kind_id.tolist(),
            of.group_id.tolist(),
            of.ranks_id.tolist(),
            of.bytes.tolist(),
            of.dtype_id.tolist(),
            strict=True,
        ):
            name = texts[group_id] if group_id >= 0 else None
            listed = texts[ranks_id] if ranks_id >= 0 else None
            if listed is not None and _CUT_LIST.search(listed):
                listed = None
            key = (name, listed)
            if key not in groups:
                groups[key] = len(names)
                names.append(name)
            kind = texts[kind_id]
            # What goes in and out of a rank differs in gathers and scatters of unequal parts.
            told = size if kind in ("all_reduce", "barrier", "broadcast", "reduce") else 0
            token = (groups[key], kind, told, texts[dtype_id] if dtype_id >= 0 else None)
            if token not in tokens:
                tokens[token] = len(kinds)
                kinds.append(kind)
            group_ids.append(groups[key])
            token_ids.append(tokens[token])
        columns["rank"].append(np.full(len(of), place, dtype=np.int64))
        columns["row"].append(np.arange(len(of), dtype=np.int64))
        columns["group"].append(np.array(group_ids, dtype=np.int64))
        columns["token"].append(np.array(token_ids, dtype=np.int64))
        for name_, column in (
            ("sequence", of.sequence),
            ("start", of.start_ns),
            ("end", of.end_ns),
            ("step", of.step),
            ("src", of.src),
            ("dst", of.dst),
        ):
            columns[name_].append(np.asarray(column, dtype=np.int64))
    joined = {
        name: np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
        for name, parts in columns.items()
    }
    return Calls(
        rank=joined["rank"],
        row=joined["row"],
        group=joined["group"],
        token=joined["token"],
        kind=tuple(kinds),
        group_names=tuple(names),
        sequence=joined["sequence"],
        start_ns=joined["start"],
        end_ns=joined["end"],
        step=joined["step"],
        src=joined["src"],
        dst=joined["dst"],
        num_ranks=len(tables),
    )


def is_numbered(calls: Calls) -> npt.NDArray[np.bool_]:
    """Calls of groups in which every call carries its number."""
    if not len(calls):
        return np.zeros(0, dtype=bool)
    num = int(calls.group.max()) + 1
    lacking = np.bincount(calls.group[calls.sequence == ABSENT_I64], minlength=num)
    result: npt.NDArray[np.bool_] = lacking[calls.group] == 0
    return result
