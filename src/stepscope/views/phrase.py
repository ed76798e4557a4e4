"""Phrases about a report that every renderer for people needs, in both languages."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stepscope.diagnose.word import HOST_ONLY, part_of, whose
from stepscope.model import report
from stepscope.model.text import Lang, duration, number, percent, scaled
from stepscope.views.detail import issue_detail, patch_line, settling
from stepscope.views.detail_marks import marked_name
from stepscope.views.label import ORIGIN, UNIT, brackets, colon, counted, health_code, joined, listed, word
from stepscope.views.shape import (
    CardParts,
    asked_row,
    device_name,
    diff,
    is_told,
    largest_idle,
    per_step,
    shown_rows,
)

_MOST_SLOW = 4


def cost_of(cost: report.Cost, lang: Lang) -> str:
    """What a finding costs: its share of the time, and its time, a step where there are steps."""
    each = duration(cost.time_ns / (cost.num_steps or 1))
    key = "could_win" if cost.is_bound else "costs"
    if cost.steps_share is not None:
        there, whole = percent(cost.steps_share), percent(cost.share)
        if lang == "zh":
            return f"{word(key, lang)} 持续期间 {there}（每步 {each}），占全部步用时的 {whole}"
        return f"{word(key, lang)} {there} while it holds ({each} a step), {whole} of the time of all steps"
    if lang == "zh":
        time = f"每步 {each}" if cost.num_steps else each
        return f"{word(key, lang)} {percent(cost.share)}（{time}）"
    time = f"{each} a step" if cost.num_steps else each
    return f"{word(key, lang)} {percent(cost.share)} ({time})"


def gain_of(remedy: report.Remedy, cost: report.Cost | None, lang: Lang) -> str:
    """What a remedy can give, as a range, and what came of it here; empty where it promises nothing and was
    never tried."""
    return ("；" if lang == "zh" else "; ").join(
        piece for piece in (_promised(remedy, cost, lang), history_of(remedy, lang)) if piece
    )


def history_of(remedy: report.Remedy, lang: Lang) -> str:
    """What came of a remedy at this site; empty where it was never tried."""
    of = remedy.history
    if of is None:
        return ""
    won = "" if of.realised_share is None else percent(of.realised_share)
    if lang == "zh":
        return f"在此处 {of.num_tried} 次中有 {of.num_worked} 次见效" + (f"，实得 {won}" if won else "")
    return f"worked in {of.num_worked} of {of.num_tried} here" + (f", realised {won}" if won else "")


def _promised(remedy: report.Remedy, cost: report.Cost | None, lang: Lang) -> str:
    if remedy.gain_share is None:
        return ""
    least, most = (percent(share) for share in remedy.gain_share)
    is_step = cost is not None and cost.num_steps is not None
    if lang == "zh":
        of = f"省去{'每步' if is_step else '全程'}的"
        span = (
            f"至多可{of} {most}"
            if least == most or remedy.gain_share[0] == 0
            else f"可{of} {least}，至多 {most}"
        )
        return f"{word('gain', lang)}，{span}"
    span = f"at most {most}" if least == most or remedy.gain_share[0] == 0 else f"{least} to at most {most}"
    return f"{word('gain', lang)}: {span} of the {'step' if is_step else 'trace'}"


def owner_of(row: report.Accounting, report_: report.Report, lang: Lang) -> str:
    """The rank or the file of a row; of several devices of one, the device too."""
    owner = whose(row, report_.inputs)
    others = [each for each in shown_rows(report_.accounting) if each is not row]
    is_shared = any((each.rank, each.input) == (row.rank, row.input) for each in others)
    device = f"{word('device', lang)} {device_name(row.device)}" if is_shared else ""
    return joined(("" if owner is None else owner.in_(lang), device), lang)


def subject_of(finding: report.Finding, report_: report.Report, lang: Lang) -> str:
    """Whose row a finding is of, where the report has several; of one that names other ranks than its row's
    (who holds the job up, judged by the row of one that waits), those."""
    place, ranks = finding.subject.row, finding.subject.ranks
    if place is None or place >= len(report_.accounting) or len(shown_rows(report_.accounting)) < 2:
        return ""
    row = report_.accounting[place]
    if ranks and row.rank is not None and row.rank not in ranks:
        few = listed([str(each) for each in ranks[:8]], lang) + (" …" if len(ranks) > 8 else "")
        return f"{word('rank' if len(ranks) == 1 else 'ranks', lang)} {few}"
    return owner_of(row, report_, lang)


def compact_head(lang: Lang) -> list[str]:
    """The columns of the rows that are not shown in full."""
    keys = ("row", "compute", "communication", "copies", "idle", "largest_idle")
    return [word("row", lang), word("per_step", lang), *(word(key, lang) for key in keys[1:])]


def compact(row: report.Accounting, report_: report.Report, lang: Lang) -> list[str]:
    """One row in the columns of `compact_head`."""
    if not is_told(row, report_):
        cut = brackets(word(row.status, lang), lang).strip()
        return [owner_of(row, report_, lang), cut, *[""] * (len(compact_head(lang)) - 2)]
    whole = row.total_ns or 1
    times = (row.compute_ns, row.communication_exposed_ns, row.copy_exposed_ns, row.idle_ns)
    largest = largest_idle(row)
    cause = "" if largest is None else f"{cause_of(row, largest[0], lang)} {percent(largest[1] / whole)}"
    each = duration(per_step(row, row.total_ns))
    return [owner_of(row, report_, lang), each, *(percent(time / whole) for time in times), cause]


def culprit_name(each: report.Named, finding: report.Finding, lang: Lang) -> str:
    """What ran meanwhile: of a finding of marks a phase, in the reader's language."""
    return marked_name(each.name, lang, is_marked="marks" in finding.subject.devices)


