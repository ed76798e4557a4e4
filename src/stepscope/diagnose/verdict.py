"""The one-line answer: the class of the largest finding of at least 5 %, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stepscope.analyse.features import has_device, is_marked, part_ns
from stepscope.diagnose import word
from stepscope.diagnose.claim import PEER_WINDOW, PEERS
from stepscope.diagnose.counter import counters_alone
from stepscope.diagnose.finding import Told
from stepscope.diagnose.row import Row
from stepscope.diagnose.telemetry import Beside
from stepscope.model import report
from stepscope.model.feature import Observed
from stepscope.model.text import Lang, Text, percent
from stepscope.rules import Catalog

LEAST_SHARE = 0.05
"""A finding below this share of the step is no answer to why the step is slow."""

LEAST_BUSY = 0.95
"""Passes and optimizer take at least this share of all marked steps where the loop waits for nothing."""

RESTS = frozenset(
    {"idle-device", "idle-in-checkpoint", "idle-in-evaluation", "initialising", "sparse-bursts"}
)
"""Rules that say why a device hardly works for minutes. Steps by their marks do not hold such a rest where it
came before the first or is not over: then it is the answer though no step is slow."""
_STALLS = ("communication_exposed", "copy_exposed", *(f"idle.{cause}" for cause in report.IDLE_CAUSES))


def verdict(
    health: report.Health,
    rows: Sequence[Row],
    told: Sequence[Told],
    catalog: Catalog,
    lang: Lang,
    inputs: Sequence[report.Input],
    memory: Sequence[report.Memory] = (),
    beside: Beside | None = None,
    marked: Sequence[Row] = (),
) -> tuple[report.Verdict, Row | None]:
    """The answer over all devices, and the row it speaks of; `told` in their final order.

    `memory` is of snapshots that are of none of the rows, `beside` what telemetry and logs add, `marked` are
    the marks of the run beside its traces.
    """
    row: Row | None = None
    if not rows and beside is not None and beside.has_any:
        class_, text = counters_alone(beside.alone, told)
    elif not rows and memory:
        class_, text, row = _memory_alone(told)
    else:
        class_, text, row = _answer(health, rows, told, catalog, inputs, marked)
        apart = beside.representative if beside is not None else None
        if class_ == "healthy" and apart is not None and apart.status == "no":
            text = Text(
                en=f"{text.en}; but the traced time is not like the rest of the run",
                zh=f"{text.zh}；但所录时段与运行的其余部分不同",
            )
    label = word.VERDICT[class_]
    sentence = Text(en=f"{label.en}{text.en}.", zh=f"{label.zh}{text.zh}。")
    return report.Verdict(class_=class_, text=sentence.in_(lang), row=row.place if row else None), row


def _answer(
    health: report.Health,
    rows: Sequence[Row],
    told: Sequence[Told],
    catalog: Catalog,
    inputs: Sequence[report.Input],
    marked: Sequence[Row],
) -> tuple[report.VerdictClass, Text, Row | None]:
    """The class, what follows its name, and the row that the sentence speaks of."""
    if health.verdict == "unusable" or not rows:
        return (
            "undecided",
            Text(
                en=": the inputs hold no timed work, so nothing can be said of any step",
                zh="：输入中没有带时间的任务，无法对任何一步作出判断",
            ),
            None,
        )
    cut = [row for row in rows if row.observed.rank.is_cut]
    if len(cut) == len(rows):
        return (
            "undecided",
            Text(
                en=": the trace is cut off or has holes, and device work of any step may be missing; record "
                "it again",
                zh="：trace 被截断或有缺失，任一步的设备活动都可能缺失；请重新录制",
            ),
            rows[0],
        )
    rows = [row for row in rows if not row.observed.rank.is_cut]
    seen = [row for row in rows if has_device(row.observed)]
    if not seen and not any(row.observed.rank.accelerator in report.HOST_KINDS for row in rows):
        return (
            "undecided",
            Text(
                en=": no device activity was recorded, so nothing can be said of the device; record with the "
                "profiler's device activity",
                zh="：没有录到设备活动，无法对设备作出判断；请在录制时打开设备活动",
            ),
            rows[0],
        )
    stopped = next((each for each in told if _is_end(each)), None)
    if stopped is not None:
        stopped = _root(stopped, told)
        title = stopped.finding.title
        text = Text(en=f": {word.lowered(title)}", zh=f"：{title}")
        return stopped.rule.verdict, text, stopped.row
    worst = next(
        (each for each in told if each.finding.explained_by is None and _share_of(each) >= LEAST_SHARE), None
    )
    withheld = [row for row in seen if row.account.status == "withheld"]
    # Of unrecorded work its rule says more than that causes are withheld.
    is_told = worst is not None and catalog[worst.rule.id].verdict == "undecided"
    # Marks of the run say where the host was while the device idled.
    by_marks = next(
        (
            each
            for each in told
            if each.finding.explained_by is None
            and is_marked(each.row.observed)
            and _share_of(each) >= LEAST_SHARE
        ),
        None,
    )
    for row in () if is_told else withheld:
        account = row.account
        idle = account.idle_ns / account.total_ns if account.total_ns else 0.0
        if idle >= LEAST_SHARE and (worst is None or idle > _share_of(worst)):
            if by_marks is not None:
                worst = by_marks
                break
            spent = word.span_of(account, account.idle_ns, word.whose(account, inputs))
            return (
                "undecided",
                Text(
                    en=f": the device is idle for {spent.en}, and why is withheld: the data cannot tell",
                    zh=f"：设备空闲{spent.zh}，原因不予给出：数据不足以判断",
                ),
                row,
            )
    if worst is not None:
        return catalog[worst.rule.id].verdict, _of_finding(worst, inputs), worst.row
    resting = next((e for e in told if e.rule.id in RESTS and e.finding.explained_by is None), None)
    if resting is not None and all(is_marked(row.observed) for row in rows):
        title = resting.finding.title
        text = Text(en=f": {word.lowered(title)}", zh=f"：{title}")
        return resting.rule.verdict, text, resting.row
    ended = next(
        (each for each in told if each.rule.is_standstill and each.finding.explained_by is None), None
    )
    if ended is not None:  # nothing held it up until then
        title = ended.finding.title
        return ended.rule.verdict, Text(en=f": {word.lowered(title)}", zh=f"：{title}"), ended.row
    least = min(seen or rows, key=lambda row: _share(row.account, "compute"))
    num_healthy = sum(each.rule.verdict == "healthy" for each in told)
    if seen and not withheld and not cut and num_healthy == len(seen):
        return "healthy", _with_memory(_healthy(least.account, len(seen), inputs), told), least
    if not seen and marked and min(_share(row.account, "compute") for row in marked) >= LEAST_BUSY:
        return "undecided", _with_memory(_no_wait(marked, least), told), least
    return "undecided", _with_memory(_nothing_found(least.observed, len(seen or rows), inputs), told), least


def _is_end(told: Told) -> bool:
    """Whether the job stands still, or logs or counters say that it cannot go on: then how its steps went is
    another question."""
    if told.finding.severity != "critical" or told.finding.cost is not None:
        return False
    is_seen = any(each.from_ in ("log", "telemetry") for each in told.finding.evidence)
    return told.rule.is_standstill or (is_seen and told.rule.verdict not in ("healthy", "undecided"))


def _root(told: Told, every: Sequence[Told]) -> Told:
    """What a finding follows from in the end: itself, where it follows from none."""
    by_id = {each.finding.id: each for each in every}
    while told.finding.explained_by is not None and told.finding.explained_by in by_id:
        told = by_id[told.finding.explained_by]
    return told


def _share_of(told: Told) -> float:
    if told.weighs is not None:
        return told.weighs
    return told.finding.cost.share if told.finding.cost is not None else 0.0


def _of_finding(told: Told, inputs: Sequence[report.Input]) -> Text:
    """The finding's title with its time. The title is in the report's language, so both sides carry it."""
    finding, account = told.finding, told.row.account
    assert finding.cost is not None
    if finding.cost.of == PEERS:
        window = told.row.observed.device.numbers.get(PEER_WINDOW, float(account.total_ns))
        account = msgspec.structs.replace(account, total_ns=round(window))
    spent = word.span_of(account, finding.cost.time_ns, word.whose(account, inputs))
    is_bare = not has_device(told.row.observed) and not is_marked(told.row.observed)
    bare = ("; no accelerator work was recorded", "；没有录到加速器任务") if is_bare else ("", "")
    once = _mostly(told)
    told_ = Text(en=f", {spent.en}", zh=f"，{spent.zh}")
    if finding.cost.steps_share is not None and finding.subject.steps is not None:
        (first, last), whole = finding.subject.steps, percent(finding.cost.share)
        told_ = Text(
            en=f" in steps {first} to {last}, {spent.en}, {whole} of the time of all steps",
            zh=f"（第 {first} 至 {last} 步），{spent.zh}，占全部步用时的 {whole}",
        )
    if finding.cost.is_bound:
        told_ = Text(en=f"; at most {spent.en} can be won", zh=f"；至多可省：{spent.zh}")
    asked = _asked(told)
    return Text(
        en=f"{told_.en}: {word.lowered(finding.title)}{bare[0]}{once[0]}{asked[0]}",
        zh=f"{told_.zh}：{finding.title}{bare[1]}{once[1]}{asked[1]}",
    )


def _asked(told: Told) -> tuple[str, str]:
    """That no cause was found and what would tell, in both languages; nothing where there is one."""
    brief = next((each.capture.brief for each in told.open if each.where_unexplained), None)
    if brief is None:
        return "", ""
    return f"; nothing recorded says why, and {brief.en} would", f"；已录数据没有说明原因，{brief.zh}可以"


def _mostly(told: Told) -> tuple[str, str]:
    """That most of a finding lies in one place, in both languages; nothing where it is spread."""
    if told.once is None:
        return "", ""
    step = told.once.step
    if step is None:
        return "; most of it once, so it may be start-up", "；其中大部分只出现一次，可能是启动开销"
    return f"; most of it in step {step} alone", f"；其中大部分只在第 {step} 步"


def _healthy(account: report.Accounting, num_rows: int, inputs: Sequence[report.Input]) -> Text:
    owner = word.whose(account, inputs) if num_rows > 1 else None
    spent = word.span_of(account, account.compute_ns, owner)
    least_of = ("at least ", "至少") if num_rows > 1 else ("", "")
    return Text(
        en=f": the device computes {least_of[0]}{spent.en}; no stall is worth removing, what is left is in "
        "the kernels",
        zh=f"：设备计算时间{least_of[1]}{spent.zh}；没有值得消除的停顿，余下的空间在 kernel 本身",
    )


def _worst_memory(told: Sequence[Told]) -> Told | None:
    """The gravest finding that costs no time but is more than a note."""
    grave = [each for each in told if each.finding.cost is None and each.finding.severity != "info"]
    return max(grave, key=lambda each: each.finding.severity == "critical", default=None)


def _with_memory(text: Text, told: Sequence[Told]) -> Text:
    """The answer about time, and what else must not be overlooked."""
    worst = _worst_memory(told)
    if worst is None:
        return text
    title = worst.finding.title
    return Text(en=f"{text.en}; but {word.lowered(title)}", zh=f"{text.zh}；但{title}")


def _memory_alone(told: Sequence[Told]) -> tuple[report.VerdictClass, Text, Row | None]:
    """The answer where only memory snapshots were given: of time nothing is known."""
    text = Text(
        en=": a memory snapshot holds no times of steps; for why they are slow, give a trace of the run too",
        zh="：显存快照不含每步的时间；要知道步为何慢，请同时给出该运行的 trace",
    )
    return "undecided", _with_memory(text, told), None


def _nothing_found(row: Observed, num_rows: int, inputs: Sequence[report.Input]) -> Text:
    """No cause reaches its threshold: what there is, of the row that computes least."""
    account = row.device.accounting
    largest = max(_STALLS, key=lambda part: part_ns(account, part))
    name = _with_culprit(word.part_of(account, largest), row, largest)
    share = percent(_share(account, largest))
    busy = percent(_share(account, "compute"))
    owner = word.whose(account, inputs) if num_rows > 1 else None
    who, here = ("", "") if owner is None else (f", {owner.en}", f"，{owner.zh}")
    if is_marked(row):
        return Text(
            en=f": by the marks of the loop no known cause reaches its threshold; {busy} of the time is "
            f"forward, "
            f"backward and optimizer, and what they spend it on only a trace tells; the largest other part "
            f"is "
            f"{share} ({name.en}{who})",
            zh=f"：据训练循环的标记，没有已知原因达到阈值；{busy} 的时间在前向、反向与优化器，"
            f"其内部去向须由 trace 说明；其余最大的部分为 {share}（{name.zh}{here}）",
        )
    if not has_device(row):
        return Text(
            en=": no accelerator work was recorded, and no known cause reaches its threshold; ops take "
            f"{busy} of the host's time, the largest other part is {share} ({name.en}{who})",
            zh=f"：没有录到加速器任务，且没有已知原因达到阈值；算子占主机 {busy} 的时间，"
            f"其余最大的部分为 {share}（{name.zh}{here}）",
        )
    return Text(
        en=f": no known cause reaches its threshold; the device computes for {busy} of the time, the "
        f"largest other part is {share} ({name.en}{who})",
        zh=f"：没有已知原因达到阈值；设备 {busy} 的时间在计算，其余最大的部分为 {share}（{name.zh}{here}）",
    )


def _no_wait(marked: Sequence[Row], traced: Row) -> Text:
    """The loop of the whole run waits for nothing, and no device was seen: what is left is inside its passes.

    Healthy it is not called: marks do not see what the passes wait for.
    """
    least = min(marked, key=lambda row: _share(row.account, "compute"))
    busy, num = percent(_share(least.account, "compute")), f"{least.account.num_steps:,}"
    ops = percent(_share(traced.account, "compute"))
    return Text(
        en=f": no wait of the loop was found; by the marks {busy} of the run's {num} steps is forward, "
        f"backward and optimizer, of the traced steps ops on the host take {ops}; no accelerator work was "
        "recorded, so what is left to win is inside the ops: record shapes (record_shapes=True) and compare "
        "the longest",
        zh=f"：未发现训练循环在等待；据标记，全部 {num} 步有 {busy} 的时间在前向、反向与优化器，"
        f"所录各步中主机算子占 {ops}；没有录到加速器任务，余下的空间在算子内部："
        "请录制形状（record_shapes=True）并比较耗时最长的算子",
    )


def _with_culprit(name: Text, row: Observed, part: str) -> Text:
    """The part's name, and who holds most of it where the analysis names somebody."""
    culprits = row.device.culprits.get(part.removeprefix("idle."), ())
    if not culprits:
        return name
    who = " ".join(culprits[0].name.split())[:80]
    in_zh = word.phase(who).zh if is_marked(row) else who
    in_zh = in_zh if in_zh != who else f" {who}"
    return Text(en=f"{name.en}; mostly in {who}", zh=f"{name.zh}，主要在{in_zh}")


def _share(row: report.Accounting, part: str) -> float:
    return part_ns(row, part) / row.total_ns if row.total_ns else 0.0
