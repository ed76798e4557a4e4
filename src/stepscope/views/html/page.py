"""A report as one page: the answer first, then what shows it; readable without a script or a network."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from functools import cache
from importlib import resources

from stepscope.diagnose.word import VERDICT, part_of, whose
from stepscope.model import report
from stepscope.model.text import Lang, Text, duration, percent
from stepscope.views.detail import input_error, withheld_why
from stepscope.views.html.card import card
from stepscope.views.html.chart import part_bar, step_bars, timeline_head, timeline_lanes
from stepscope.views.html.fill import definitions, swatch
from stepscope.views.html.markup import Child, Markup, code, tag
from stepscope.views.html.table import (
    DETAILS,
    HOTTEST,
    INPUTS,
    Column,
    drawn,
    section,
    step_line,
    step_table,
    uncounted_steps,
)
from stepscope.views.json import embedded
from stepscope.views.label import brackets, colon, counted, withheld_name, word
from stepscope.views.label import joined as in_words
from stepscope.views.phrase import (
    compact,
    compact_head,
    issue_lines,
    needing,
    operators_head,
    slow_steps,
    undecided_lines,
    window_of,
)
from stepscope.views.shape import device_name, full_rows, is_told, parts, per_step, rest_rows, told_issues

_LANGUAGE = {"en": "en", "zh": "zh-Hans"}
_CONTENTS = Text(en="Contents", zh="目录")
_FINDINGS = Text(en="Findings", zh="发现")
_STEPS = Text(en="Step by step", zh="逐步")
_STEPS_IN_NUMBERS = Text(en="The same in numbers", zh="对应的数值")
_NOT_COUNTED = Text(en="Steps that are not counted", zh="未计入的步")
_TIMELINE = Text(en="The longest step", zh="最长的一步")
_WHOLE = Text(en="Timeline", zh="时间线")
_TABLES = Text(en="In detail", zh="明细")
_OPEN = Text(en="Undecided and ruled out", zh="未定与已排除")
_THEN = Text(en="On such a recording", zh="有了这样的录制之后运行")
_NEXT = Text(en="Next command", zh="下一条命令")
_MADE_BY = Text(
    en="Made by stepscope {version}. This page holds the whole report as JSON and loads nothing.",
    zh="由 stepscope {version} 生成。本页内含完整的 JSON 报告，不从任何地方加载内容。",
)
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


def render(report_: report.Report, lang: Lang | None = None) -> str:
    """The report as an HTML page, ending in a newline. `lang` is that of the report where not given."""
    lang = lang or report_.lang or "en"
    style = _style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    # No script, no address, no form: only this very style. What a file of a stranger says cannot change that.
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"stepscope{colon(lang)}{VERDICT[report_.verdict.class_].in_(lang)}"),
        tag("style", Markup(style)),
    )
    data = tag("script", Markup(embedded(report_)), type="application/json", id="stepscope-report")
    page = tag("html", head, tag("body", definitions(), _body(report_, lang), data), lang=_LANGUAGE[lang])
    return f"<!doctype html>\n{page}\n"


@cache
def _style() -> str:
    return (resources.files("stepscope.views.html") / "style.css").read_text(encoding="utf-8")


Section = Callable[[report.Report, Lang], "tuple[Text | str, Child] | None"]


def _body(report_: report.Report, lang: Lang) -> list[Markup]:
    told = [(name, make(report_, lang)) for name, make in _SECTIONS.items()]
    made = [
        (name, found[0] if isinstance(found[0], str) else found[0].in_(lang), found[1])
        for name, found in told
        if found is not None
    ]
    # In the contents a heading stands without what it says in brackets.
    links = [tag("li", tag("a", re.split(r" \(|（", title)[0], href=f"#{name}")) for name, title, _ in made]
    main = [
        tag(
            "section", tag("h2", title, id=f"{name}-title"), content, id=name, aria_labelledby=f"{name}-title"
        )
        for name, title, content in made
    ]
    version = _MADE_BY.in_(lang).format(version=report_.tool.version)
    return [
        _header(report_, lang),
        tag("nav", tag("ul", links), aria_label=_CONTENTS.in_(lang)),
        tag("main", main),
        tag("footer", tag("p", version)),
    ]


def _header(report_: report.Report, lang: Lang) -> Markup:
    used = [each for each in report_.inputs if each.error is None]
    data = in_words(
        (
            f"{word('data', lang)}{colon(lang)}{word(report_.health.verdict, lang)}",
            counted(len(used), lang, "input", "inputs", "个输入"),
            counted(sum(each.events or 0 for each in used), lang, "event", "events", "个事件"),
        ),
        lang,
    )
    return tag(
        "header",
        tag(
            "p",
            tag("span", "stepscope", class_="brand"),
            tag("span", VERDICT[report_.verdict.class_].in_(lang), class_=f"badge {report_.verdict.class_}"),
        ),
        tag("h1", report_.verdict.text),
        tag("p", data, class_="facts"),
        class_="top",
    )


def _health(report_: report.Report, lang: Lang) -> tuple[Text | str, Child] | None:
    health = report_.health
    has_ranks = len({row.rank for row in report_.accounting}) > 1
    lines: list[Child] = [
        tag("li", line, class_=effect)
        for effect, line in issue_lines(told_issues(health), lang, has_ranks=has_ranks)
    ]
    for each in health.withheld:
        needs = brackets(needing(each.would_settle or "", lang), lang)
        why = withheld_why(each, lang)
        told = f"{word('withheld', lang)}{colon(lang)}{withheld_name(each, lang)}{colon(lang)}{why}{needs}"
        lines.append(tag("li", told, class_="withheld"))
    for failed in (each for each in report_.inputs if each.error is not None):
        told = f"{word('not_used', lang)}{colon(lang)}{input_error(failed, lang)}"
        lines.append(tag("li", told, class_="withheld"))
    return (word("data", lang), tag("ul", lines, class_="health")) if lines else None


def _where(report_: report.Report, lang: Lang) -> tuple[Text | str, Child] | None:
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
            if row.device.kind == "cpu"
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


def _cards(report_: report.Report, lang: Lang) -> tuple[Text | str, Child] | None:
    return (_FINDINGS, [card(each, report_, lang) for each in report_.cards]) if report_.cards else None


def _steps(report_: report.Report, lang: Lang) -> tuple[Text | str, Child] | None:
    drawn_rows: list[Child] = []
    for row in full_rows(report_):
        if len(row.by_step) < 2 or not is_told(row, report_):
            continue
        owner = whose(row, report_.inputs)
        numbers = tag(
            "details",
            tag("summary", _STEPS_IN_NUMBERS.in_(lang)),
            step_table(row, report_, lang),
        )
        head = tag("h3", owner.in_(lang)) if owner is not None and len(report_.accounting) > 2 else None
        drawn_rows.append([head, step_bars(row, lang), numbers])
    others = uncounted_steps(report_)
    if others:
        lines = [
            tag(
                "li",
                step_line(step, report_, lang),
                colon(lang),
                word(step.use, lang),
                brackets(step.why or "", lang),
            )
            for step in others[:_MOST_OTHERS]
        ]
        more = len(others) - len(lines)
        if more:
            lines.append(tag("li", f"+ {more} {word('more_rows', lang)}"))
        drawn_rows.append(tag("details", tag("summary", _NOT_COUNTED.in_(lang)), tag("ul", lines)))
    return (_STEPS, drawn_rows) if drawn_rows else None


_MOST_OTHERS = 40


def _timelines(report_: report.Report, lang: Lang) -> tuple[Text | str, Child] | None:
    shown = [each for each in report_.timelines if each.lanes]
    if not shown:
        return None
    made: list[Child] = []
    for place, timeline in enumerate(shown):
        head, lanes = timeline_head(timeline, report_, lang), timeline_lanes(timeline, lang)
        if place == 0:
            made += [tag("p", head, class_="facts"), lanes]
        else:
            made.append(tag("details", tag("summary", head), lanes))
    return (_WHOLE if shown[0].step is None else _TIMELINE), made


def _operators(report_: report.Report, lang: Lang) -> tuple[Text | str, Child] | None:
    if not report_.top_operators:
        return None
    return operators_head(report_, lang), drawn(report_.top_operators, HOTTEST, lang)


def _tables(report_: report.Report, lang: Lang) -> tuple[Text | str, Child] | None:
    made = [section(table, report_, lang) for table in (*DETAILS, INPUTS)]
    return (_TABLES, made) if any(made) else None


def _open(report_: report.Report, lang: Lang) -> tuple[Text | str, Child] | None:
    made: list[Child] = []
    if report_.undecided:
        lines = undecided_lines(report_.undecided, lang, code, lambda text: tag("span", text))
        commands = dict.fromkeys(each.command for each in report_.undecided if each.command)
        made += [
            tag("h3", word("undecided", lang)),
            tag("ul", (tag("li", Markup(line)) for line in lines)),
            [tag("p", _THEN.in_(lang), colon(lang), code(command), class_="note") for command in commands],
        ]
    if report_.ruled_out:
        lines_out = (tag("li", code(out.rule), colon(lang), out.because) for out in report_.ruled_out)
        made += [tag("h3", word("ruled_out", lang)), tag("ul", lines_out)]
    return (_OPEN, made) if made else None


def _next(report_: report.Report, lang: Lang) -> tuple[Text | str, Child] | None:
    return None if report_.next is None else (_NEXT, tag("pre", report_.next, class_="command", tabindex=0))


_SECTIONS: dict[str, Section] = {
    "cards": _cards,
    "where": _where,
    "data": _health,
    "steps": _steps,
    "timeline": _timelines,
    "hottest": _operators,
    "open": _open,
    "details": _tables,
    "next": _next,
}
"""The page from top to bottom. A section that the report has nothing for is left out."""
