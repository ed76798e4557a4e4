"""The specified walks on one device: what each station shows. Evidence, never a verdict. Pure."""

from __future__ import annotations

from typing import Literal

from stepscope.analyse.features import has_device
from stepscope.model import report
from stepscope.model.feature import Facts, Feature, Observed
from stepscope.model.text import Lang
from stepscope.rules.number import lacking, said
from stepscope.rules.walk_table import ORDERS, Order, Sign, Station

Status = Literal["ok", "suspect", "unknown"]


def features() -> tuple[Feature, ...]:
    """What the walks look at, each once."""
    symptoms = [c.feature for order in ORDERS for sign in order.symptom for c in sign]
    shown = [feature for order in ORDERS for station in order.stations for feature in station.features()]
    return tuple(dict.fromkeys([*symptoms, *shown]))


def walks(observed: Observed, facts: Facts, lang: Lang, *, is_slow: bool = False) -> tuple[report.Walk, ...]:
    """The walks whose symptom the facts of a device show; the six causes where `is_slow`: a step of it is
    slow or something was found. `facts` are of `features()`."""
    if not has_device(observed):
        return ()
    return tuple(
        report.Walk(
            walk=order.walk,
            title=order.title.in_(lang),
            device=observed.device.accounting.device,
            rank=observed.rank.rank,
            steps=tuple(_step(station, facts, lang) for station in order.stations),
        )
        for order in ORDERS
        if is_given(order, facts) or (not order.symptom and is_slow)
    )


def is_given(order: Order, facts: Facts) -> bool:
    """Whether the facts show its symptom."""
    return any(_holds(sign, facts) is True for sign in order.symptom)


def status(station: Station, facts: Facts) -> Status:
    """What a station shows: what was not measured is never ok."""
    if any(_holds(sign, facts) is True for sign in (*station.signs, *station.further)):
        return "suspect"
    return "ok" if all(_holds(sign, facts) is False for sign in station.signs) else "unknown"


def missing(station: Station, facts: Facts) -> tuple[Feature, ...]:
    """The numbers that leave a station open, each once."""
    return tuple(
        dict.fromkeys(
            clause.feature
            for sign in station.signs
            if _holds(sign, facts) is None
            for clause in sign
            if clause.known(facts) is None
        )
    )


def _holds(sign: Sign, facts: Facts) -> bool | None:
    known = [clause.known(facts) for clause in sign]
    return False if False in known else None if None in known else True


def _step(station: Station, facts: Facts, lang: Lang) -> report.WalkStep:
    found = status(station, facts)
    told = said(facts, station.features(), lang)
    lacks = lacking(missing(station, facts), lang) if found == "unknown" else ""
    stop = "；" if lang == "zh" else "; "
    return report.WalkStep(
        text=station.text.in_(lang), status=found, said=stop.join(part for part in (told, lacks) if part)
    )
