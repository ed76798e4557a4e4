"""Asks a Prometheus for every sample of the metrics we know, within the window and the limits.

First which names are there, then how many samples each target has of each (small answers), then the samples,
in questions of a bounded size. A question refused for its size is halved; a server that takes no range
selector is asked for values at steps instead, with the times of the samples behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stepscope.model.error import InputError, RefusedError, ServiceError, UsageError
from stepscope.sources.formats.metric import Metric
from stepscope.sources.prometheus.answer import MS, AnswerError, Line, Lines, lines_of, names_of
from stepscope.sources.prometheus.http import QueryRefused, Service
from stepscope.sources.prometheus.piece import joined_lines, timed, without_name
from stepscope.sources.prometheus.plan import (
    MOST_POINTS,
    TOO_MUCH,
    Part,
    Span,
    Target,
    count_query,
    parts_of,
    ranged,
    selector,
    target_of,
)

_MOST_HALVINGS = 6
_DEFAULT_STEP_MS = 15_000
"""Where nothing tells the scrape interval: what Prometheus' own examples use."""
_NOT_THAT = "is this a Prometheus, and is the prefix right?"


@dataclass(slots=True)
class Found:
    """What was read. `doubts`: why it may not be all, in the server's words; `refused`: the metrics that
    could not be read whole, and why: nothing is kept of them."""

    span: Span
    metrics: list[Metric] = field(default_factory=list)
    up: list[Line] = field(default_factory=list)
    doubts: dict[str, None] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    steps_of_ms: int | None = None
    """Asked at steps of that length, where a range selector was refused or a step was asked for."""
    are_times_steps: bool = False
    """Times are those of the steps: up to the scrape interval, or five minutes, after the sample."""


