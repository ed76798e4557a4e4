"""The rows that rules are judged on: every device of every rank, with its facts and what rules said of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from stepscope.analyse.features import facts, has_device
from stepscope.model import report
from stepscope.model.analysis import DeviceAnalysis, RankAnalysis
from stepscope.model.feature import Facts, Observed
from stepscope.rules import Catalog, judge
from stepscope.rules import rule as rules

ONCE_SHARE = 0.5
"""One gap with more than this share of a rule's time in it holds most of it."""
ONCE_STEP_SHARE = 0.6
"""And one step, of which two may have nearly half each."""
ONCE_TIMES = 2
"""And its share of that step is more than so many times that of the others."""
ONCE_STEPS = 3
"""Of so many steps or more it is strange that one holds most."""


@dataclass(frozen=True, slots=True)
class Once:
    """Most of a rule's time lies in one place: this step, or one gap of a trace without steps (`None`)."""

    step: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """One device of one rank, judged by every rule."""

    observed: Observed
    place: int | None
    """The place of its row in the report's accounting."""
    facts: Facts
    found: tuple[rules.Finding, ...]
    clear: tuple[rules.Clear, ...]
    undecided: tuple[rules.Undecided, ...]

    @property
    def account(self) -> report.Accounting:
        """The accounting row that decides."""
        return self.observed.device.accounting

    def once(self, rule: rules.Rule, time_ns: int) -> Once | None:
        """Where most of a rule's time lies, `None` where it is spread.

        In one step or gap it says little of the other steps, and may be start-up.
        """
        of = rule.cost.of if rule.cost is not None else ()
        if self.account.scope == "trace":
            gaps = self.observed.device.largest_gap_ns
            most = max((gaps.get(part.removeprefix("idle."), 0) for part in of), default=0)
            return Once(None) if most > ONCE_SHARE * time_ns > 0 else None
        by_step = {
            step: sum(parts.get(f"{part}_ns", 0) for part in of)
            for step, parts in self.observed.device.by_step.items()
        }
        whole = sum(by_step.values())
        if len(by_step) < ONCE_STEPS or whole <= 0:
            return None
        step = max(by_step, key=lambda each: by_step[each])
        took = {each: parts["total_ns"] for each, parts in self.observed.device.by_step.items()}
        rest, rest_took = whole - by_step[step], sum(took.values()) - took[step]
        # A long step holds most of everything: strange is only one that has more of it than its length.
        is_denser = by_step[step] * rest_took > ONCE_TIMES * rest * took[step]
        return Once(step) if by_step[step] > ONCE_STEP_SHARE * whole and is_denser else None

    @property
    def is_one_step(self) -> bool:
        """Its numbers are of a single step."""
        return self.account.scope == "steps" and self.account.num_steps == 1


def judged_rows(analyses: Sequence[RankAnalysis], catalog: Catalog) -> list[Row]:
    """Every device of every rank, judged by every rule, in the order of the analyses."""
    return [
        judged(Observed(analysis, device), place, list(catalog))
        for analysis, device, place in _placed(analyses)
    ]


def _placed(
    analyses: Sequence[RankAnalysis],
) -> Iterator[tuple[RankAnalysis, DeviceAnalysis, int | None]]:
    """Every device of every rank, with the place of its row in the report's accounting."""
    begin = 0
    for analysis in analyses:
        for device in analysis.devices:
            own = (n for n, row in enumerate(analysis.accounting) if row == device.accounting)
            place = next(own, None)
            yield analysis, device, None if place is None else begin + place
        begin += len(analysis.accounting)


def judged(observed: Observed, place: int | None, catalog: Sequence[rules.Rule]) -> Row:
    """One device judged by these rules."""
    known = facts(observed, dict.fromkeys(f for rule in catalog for f in rule.features()))
    outcomes = [judge(rule if has_device(observed) else rule.for_host(), known) for rule in catalog]
    return Row(
        observed,
        place,
        known,
        tuple(o for o in outcomes if isinstance(o, rules.Finding)),
        tuple(o for o in outcomes if isinstance(o, rules.Clear)),
        tuple(o for o in outcomes if isinstance(o, rules.Undecided)),
    )


def of_files(analyses: Sequence[RankAnalysis], inputs: Sequence[report.Input]) -> Sequence[RankAnalysis]:
    """The analyses with the places of their files, where files are all that tells rows without rank apart."""
    files = [place for place, i in enumerate(inputs) if _is_of_rank(i) and i.error is None]
    nameless = [analysis for analysis in analyses if analysis.rank is None]
    if len(files) < 2 or not nameless:
        return analyses
    without_rank = [place for place in files if inputs[place].rank is None]
    # A file of several processes has several analyses: then only the time of its steps tells.
    in_order = iter(without_rank) if len(without_rank) == len(nameless) else None

    def of_file(analysis: RankAnalysis) -> RankAnalysis:
        if analysis.rank is not None:
            return analysis
        place = next(in_order) if in_order is not None else _file_at(analysis, without_rank, inputs)

        def placed(row: report.Accounting) -> report.Accounting:
            return msgspec.structs.replace(row, input=place)

        return replace(
            analysis,
            steps=tuple(msgspec.structs.replace(step, input=place) for step in analysis.steps),
            accounting=tuple(placed(row) for row in analysis.accounting),
            devices=tuple(replace(d, accounting=placed(d.accounting)) for d in analysis.devices),
        )

    return [of_file(analysis) for analysis in analyses]


def _is_of_rank(each: report.Input) -> bool:
    """Whether an input is of one rank: a trace, or a ring of its marks (a table of steps is of all)."""
    return each.kind == "trace" or (each.kind == "steps" and each.format == "step-ring")


def _file_at(analysis: RankAnalysis, places: Sequence[int], inputs: Sequence[report.Input]) -> int | None:
    """The only file whose time holds the first step, `None` where none or several do."""
    if not analysis.steps:
        return None
    start = analysis.steps[0].start_ns
    extents = [(place, inputs[place].start_ns, inputs[place].end_ns) for place in places]
    known = [(place, begin, end) for place, begin, end in extents if begin is not None and end is not None]
    holding = [place for place, begin, end in known if begin <= start <= end]
    return holding[0] if len(holding) == 1 else None
