"""The specified patterns A to D on one device: both sides, judged on its facts. Pure."""

from __future__ import annotations

from stepscope.analyse.features import has_device
from stepscope.analyse.features.telemetry import telemetry_samples
from stepscope.model import report
from stepscope.model.feature import Clause, Facts, Feature, Observed
from stepscope.model.text import Lang
from stepscope.rules.pattern_table import PATTERNS, Named, Side


def features() -> tuple[Feature, ...]:
    """What the patterns look at, each once."""
    clauses = [c for each in PATTERNS for side in (each.as_written, each.effective) for c in side.clauses()]
    shown = [feature for each in PATTERNS for feature in each.shows]
    return tuple(dict.fromkeys([telemetry_samples, *(c.feature for c in clauses), *shown]))


def patterns(observed: Observed, facts: Facts, lang: Lang) -> tuple[report.Pattern, ...]:
    """All four on a device with telemetry, none on one without. `facts` are of `features()`."""
    if facts.get(telemetry_samples) is None or not has_device(observed):
        return ()
    return tuple(_pattern(each, observed, facts, lang) for each in PATTERNS)


def _pattern(named: Named, observed: Observed, facts: Facts, lang: Lang) -> report.Pattern:
    effective = judged(named.effective, facts, lang, shows=named.shows)
    return report.Pattern(
        pattern=named.letter,
        title=named.title.in_(lang),
        device=observed.device.accounting.device,
        rank=observed.rank.rank,
        as_written=judged(named.as_written, facts, lang, as_written=True),
        effective=effective,
        advice=named.advice.in_(lang) if effective.holds else None,
    )


def judged(
    side: Side, facts: Facts, lang: Lang, *, as_written: bool = False, shows: tuple[Feature, ...] = ()
) -> report.PatternSide:
    """One side on these facts: a clause known to be false settles it, an absent number leaves it open."""
    known = [clause.known(facts) for clause in side.when]
    holds = False if False in known else None if None in known else True
    agreeing = [clause for clause in side.agrees if clause.known(facts) is True]
    stated = {clause.feature for clause in (*side.when, *agreeing)}
    return report.PatternSide(
        holds=holds,
        evidence=(
            *(
                _evidence(clause, side, facts, lang, as_written)
                for clause in (*side.when, *agreeing)
                if facts.get(clause.feature) is not None
            ),
            *(
                report.Evidence(
                    from_=feature.origin, feature=feature.name, value=facts.values[feature], unit=feature.unit
                )
                for feature in shows
                if feature not in stated and facts.get(feature) is not None
            ),
        ),
        missing=tuple(clause.feature.name for clause in side.when if clause.known(facts) is None),
    )


def _evidence(clause: Clause, side: Side, facts: Facts, lang: Lang, as_written: bool) -> report.Evidence:
    return report.Evidence(
        from_=clause.feature.origin,
        feature=clause.feature.name,
        value=facts.values[clause.feature],
        unit=clause.feature.unit,
        op=clause.op,
        threshold=clause.threshold,
        reference=side.references[clause.feature].in_(lang),
        as_written=True if as_written else None,
        where=facts.where.get(clause.feature),
    )
