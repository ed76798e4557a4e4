"""A notice from an incident and its report, and its text in a channel's markup. Decides nothing."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from stepscope.model import report
from stepscope.model.alarm import Alarm
from stepscope.model.incident import Incident
from stepscope.model.notice import ChangeOffer, Notice
from stepscope.model.text import Lang, Text
from stepscope.views.label import colon, listed
from stepscope.views.markup import Markup
from stepscope.views.phrase import cost_of, evidence_lines, gain_of, patch_lines
from stepscope.views.shape import card_parts, harmless

MOST_LINES, MOST_TITLE = 8, 160

WORDS = {
    "open": Text(en="open", zh="新事件"),
    "acknowledged": Text(en="acknowledged", zh="已确认"),
    "changed": Text(en="change recorded", zh="已记录改动"),
    "verified": Text(en="verified", zh="改动有效"),
    "not_verified": Text(en="not verified", zh="改动未见效"),
    "closed": Text(en="closed", zh="已关闭"),
    "ended": Text(en="over", zh="已恢复"),
    "info": Text(en="info", zh="提示"),
    "warning": Text(en="warning", zh="警告"),
    "critical": Text(en="critical", zh="严重"),
    "low": Text(en="low", zh="低"),
    "medium": Text(en="medium", zh="中"),
    "high": Text(en="high", zh="高"),
    "job": Text(en="job", zh="作业"),
    "ranks": Text(en="ranks", zh="rank"),
    "devices": Text(en="devices", zh="设备"),
    "nodes": Text(en="nodes", zh="节点"),
    "since": Text(en="since", zh="始于"),
    "until": Text(en="until", zh="结束于"),
    "step": Text(en="step", zh="步"),
    "confidence": Text(en="confidence", zh="可信度"),
    "alarms": Text(en="Alarms", zh="告警"),
    "evidence": Text(en="Evidence (thresholds in brackets)", zh="证据（括号内为阈值）"),
    "checks": Text(en="Check, in this order", zh="按此顺序检查"),
    "changes": Text(en="Change", zh="改动"),
    "proof": Text(en="proof", zh="验证"),
    "unknown": Text(en="Not known", zh="未知"),
    "ruled_out": Text(en="Ruled out", zh="已排除"),
    "notes": Text(en="History", zh="经过"),
    "next": Text(en="Next", zh="下一步"),
    "link": Text(en="Whole card", zh="完整卡片"),
    "cut": Text(en="{num} more lines are on the card.", zh="卡片上还有 {num} 行。"),
    "held": Text(
        en="{num} earlier messages were held back: this channel was over its rate.",
        zh="此前有 {num} 条消息因超出通道频率而未发送。",
    ),
}


def notice_of(
    incident: Incident,
    alarms: Sequence[Alarm] = (),
    report_: report.Report | None = None,
    *,
    lang: Lang = "en",
    link: str | None = None,
    has_ended: bool = False,
) -> Notice:
    """What there is to tell of an incident. `report_` is its report in this language, `None` before there is
    one; `has_ended` where it is told that its alarms are over."""
    title = incident.title_zh if lang == "zh" and incident.title_zh else incident.title
    about = incident.about
    notice = Notice(
        incident=incident.id,
        state="ended" if has_ended and incident.state in ("open", "acknowledged") else incident.state,
        severity=incident.severity,
        lang=lang,
        title=harmless(title),
        rule=incident.rule,
        job=about.job,
        run=about.run,
        ranks=about.ranks,
        devices=about.devices,
        hosts=about.hosts,
        levels=tuple(dict.fromkeys(each.level for each in alarms)),
        onset_ns=incident.onset_ns,
        onset_step=incident.onset_step,
        ended_ns=incident.ended_ns,
        alarms=tuple((each.text_zh if lang == "zh" and each.text_zh else each.text) for each in alarms),
        notes=tuple(_notes(incident)),
        link=link,
    )
    if report_ is None:
        return notice
    fields: dict[str, object] = {}
    card = next((each for each in report_.cards if each.id == incident.card), None)
    if card is not None:  # without one the report's own verdict is of something else
        fields |= {"verdict": report_.verdict.text, "next": report_.next}
        parts = card_parts(card, report_)
        worst = parts.worst
        fields |= {
            "title": harmless(card.title),
            "explanation": card.explanation or "",
            "confidence": worst.confidence,
            "cost": cost_of(worst.cost, lang) if worst.cost is not None else "",
            "evidence": tuple(evidence_lines(parts, report_, lang)),
            "checks": card.checks,
            "changes": tuple(_changes(worst, lang)),
            "ruled_out": tuple(each.rule for each in card.ruled_out),
            "unknown": card.unknown,
        }
        notes = (*card.notes, *notice.notes)
        fields["notes"] = notes
    return msgspec.structs.replace(notice, **fields)


def _changes(worst: report.Finding, lang: Lang) -> Iterable[ChangeOffer]:
    for remedy in worst.remedies:
        lines = () if remedy.patch is None else patch_lines(remedy.patch, lang)
        yield ChangeOffer(
            text=remedy.text,
            patch=tuple(f"{mark} {line}" for mark, line in lines),
            gain=gain_of(remedy, worst.cost, lang),
            verify=remedy.verify or "",
        )


def _notes(incident: Incident) -> Iterable[str]:
    if incident.capture.state in ("failed", "refused") and incident.capture.why:
        yield incident.capture.why
    for each in incident.history[-3:]:
        yield f"{_time(each.at_ns)} {each.by}: {each.what}"


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of the text: `head` begins a section, `line` is a sentence, `item` one of a list, `code`
    lines as they are."""

    kind: str
    text: str = ""
    lines: tuple[str, ...] = ()