def cause_of(row: report.Accounting, part: str, lang: Lang) -> str:
    """An idle cause of a row where idle time is spoken of already."""
    return without_idle(part_of(row, part).in_(lang))


def without_idle(name: str) -> str:
    """The name of an idle cause without the word for idle."""
    for prefix in ("idle, ", "idle ", "空闲："):
        name = name.removeprefix(prefix)
    return name


def _causes(why: str, rules: Iterable[str], lang: Lang, name: Callable[[str], str]) -> str:
    """The rules by name; of a run without a device all that need one are one thing."""
    if why == HOST_ONLY.in_(lang):
        return word("device_causes", lang)
    return listed(map(name, rules), lang)


def issue_lines(
    issues: Iterable[report.HealthIssue], lang: Lang, *, has_ranks: bool, text: Callable[[str], str] = str
) -> list[tuple[report.Effect, str]]:
    """Health issues as lines; what several inputs say in the same words is one line with their count."""
    groups: dict[tuple[report.Effect, str, str], list[report.HealthIssue]] = {}
    for issue in issues:
        key = (issue.effect, health_code(issue, lang), issue_detail(issue, lang))
        groups.setdefault(key, []).append(issue)
    lines: list[tuple[report.Effect, str]] = []
    for (effect, code, detail), same in groups.items():
        ranks = sorted({issue.rank for issue in same if issue.rank is not None})
        if len(same) > 1 and len(ranks) != len(same):
            who = f"{len(same)} 次" if lang == "zh" else f"{len(same)} times"
        elif len(ranks) > 1:
            who = f"{len(ranks)} 个 rank" if lang == "zh" else f"{len(ranks)} ranks"
        else:
            who = f"{word('rank', lang)} {ranks[0]}" if ranks and has_ranks else ""
        told = f"{text(code)}{brackets(who, lang)}{colon(lang)}{text(detail)}"
        lines.append((effect, f"{word(effect, lang)}{colon(lang)}{told}"))
    return lines


def evidence_head(finding: report.Finding, lang: Lang) -> str:
    """The heading of the evidence; one layer that all of it is from is named here and not below."""
    layer = _only_layer(finding)
    layers = ORIGIN[layer].in_(lang) if layer else ""
    return word("evidence", lang) + brackets(joined((layers, word("thresholds", lang)), lang), lang)


def layer_of(evidence: report.Evidence, finding: report.Finding, lang: Lang) -> str:
    """The layer a number comes from, unless the heading says so for all of them."""
    return "" if _only_layer(finding) else ORIGIN[evidence.from_].in_(lang)


def _only_layer(finding: report.Finding) -> report.Origin | None:
    layers = {evidence.from_ for evidence in finding.evidence}
    return next(iter(layers)) if len(layers) == 1 else None


