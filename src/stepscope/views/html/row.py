"""Where the time of each device went: its parts, and what the device worked on."""

from __future__ import annotations

from collections.abc import Callable

from stepscope.diagnose.word import part_of, whose
from stepscope.model import report
from stepscope.model.text import Lang, Text, duration, percent
from stepscope.views.html.chart import part_bar, told_bar
from stepscope.views.html.column import Column, drawn
from stepscope.views.html.fill import swatch
from stepscope.views.html.markup import Child, Markup, tag
from stepscope.views.label import COMPUTE_KIND, brackets, counted, word
from stepscope.views.label import joined as in_words
from stepscope.views.phrase import arithmetic_of, compact, compact_head, phases_of, slow_steps, window_of
from stepscope.views.shape import device_name, full_rows, is_told, parts, per_step, rest_rows

_HOST = (
    ("loader_share", Text(en="host in the loader", zh="主机在加载数据")),
    ("sync_share", Text(en="host waiting for the device", zh="主机等待设备")),
    ("copy_call_share", Text(en="host in blocking copies", zh="主机阻塞于拷贝")),
    ("launch_share", Text(en="host in launch calls", zh="主机在下发调用中")),
)
_HOST_NOTE = Text(
    en="share of host time, beside the parts and no part of them", zh="占主机时间的比例，不属于上述各部分"
)
_COMMUNICATION = (
    ("total_ns", Text(en="communication in all", zh="通信合计")),
    ("hidden_ns", Text(en="hidden beside compute", zh="被计算掩盖")),
    ("transfer_ns", Text(en="transfer", zh="传输")),
    ("wait_ns", Text(en="waiting for a later rank", zh="等待落后的 rank")),
    ("wait_exposed_ns", Text(en="waiting that nothing hides", zh="未被掩盖的等待")),
)


def where(report_: report.Report, lang: Lang) -> tuple[str, Child] | None:
    """The section of the rows; nothing without accounting."""
    rows: list[Child] = [_row(row, report_, lang) for row in full_rows(report_)]
    rest, num_more = rest_rows(report_)
    if rest:
        heads = compact_head(lang)
        table = [compact(row, report_, lang) for row in rest]
        columns = [
            Column(Text(en=head, zh=head), _cell(at), is_number=0 < at < len(heads) - 1)
            for at, head in enumerate(heads)
        ]
        rows.append(drawn(table, columns, lang))
    if num_more:
        rows.append(tag("p", f"+ {num_more} {word('more_rows', lang)}", class_="note"))
    return (word("where", lang), rows) if rows else None


def _cell(at: int) -> Callable[[list[str], Lang], str]:
    return lambda row, lang: row[at]


def _row(row: report.Accounting, report_: report.Report, lang: Lang) -> Markup:
    has_steps = row.scope == "steps"
    told = is_told(row, report_)
    owner = whose(row, report_.inputs)
    each = duration(per_step(row, row.total_ns))
    head = in_words(
        (
            "" if owner is None else owner.in_(lang),
            word("host", lang)
            if row.device.kind in report.HOST_KINDS
            else f"{word('device', lang)} {device_name(row.device)}",
            counted(row.num_steps, lang, "step", "steps", "步") if has_steps else word("whole_trace", lang),
            ((f"每步 {each}" if lang == "zh" else f"{each} a step") if has_steps else each) if told else "",
            window_of(row, lang) if told else "",
            "" if row.status == "ok" else word(row.status, lang),
        ),
        lang,
    )
    if not told or not row.total_ns:
        return tag("div", tag("h3", head))
    columns = (
        Column(
            Text(en="part", zh="部分"), lambda part, lang: [swatch(part[0]), " ", part[2]], is_number=False
        ),
        Column(Text(en="share", zh="占比"), lambda part, lang: percent(part[1] / row.total_ns)),
        Column(
            Text(en="a step", zh="每步") if has_steps else Text(en="time", zh="时间"),
            lambda part, lang: duration(per_step(row, part[1])),
        ),
    )
    named = [(name, time, part_of(row, name).in_(lang)) for name, time in parts(row)]
    slow = slow_steps(row, report_.steps, lang)
    return tag(
        "div",
        tag("h3", head),
        part_bar(row, lang),
        drawn(named, columns, lang),
        tag("p", slow) if slow else None,
        _beside(row, lang),
        _worked_on(row, report_, lang),
    )


def _beside(row: report.Accounting, lang: Lang) -> Child:
    """What is told beside the parts: the host's own time, and communication that compute hides."""
    host = [
        f"{name.in_(lang)} {percent(share)}"
        for field, name in _HOST
        if row.host is not None and (share := getattr(row.host, field)) is not None
    ]
    communication = [
        f"{name.in_(lang)} {duration(per_step(row, time))}"
        for field, name in _COMMUNICATION
        if row.communication is not None and (time := getattr(row.communication, field)) is not None
    ]
    lines = [in_words(communication, lang)]
    if host:
        lines.insert(0, f"{in_words(host, lang)}{brackets(_HOST_NOTE.in_(lang), lang)}")
    return [tag("p", line, class_="note") for line in lines if line]


def _worked_on(row: report.Accounting, report_: report.Report, lang: Lang) -> Child:
    """What the device worked on: its time by phase, compute by kind, and arithmetic against the peak."""
    phases = [(f"phase.{key}", name, share) for key, name, share in phases_of(row, lang)]
    return [
        told_bar(word("phases", lang), phases, lang),
        told_bar(word("kinds", lang), _kinds(row, lang), lang),
        [tag("p", line) for line in arithmetic_of(row, report_, lang)],
    ]


def _kinds(row: report.Accounting, lang: Lang) -> list[tuple[str, str, float]]:
    if row.compute is None:
        return []
    known = {kind: int(getattr(row.compute, f"{kind}_ns")) for kind in report.COMPUTE_KINDS}
    whole = sum(known.values())
    return [
        (f"kind.{kind}", COMPUTE_KIND[kind].in_(lang), ns / whole)
        for kind, ns in sorted(known.items(), key=lambda each: -each[1])
        if ns
    ]