class Fetch:
    """One reading of one service."""

    def __init__(self, service: Service, span: Span, known: Callable[[str], bool]) -> None:
        self.service = service
        self.span = span
        self.known = known
        self.found = Found(span)
        self.matchers = service.endpoint.match
        self.is_stepped = service.endpoint.step_ns is not None

    @property
    def shown(self) -> str:
        return self.service.endpoint.shown

    def all(self, hosts: Sequence[str]) -> Found:
        """Every sample of known metrics of the wanted hosts' targets; of every target where none is named."""
        now_ms = self._now_ms()
        names = self._names(now_ms)
        counts = {name: self._counts(name) for name in names}
        counts = {name: by for name, by in counts.items() if by}
        if not counts:
            raise self._nothing(names, now_ms)
        everyone = {target for by in counts.values() for target in by}
        wanted = self._wanted(everyone, hosts)
        chosen = {name: {t: n for t, n in by.items() if t in wanted} for name, by in counts.items()}
        self._bounded(sum(n for by in chosen.values() for n in by.values()))
        self._up(wanted)
        left = [name for name, by in chosen.items() if by]
        for at, name in enumerate(left):
            if not self._read(name, chosen[name], is_all=len(chosen[name]) == len(counts[name])):
                self.found.refused.update(dict.fromkeys(left[at + 1 :], "not asked any more"))
                break
        if not self.found.metrics:
            why = next(iter(self.found.refused.values()), "it gave none of the samples it counted")
            raise InputError(self.shown, f"no metric can be read: {why}", "see the server's log")
        return self.found

    # ── questions ──

    def _query(self, text: str, at_ms: int | None = None) -> Lines:
        pairs = [("query", text), ("timeout", f"{self.service.query_seconds:g}s")]
        if at_ms is not None:
            pairs.append(("time", f"{at_ms / 1e3:.3f}"))
        return self._lines(self.service.get("query", pairs))

    def _lines(self, body: bytes) -> Lines:
        try:
            lines = lines_of(body)
        except AnswerError as error:
            raise InputError(self.shown, self.service.clean(str(error)), _NOT_THAT) from None
        self._doubt(lines.doubts)
        return lines

    def _doubt(self, doubts: Sequence[str]) -> None:
        for doubt in doubts:
            self.found.doubts[self.service.clean(doubt)] = None

    def _now_ms(self) -> int | None:
        """The server's clock; also the first question, whose failure says what is wrong with the address."""
        try:
            lines = self._query("time()").lines
        except QueryRefused:
            return None  # behind something that allows only selectors
        return round(float(lines[0].value[0]) * 1e3) if lines and len(lines[0].value) else None

    def _names(self, now_ms: int | None) -> list[str]:
        span = [("start", f"{self.span.start_ms / 1e3:.3f}"), ("end", f"{self.span.end_ms / 1e3:.3f}")]
        match = [("match[]", selector("", ('__name__=~".+"', *self.matchers)))] if self.matchers else []
        there = self._values([*span, *match])
        names = [name for name in there if self.known(name)]
        if not names:
            ever = [name for name in self._values(match) if self.known(name)]
            raise self._none(there, ever, now_ms)
        return names

    def _values(self, pairs: Sequence[tuple[str, str]]) -> list[str]:
        try:
            body = self.service.get("label/__name__/values", pairs)
            names, doubts = names_of(body)
        except QueryRefused as error:
            raise self._unasked(error) from None
        except AnswerError as error:
            raise InputError(self.shown, self.service.clean(str(error)), _NOT_THAT) from None
        self._doubt(doubts)
        return names

    def _counts(self, name: str) -> dict[Target, int]:
        """Samples of a metric by target. Empty, and noted, where the server will not count them."""
        out: dict[Target, int] = {}
        try:
            pieces = self._halving(
                Part(name, self.matchers, self.span),
                lambda part: [self._query(count_query(name, part.matchers, part.span), part.span.end_ms)],
            )
        except QueryRefused as error:
            if self._is_too_much(error):
                self.found.refused[name] = error.why
                return out
            raise self._unasked(error) from None
        for lines in pieces:
            for line in lines.lines:
                if len(line.value) and 0 < line.value[0] < 1e15:
                    target = target_of(line.labels)
                    out[target] = out.get(target, 0) + round(float(line.value[0]))
        return out

    def _halving(self, part: Part, ask: Callable[[Part], list[Lines]], depth: int = 0) -> list[Lines]:
        """The answers for a part, in halves of halves where the server finds it too much."""
        try:
            return ask(part)
        except QueryRefused as error:
            if depth >= _MOST_HALVINGS or part.span.length_ms < 2000 or not self._is_too_much(error):
                raise
        return [each for half in part.halves() for each in self._halving(half, ask, depth + 1)]

    @staticmethod
    def _is_too_much(error: QueryRefused) -> bool:
        return any(part in error.why.lower() for part in TOO_MUCH)

    # ── samples ──

    def _read(self, name: str, by: dict[Target, int], *, is_all: bool) -> bool:
        """Fetch one metric whole or not at all. False where the service is gone: what is read stays."""
        try:
            self.found.metrics += self._series(name, by, is_all=is_all)
        except QueryRefused as error:
            self.found.refused[name] = error.why
        except (ServiceError, RefusedError, InputError) as error:
            if not self.found.metrics:
                raise
            self.found.refused[name] = str(error).removeprefix(f"{self.shown}: ")
            return not isinstance(error, ServiceError)
        self._bounded(sum(len(metric) for metric in self.found.metrics))
        return True

    def _series(self, name: str, by: dict[Target, int], *, is_all: bool) -> list[Metric]:
        samples: dict[str, int] = {}
        for target, count in by.items():
            samples[target.instance] = samples.get(target.instance, 0) + count
        parts = parts_of(
            name, samples, self.matchers, self.span, is_all=is_all,
            most_samples=self.service.limits.samples_per_query,
            most_characters=self.service.limits.max_address_characters,
        )  # fmt: skip
        lines = [line for part in parts for answer in self._part(part) for line in answer.lines]
        joined = joined_lines([line for line in lines if target_of(line.labels) in by], self.span)
        return [Metric(name, without_name(line.labels), line.at_ns, line.value) for line in joined]

    def _part(self, part: Part) -> list[Lines]:
        if not self.is_stepped:
            try:
                return self._halving(part, lambda p: [self._query(ranged(p.selected, p.span), p.span.end_ms)])
            except QueryRefused as error:
                refusal = error
            answer = self._stepped(part)
            if not self._is_too_much(refusal):
                self.is_stepped = True  # it takes no range selector at all: not asked again
            return answer
        return self._stepped(part)

    def _stepped(self, part: Part) -> list[Lines]:
        """Values at steps, each put back to the time of the sample that it is."""
        step_ms = self._step_ms(part)
        self.found.steps_of_ms = max(self.found.steps_of_ms or 0, step_ms)
        out: list[Lines] = []
        for piece in part.span.cut(-(-part.span.length_ms // (step_ms * MOST_POINTS))):
            cut = Part(part.name, part.matchers, piece)
            values = self._halving(cut, lambda p: [self._at_steps(p.selected, p.span, step_ms)])
            try:
                times = self._halving(
                    cut, lambda p: [self._at_steps(f"timestamp({p.selected})", p.span, step_ms)]
                )
            except QueryRefused:
                self.found.are_times_steps = True
                out += values
            else:
                out.append(
                    Lines(
                        timed([line for v in values for line in v.lines], [x for t in times for x in t.lines])
                    )
                )
        return out

    def _at_steps(self, text: str, span: Span, step_ms: int) -> Lines:
        pairs = [
            ("query", text), ("start", f"{span.start_ms / 1e3:.3f}"), ("end", f"{span.end_ms / 1e3:.3f}"),
            ("step", f"{step_ms / 1e3:.3f}"), ("timeout", f"{self.service.query_seconds:g}s"),
        ]  # fmt: skip
        return self._lines(self.service.get("query_range", pairs))

    def _step_ms(self, part: Part) -> int:
        """The step asked for, else the scrape interval as the fullest series of the metric shows it."""
        if self.service.endpoint.step_ns is not None:
            return max(1, self.service.endpoint.step_ns // MS)
        try:
            text = f"max(count_over_time({ranged(part.selected, part.span)}))"
            lines = self._query(text, part.span.end_ms).lines
        except QueryRefused:
            return _DEFAULT_STEP_MS
        most = float(lines[0].value[0]) if lines and len(lines[0].value) else 0.0
        return max(100, int(part.span.length_ms / most)) if most >= 1 else _DEFAULT_STEP_MS

    def _up(self, targets: set[Target]) -> None:
        """Whether the targets could be scraped: Prometheus' own `up`. A server without it says nothing.

        The matchers tell clusters apart, but may be of labels that `up` has not: then they are left out.
        """
        jobs = {(target.job, target.instance) for target in targets}
        for matchers in dict.fromkeys((self.matchers, ())):
            self.found.up = [
                line
                for line in joined_lines(self._ups(targets, matchers), self.span)
                if (line.labels.get("job", ""), line.labels.get("instance", "")) in jobs
            ]
            if self.found.up:
                return

    def _ups(self, targets: set[Target], matchers: Sequence[str]) -> list[Line]:
        instances = {target.instance: 1 for target in targets if target.instance}
        scrapes = max(1, self.span.length_ms // 1000)  # none is scraped more often than each second, nearly
        parts = parts_of(
            "up",
            instances,
            matchers,
            self.span,
            is_all=False,
            most_samples=max(1, self.service.limits.samples_per_query // scrapes),
            most_characters=self.service.limits.max_address_characters,
        )
        lines: list[Line] = []
        for part in parts:
            try:
                answers = self._halving(
                    part, lambda p: [self._query(ranged(p.selected, p.span), p.span.end_ms)]
                )
            except QueryRefused:
                return []
            lines += [line for answer in answers for line in answer.lines]
        return lines

    # ── what is wrong ──

    def _wanted(self, targets: set[Target], hosts: Sequence[str]) -> set[Target]:
        if not hosts:
            return targets
        # One exporter tells a host's name, another of the same address does not.
        on = {target for target in targets if any(target.is_on(host) for host in hosts)}
        names = {name for target in on for name in target.names()}
        wanted = {target for target in targets if target in on or target.names() & names}
        if not wanted:
            there = sorted({min(target.names(), default="?") for target in targets})
            raise InputError(
                self.shown,
                f"no target of host {', '.join(hosts)} there",
                f"it has {self.service.clean(', '.join(there[:8]))}{' and more' if len(there) > 8 else ''}",
            )
        return wanted

    def _bounded(self, samples: int) -> None:
        most = self.service.limits.max_samples
        if samples > most and not self.is_stepped:
            raise RefusedError(
                f"{self.shown}: {samples:,} samples in {self.span}, more than {most:,}; ask for fewer hosts "
                "(host=, match=), a shorter window (start=, end=) or fewer samples (step=30s)"
            )

    def _unasked(self, error: QueryRefused) -> UsageError | InputError:
        if self.matchers:
            return UsageError(f"{self.shown}: the server refuses the matchers of match= ({error.why})")
        return InputError(self.shown, f"refuses a plain question ({error.why})", "see the server's log")

    def _none(self, there: Sequence[str], ever: Sequence[str], now_ms: int | None) -> InputError:
        if ever:
            return self._nothing(ever, now_ms)
        few = self.service.clean(", ".join(there[:6]))
        has = (
            f"of the {len(there)} names there ({few}{', …' if len(there) > 6 else ''})"
            if there
            else "nothing at all"
        )
        what = (
            f"none {has} is a device or host metric we know, in {self.span}" if there
            else f"has {has} in {self.span}"
        )  # fmt: skip
        mend = (
            "loosen match=" if self.matchers else "does it scrape dcgm-exporter? name another server if not"
        )
        return InputError(self.shown, what, self._late(now_ms) or mend)

    def _nothing(self, names: Sequence[str], now_ms: int | None) -> InputError:
        few = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        what = f"has {few}, but no sample in {self.span}"
        if self.found.refused:
            what += f" that it would count ({next(iter(self.found.refused.values()))})"
            return InputError(
                self.shown, what, "ask for fewer series (match=) or a shorter window (start=, end=)"
            )
        return InputError(
            self.shown,
            what,
            self._late(now_ms) or "is the trace of that time, and was it scraped and kept then?",
        )

    def _late(self, now_ms: int | None) -> str | None:
        """What to do about a window that the server's clock has not reached."""
        if now_ms is None or self.span.start_ms <= now_ms:
            return None
        ahead = (self.span.start_ms - now_ms) / 1e3
        return f"that is {ahead:,.0f} s after its clock: set the clocks, or say the window (start=, end=)"
