"""What a report says of telemetry and logs, in lines and cells that every renderer for people can use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timezone

from stepscope.analyse.marked_cost import LEAST_GROUPS
from stepscope.model import report
from stepscope.model.signal import SIGNALS
from stepscope.model.text import Lang, duration, number, percent
from stepscope.views.counter import (
    DEVICE_COLUMNS,
    HOST_COLUMNS,
    MOST_EVENTS,
    MOST_HINTS,
    MOST_PATTERNS,
    Column,
    EventGroup,
    OwnerRow,
    device_rows,
    event_groups,
    figure,
    host_rows,
    is_host,
    is_worth_numbers,
    mask_bits,
    pattern_rows,
    used,
)
from stepscope.views.detail_marks import marks_text
from stepscope.views.detail_signal import signal_text
from stepscope.views.label import brackets, colon, counted, joined, listed, word
from stepscope.views.label_signal import (
    ABSENT,
    EVENT_KIND,
    REPRESENTATIVE,
    clock_reasons,
    say,
    signal_name,
)
from stepscope.views.phrase import amount
from stepscope.views.shape import device_name

_Name = Callable[[str], str]
_LEAST_WALL_NS = 10**17
"""Times before 1973 count from the beginning of a recording."""


def moment(at_ns: int) -> str:
    """A time for people: `2024-05-01 12:33:10 UTC`, or since the beginning where it is no wall time."""
    if at_ns < _LEAST_WALL_NS:
        return span(at_ns)
    try:
        told = datetime.fromtimestamp(at_ns // 10**9, timezone.utc)
    except (OverflowError, ValueError, OSError):
        return f"{at_ns} ns"
    return told.strftime("%Y-%m-%d %H:%M:%S UTC")


def between(first_ns: int, last_ns: int, lang: Lang) -> str:
    """From when to when; the date once where it is the same."""
    first, last = moment(first_ns), moment(last_ns)
    if first.endswith(" UTC") and last.endswith(" UTC"):
        day, _, clock = last.partition(" ")
        first, last = first.removesuffix(" UTC"), clock if first.startswith(day) else last
    return f"{first} 至 {last}" if lang == "zh" else f"{first} to {last}"


def span(ns: int) -> str:
    """A length of time; nothing is `0 s`."""
    return duration(ns) if ns else "0 s"


def value_of(summary: report.SignalSummary, value: float | None, lang: Lang) -> str:
    """A value of a signal with its unit; a mask in words; empty where it is not known."""
    if value is None:
        return ""
    kind = SIGNALS[summary.signal].kind if summary.signal in SIGNALS else None
    if kind == "mask":
        return listed(clock_reasons(int(value), lang), lang) or say("no_reason", lang)
    if kind == "code":
        return f"{value:.0f}"
    if summary.unit in ("W", "celsius"):
        # A mean over samples is no finer than they are.
        return amount(round(value), summary.unit, lang)
    return amount(value, summary.unit, lang)


def pair(first: str, second: str) -> str:
    """Two values beside one another, their unit once where it is the same."""
    number_, _, unit = first.rpartition(" ")
    return f"{number_} / {second}" if number_ and second.endswith(f" {unit}") else f"{first} / {second}"


def cell(row: OwnerRow, column: Column, lang: Lang) -> str:
    """A row's value of a column, with the one beside it; a dash for what was not measured."""

    def told(name: str | None, field: str) -> str:
        found = row.signals.get(name) if name is not None else None
        return (value_of(found, figure(found, field), lang) if found is not None else "") or ABSENT

    first = told(column.signal, column.field)
    if column.beside is None:
        return first
    second = told(column.beside, "mean")
    if first == ABSENT and column.else_ in row.signals:
        alone = told(column.else_, column.field)
        # Both directions together are one figure; a share of memory still has its total beside it.
        return alone if second == ABSENT else pair(alone, second)
    return ABSENT if first == second == ABSENT else pair(first, second)


