"""Two sides to one comparison: comparable or not, better or worse or the same, and what changed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepscope.analyse.compare import change, likeness
from stepscope.analyse.compare.noise import Band, band
from stepscope.analyse.compare.side import Side, of_ranks, step_rows
from stepscope.diagnose import compare_word as word
from stepscope.model.comparison import (
    Basis,
    ComparedClass,
    ComparedSide,
    CompareVerdict,
    Comparison,
    Measure,
    NoiseSource,
    NotComparable,
    StepTime,
)
from stepscope.model.report import Severity, Tool
from stepscope.model.sample import F64
from stepscope.model.text import Lang
from stepscope.version import VERSION

LEAST_CHANGE = 0.02
"""A smaller difference is no change, however sure: clocks, other loads and the order of the data move the
same job by as much from one day to the next."""
MOST_NOISE = 0.10
"""Noise above this hides a change that a user would call one: nothing found is not *the same* then."""
OF_ONE: tuple[NoiseSource, ...] = ("base", "new")
"""One side has too few steps to show noise of its own. Whether its one or two are like the run's others (the
queue was not full yet, a pause, the end) nobody knows: no verdict."""
WARNING, CRITICAL = 0.05, 0.20
"""As of findings."""


def compare(base: Side, new: Side, lang: Lang = "en", *, native_loader: bool | None = None) -> Comparison:
    """What changed from `base` to `new`.

    Ranks that only one side has are left out. Differences are told also where the sides are not comparable;
    the verdict is `unknown` then.
    """
    common = base.ranks & new.ranks
    worlds = likeness.world_sizes(base, new)
    base, new = of_ranks(base, common), of_ranks(new, common)
    is_same_input = _is_identical(base, new)
    obstacles = () if is_same_input else likeness.unlike(base, new, worlds)
    basis = likeness.basis_of(base, new)
    if basis != "step":
        # What forbids to compare steps is that they are other work: tokens and samples are not.
        obstacles = tuple(each for each in obstacles if each.what != "work")
    times = step_times(base, new, basis)
    parts = change.part_changes(base, new)
    told = tuple(
        NotComparable(what=each.what, base=each.base, new=each.new, text=text.in_(lang), mend=mend.in_(lang))
        for each in obstacles
        for text, mend in (word.obstacle(each),)
    )
    class_, by = ("same", None) if is_same_input else judged(times) if not told else ("unknown", None)
    decided = next((each for each in times if each.measure == by), times[0] if times else None)
    severity: Severity | None = None
    if class_ == "worse" and decided is not None:
        severity = severity_of(decided.share)
    verdict = CompareVerdict(
        class_=class_,
        text=word.sentence(class_, decided, told, parts, is_same_input).in_(lang),
        why=word.why(times, by, told, is_same_input).in_(lang),
        severity=severity,
        by=by,
    )
    return Comparison(
        tool=Tool(name="stepscope", version=VERSION, native_loader=native_loader),
        lang=lang,
        verdict=verdict,
        is_comparable=not told,
        obstacles=told,
        base=_told(base, common),
        new=_told(new, common),
        step_time=times,
        parts=parts,
        operators=change.operator_changes(base, new),
        operator_shapes=change.shape_changes(base, new),
        collectives=change.collective_changes(base, new),
        signals=change.signal_changes(base, new),
        memory=change.memory_change(base, new),
        config=likeness.config_differences(base, new, worlds),
        findings=change.finding_changes(base, new),
        next=new.command or new.report.next or "stepscope doctor",
    )


def step_times(base: Side, new: Side, basis: Basis) -> tuple[StepTime, ...]:
    """The typical and the mean step (or token, or sample) of both sides; empty where a side has no steps."""
    amounts = [likeness.per_step(side.report, basis) or 1.0 for side in (base, new)]
    measures: tuple[Measure, ...] = ("median", "mean")
    found = []
    for measure in measures:
        series = [_scaled(side, measure, amount) for side, amount in zip((base, new), amounts, strict=True)]
        history = tuple(value / amounts[0] for value in base.history_ns)
        made = of_series(*series, measure=measure, basis=basis, history_ns=history)
        found += [made] if made is not None else []
    return tuple(found)


def _scaled(side: Side, measure: Measure, amount: float) -> F64:
    """The series of a measure, in nanoseconds of the basis. Where only some of the steps are listed, the
    slowest among them, they show the noise and are moved to where all of them lie."""
    steps = side.steps
    series = steps.counted_ns if measure == "median" else steps.all_ns
    known = steps.median_ns if measure == "median" else steps.mean_ns
    if known is not None and len(series):
        listed = float(np.median(series) if measure == "median" else np.mean(series))
        series = series * (known / listed) if listed > 0 else series
    return np.asarray(series / amount, dtype=np.float64)


def of_series(
    base_ns: F64,
    new_ns: F64,
    *,
    measure: Measure = "median",
    basis: Basis = "step",
    history_ns: Sequence[float] = (),
) -> StepTime | None:
    """One measure of two series of step times; `None` where one is empty."""
    if not len(base_ns) or not len(new_ns):
        return None
    centre = np.median if measure == "median" else np.mean
    values = float(centre(base_ns)), float(centre(new_ns))
    found = band(base_ns, new_ns, measure=measure, history_ns=history_ns)
    return StepTime(
        measure=measure,
        basis=basis,
        base_ns=values[0],
        new_ns=values[1],
        share=values[1] / values[0] - 1 if values[0] > 0 else 0.0,
        low=None if found is None else found.low,
        high=None if found is None else found.high,
        source=None if found is None else found.source,
        is_beyond=found is not None and found.source not in OF_ONE and is_beyond(found),
        num_independent=None if found is None else found.num_independent,
    )


def is_beyond(found: Band) -> bool:
    """Whether a difference is a change: outside of the noise, and of at least `LEAST_CHANGE`."""
    return (found.low > 0 or found.high < 0) and abs(found.share) >= LEAST_CHANGE


def judged(times: Sequence[StepTime]) -> tuple[ComparedClass, Measure | None]:
    """The class, and the measure that decides it.

    The typical step decides, unless the mean one, which is what a run takes, says the opposite or is alone to
    differ. Of `unknown` it is the measure whose noise hides too much. A side of under three ordinary steps
    tells nothing, however many marked ones it has.
    """
    typical = next((each for each in times if each.measure == "median"), None)
    if typical is not None and (typical.low is None or typical.source in OF_ONE):
        return "unknown", "median"
    beyond = {each.measure: each for each in times if each.is_beyond}
    decided = beyond.get("median")
    mean = beyond.get("mean")
    if mean is not None and (decided is None or (mean.share > 0) != (decided.share > 0)):
        decided = mean
    if decided is not None:
        return ("worse" if decided.share > 0 else "better"), decided.measure
    for each in times:
        noise = None if each.low is None or each.high is None else (each.high - each.low) / 2
        # Pauses that may be gone, or new, but are too few to know: that is not *the same* either.
        is_hidden = each.measure == "median" or abs(each.share) >= MOST_NOISE
        if is_hidden and (noise is None or noise > MOST_NOISE):
            return "unknown", each.measure
    return ("same" if times else "unknown"), None


def severity_of(share: float) -> Severity:
    """Of time that is lost, as of findings."""
    return "info" if share < WARNING else "warning" if share < CRITICAL else "critical"


def _is_identical(base: Side, new: Side) -> bool:
    """Whether both sides are the same recording of the same steps."""
    digests = [
        sorted(each.sha256 or "" for each in side.report.inputs if each.error is None) for side in (base, new)
    ]
    return (
        bool(digests[0])
        and digests[0] == digests[1]
        and all(digests[0])
        and np.array_equal(base.steps.number, new.steps.number)
        and np.array_equal(base.steps.all_ns, new.steps.all_ns)
        and step_rows(base.report) == step_rows(new.report)
    )


def _told(side: Side, common: frozenset[int]) -> ComparedSide:
    number = side.steps.number
    return ComparedSide(
        name=side.name,
        num_steps=len(number),
        steps=(int(number[0]), int(number[-1])) if len(number) else None,
        ranks=tuple(sorted(common)),
        verdict=side.report.verdict.class_,
        text=side.report.verdict.text,
        health=side.report.health.verdict,
    )
