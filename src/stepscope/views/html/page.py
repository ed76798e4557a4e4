"""A report as one page: the answer first, then what shows it; readable without a script or a network."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from functools import cache
from importlib import resources

from stepscope.diagnose.word import VERDICT
from stepscope.model import report
from stepscope.model.text import Lang, Text
from stepscope.views.counter import device_rows
from stepscope.views.detail import input_error, withheld_why
from stepscope.views.html.card import card
from stepscope.views.html.chart import timeline_head, timeline_lanes
from stepscope.views.html.column import drawn, folded
from stepscope.views.html.counter import counters, follows, job
from stepscope.views.html.fill import definitions
from stepscope.views.html.markup import Child, Markup, code, tag
from stepscope.views.html.memory import memory
from stepscope.views.html.rank import ranks
from stepscope.views.html.replay import replay
from stepscope.views.html.row import where
from stepscope.views.html.step import steps
from stepscope.views.html.table import INPUTS, OTHERS
from stepscope.views.html.trend import overlay
from stepscope.views.html.work import HOTTEST, WORKED_ON
from stepscope.views.json import embedded
from stepscope.views.label import brackets, colon, counted, withheld_name, word
from stepscope.views.label import joined as in_words
from stepscope.views.phrase import issue_lines, needing, operators_head, undecided_lines
from stepscope.views.shape import told_issues

_LANGUAGE = {"en": "en", "zh": "zh-Hans"}
_CONTENTS = Text(en="Contents", zh="目录")
_FINDINGS = Text(en="Findings", zh="发现")
_TIMELINE = Text(en="The longest step", zh="最长的一步")
_WHOLE = Text(en="Timeline", zh="时间线")
_TABLES = Text(en="In detail", zh="明细")
_OPEN = Text(en="Undecided and ruled out", zh="未定与已排除")
_THEN = Text(en="On such a recording", zh="有了这样的录制之后运行")
_EXPLAIN = Text(en="All of a rule, by its name", zh="按名称查看规则全文")
_NEXT = Text(en="Next command", zh="下一条命令")
_MADE_BY = Text(
    en="Made by stepscope {version}. This page holds the whole report as JSON and loads nothing.",
    zh="由 stepscope {version} 生成。本页内含完整的 JSON 报告，不从任何地方加载内容。",
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


def _cards(report_: report.Report, lang: Lang) -> tuple[Text | str, Child] | None:
    return (_FINDINGS, [card(each, report_, lang) for each in report_.cards]) if report_.cards else None


def _timelines(report_: report.Report, lang: Lang) -> tuple[Text | str, Child] | None:
    shown = [each for each in report_.timelines if each.lanes]
    if not shown:
        return None
    made: list[Child] = []
    devices = device_rows(report_)
    for place, timeline in enumerate(shown):
        head = timeline_head(timeline, report_, lang)
        lanes = [timeline_lanes(timeline, lang), overlay(timeline, devices, report_, lang)]
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
    made = [folded(table, report_, lang) for table in (*WORKED_ON, *OTHERS)]
    # Of one input too its rank says something: it is what the file says of itself.
    made.append(folded(INPUTS, report_, lang, has_rank=True))
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
    if made:
        made.append(tag("p", _EXPLAIN.in_(lang), colon(lang), code("stepscope explain RULE"), class_="note"))
    return (_OPEN, made) if made else None


def _next(report_: report.Report, lang: Lang) -> tuple[Text | str, Child] | None:
    return None if report_.next is None else (_NEXT, tag("pre", report_.next, class_="command", tabindex=0))


_SECTIONS: dict[str, Section] = {
    "cards": _cards,
    "job": job,
    "where": where,
    "data": _health,
    "ranks": ranks,
    "replay": replay,
    "steps": steps,
    "timeline": _timelines,
    "counters": counters,
    "follows": follows,
    "hottest": _operators,
    "memory": memory,
    "open": _open,
    "details": _tables,
    "next": _next,
}
"""The page from top to bottom. A section that the report has nothing for is left out."""