def evidence_lines(
    card: CardParts,
    report_: report.Report,
    lang: Lang,
    name: Callable[[str], str] = str,
    text: Callable[[str], str] = str,
) -> list[str]:
    """The evidence of a card, one number a line, with its threshold, and whose it is where it is of several.

    `name` and `text` make names of features and sentences fit the page.
    """
    lines = []
    for finding, evidence in card.evidence:
        told = amount(evidence.value, evidence.unit, lang)
        if evidence.op is not None and evidence.threshold is not None:
            told += f" ({evidence.op} {amount(evidence.threshold, evidence.unit, lang)})"
        who = subject_of(finding, report_, lang) if card.is_of_several else ""
        owner = f"{text(who)}{colon(lang)}" if who else ""
        layer = layer_of(evidence, card.worst, lang)
        lines.append(owner + joined((f"{name(evidence.feature)} {text(told)}", layer), lang))
    return lines


def amount(value: float, unit: str, lang: Lang) -> str:
    """A feature's value with its unit in the reader's language."""
    return number(value, UNIT[unit].in_(lang) if unit in UNIT else unit)


def limit_of(operator: report.Operator, lang: Lang) -> str:
    """How much of the limit it is nearer to an op reaches, and which that is; empty where not known."""
    share = {"compute": operator.peak_share, "memory": operator.memory_peak_share}.get(operator.bound or "")
    return "" if share is None else f"{percent(share)} {word(f'bound_{operator.bound}', lang)}"


def work_lines(report_: report.Report, lang: Lang) -> list[str]:
    """What the device worked on: the phases of its time, and its arithmetic against its peak; of the row that
    the answer speaks of."""
    row = asked_row(report_)
    if row is None:
        return []
    told = [f"{name} {percent(share)}" for _, name, share in phases_of(row, lang)]
    phases = [f"{word('phases', lang)}{colon(lang)}{listed(told, lang)}"] if row.phases is not None else []
    return [*phases, *arithmetic_of(row, report_, lang)]


PHASES = ("forward", "backward", "recompute", "optimizer", "other")


def phases_of(row: report.Accounting, lang: Lang) -> list[tuple[str, str, float]]:
    """The phases with device time in a row: key, name, and share of the time in all phases."""
    if row.phases is None:
        return []
    known = {key: getattr(row.phases, f"{key}_ns") for key in PHASES}
    whole = sum(known.values())
    return [(key, word(key, lang), ns / whole) for key, ns in known.items() if ns]


def arithmetic_of(row: report.Accounting, report_: report.Report, lang: Lang) -> list[str]:
    """A row's arithmetic against its peak, as a line; none where it was not of this row."""
    return [
        line
        for each in report_.efficiency
        # Files that name no rank may share a device: the row's own time tells whose arithmetic it is.
        if (each.rank, each.device, each.total_ns) == (row.rank, row.device, row.total_ns)
        for line in _arithmetic(each, row, lang)
    ]


def _arithmetic(each: report.Efficiency, row: report.Accounting, lang: Lang) -> list[str]:
    told = []
    flops = each.flops or each.model_flops
    # Of a small part of the work its arithmetic says nothing.
    is_told = each.mfu is not None or (each.known_share or 0.0) >= _MOSTLY_KNOWN
    if flops and is_told:
        per = flops / (row.num_steps or 1)
        told.append(f"{scaled(per, 'FLOP')}{word('a_step', lang) if row.num_steps else ''}")
    for name, value in (("MFU", each.mfu), ("HFU", each.hfu)):
        if value is not None:
            told.append(f"{name} {percent(value)}")
    if told and (each.mfu or each.hfu) and each.peak_flops_per_second is not None:
        peak = f"{scaled(each.peak_flops_per_second, 'FLOP/s')} {each.precision}"
        told[-1] += f"（峰值 {peak}）" if lang == "zh" else f" of {peak}"
    if not told:
        return []
    if each.recomputed_flops and each.flops:
        told.append(f"{word('recompute', lang)} {percent(each.recomputed_flops / each.flops)}")
    if each.known_share is not None and each.known_share < _WELL_KNOWN:
        told.append(f"{word('of_known', lang)} {percent(each.known_share)}")
    return [f"{word('arithmetic', lang)}{colon(lang)}{listed(told, lang)}"]


_WELL_KNOWN, _MOSTLY_KNOWN = 0.995, 0.5


