"""Pieces of series, as several answers hold them, put together. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stepscope.sources.prometheus.answer import MS, Line, ascending
from stepscope.sources.prometheus.plan import Span


def without_name(labels: Mapping[str, str]) -> dict[str, str]:
    return {label: value for label, value in labels.items() if label != "__name__"}


def joined_lines(lines: Sequence[Line], span: Span) -> list[Line]:
    """The pieces of each series as one, cut to the span, by labels; series without samples left out."""
    parts: dict[tuple[tuple[str, str], ...], list[Line]] = {}
    for line in lines:
        parts.setdefault(tuple(sorted(line.labels.items())), []).append(line)
    out = []
    for _, pieces in sorted(parts.items()):
        at_ns = np.concatenate([piece.at_ns for piece in pieces])
        value = np.concatenate([piece.value for piece in pieces])
        inside = (at_ns >= span.start_ms * MS) & (at_ns <= span.end_ms * MS)
        at_ns, value = ascending(at_ns[inside], value[inside])
        if len(at_ns):
            out.append(Line(pieces[0].labels, at_ns, value))
    return out


def timed(values: Sequence[Line], times: Sequence[Line]) -> tuple[Line, ...]:
    """Values at steps with the times of their samples, as `timestamp()` told them at the same steps.

    A value that stands at several steps is one sample. Where no time is known the value is left out.
    """
    seconds: dict[tuple[tuple[str, str], ...], list[Line]] = {}
    for line in times:
        seconds.setdefault(tuple(sorted(line.labels.items())), []).append(line)
    out = []
    for line in values:
        pieces = seconds.get(tuple(sorted(without_name(line.labels).items())))
        if not pieces:
            continue
        steps, told = ascending(
            np.concatenate([piece.at_ns for piece in pieces]),
            np.concatenate([piece.value for piece in pieces]),
        )
        _, mine, theirs = np.intersect1d(line.at_ns, steps, assume_unique=True, return_indices=True)
        at_ns = np.rint(told[theirs] * 1e3).astype(np.int64) * MS
        out.append(Line(line.labels, *ascending(at_ns, line.value[mine])))
    return tuple(out)
