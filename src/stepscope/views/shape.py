"""What several renderers need of a report: what of it to show, a row's parts, and names made harmless."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from stepscope.model import report
from stepscope.model.analysis import CUT_CODES

MOST_FULL, MOST_ROWS, MOST_EVIDENCE = 2, 32, 8
"""Rows in full, rows of one line, and findings of one card with their evidence: the JSON report has all."""


def shown_rows(accounting: Sequence[report.Accounting]) -> list[report.Accounting]:
    """One row a (rank or file, device): that of steps where there is one, else that of the whole trace."""
    rows: list[report.Accounting] = []
    open_: dict[tuple[int | str | None, ...], tuple[int, set[report.Scope]]] = {}
    for row in accounting:
        key = (row.rank, row.input, row.device.index, row.device.uuid, row.device.kind)
        place, scopes = open_.get(key, (-1, set()))
        if place < 0 or row.scope in scopes:
            # The same device of another process: of each there is at most one row a scope.
            open_[key] = (len(rows), {row.scope})
            rows.append(row)
            continue
        scopes.add(row.scope)
        if row.scope == "steps":
            rows[place] = row
    return rows


def full_rows(report_: report.Report) -> list[report.Accounting]:
    """The rows to show in full: all where they are few, else those that the answer and the cards speak of."""
    rows = shown_rows(report_.accounting)
    if len(rows) <= MOST_FULL:
        return rows
    by_id = {finding.id: finding for finding in report_.findings}
    spoken = [report_.verdict.row, *(by_id[card.findings[0]].subject.row for card in report_.cards)]
    places = dict.fromkeys(place for place in spoken if place is not None and place < len(report_.accounting))
    told = [report_.accounting[place] for place in places]
    return [row for row in told if any(row is each for each in rows)][:MOST_FULL] or rows[:1]


def rest_rows(report_: report.Report) -> tuple[list[report.Accounting], int]:
    """The rows to show on one line each, and how many more there are."""
    full = full_rows(report_)
    rest = [row for row in shown_rows(report_.accounting) if not any(row is each for each in full)]
    return rest[:MOST_ROWS], max(0, len(rest) - MOST_ROWS)


def told_issues(health: report.Health) -> list[report.HealthIssue]:
    """The issues to tell as such: why a number is withheld is told with the number."""
    withheld = {each.why for each in health.withheld}
    return [i for i in health.issues if i.effect != "withheld" or i.detail not in withheld]


@dataclass(frozen=True, slots=True)
class CardParts:
    """What of a card to show.

    `worst` is the finding that the card speaks of. `evidence` is that of the rule's own findings, each with
    its finding; `num_more` such findings are only in the JSON report. `consequences` follow from them.
    """

    worst: report.Finding
    evidence: tuple[tuple[report.Finding, report.Evidence], ...]
    is_of_several: bool
    num_more: int
    consequences: tuple[report.Finding, ...]


def card_parts(card: report.Card, report_: report.Report) -> CardParts:
    """The parts of a card, of its worst finding in full and of the others what decided."""
    by_id = {finding.id: finding for finding in report_.findings}
    findings = [by_id[each] for each in card.findings if each in by_id]
    own = [finding for finding in findings if finding.rule == card.id]
    worst = own[0] if own else findings[0]
    return CardParts(
        worst=worst,
        evidence=tuple(
            (finding, evidence)
            for finding in own[:MOST_EVIDENCE]
            for evidence in finding.evidence
            if tells(evidence) and (finding is worst or evidence.threshold is not None)
        ),
        is_of_several=len(own) > 1,
        num_more=max(0, len(own) - MOST_EVIDENCE),
        consequences=tuple(finding for finding in findings if finding.explained_by is not None),
    )


def tells(evidence: report.Evidence) -> bool:
    """Whether a number is worth its line: what decided, and of the rest what is not nothing."""
    return evidence.threshold is not None or evidence.unit != "ratio" or evidence.value >= 0.0005


def is_change(finding: report.Finding) -> bool:
    """Whether the remedies change something, or are only looks before any change."""
    return any(remedy.verify is not None for remedy in finding.remedies)


def diff(patch: report.Patch) -> list[tuple[str, str]]:
    """A patch as marked lines: what goes (`-`), then what comes (`+`)."""
    before = [("-", line) for line in (patch.before or "").splitlines()]
    return [*before, *(("+", line) for line in patch.after.splitlines())]


def asked_row(report_: report.Report) -> report.Accounting | None:
    """The row in question: the first finding's, else the verdict's, else the only one."""
    place = report_.findings[0].subject.row if report_.findings else report_.verdict.row
    if place is not None and place < len(report_.accounting):
        return report_.accounting[place]
    rows = shown_rows(report_.accounting)
    return rows[0] if len(rows) == 1 else None


def is_told(row: report.Accounting, report_: report.Report) -> bool:
    """Whether a row's parts mean anything: not where the file is cut, and work of any step may be missing."""
    return not any(
        issue.code in CUT_CODES and issue.effect == "withheld" and issue.rank == row.rank
        for issue in report_.health.issues
    )