def operators_head(report_: report.Report, lang: Lang) -> str:
    """The heading of the hottest operators: whose they are, and of what the times and shares are."""
    row = asked_row(report_)
    rows = shown_rows(report_.accounting) if row is None else [row]
    scopes = {each.scope for each in rows}
    owners = {(each.rank, each.input) for each in report_.accounting}
    owner = whose(row, report_.inputs) if row is not None and len(owners) > 1 else None
    if scopes == {"trace"}:
        total = word("sum_of_trace", lang)
    elif row is None:
        total = word("sum_of_steps", lang) if scopes == {"steps"} else ""
    else:
        steps = counted(row.num_steps, lang, "step", "steps", "步")
        total = f"{steps}合计" if lang == "zh" else f"sum of {steps}"
    told = (owner.in_(lang) if owner else "", total, word("share_of_device", lang))
    return word("top_operators", lang) + brackets(joined(told, lang), lang)


def since(card: report.Card, report_: report.Report, lang: Lang) -> str:
    """In which step it was first seen, where that is not the first: *since* only where it holds on; of a
    cause that held in some steps in a row these."""
    worst = next(finding for finding in report_.findings if finding.id == card.findings[0])
    steps = worst.subject.steps
    if worst.cost is not None and worst.cost.steps_share is not None and steps is not None:
        return f"第 {steps[0]} 至 {steps[1]} 步" if lang == "zh" else f"steps {steps[0]} to {steps[1]}"
    first = report_.window.steps[0] if report_.window is not None and report_.window.steps else None
    if card.onset_step is None or card.onset_step == first:
        return ""
    began = word("since" if card.onset_holds else "first_in", lang)
    return f"{began} {card.onset_step}" + (" 步" if lang == "zh" else "")


def window_of(row: report.Accounting, lang: Lang) -> str:
    """Where the windows of a row's steps begin and end; nothing for a row without steps."""
    return word(f"{row.window}_windows", lang) if row.scope == "steps" else ""


def patch_lines(patch: report.Patch, lang: Lang) -> list[tuple[str, str]]:
    """A patch as `diff` writes it, its comments in the reader's language."""
    return [(mark, patch_line(line, lang)) for mark, line in diff(patch)]


def ruled_out(report_: report.Report) -> list[str]:
    """Causes that no device has."""
    return [out.rule for out in report_.ruled_out]


def slow_steps(row: report.Accounting, steps: Iterable[report.Step], lang: Lang) -> str:
    """The slow steps of a row with their times, empty where there are none."""
    variation = row.variation
    if variation is None or not variation.slow_steps or variation.median_ns is None:
        return ""
    took = {step.step: step.dur_ns for step in steps if (step.rank, step.input) == (row.rank, row.input)}
    told = [(number, took[number]) for number in variation.slow_steps if number in took]
    if not told:  # the run beside its traces: its steps are not listed one by one
        return ""
    shown = sorted(told, key=lambda each: -each[1])[:_MOST_SLOW]
    more = len(told) - len(shown)
    median = duration(variation.median_ns)
    if lang == "zh":
        each = "、".join(f"第 {number} 步 {duration(time)}" for number, time in shown)
        period = f"，每 {variation.period_steps} 步一次" if variation.period_steps else ""
        return f"慢步：{each}{f' 等 {len(told)} 步' if more else ''}（中位数 {median}{period}）"
    each = ", ".join(f"{number} ({duration(time)})" for number, time in shown)
    period = f", every {variation.period_steps} steps" if variation.period_steps else ""
    return f"slow steps: {each}{f' and {more} more' if more else ''}; median {median}{period}"


def needing(would_settle: str, lang: Lang) -> str:
    """What is needed to settle a question; nothing for nothing."""
    if not would_settle:
        return ""
    told = settling(would_settle, lang)
    # Chinese writes no space, but before Latin letters.
    space = " " if lang == "en" or told[0].isascii() else ""
    return word("wants", lang) + space + told


def undecided_lines(
    undecided: Iterable[report.Undecided],
    lang: Lang,
    name: Callable[[str], str] = str,
    text: Callable[[str], str] = str,
) -> list[str]:
    """What stays open and what would settle it; causes open for one reason share a line.

    `name` and `text` make the names of rules and the sentences fit the page.
    """
    groups: dict[tuple[str, str], dict[str, None]] = {}
    for each in undecided:
        needs = needing(each.would_settle or "", lang)
        groups.setdefault((each.why or "", needs), {})[each.rule] = None
    stop = "；" if lang == "zh" else "; "
    return [
        _causes(pieces[0], rules, lang, name)
        + colon(lang)
        + text(stop.join(piece for piece in pieces if piece))
        for pieces, rules in groups.items()
    ]