def owner_name(row: OwnerRow, rows: Sequence[OwnerRow], lang: Lang) -> str:
    """Whose row it is: rank and device; the host where there are several."""
    host = row.host if row.host is not None and len({each.host for each in rows}) > 1 else None
    if is_host(row.device):
        return row.host or say("host_counters", lang)
    told = [
        host or "",
        "" if row.rank is None else f"{word('rank', lang)} {row.rank}",
        f"{word('device', lang)} {device_number(row.device)}",
    ]
    return joined(told, lang)


def device_number(device: report.Device) -> str:
    """A device without its model's name."""
    if device.index is not None:
        return str(device.index)
    return device_name(device)


def subject(device: report.Device | None, rank: int | None, lang: Lang) -> str:
    """Whose an event, a pattern, a walk or a hint is; empty where it is of no one."""
    told = ["" if rank is None else f"{word('rank', lang)} {rank}"]
    if device is not None and not is_host(device):
        told.append(f"{word('device', lang)} {device_number(device)}")
    elif device is not None:
        told.append(say("host_counters", lang))
    return joined(told, lang)


def owner_table(
    rows: Sequence[OwnerRow], columns: Sequence[Column], lang: Lang
) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of a table: whose, every column with something in it, samples and coverage."""
    kept = used(columns, rows)
    head = word("device", lang) if not all(is_host(row.device) for row in rows) else word("host", lang)
    heads = [head, *(column.head.in_(lang) for column in kept), say("samples", lang)]
    lines = [
        [
            owner_name(row, rows, lang),
            *(cell(row, column, lang) for column in kept),
            _samples(row, kept, lang),
        ]
        for row in rows
    ]
    return heads, lines


def _samples(row: OwnerRow, columns: Sequence[Column], lang: Lang) -> str:
    """How many samples the figures of a row are of, and what share of the window they cover."""
    shown = row.shown(columns)
    numbers = sorted({each.samples for each in shown if each.samples is not None})
    shares = sorted({each.coverage for each in shown if each.coverage is not None})
    if not numbers:
        return ABSENT
    covered = _range([percent(each) for each in shares]) if shares else ""
    return _range([f"{each:,}" for each in numbers]) + brackets(covered, lang)


def _range(told: list[str]) -> str:
    return told[0] if told[0] == told[-1] else f"{told[0].removesuffix(' %')}–{told[-1]}"


def counters_head(report_: report.Report, lang: Lang) -> str:
    """The heading of the devices' table; one model of all of them is named here."""
    models = {row.device.name for row in device_rows(report_)}
    (model,) = models if len(models) == 1 else (None,)
    return say("counters", lang) + brackets(model or "", lang)


def reason_lines(report_: report.Report, lang: Lang) -> list[str]:
    """Why clocks were not higher: for each device the reasons of any sample, but for idleness."""
    rows = device_rows(report_)
    groups: dict[str, list[str]] = {}
    for row in rows:
        found = row.signals.get("clock_event_reasons")
        told = [] if found is None else clock_reasons(mask_bits(found) & ~1, lang)
        if told:
            groups.setdefault(listed(told, lang), []).append(owner_name(row, rows, lang))
    return [
        f"{signal_name('clock_event_reasons', lang)}{colon(lang)}{why}"
        + ("" if len(rows) == len(owners) else brackets(("；" if lang == "zh" else "; ").join(owners), lang))
        for why, owners in groups.items()
    ]


def lag_lines(report_: report.Report, lang: Lang, text: _Name = str) -> list[str]:
    """How far each source lags behind, and how well that is known."""
    clocks = report_.clocks.telemetry if report_.clocks is not None else ()
    return [f"{text(each.source)}{colon(lang)}{lag_of(each, lang)}" for each in clocks]


