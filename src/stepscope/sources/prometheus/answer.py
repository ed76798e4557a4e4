"""Reads answers of the Prometheus API: bytes in, columns out. Pure.

Times are decimal seconds of whole milliseconds, values are text. A NaN is dropped: VictoriaMetrics answers
the mark that ends a series so, Prometheus leaves it out; neither was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import numpy as np

from stepscope.model.sample import F64
from stepscope.model.trace import I64

T = TypeVar("T")
MS = 1_000_000
"""Nanoseconds of a millisecond."""
_LAST_SECOND = 8e9
"""Beyond year 2200 no time is one of ours; its nanoseconds still fit."""


class AnswerError(Exception):
    """The bytes are no answer of a Prometheus: `str()` says why, in few words."""


class _Row(msgspec.Struct):
    metric: dict[str, str] = {}
    values: list[tuple[float, str]] = []
    value: tuple[float, str] | None = None


class _Data(msgspec.Struct):
    resultType: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Answer(msgspec.Struct):
    status: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    warnings: list[str] | None = None
    isPartial: bool | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One series of an answer: `at_ns` strictly ascending, `value` without NaN."""

    labels: Mapping[str, str]
    at_ns: I64
    value: F64


@dataclass(frozen=True, slots=True)
class Lines:
    """An answer of series. `doubts`: why it may not be all there is, in the server's words."""

    lines: tuple[Line, ...]
    doubts: tuple[str, ...] = ()


def lines_of(body: bytes) -> Lines:
    """A vector, a matrix or a scalar as series; a vector's have one sample each."""
    data, doubts = _data(body)
    table = _decoded(data, _Data)
    if table.resultType == "scalar":
        at_ns, value = _columns([_decoded(bytes(table.result), tuple[float, str])])
        return Lines((Line({}, at_ns, value),), doubts)
    if table.resultType not in ("matrix", "vector"):
        raise AnswerError("no series in it")
    rows = _decoded(bytes(table.result), list[_Row])
    return Lines(
        tuple(Line(row.metric, *_columns(row.values if row.value is None else [row.value])) for row in rows),
        doubts,
    )


def names_of(body: bytes) -> tuple[list[str], tuple[str, ...]]:
    """The values of a label, and doubts as in `Lines`."""
    data, doubts = _data(body)
    return (_decoded(data, list[str]) if data.strip() != b"null" else []), doubts


def _data(body: bytes) -> tuple[bytes, tuple[str, ...]]:
    answer = _decoded(body, _Answer)
    if answer.status != "success":
        raise AnswerError(f"status {answer.status[:40]!r} {answer.error}".strip())
    doubts = list(answer.warnings or ())
    if answer.isPartial:
        doubts.append("isPartial: some of its stores did not answer")
    return bytes(answer.data), tuple(doubts)


def _decoded(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise AnswerError("an answer of another form") from None
    except RecursionError:
        raise AnswerError("an answer nested too deep") from None


def _columns(pairs: Sequence[tuple[float, str]]) -> tuple[I64, F64]:
    """Times and values, in order of time, the later of two of one instant, NaN left out."""
    if not pairs:
        return np.empty(0, np.int64), np.empty(0)
    second = np.fromiter((pair[0] for pair in pairs), np.float64, len(pairs))
    if not (np.isfinite(second) & (second >= 0) & (second < _LAST_SECOND)).all():
        raise AnswerError("a time that is none")
    try:
        value = np.fromiter((float(pair[1]) for pair in pairs), np.float64, len(pairs))
    except ValueError:
        raise AnswerError("a value that is no number") from None
    at_ns = np.rint(second * 1e3).astype(np.int64) * MS
    kept = ~np.isnan(value)
    return ascending(at_ns[kept], value[kept])


def ascending(at_ns: I64, value: F64) -> tuple[I64, F64]:
    """The samples in order of time; of one instant the last given."""
    if len(at_ns) > 1 and not (np.diff(at_ns) > 0).all():
        order = np.argsort(at_ns, kind="stable")
        at_ns, value = at_ns[order], value[order]
        last = np.append(np.diff(at_ns) > 0, True)
        at_ns, value = at_ns[last], value[last]
    return at_ns, value