def largest_idle(row: report.Accounting | report.StepParts) -> tuple[str, int] | None:
    """The largest idle cause of a row, or of one of its steps, with its time."""
    return next((part for part in parts(row) if part[0].startswith("idle.")), None)


def parts(row: report.Accounting | report.StepParts) -> list[tuple[str, int]]:
    """Every part of a row, or of one of its steps, with time in it: the partition's in their order, then idle
    causes, largest first."""
    whole = [
        ("compute", row.compute_ns),
        ("communication_exposed", row.communication_exposed_ns),
        ("copy_exposed", row.copy_exposed_ns),
    ]
    idle = [(f"idle.{cause}", int(getattr(row.idle, f"{cause}_ns"))) for cause in report.IDLE_CAUSES]
    idle.sort(key=lambda each: -each[1])
    return [(name, time) for name, time in (*whole, *idle) if time > 0]


def bar(row: report.Accounting, width: int) -> list[tuple[str, int]]:
    """The parts with their cells in a bar of `width`: largest remainders, so that the cells sum to it."""
    shares = [(name, time * width / row.total_ns) for name, time in parts(row)] if row.total_ns else []
    cells = {name: int(share) for name, share in shares}
    left = width - sum(cells.values()) if shares else 0
    for name, _ in sorted(shares, key=lambda each: int(each[1]) - each[1])[:left]:
        cells[name] += 1
    return [(name, cells[name]) for name, _ in shares if cells[name] > 0]


def per_step(row: report.Accounting, time_ns: int) -> float:
    """A time of the row a step, or the time itself where the row is of no steps."""
    return time_ns / row.num_steps if row.scope == "steps" and row.num_steps else float(time_ns)


def device_name(device: report.Device) -> str:
    """How a row's device is called."""
    if device.index is not None:
        return f"{device.index}" + (f" ({device.name})" if device.name else "")
    return device.uuid or device.kind or "?"


def harmless(text: str) -> str:
    """A string of an input without anything that could steer a terminal or turn the reading direction."""
    return "".join(
        c if c == "\n" or unicodedata.category(c) not in _STEERING else "\N{REPLACEMENT CHARACTER}"
        for c in text
    )


# Control characters (escape sequences among them), formatting ones (direction), lone surrogates, and the
# separators that some terminals take for a line break.
_STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")


def shortened(name: str, width: int) -> str:
    """A name in at most `width` characters; the middle goes, since both ends of a kernel name tell."""
    if len(name) <= width:
        return name
    head = max(1, (width - 3) * 2 // 3)
    return f"{name[:head]}...{name[len(name) - max(0, width - 3 - head) :]}"


_FRAME = re.compile(r"(?P<file>[^()]+)\((?P<line>\d+)\): (?P<name>.+)", re.DOTALL)
_METHOD = re.compile(r"<built-in method (?P<name>\S+) of (?P<owner>\S+) object at 0x[0-9a-f]+>")
_FUNCTION = re.compile(r"<built-in function (?P<name>\S+)>")
_PACKAGES = re.compile(r".*/(?:site|dist)-packages/")
_NAMESPACES = re.compile(r"\bat::native::|\(anonymous namespace\)::")


def readable(name: str, width: int) -> str:
    """A name from a trace as people write it, in at most `width` characters.

    `transformers/image_transforms.py(390): normalize` is `normalize (transformers/image_transforms.py:390)`,
    where too long with `…/` for the leading folders; a kernel loses its return type, its namespaces and,
    where too long, its parameters.
    """
    call, within, frame = name.partition(" in ")
    if within and _FRAME.fullmatch(frame):
        return shortened(f"{call} in {readable(frame, max(1, width - len(call) - 4))}", width)
    if found := _FRAME.fullmatch(name):
        return _frame(found["name"], _PACKAGES.sub("", found["file"]), found["line"], width)
    if found := _METHOD.fullmatch(name):
        return shortened(f"{found['name']} ({found['owner']})", width)
    if found := _FUNCTION.fullmatch(name):
        return shortened(f"{found['name']} (built-in)", width)
    return shortened(_kernel(name, width), width)


def _frame(function: str, file: str, line: str, width: int) -> str:
    whole = f"{function} ({file}:{line})"
    folders = file.split("/")
    while len(whole) > width and len(folders) > 1:
        folders = folders[1:]
        whole = f"{function} (…/{'/'.join(folders)}:{line})"
    return shortened(whole, width)


def _kernel(name: str, width: int) -> str:
    plain = _NAMESPACES.sub("", name.removeprefix("void "))
    if len(plain) <= width or not plain.endswith(")"):
        return plain
    depth = 0
    for place in range(len(plain) - 1, 0, -1):
        depth += (plain[place] == ")") - (plain[place] == "(")
        if depth == 0:
            return plain[:place]
    return plain
