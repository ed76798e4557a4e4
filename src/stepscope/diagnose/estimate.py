"""The memory estimate in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stepscope.analyse.memory.estimate import Training, estimate, stage_of
from stepscope.analyse.telemetry.capacity import memory_bytes_of
from stepscope.diagnose.row import Row
from stepscope.model import report
from stepscope.model.analysis import RankAnalysis
from stepscope.model.text import Lang, Text, percent

MOST_DEVICES = 16
"""Devices that the estimate is held against: those of one job are alike."""


def estimates(
    training: Training | None,
    rows: Sequence[Row],
    collectives: Sequence[report.Collective] | None,
    analyses: Sequence[RankAnalysis],
) -> tuple[report.MemoryEstimate, ...]:
    """The estimate beside the memory that each device uses, alone where none was measured; empty untold."""
    if training is None:
        return ()
    if training.stage is None:
        told = collectives or [row for analysis in analyses for row in analysis.collectives]
        world = max((a.world_size for a in analyses if a.world_size is not None), default=1)
        training = replace(training, stage=stage_of(told) or 0, num_shards=max(training.num_shards, world))
    measured = [row for row in rows if "memory_used_bytes_max" in row.observed.device.numbers]
    found = []
    for row in measured[:MOST_DEVICES]:
        numbers, device = row.observed.device.numbers, row.account.device
        used = round(numbers["memory_used_bytes_max"])
        share = numbers.get("memory_used_share")
        present = round(used / share) if share else memory_bytes_of(device.name)
        found.append(estimate(training, device, row.observed.rank.rank, used, present))
    return tuple(found) or (estimate(training),)


def gigabytes(num_bytes: int) -> str:
    """Bytes in powers of 1000: parameters are counted so, and products of them stay round (`16 GB`)."""
    return f"{num_bytes / 1e9:,.3g} GB" if num_bytes < 999.5e9 else f"{num_bytes / 1e9:,.0f} GB"


def estimated(row: report.MemoryEstimate, lang: Lang) -> str:
    """What is needed, what a card holds of it, and what of the memory in use it leaves open."""
    each = row.states_bytes / row.num_parameters
    count = f"{row.num_parameters / 1e9:,.3g}"
    division = _division(row)
    whole = Text(
        en=f"{count} billion parameters at {each:.3g} bytes: {gigabytes(row.states_bytes)} of weights "
        f"({gigabytes(row.weights_bytes)}), gradients ({gigabytes(row.gradients_bytes)}) and optimizer "
        f"states ({gigabytes(row.optimizer_bytes)}), {gigabytes(row.per_device_bytes)} a card{division.en}.",
        zh=f"{count} × 10⁹ 个参数，每个 {each:.3g} 字节：共 {gigabytes(row.states_bytes)}，其中权重 "
        f"{gigabytes(row.weights_bytes)}、梯度 {gigabytes(row.gradients_bytes)}、优化器状态 "
        f"{gigabytes(row.optimizer_bytes)}；每卡 {gigabytes(row.per_device_bytes)}{division.zh}。",
    )
    told = _beside(row)
    if told is None:
        return whole.in_(lang)
    return f"{whole.en} {told.en}" if lang == "en" else whole.zh + told.zh


def _division(row: report.MemoryEstimate) -> Text:
    if row.num_shards * row.num_slices == 1 or (row.stage == 0 and row.num_slices == 1):
        return Text(en=" (not divided)", zh="（未切分）")
    what = {
        0: Text(en="nothing", zh="无"),
        1: Text(en="optimizer states", zh="优化器状态"),
        2: Text(en="optimizer states and gradients", zh="优化器状态与梯度"),
        3: Text(en="all", zh="全部"),
    }[row.stage]
    parts_en, parts_zh = [], []
    if row.stage and row.num_shards > 1:
        parts_en.append(f"{what.en} sharded over {row.num_shards}")
        parts_zh.append(f"{what.zh}切分到 {row.num_shards} 个 rank")
    if row.num_slices > 1:
        parts_en.append(f"all sliced by {row.num_slices}")
        parts_zh.append(f"模型并行切成 {row.num_slices} 份")
    return Text(en=f" ({', '.join(parts_en)})", zh=f"（{'，'.join(parts_zh)}）")


def _beside(row: report.MemoryEstimate) -> Text | None:
    if row.used_bytes is None:
        if row.present_bytes is not None and row.per_device_bytes > row.present_bytes:
            return Text(
                en=f"A card has {gigabytes(row.present_bytes)}: they do not fit.",
                zh=f"每卡只有 {gigabytes(row.present_bytes)}：放不下。",
            )
        return None
    if row.least_division is not None:
        return Text(
            en=f"In use are {gigabytes(row.used_bytes)}, less than that: the states are divided by "
            f"{row.least_division} at least, or take fewer bytes.",
            zh=f"实际只用了 {gigabytes(row.used_bytes)}，少于估计：状态至少被切成 {row.least_division} 份，"
            "或每个参数的字节数更少。",
        )
    left = row.unexplained_bytes or 0
    share = percent(left / row.used_bytes) if row.used_bytes else "0 %"
    return Text(
        en=f"In use are {gigabytes(row.used_bytes)}: {gigabytes(left)} ({share}) are activations, the "
        "framework's cache and its fragments, buffers and contexts.",
        zh=f"实际使用 {gigabytes(row.used_bytes)}：其余 {gigabytes(left)}（{share}）为激活、框架缓存及碎片、"
        "缓冲区与上下文。",
    )
