"""Sentences of a comparison, in both languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepscope.analyse.compare.likeness import Unlike
from stepscope.diagnose.word import PART
from stepscope.model.comparison import (
    Basis,
    ComparedClass,
    Measure,
    NoiseSource,
    NotComparable,
    PartChange,
    StepTime,
)
from stepscope.model.text import Text, duration, percent

CLASS: Mapping[ComparedClass, Text] = {
    "better": Text(en="Better", zh="更快"),
    "worse": Text(en="Worse", zh="更慢"),
    "same": Text(en="The same", zh="没有变化"),
    "unknown": Text(en="Cannot be told", zh="无法判断"),
}
BASIS: Mapping[Basis, Text] = {
    "step": Text(en="a step", zh="每步"),
    "token": Text(en="a token", zh="每个 token"),
    "sample": Text(en="a sample", zh="每个样本"),
}
MEASURE: Mapping[Measure, Text] = {
    "median": Text(en="median", zh="中位"),
    "mean": Text(en="mean", zh="平均"),
}
SOURCE: Mapping[NoiseSource, Text] = {
    "both": Text(en="noise of both sides' own steps", zh="噪声取自双方各自的步"),
    "base": Text(
        en="noise of the base alone: the new side has under three steps",
        zh="噪声只取自基准：新的一方不足三步",
    ),
    "new": Text(
        en="noise of the new side alone: the base has under three steps",
        zh="噪声只取自新的一方：基准不足三步",
    ),
    "history": Text(
        en="noise of earlier windows of the job, which differ by more than its steps do",
        zh="噪声取自该作业更早的窗口：窗口之间的差异大于步之间的差异",
    ),
}
FEW: Mapping[NoiseSource, tuple[str, str]] = {
    "base": ("the new side has", "新的一方"), "new": ("the base has", "基准"),
}  # fmt: skip
"""Which side has too few steps, by whose noise alone is known."""
LEAST_PART = 0.01
"""Of the base's step: a part that changed by less is not named in the answer."""


def signed(share: float) -> str:
    """A share with its sign: `+3.1 %`, `−22.7 %`."""
    if abs(share) < 0.0005:
        return "0.0 %"
    return f"{'+' if share > 0 else '−'}{percent(abs(share))}"


def signed_duration(ns: float) -> str:
    """A duration with its sign."""
    return f"{'+' if ns > 0 else '−' if ns < 0 else ''}{duration(abs(ns))}"


def noise_of(time: StepTime) -> str | None:
    """Half the interval, as `±1.2 %`; `None` where it is not known."""
    if time.low is None or time.high is None:
        return None
    return f"±{percent((time.high - time.low) / 2)}"


def part_name(part: str) -> Text:
    """What a part of the accounting is called."""
    if part in PART:
        return PART[part]
    kind = part.removeprefix("compute.")
    return Text(en=f"computing: {kind}", zh=f"计算：{kind}")


def sentence(
    class_: ComparedClass,
    time: StepTime | None,
    obstacles: Sequence[NotComparable],
    parts: Sequence[PartChange],
    is_same_input: bool,
) -> Text:
    """The one-line answer."""
    head = CLASS[class_]
    if is_same_input:
        return Text(en=f"{head.en}: both sides are the same recording.", zh=f"{head.zh}：两边是同一份录制。")
    if obstacles:
        first = obstacles[0].text.rstrip(".。")
        return Text(en=f"Not comparable: {first}.", zh=f"不可比较：{first}。")
    if time is None:
        return Text(en=f"{head.en}: a side has no whole step.", zh=f"{head.zh}：有一边没有完整的步。")
    basis, noise = BASIS[time.basis], noise_of(time)
    en = f"{duration(time.base_ns)} → {duration(time.new_ns)} {basis.en}"
    zh = f"{basis.zh} {duration(time.base_ns)} → {duration(time.new_ns)}"
    around = (f", noise {noise}", f"，噪声 {noise}") if noise else ("", "")
    if class_ in ("better", "worse"):
        largest = _largest(class_, parts)
        much, what = percent(abs(time.share)), ("less", "减少") if class_ == "better" else ("more", "增加")
        which = ("", "") if time.measure == "median" else ("the mean ", "平均")
        subject = basis.en if not which[0] else f"{which[0]}{basis.en.removeprefix('a ')}"
        more = ("", "")
        if largest is not None:
            name, by = part_name(largest.part), signed_duration(largest.difference_ns)
            more = (f"; most of it: {name.en} {by}", f"；主要在{name.zh} {by}")
        return Text(
            en=f"{head.en}: {subject} takes {much} {what[0]} time ({en}{around[0]}){more[0]}.",
            zh=f"{head.zh}：{which[1]}时间{what[1]} {much}（{zh}{around[1]}）{more[1]}。",
        )
    change = signed(time.share)
    if class_ == "same":
        return Text(en=f"{head.en}: {en}, {change}{around[0]}.", zh=f"{head.zh}：{zh}，{change}{around[1]}。")
    if noise is None or time.source in ("base", "new"):
        few, few_zh = FEW.get(time.source or "both", ("both sides have", "双方"))
        return Text(
            en=f"{head.en}: {en}, {change}, but {few} under three steps.",
            zh=f"{head.zh}：{zh}，{change}，但{few_zh}不足三步。",
        )
    return Text(
        en=f"{head.en}: {en}, {change}, which noise of {noise} may hide or make.",
        zh=f"{head.zh}：{zh}，{change}，而 {noise} 的噪声足以掩盖或造成它。",
    )


