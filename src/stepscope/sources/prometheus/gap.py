"""Where a Prometheus could not scrape: a gap in what is known, not an idle device. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.sources.formats.metric import Metric
from stepscope.sources.prometheus.answer import MS, Line
from stepscope.sources.prometheus.plan import Span

_MOST_MISSED = 2.5
"""Intervals without a sample from which it is a gap: one late scrape is none."""


@dataclass(frozen=True, slots=True)
class Gap:
    """`up` was 0 (`is_down`), or nothing was stored at all."""

    instance: str
    job: str
    span: Span
    num_scrapes: int
    """Failed ones; of nothing stored, how many would have been."""
    is_down: bool

    def __str__(self) -> str:
        who = f"{self.instance or 'a target without a name'}{f' (job {self.job})' if self.job else ''}"
        why = "could not be scraped (up = 0)" if self.is_down else "has no samples"
        return f"{who} {why} {self.span}: a gap, not idle"


def down(up: Sequence[Line]) -> list[Gap]:
    """The stretches in which `up` is 0: from the first failed scrape to the next that succeeds, or the last
    that is known."""
    out = []
    for line in up:
        is_zero = line.value == 0
        edge = np.flatnonzero(np.diff(np.concatenate([[False], is_zero, [False]]).astype(np.int8)))
        for first, after in zip(edge[::2], edge[1::2], strict=True):
            end = min(int(after), len(line.at_ns) - 1)
            out.append(
                Gap(
                    line.labels.get("instance", ""), line.labels.get("job", ""),
                    Span(int(line.at_ns[first]) // MS, int(line.at_ns[end]) // MS), int(after - first), True,
                )
            )  # fmt: skip
    return sorted(out, key=lambda gap: (gap.span.start_ms, gap.instance, gap.job))


def silent(metrics: Sequence[Metric], known: Sequence[Gap]) -> list[Gap]:
    """Stretches in which no metric of a target has a sample, `known` ones apart: the server itself was
    down, or nothing was kept."""
    by: dict[tuple[str, str], list[Metric]] = {}
    for metric in metrics:
        by.setdefault((metric.labels.get("instance", ""), metric.labels.get("job", "")), []).append(metric)
    out = []
    for (instance, job), all_of in by.items():
        at_ms = np.unique(np.concatenate([metric.at_ns for metric in all_of])) // MS
        interval = interval_ms(all_of)
        if interval is None or len(at_ms) < 3:
            continue
        for k in np.flatnonzero(np.diff(at_ms) > _MOST_MISSED * interval):
            span = Span(int(at_ms[k]), int(at_ms[k + 1]))
            is_known = any(
                gap.instance == instance
                and gap.span.start_ms <= span.end_ms
                and span.start_ms <= gap.span.end_ms
                for gap in known
            )
            if not is_known:
                out.append(Gap(instance, job, span, round(span.length_ms / interval) - 1, False))
    return sorted(out, key=lambda gap: (gap.span.start_ms, gap.instance, gap.job))


def interval_ms(metrics: Sequence[Metric]) -> float | None:
    """The scrape interval: the median step of the series with the most samples. `None` of under three."""
    longest = max(metrics, key=len, default=None)
    if longest is None or len(longest) < 3:
        return None
    return float(np.median(np.diff(longest.at_ns))) / MS