def title_of(notice: Notice, markup: Markup) -> str:
    """One line: how bad, what, of which job."""
    word = WORDS[notice.severity if notice.state == "open" else notice.state].in_(notice.lang)
    job = f" · {notice.job}" if notice.job else ""
    text = harmless(f"[{word}] {notice.title}{job}").replace("\n", " ")
    return markup.title(text if len(text) <= MOST_TITLE else text[: MOST_TITLE - 1] + "…")


def text_of(notice: Notice, markup: Markup) -> str:
    """The body in this markup, never more than it takes: what does not fit is left out by whole lines, from
    the end, and said."""
    lang = notice.lang
    blocks = list(_blocks(notice))
    link = "" if notice.link is None else markup.link(markup.escape(WORDS["link"].in_(lang)), notice.link)
    done: list[str] = []
    # Room for what is said at the end in any case.
    room = markup.most - markup.size(markup.begin + markup.end + link) - 120
    used = num_cut = 0
    for block in blocks:
        text = _marked(block, markup)
        size = markup.size(text + markup.newline)
        if num_cut or used + size > room:
            num_cut += max(1, len(block.lines))
            continue
        done.append(text)
        used += size
    if num_cut:
        done.append(markup.escape(WORDS["cut"].in_(lang).format(num=num_cut)))
    if link:
        done.append(link)
    return markup.begin + markup.newline.join(done) + markup.end


def _marked(block: Block, markup: Markup) -> str:
    if block.kind == "code":
        return markup.code([harmless(line) for line in block.lines])
    text = markup.escape(" ".join(harmless(block.text).split()))
    shape = {"head": markup.head, "item": markup.item, "strong": markup.strong}.get(block.kind)
    return markup.line(text) if shape is None else shape(text)


def _blocks(notice: Notice) -> Iterable[Block]:
    lang = notice.lang

    def word(key: str) -> str:
        return WORDS[key].in_(lang)

    if notice.num_held_back:
        yield Block("line", word("held").format(num=notice.num_held_back))
    if notice.verdict:
        yield Block("strong", notice.verdict)
    yield Block("line", _who_and_when(notice))
    if notice.cost or notice.confidence:
        confidence = (
            f"{word('confidence')}{colon(lang)}{word(notice.confidence)}" if notice.confidence else ""
        )
        yield Block("line", ("；" if lang == "zh" else "; ").join(filter(None, (notice.cost, confidence))))
    if notice.explanation:
        yield Block("line", notice.explanation)
    for key in ("alarms", "evidence", "checks"):
        lines: tuple[str, ...] = getattr(notice, key)
        if lines:
            yield Block("head", word(key))
            numbered = key == "checks"
            for n, line in enumerate(lines[:MOST_LINES], 1):
                yield Block("line", f"{n}. {line}") if numbered else Block("item", line)
    if notice.changes:
        yield Block("head", word("changes"))
        for change in notice.changes[:3]:
            yield Block("item", change.text + (f" ({change.gain})" if change.gain else ""))
            if change.patch:
                yield Block("code", lines=change.patch)
            if change.verify:
                yield Block("line", f"{word('proof')}{colon(lang)}{change.verify}")
    for key in ("unknown", "notes"):
        lines = getattr(notice, key)
        if lines:
            yield Block("head", word(key))
            for line in lines[:MOST_LINES]:
                yield Block("item", line)
    if notice.ruled_out:
        more = len(notice.ruled_out) - MOST_LINES
        told = listed(notice.ruled_out[:MOST_LINES], lang) + (f" +{more}" if more > 0 else "")
        yield Block("line", f"{word('ruled_out')}{colon(lang)}{told}")
    if notice.next:
        yield Block("head", word("next"))
        yield Block("code", lines=(notice.next,))


def _who_and_when(notice: Notice) -> str:
    lang = notice.lang
    stop = "；" if lang == "zh" else "; "

    def word(key: str) -> str:
        return WORDS[key].in_(lang)

    since = _time(notice.onset_ns)
    if notice.onset_step is not None:
        step = f"第 {notice.onset_step} 步" if lang == "zh" else f"step {notice.onset_step}"
        since = f"{step}（{since}）" if lang == "zh" else f"{step} ({since})"
    parts = [f"{word('since')} {since}"]
    if notice.ended_ns is not None:
        parts.append(f"{word('until')} {_time(notice.ended_ns)}")
    if notice.ranks:
        parts.append(f"{word('ranks')} {_numbers(notice.ranks)}")
    for key, names in (("devices", notice.devices), ("nodes", notice.hosts)):
        if names:
            more = f" +{len(names) - 4}" if len(names) > 4 else ""
            parts.append(f"{word(key)} {', '.join(names[:4])}{more}")
    return stop.join(parts)


def _numbers(ranks: Sequence[int]) -> str:
    """`0–3, 7`."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ", ".join(str(low) if low == high else f"{low}–{high}" for low, high in runs)


def _time(at_ns: int) -> str:
    """To the second, in UTC: people of several zones read one message."""
    at = datetime.datetime.fromtimestamp(at_ns // 1_000_000_000, tz=datetime.timezone.utc)
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")