def _largest(class_: ComparedClass, parts: Sequence[PartChange]) -> PartChange | None:
    """The part that changed most in the verdict's direction."""
    sign = 1 if class_ == "worse" else -1
    mine = [p for p in parts if p.difference_ns * sign > 0 and not p.part.startswith("compute.")]
    return mine[0] if mine and abs(mine[0].share) >= LEAST_PART else None


def why(
    times: Sequence[StepTime], by: Measure | None, obstacles: Sequence[NotComparable], is_same_input: bool
) -> Text:
    """By what it was judged, with the numbers."""
    if is_same_input:
        return Text(en="the digests of all inputs are equal", zh="所有输入的摘要相同")
    if obstacles:
        return Text(
            en="; ".join(each.mend for each in obstacles), zh="；".join(each.mend for each in obstacles)
        )
    time = next((each for each in times if each.measure == (by or "median")), None)
    if time is None or time.low is None or time.high is None or time.source in ("base", "new"):
        return Text(
            en="one or two steps may be the first or the last ones, or hold a pause: record three or more on "
            "each side, about 60 to find 5 %",
            zh="一两步可能是最初或最后的步，也可能含有停顿：每边请录制至少三步，发现 5 % 的变化约需 60 步",
        )
    span = f"{signed(time.low)} … {signed(time.high)}"
    worth = " / ".join(f"{each:.0f}" for each in time.num_independent or ())
    source = SOURCE[time.source or "both"]
    return Text(
        en=f"{MEASURE[time.measure].en} step, 95 % interval {span} from blocks of neighbouring steps drawn "
        f"again (worth {worth} independent steps); {source.en}; a change is outside of the noise and at "
        "least 2 %",
        zh=f"{MEASURE[time.measure].zh}步时，对相邻步分块重抽样，95 % 区间 {span}"
        f"（相当于 {worth} 个独立的步）；{source.zh}；超出噪声且不小于 2 % 才算变化",
    )


def obstacle(each: Unlike) -> tuple[Text, Text]:
    """The reason, and what would make the sides comparable."""
    base, new = each.base or "?", each.new or "?"
    if each.what == "device":
        return (
            Text(en=f"the devices differ, {base} against {new}", zh=f"设备不同：{base} 与 {new}"),
            Text(en="record both on one device model", zh="在同一型号的设备上录制两边"),
        )
    if each.what == "world_size":
        return (
            Text(
                en=f"the number of ranks differs, {base} against {new}",
                zh=f"作业的 rank 数不同：{base} 与 {new}",
            ),
            Text(en="record both with as many ranks", zh="用相同的 rank 数录制两边"),
        )
    if each.what == "no_steps":
        return (
            Text(en=f"whole steps: {base} against {new}", zh=f"完整的步：{base} 与 {new}"),
            Text(
                en="record whole steps: call profiler.step(), or mark steps with the SDK",
                zh="录制完整的步：调用 profiler.step()，或用 SDK 标记步",
            ),
        )
    mend = Text(
        en="give runs of the same model and batch, or log tokens or samples per second to compare by these",
        zh="请给出同一模型、同一批大小的运行，或记录每秒 token 数或样本数以便按其比较",
    )
    reasons = {
        "flops": Text(
            en=f"a step is other work, {base} against {new} on each rank",
            zh=f"每步的计算量不同：每个 rank {base} 与 {new}",
        ),
        "calls": Text(
            en=f"a step is other work, {base} against {new} calls of matrix work",
            zh=f"每步的计算不同：矩阵运算 {base} 次与 {new} 次",
        ),
    }
    other = Text(
        en=f"the ops are others: only {base} and {new} of the device time is in ops that both have",
        zh=f"算子不同：双方共有的算子只占设备时间的 {base} 和 {new}",
    )
    return reasons.get(each.reason, other), mend