def lag_of(clock: report.TelemetryClock, lang: Lang) -> str:
    """The lag of one source, and over how long its values are means."""
    is_zh = lang == "zh"
    lag = "" if clock.lag_ns is None else span(clock.lag_ns)
    fits = ""
    if clock.lag_range_ns is not None:
        least, most = map(span, clock.lag_range_ns)
        fits = f"{least} 至 {most}" if is_zh else f"{least} to {most}"
    how = {
        "found": ("found", "测得"),
        "declared": ("declared by the source", "由来源声明"),
        "ambiguous": ("ambiguous", "有歧义"),
        "unknown": ("unknown", "未知"),
    }[clock.status][is_zh]
    if lag:
        told = how if not fits else f"{how}，{fits} 均符合" if is_zh else f"{how}; {fits} fit"
        said = f"滞后 {lag}（{told}）" if is_zh else f"lag {lag} ({told})"
    elif fits:
        said = f"滞后 {fits}：{how}" if is_zh else f"lag {fits}: {how}"
    else:
        said = f"滞后{how}" if is_zh else f"lag {how}"
    if clock.window_ns is None:
        return said
    over = span(clock.window_ns)
    return joined((said, f"每个值为 {over} 内的平均" if is_zh else f"each value is over {over}"), lang)


def representative_line(report_: report.Report, lang: Lang) -> str:
    """Whether the window looks like the rest of the run; empty where nothing tells."""
    found = report_.window.representative if report_.window is not None else None
    if found is None:
        return ""
    return f"{REPRESENTATIVE[found.status].in_(lang)}{colon(lang)}{signal_text(found.why, lang)}"


def progress_lines(report_: report.Report, lang: Lang, text: _Name = str) -> list[str]:
    """How the job went forward, a line a log."""
    return [
        f"{text(each.source)}{colon(lang)}{joined(_progress(each, lang), lang)}" for each in report_.progress
    ]


def own_cost_lines(report_: report.Report, lang: Lang) -> list[str]:
    """What stepscope itself cost, a line a rank."""
    is_zh = lang == "zh"
    lines = []
    for each in report_.own_cost:
        told = []
        if each.num_groups is not None:
            told.append(_marks(each, is_zh))
        if each.num_captures is not None:
            num, stall = each.num_captures, each.stall_ns
            captures = f"{num} 次采集" if is_zh else f"{num} capture{'' if num == 1 else 's'}"
            held = (
                ""
                if stall is None
                else f"，共阻塞 {duration(stall)}"
                if is_zh
                else f" held the loop up for {duration(stall)}"
            )
            told.append(captures + held)
        who = "" if each.rank is None else f"{word('rank', lang)} {each.rank}{colon(lang)}"
        lines.append(who + ("；" if is_zh else "; ").join(told))
    return lines


def _marks(each: report.OwnCost, is_zh: bool) -> str:
    num = each.num_groups
    low, high, step = each.marks_low_ns, each.marks_high_ns, each.step_ns
    if low is None or high is None or not step:
        if is_zh:
            return f"标记的开销在此无法分辨（对照组：{num}，至少需 {LEAST_GROUPS}）"
        few = f"groups of blocks: {num}, at least {LEAST_GROUPS} are needed"
        return f"what marks cost is not resolvable here ({few})"
    interval = f"{100 * low / step:+.2f} … {100 * high / step:+.2f} %"
    if each.marks_ns is None:
        if is_zh:
            return f"标记的开销在此无法分辨（95 % 区间为一步的 {interval}，{num} 组）"
        return f"what marks cost is not resolvable here (95 % interval {interval} of a step, {num} groups)"
    share = f"{100 * each.marks_ns / step:+.2f} %"
    if is_zh:
        return f"标记占一步的 {share}（95 % 区间 {interval}，{num} 组）"
    return f"marks take {share} of a step (95 % interval {interval}, {num} groups of blocks)"


