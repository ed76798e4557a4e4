"""The one-line answer: the class of the largest finding of at least 5 %, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepscope.analyse.features import has_device, part_ns
from stepscope.diagnose import word
from stepscope.model import report
from stepscope.model.feature import Observed
from stepscope.model.text import Lang, Text, percent
from stepscope.rules import Catalog

LEAST_SHARE = 0.05
"""A finding below this share of the step is no answer to why the step is slow."""

_STALLS = ("communication_exposed", "copy_exposed", *(f"idle.{cause}" for cause in report.IDLE_CAUSES))


def verdict(
    health: report.Health,
    observed: Sequence[Observed],
    findings: Sequence[report.Finding],
    about: Mapping[str, Observed],
    catalog: Catalog,
    lang: Lang,
    inputs: Sequence[report.Input] = (),
    places: Mapping[int, int] | None = None,
) -> report.Verdict:
    """The answer over all devices; `findings` in their final order, `about` their devices by id.

    `inputs` name the files, `places` are those of the devices' rows in the report, by the identity of what
    was observed.
    """
    class_, text, row = _answer(health, observed, findings, about, catalog, inputs)
    label = word.VERDICT[class_]
    sentence = Text(en=f"{label.en}{text.en}.", zh=f"{label.zh}{text.zh}。")
    place = None if row is None else (places or {}).get(id(row))
    return report.Verdict(class_=class_, text=sentence.in_(lang), row=place)


def _answer(
    health: report.Health,
    observed: Sequence[Observed],
    findings: Sequence[report.Finding],
    about: Mapping[str, Observed],
    catalog: Catalog,
    inputs: Sequence[report.Input],
) -> tuple[report.VerdictClass, Text, Observed | None]:
    """The class, what follows its name, and the device that the sentence speaks of."""
    if health.verdict == "unusable" or not observed:
        return (
            "undecided",
            Text(
                en=": the inputs hold no timed work, so nothing can be said of any step",
                zh="：输入中没有带时间的任务，无法对任何一步作出判断",
            ),
            None,
        )
    seen = [row for row in observed if has_device(row)]
    if not seen and not any(row.rank.accelerator == "cpu" for row in observed):
        return (
            "undecided",
            Text(
                en=": no device activity was recorded, so nothing can be said of the device; record with the "
                "profiler's device activity",
                zh="：没有录到设备活动，无法对设备作出判断；请在录制时打开设备活动",
            ),
            observed[0],
        )
    worst = next(
        (f for f in findings if f.explained_by is None and f.cost and f.cost.share >= LEAST_SHARE), None
    )
    withheld = [row for row in seen if row.device.accounting.status == "withheld"]
    # Of unrecorded work its rule says more than that causes are withheld.
    is_told = worst is not None and catalog[worst.rule].verdict == "undecided"
    for row in () if is_told else withheld:
        account = row.device.accounting
        idle = account.idle_ns / account.total_ns if account.total_ns else 0.0
        if idle >= LEAST_SHARE and (worst is None or worst.cost is None or idle > worst.cost.share):
            spent = word.span_of(account, account.idle_ns, word.whose(account, inputs))
            return (
                "undecided",
                Text(
                    en=f": the device is idle for {spent.en}, and why is withheld: the data cannot tell",
                    zh=f"：设备空闲{spent.zh}，原因不予给出：数据不足以判断",
                ),
                row,
            )
    if worst is not None and worst.cost is not None:
        row = about[worst.id]
        return catalog[worst.rule].verdict, _of_finding(worst, row, inputs), row
    least = min(seen or observed, key=lambda row: _share(row.device.accounting, "compute"))
    if seen and not withheld and len(_fired(findings, catalog, "healthy")) == len(seen):
        return "healthy", _healthy(least, len(seen), inputs), least
    return "undecided", _nothing_found(least, len(seen or observed), inputs), least


def _of_finding(finding: report.Finding, row: Observed, inputs: Sequence[report.Input]) -> Text:
    """The finding's title with its time. The title is in the report's language, so both sides carry it."""
    assert finding.cost is not None
    account = row.device.accounting
    spent = word.span_of(account, finding.cost.time_ns, word.whose(account, inputs))
    bare = ("", "") if has_device(row) else ("; no accelerator work was recorded", "；没有录到加速器任务")
    return Text(
        en=f", {spent.en}: {word.lowered(finding.title)}{bare[0]}",
        zh=f"，{spent.zh}：{finding.title}{bare[1]}",
    )


def _fired(
    findings: Sequence[report.Finding], catalog: Catalog, class_: report.VerdictClass
) -> list[report.Finding]:
    return [finding for finding in findings if catalog[finding.rule].verdict == class_]


def _healthy(least: Observed, num_rows: int, inputs: Sequence[report.Input]) -> Text:
    account = least.device.accounting
    owner = word.whose(account, inputs) if num_rows > 1 else None
    spent = word.span_of(account, account.compute_ns, owner)
    least_of = ("at least ", "至少") if num_rows > 1 else ("", "")
    return Text(
        en=f": the device computes {least_of[0]}{spent.en}; no stall is worth removing, what is left is in "
        "the kernels",
        zh=f"：设备计算时间{least_of[1]}{spent.zh}；没有值得消除的停顿，余下的空间在 kernel 本身",
    )


def _nothing_found(row: Observed, num_rows: int, inputs: Sequence[report.Input]) -> Text:
    """No cause reaches its threshold: what there is, of the row that computes least."""
    account = row.device.accounting
    largest = max(_STALLS, key=lambda part: part_ns(account, part))
    name = _with_culprit(word.part_of(account, largest), row, largest)
    share = percent(_share(account, largest))
    busy = percent(_share(account, "compute"))
    owner = word.whose(account, inputs) if num_rows > 1 else None
    who, here = ("", "") if owner is None else (f", {owner.en}", f"，{owner.zh}")
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


def _with_culprit(name: Text, row: Observed, part: str) -> Text:
    """The part's name, and who holds most of it where the analysis names somebody."""
    culprits = row.device.culprits.get(part.removeprefix("idle."), ())
    if not culprits:
        return name
    who = " ".join(culprits[0].name.split())[:80]
    return Text(en=f"{name.en}; mostly in {who}", zh=f"{name.zh}，主要在 {who}")


def _share(row: report.Accounting, part: str) -> float:
    return part_ns(row, part) / row.total_ns if row.total_ns else 0.0
