"""What a report says of the ranks of a job together, in lines that every renderer for people can use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from stepscope.diagnose.word import PART, part_of
from stepscope.model import report
from stepscope.model.report import IDLE_CAUSES
from stepscope.model.text import Lang, Text, duration, percent
from stepscope.views.detail_job import job_why
from stepscope.views.detail_marks import marked_name
from stepscope.views.job import (
    WAIT,
    WAIT_HIDDEN,
    Heat,
    KindOfCollective,
    is_joined,
    kinds_of_collectives,
    late_ranks,
    path_parts,
)
from stepscope.views.label import COMPUTE_KIND, brackets, colon, joined, listed, word
from stepscope.views.phrase import without_idle
from stepscope.views.shape import readable

_NAME = 60
_MOST_NAMED = 8
MOST_STRAGGLERS = 8
"""Late ranks with a line; the others are in the JSON report."""
MOST_WHAT_IFS = 6
LEAST_GAIN = 0.001
"""A change that wins less is left out of what is shown."""

_T = Text
WORDS: Mapping[str, Text] = {
    "ranks": _T(en="Ranks", zh="各 rank"),
    "late": _T(en="late", zh="落后"),
    "late_rank": _T(en="Late", zh="落后"),
    "nobody": _T(en="Nobody is late", zh="没有 rank 落后"),
    "nobody_holds": _T(en="Nobody notably holds the others up", zh="没有 rank 明显拖慢其他 rank"),
    "withheld": _T(en="Who is late is not told", zh="无法判定谁落后"),
    "doubt": _T(en="with doubt", zh="有疑问"),
    "clocks": _T(en="Clocks", zh="时钟"),
    "no_clocks": _T(en="not aligned", zh="未对齐"),
    "given": _T(en="as given", zh="按给定值"),
    "collectives": _T(en="Waiting against transfer, all ranks", zh="等待与传输（全部 rank）"),
    "transfer": _T(en="transfer", zh="传输"),
    "waiting": _T(en="waiting", zh="等待"),
    "map": _T(en="What each rank did", zh="各 rank 在做什么"),
    "heat": _T(en="How late each rank came", zh="各 rank 的落后"),
    "what_if": _T(en="What a change would win", zh="改动可省多少"),
    "path": _T(en="Critical path", zh="关键路径"),
    "replay": _T(en="Replay", zh="重放"),
    "imbalance": _T(en="How evenly work is spread", zh="负载是否均衡"),
    "nothing": _T(en="nothing recorded", zh="没有记录"),
}
ALWAYS = 0.9
"""From this share of the steps on a rank is late always."""
AT_TIMES = _T(en="at times, and no other rank", zh="时而如此，且没有其他 rank")
PERSISTENCE: Mapping[report.Persistence, Text] = {
    "persistent": _T(en="always this rank", zh="始终是该 rank"),
    "moving": _T(en="a different rank each step", zh="每步不同"),
    "stage": _T(en="its pipeline stage", zh="其所在的流水线 stage"),
    "unknown": _T(en="too few steps to say whether always", zh="步数太少，无法判断是否始终如此"),
}
REASON: Mapping[str, Text] = {
    **{
        cause: _T(en=without_idle(PART[f"idle.{cause}"].en), zh=without_idle(PART[f"idle.{cause}"].zh))
        for cause in IDLE_CAUSES
    },
    "slower_kernels": _T(en="the same kernels take longer", zh="相同的 kernel 更慢"),
    "more_work": _T(en="it has more work", zh="工作更多"),
    "unknown": _T(en="reason not known", zh="原因未知"),
}
CLASS: Mapping[str, Text] = {
    "bad_worker": _T(en="one slow worker", zh="个别 worker 较慢"),
    "sequence_length": _T(en="sequences of different length", zh="序列长度不一"),
    "stage": _T(en="stages of different weight", zh="各 stage 负载不同"),
    "expert": _T(en="experts of different load", zh="各专家负载不同"),
    "none": _T(en="even", zh="均衡"),
    "unknown": _T(en="uneven, cause not known", zh="不均衡，原因未知"),
}
REMOVED: Mapping[str, Text] = {
    "input": _T(en="without waiting for input", zh="无需等待输入"),
    "straggler": _T(en="without the late rank", zh="没有落后的 rank"),
    "communication": _T(en="with all communication hidden", zh="通信全部被掩盖"),
    "launch": _T(en="without launch gaps", zh="没有下发间隙"),
    "imbalance": _T(en="with all work even", zh="负载完全均衡"),
}
_HALVED = _T(en="with {kind} in half the time", zh="{kind}耗时减半")
_MAP: Mapping[str, Text] = {
    WAIT: _T(en="waiting for a later rank", zh="等待更晚的 rank"),
    WAIT_HIDDEN: _T(en="waiting for a later rank, hidden by computing", zh="等待更晚的 rank（被计算掩盖）"),
    "communication_exposed": _T(en="transfer", zh="传输"),
    "copy_exposed": _T(en="copies", zh="拷贝"),
}


def say(key: str, lang: Lang) -> str:
    """A word of ours in the reader's language."""
    return WORDS[key].in_(lang)