def _progress(each: report.Progress, lang: Lang) -> list[str]:
    is_zh = lang == "zh"
    of = "" if each.total_steps is None else f"{each.total_steps:,}"
    first, last = f"{each.first_step:,}", f"{each.last_step:,}"
    told = ["" if each.rank is None else f"{word('rank', lang)} {each.rank}"]
    if is_zh:
        told.append(f"第 {first} 至 {last} 步" + (f"，共 {of} 步" if of else ""))
    else:
        told.append(f"steps {first} to {last}" + (f" of {of}" if of else ""))
    if each.start_ns is not None and each.end_ns is not None:
        told.append(between(each.start_ns, each.end_ns, lang))
    if each.step_ns is not None:
        took = duration(each.step_ns)
        told.append(f"每步 {took}" if is_zh else f"{took} a step")
    if each.step_growth_ratio is not None:
        told.append(_change(each.step_growth_ratio, lang))
    for rate, en, zh in (
        (each.tokens_per_second, "tokens/s", "token/s"),
        (each.samples_per_second, "samples/s", "样本/s"),
    ):
        if rate is not None:
            told.append(number(rate, zh if is_zh else en))
    losses = [each.loss_first, each.loss_last]
    known = [f"{loss:.4g}" for loss in losses if loss is not None]
    if known:
        told.append("loss " + " → ".join(known))
    return told


def _change(ratio: float, lang: Lang) -> str:
    """How the median step changed over the run; 1 is no change beyond the scatter of steps."""
    if ratio == 1:
        return "首末无明显差别" if lang == "zh" else "the last quarter like the first"
    change = f"{100 * (ratio - 1):+.1f} %"
    if lang == "zh":
        return f"最后四分之一的中位步时比最初四分之一 {change}"
    return f"median {change} from the first to the last quarter"


def event_owner(event: report.Event, lang: Lang) -> str:
    """Whose an event is."""
    return subject(event.device, event.rank, lang)


def event_line(group: EventGroup, lang: Lang, text: _Name = str) -> str:
    """One event, or several alike: severity, kind and code, when, whose, and what it says."""
    last = group.last
    kind = EVENT_KIND[last.kind].in_(lang) + ("" if last.code is None else f" {last.code}")
    when = moment(last.at_ns)
    if group.count > 1:
        times = f"{group.count:,} 次" if lang == "zh" else f"{group.count:,} times"
        when = joined((times, between(group.first.at_ns, last.at_ns, lang)), lang)
    head = joined((f"[{word(last.severity, lang)}] {kind}", when, event_owner(last, lang)), lang)
    return f"{head}{colon(lang)}{text(marks_text(last.text, lang))}"


def event_lines(
    report_: report.Report, lang: Lang, text: _Name = str, most: int = MOST_EVENTS
) -> tuple[list[tuple[report.Severity, str]], int]:
    """The most severe and newest events with their severity, and how many more events there are."""
    groups = event_groups(report_)
    told = [(group.last.severity, event_line(group, lang, text)) for group in groups[:most]]
    return told, sum(group.count for group in groups[most:])


def holds(side: report.PatternSide, lang: Lang) -> str:
    """Whether a side of a pattern holds."""
    return say({True: "holds", False: "holds_not", None: "unknown"}[side.holds], lang)


def side_numbers(side: report.PatternSide, lang: Lang, name: _Name = str, text: _Name = str) -> list[str]:
    """The numbers of one side of a pattern with their thresholds, and those that are missing."""
    told = [measured(each, lang, name, text) for each in side.evidence]
    if side.missing:
        told.append(f"{say('not_measured', lang)}{colon(lang)}{listed(map(name, side.missing), lang)}")
    return told


def measured(each: report.Evidence, lang: Lang, name: _Name = str, text: _Name = str) -> str:
    """One number with its threshold: `sm_active_ratio 92.0 % (> 90.0 %)`."""
    told = amount(each.value, each.unit, lang)
    if each.op is not None and each.threshold is not None:
        told += f" ({each.op} {amount(each.threshold, each.unit, lang)})"
    return f"{name(each.feature)} {text(told)}"