def part_name(part: str, report_: report.Report, lang: Lang) -> str:
    """What a part of the map, of a collective or of the critical path is called."""
    if part in _MAP:
        return _MAP[part].in_(lang)
    row = next(iter(report_.accounting), None)
    return (PART[part] if row is None else part_of(row, part)).in_(lang)


def sentences(told: Iterable[str], lang: Lang) -> str:
    """Things beside one another that hold commas themselves."""
    return ("；" if lang == "zh" else "; ").join(each for each in told if each)


def rank_name(rank: int, lang: Lang) -> str:
    """`rank 3`."""
    return f"{word('rank', lang)} {rank}"


def ranks_name(ranks: Sequence[int], lang: Lang) -> str:
    """`rank 3`, `ranks 0-3, 8`: runs joined, the first few of them."""
    runs: list[tuple[int, int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], rank)
        else:
            runs.append((rank, rank))
    told = [str(a) if a == b else f"{a}-{b}" for a, b in runs[:_MOST_NAMED]]
    more = ["…"] if len(runs) > _MOST_NAMED else []
    head = "rank" if lang == "zh" or len(ranks) == 1 else "ranks"
    return f"{head} {listed([*told, *more], lang)}"


def lateness_of(row: report.Straggler, lang: Lang) -> str:
    """How late a rank is: a time, or a share of the step where its input has no unit of time."""
    return _amount(row.lateness_ns, row.lateness_share)


def _amount(time_ns: int | None, share: float | None) -> str:
    if time_ns is not None:
        return duration(time_ns)
    return "" if share is None else percent(share)


def straggler_line(row: report.Straggler, lang: Lang, name: Callable[[str], str] = str) -> str:
    """One late rank: by how much, how often, at what cost, why, and whether durations alone agree."""
    by = lateness_of(row, lang)
    often = ""
    if row.num_steps is not None and row.num_late is not None:
        often = (
            f"{row.num_steps} 步中的 {row.num_late} 步"
            if lang == "zh"
            else f"in {row.num_late} of {row.num_steps} step{'s' if row.num_steps != 1 else ''}"
        )
    cost = "" if row.share is None else f"{word('costs', lang)} {percent(row.share)}"
    why = REASON[row.reason].in_(lang) if row.reason in REASON else name(row.reason)
    if row.culprit is not None:
        why += brackets(name(readable(marked_name(row.culprit, lang, is_marked=False), _NAME)), lang)
    head = rank_name(row.rank, lang) + brackets(place_of(row, lang), lang)
    late = f"落后 {by}" if lang == "zh" else f"late by {by}"
    return f"{head}{colon(lang)}" + joined(
        (late if by else "", often, cost, persistence_of(row, lang), why, confirmed(row, lang)), lang
    )


def persistence_of(row: report.Straggler, lang: Lang) -> str:
    """Whether it is always this rank; of steps that were not marked nothing is said."""
    if row.persistence == "unknown" and row.num_steps is None:
        return ""
    is_counted = row.num_late is not None and row.num_steps is not None
    if row.persistence == "persistent" and is_counted and (row.num_late or 0) < ALWAYS * (row.num_steps or 0):
        return AT_TIMES.in_(lang)
    return PERSISTENCE[row.persistence].in_(lang)


def place_of(row: report.Straggler, lang: Lang) -> str:
    """Its place in the pipeline, where the input tells."""
    told = []
    if row.stage is not None:
        told.append(f"stage {row.stage}")
    if row.data_parallel_rank is not None:
        told.append(f"副本 {row.data_parallel_rank}" if lang == "zh" else f"replica {row.data_parallel_rank}")
    return joined(told, lang)


def confirmed(row: report.Straggler, lang: Lang) -> str:
    """Whether the durations of collectives alone name the same rank."""
    if row.is_confirmed is None:
        return "不看时钟则无法判定" if lang == "zh" else "not told without clocks"
    if row.is_confirmed:
        return "不看时钟也成立" if lang == "zh" else "confirmed without clocks"
    return "不看时钟则不成立" if lang == "zh" else "not so without clocks"


def lateness_lines(
    report_: report.Report, lang: Lang, name: Callable[[str], str] = str, text: Callable[[str], str] = str
) -> list[str]:
    """Who is late, a line each; else that nobody is, or why it is not told."""
    whole = report_.lateness
    if whole is None:
        return []
    why = "" if whole.why is None else text(job_why(whole.why, lang))
    if whole.status == "withheld":
        return [say("withheld", lang) + (colon(lang) + why if why else "")]
    lines = [straggler_line(row, lang, name) for row in report_.stragglers[:MOST_STRAGGLERS]]
    if more := len(report_.stragglers) - len(lines):
        lines.append(f"+ {more} {word('more_rows', lang)}")
    if not lines:
        lines = [_nobody(whole, lang)]
    if why:
        doubt = word("degraded", lang) if whole.status == "degraded" else say("doubt", lang)
        lines.append(f"{doubt}{colon(lang)}{why}")
    return lines


def _nobody(whole: report.Lateness, lang: Lang) -> str:
    """That nobody is late; of ranks that are, but cost nobody much, how late the latest came."""
    noise = _amount(whole.noise_ns, whole.noise_share)
    latest = max((each for row in whole.rows for each in row.lateness_ns if each is not None), default=0)
    if whole.noise_ns is not None and latest > whole.noise_ns:
        by = duration(latest)
        return say("nobody_holds", lang) + brackets(
            f"最晚者落后 {by}；{noise} 以内为噪声"
            if lang == "zh"
            else f"the latest came {by} late; within {noise} is noise",
            lang,
        )
    beyond = "" if not noise else f"（超过 {noise}）" if lang == "zh" else f" beyond {noise}"
    return say("nobody", lang) + beyond