def pattern_name(each: report.Pattern, lang: Lang) -> str:
    """A pattern's letter and name."""
    return f"{each.pattern} {signal_text(each.title, lang)}"


def pattern_table(report_: report.Report, lang: Lang) -> tuple[list[str], list[list[str]], int]:
    """Heads and lines of the patterns, those that hold first, and how many more there are."""
    heads = [say("pattern", lang), word("device", lang), say("as_written", lang), say("effective", lang)]
    rows = pattern_rows(report_)
    lines = [
        [
            pattern_name(each, lang),
            subject(each.device, each.rank, lang),
            holds(each.as_written, lang),
            holds(each.effective, lang),
        ]
        for each in rows[:MOST_PATTERNS]
    ]
    return heads, lines, len(rows) - len(lines)


def pattern_lines(report_: report.Report, lang: Lang, name: _Name = str, text: _Name = str) -> list[str]:
    """The numbers of patterns of which a side holds, each side on a line, and what to begin with."""
    lines = []
    stop = "；" if lang == "zh" else "; "
    for each in pattern_rows(report_)[:MOST_PATTERNS]:
        if not is_worth_numbers(each):
            continue
        head = joined((each.pattern, subject(each.device, each.rank, lang)), lang)
        for key, side in (("effective", each.effective), ("as_written", each.as_written)):
            if told := side_numbers(side, lang, name, text):
                lines.append(joined((head, say(key, lang)), lang) + colon(lang) + stop.join(told))
        if each.advice is not None:
            advice = text(signal_text(each.advice, lang))
            lines.append(joined((head, say("begin_with", lang)), lang) + colon(lang) + advice)
    return lines


def walk_head(walk: report.Walk, lang: Lang) -> str:
    """The symptom of a walk, and whose it is."""
    title = signal_text(walk.title, lang)
    return say("in_order", lang) + colon(lang) + title + brackets(subject(walk.device, walk.rank, lang), lang)


def walk_steps(walk: report.Walk, lang: Lang) -> list[tuple[str, str]]:
    """The stations of a walk in order: status, and what is looked at with what it shows."""
    return [
        (each.status, f"{signal_text(each.text, lang)}{colon(lang)}{signal_text(each.said, lang)}")
        for each in walk.steps
    ]


def walk_status(status: str, lang: Lang) -> str:
    """What a station shows, in a word."""
    return say("not_measured" if status == "unknown" else status, lang)


def hint_lines(
    report_: report.Report, lang: Lang, name: _Name = str, text: _Name = str
) -> tuple[list[str], int]:
    """What single signals suggest, with their numbers, and how many more there are."""
    lines = []
    for each in report_.hints[:MOST_HINTS]:
        who = subject(each.device, each.rank, lang)
        owner = f"{who}{colon(lang)}" if who else ""
        numbers = joined((measured(evidence, lang, name, text) for evidence in each.evidence), lang)
        lines.append(f"{owner}{text(signal_text(each.text, lang))}{brackets(numbers, lang)}")
    return lines, len(report_.hints) - len(lines)


def more_line(count: int, lang: Lang) -> str:
    """How many rows are only in the JSON report."""
    return f"+ {counted(count, lang, 'more in the JSON report', 'more in the JSON report', '项见 JSON 报告')}"


def short_lines(report_: report.Report, lang: Lang) -> list[str]:
    """Devices and hosts, a line each, for an answer of few words."""
    lines = []
    for rows, columns in ((device_rows(report_), DEVICE_COLUMNS), (host_rows(report_), HOST_COLUMNS)):
        if not rows:
            continue
        heads, cells = owner_table(rows, columns, lang)
        for line in cells:
            told = (
                f"{head} {value}" for head, value in zip(heads[1:], line[1:], strict=True) if value != ABSENT
            )
            lines.append(f"{line[0]}{colon(lang)}{joined(told, lang)}")
    return lines