def clock_line(report_: report.Report, lang: Lang) -> str:
    """The clocks in one line; empty where none were compared."""
    clocks = report_.clocks
    if clocks is None or not clocks.ranks:
        return ""
    known = [each for each in clocks.ranks if each.offset_ns is not None]
    alone = [each.rank for each in clocks.ranks if each.offset_ns is None]
    told = []
    if not known:
        return f"{say('clocks', lang)}{colon(lang)}{say('no_clocks', lang)}"
    if not alone and {each.method for each in known} == {"given"}:
        one = "所有 rank 共用同一时钟" if lang == "zh" else "one, which all ranks read"
        return f"{say('clocks', lang)}{colon(lang)}{one}"
    if clocks.reference_rank is not None:
        told.append(
            f"以 rank {clocks.reference_rank} 为准"
            if lang == "zh"
            else f"against rank {clocks.reference_rank}"
        )
    offsets = [each.offset_ns or 0 for each in known]
    least, most = signed(min(offsets)), signed(max(offsets))
    told.append(f"偏移 {least} 至 {most}" if lang == "zh" else f"offsets {least} to {most}")
    residuals = [each.residual_ns for each in known if each.residual_ns is not None]
    if residuals:
        left = duration(max(residuals))
        told.append(f"残差至多 {left}" if lang == "zh" else f"residual at most {left}")
    told.append(_drift(known, lang))
    groups = {each.component for each in known if each.component is not None}
    if len(groups) > 1:
        told.append(
            f"{len(groups)} 组 rank 之间没有共同时间"
            if lang == "zh"
            else f"{len(groups)} sets without a common time"
        )
    if alone:
        told.append(f"{ranks_name(alone, lang)} {say('no_clocks', lang)}")
    return f"{say('clocks', lang)}{colon(lang)}{joined(told, lang)}"


def _drift(known: Sequence[report.RankClock], lang: Lang) -> str:
    drifts = [each.drift_ppm for each in known if each.drift_ppm is not None]
    if drifts:
        least, most = min(0.0, *drifts), max(0.0, *drifts)
        low, high = (f"{each:+.1f}" if each else "0" for each in (least, most))
        return f"漂移 {low} 至 {high} ppm" if lang == "zh" else f"drift {low} to {high} ppm"
    errors = [each.drift_error_ppm for each in known if each.drift_error_ppm is not None]
    about = brackets(f"± {max(errors):.0f} ppm", lang) if errors else ""
    return ("漂移无法识别" if lang == "zh" else "drift not identifiable") + about


def signed(time_ns: int) -> str:
    """A time with its sign."""
    return f"+{duration(time_ns)}" if time_ns > 0 else "0" if time_ns == 0 else duration(time_ns)


def collective_head(row: KindOfCollective, lang: Lang) -> str:
    """A kind of collective and how often it ran."""
    return f"{row.kind} ×{row.count:,}"


def collective_told(row: KindOfCollective, lang: Lang) -> str:
    """What waited and what was transfer, of one kind."""
    wait = row.wait_exposed_ns + row.wait_hidden_ns
    share = percent(wait / row.total_ns) if row.total_ns else ""
    hidden = ""
    if row.wait_hidden_ns:
        time = duration(row.wait_hidden_ns)
        hidden = f"其中 {time} 被计算掩盖" if lang == "zh" else f"{time} of it hidden"
    last = ""
    if row.last_rank is not None and wait:
        last = f"最常最后到达：rank {row.last_rank}" if lang == "zh" else f"rank {row.last_rank} mostly last"
    return joined(
        (
            f"{say('waiting', lang)} {duration(wait)}{brackets(share, lang)}",
            hidden,
            f"{say('transfer', lang)} {duration(row.transfer_ns)}",
            last,
        ),
        lang,
    )


def collective_lines(report_: report.Report, lang: Lang) -> list[str]:
    """Waiting against transfer, a line a kind."""
    rows = kinds_of_collectives(report_)
    return [f"{collective_head(row, lang)}{colon(lang)}{collective_told(row, lang)}" for row in rows]


def removed_name(each: report.WhatIf, lang: Lang) -> str:
    """What a replay was done without."""
    if each.remove.startswith("compute."):
        kind = each.remove.removeprefix("compute.")
        told = COMPUTE_KIND[kind].in_(lang) if kind in COMPUTE_KIND else kind
        return _HALVED.in_(lang).format(kind=told)
    told = REMOVED[each.remove].in_(lang) if each.remove in REMOVED else each.remove
    return told + brackets(ranks_name(each.ranks, lang) if each.ranks else "", lang)


def shown_what_ifs(replay: report.Replay) -> list[report.WhatIf]:
    """The changes that win something, most first."""
    return [each for each in replay.what_if if each.gain_share >= LEAST_GAIN][:MOST_WHAT_IFS]


def replay_line(replay: report.Replay, lang: Lang, text: Callable[[str], str] = str) -> str:
    """How well the untouched replay reproduces the run, or why nothing is predicted."""
    why = "" if replay.why is None else text(job_why(replay.why, lang))
    if replay.status == "withheld":
        return f"{word('withheld', lang)}{colon(lang)}{why}" if why else word("withheld", lang)
    error, steps = percent(replay.error_share), replay.num_steps
    told = (
        f"{steps} 步的重放与实录至多相差 {error}"
        if lang == "zh"
        else f"the replay of {steps} step{'s' if steps != 1 else ''} is within {error} of the recording"
    )
    return joined((told, why), lang)


def what_if_lines(replay: report.Replay, lang: Lang, text: Callable[[str], str] = str) -> list[str]:
    """What each change would win of the step, with how far to trust it."""
    shown = shown_what_ifs(replay)
    lines = [
        f"{text(removed_name(each, lang))}{colon(lang)}−{percent(each.gain_share)}"
        + brackets(f"{duration(each.step_ns)} → {duration(each.predicted_ns)}", lang)
        for each in shown
    ]
    if not shown and replay.status != "withheld":
        lines = ["没有任何单项改动能省 0.1 %" if lang == "zh" else "no single change wins 0.1 %"]
    return lines


def path_line(replay: report.Replay, report_: report.Report, lang: Lang) -> str:
    """What the critical path passes through, in one line; empty where it is not told."""
    told = [f"{part_name(part, report_, lang)} {percent(share)}" for part, share in path_parts(replay)[:5]]
    return f"{say('path', lang)}{colon(lang)}{sentences(told, lang)}" if told else ""


def imbalance_line(report_: report.Report, lang: Lang, text: Callable[[str], str] = str) -> str:
    """Why ranks differ in what they have to do; empty where nothing tells."""
    found = report_.imbalance
    if found is None:
        return ""
    who = ranks_name(found.ranks, lang) if found.ranks else ""
    stage = "" if found.stage is None else f"stage {found.stage}"
    told = CLASS[found.class_].in_(lang) if found.class_ in CLASS else found.class_
    named = told + brackets(joined((stage, who), lang), lang)
    slower = ""
    if found.slowdown is not None:
        times = f"{found.slowdown:.2f}"
        slower = f"每步为均衡时的 {times} 倍" if lang == "zh" else f"a step takes {times} times an even one"
    bubble = ""
    if found.bubble_share is not None:
        bubble = percent(found.bubble_share)
        bubble = f"等待其他 stage 占 {bubble}" if lang == "zh" else f"{bubble} of it waiting for other stages"
    figures = text(job_why(found.why, lang)) if found.why else ""
    head = f"{say('imbalance', lang)}{colon(lang)}{joined((named, slower, bubble), lang)}"
    return head + brackets(figures, lang)


def heat_scale(heat: Heat, lang: Lang) -> str:
    """The scale of the map of lateness."""
    top, noise = duration(heat.most_ns), duration(heat.noise_ns)
    return (
        f"满格为落后 {top}；{noise} 以内不算落后"
        if lang == "zh"
        else f"full height: {top} late; within {noise} nobody is late"
    )


def has_ranks(report_: report.Report) -> bool:
    """Whether anything is to be said of ranks together."""
    return is_joined(report_) or report_.imbalance is not None


def strip_name(rank: int, report_: report.Report, lang: Lang) -> str:
    """A row's name: the rank, and that it is late."""
    late = brackets(say("late", lang), lang) if rank in late_ranks(report_) else ""
    return rank_name(rank, lang) + late
