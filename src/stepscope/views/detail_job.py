"""Why ranks cannot be compared, or only with doubt, in the reader's language; patterns as in `detail.py`."""

from __future__ import annotations

import re

from stepscope.model.text import Lang
from stepscope.views.chinese import in_chinese
from stepscope.views.detail_marks import MARKS

# `ranks 0-3, 8` as the join lists them: its commas are no ends of clauses.
_RANKS = r"(ranks? \d+(?:-\d+)?(?:, \d+(?:-\d+)?)*)"

JOB: tuple[tuple[str, str], ...] = (
    # diagnose/job.py: clocks and matching
    (
        rf"{_RANKS} shares? no synchronising collective with any other rank",
        r"\1 与其他 rank 没有共同的同步集合通信",
    ),
    (
        r"no collective joins (ranks? .+ with ranks? .+): nobody is late across them",
        r"没有集合通信连接 \1：其间无法比较谁落后",
    ),
    (
        r"ranks of these collectives were not given: one of those may be the late one",
        "这些集合通信的部分 rank 未给出：迟到的可能正是其中之一",
    ),
    (r"no synchronising collective was matched", "没有可对应的同步集合通信"),
    (r"matched collectives contradict causality", "对应的集合通信违反因果"),
    (
        r"the clocks say that (.+) came last, the durations of the collectives do not",
        r"按时钟 \1 最后到达，按集合通信的时长则不然",
    ),
    (
        r"ranks leave matched collectives up to (\S+ ms) before others enter them, whatever the clocks: "
        r"the matched calls are not the same collectives",
        r"无论时钟如何，有 rank 比其他 rank 进入早 \1 就离开了对应的集合通信：对应的调用并非同一集合通信",
    ),
    (
        r"clocks of ranks on one host differ by (\S+ ms) by their collectives: that one host has one clock "
        r"was not assumed",
        r"按集合通信，同一主机上各 rank 的时钟相差 \1：未假定同一主机只有一个时钟",
    ),
    # detect/peer.py
    (
        r"(\d+) of (\d+) ranks differ from the rest: with no majority nobody is ordinary",
        r"\2 个 rank 中有 \1 个与其余不同：没有多数，无从判断谁为正常",
    ),
    (
        r"of two ranks it shows only that one is slower than the other",
        "只有两个 rank，仅能看出一个比另一个慢",
    ),
    # diagnose/straggler.py
    (
        r"ranks come late by turns, each by as little or as much as the times of their hosts scatter",
        "各 rank 轮流落后，幅度与其主机自身用时的波动相当",
    ),
    # why work is uneven: the figures that decide
    (r"slowest worker against its stage ([\d.]+)", r"最慢 worker 与同 stage 之比 \1"),
    (r"variation of one worker's micro-batches ([\d.]+)", r"单个 worker 各 micro-batch 的变异系数 \1"),
    (r"correlation of forward and backward (-?[\d.]+)", r"前向与反向的相关系数 \1"),
    (r"heaviest stage against the others ([\d.]+)", r"最重 stage 与其余之比 \1"),
    (r"slowdown ([\d.]+)", r"放慢 \1"),
    (r"nobody is late beyond the noise", "没有 rank 的落后超出噪声"),
    (
        r"the late rank changes from step to step, each time with more to compute",
        "迟到的 rank 逐步变化，且每次计算量更大",
    ),
    (r"the late rank has more to compute before an all-to-all", "迟到的 rank 在 all-to-all 之前计算量更大"),
    (r"the late rank has no more to compute than its peers", "迟到的 rank 计算量并不比同伴大"),
    (r"ranks are late, and why is not known", "有 rank 迟到，原因未知"),
    (
        r"it is not the same rank in all steps, or too few steps tell",
        "并非各步都是同一个 rank，或步数太少不足以判断",
    ),
    (r"the same rank always has more to compute than its peers", "始终是同一个 rank 的计算量比同伴大"),
    (
        r"all ranks of stage (\d+) compute ([\d.]+) times as long as the other stages, in (\d+) steps",
        r"在 \3 步中，第 \1 stage 的所有 rank 计算时间是其他 stage 的 \2 倍",
    ),
    (
        r"of ranks with several devices only the one that communicates most is compared: (?:ranks? )?(.+)",
        r"有多个设备的 rank 只比较通信最多的那个设备：rank \1",
    ),
    # analyse/replay: why nothing is predicted
    (
        r"what the device waited for is not known: the accounting withholds its causes too",
        "设备在等什么未知：核算也不给出其原因",
    ),
    (
        r"for (\d+) % of the time the device waited for what was not recorded",
        r"\1 % 的时间里设备等待的内容未被记录",
    ),
    (r"the untouched replay misses a step by (\d+) %", r"未改动的重放与某步相差 \1 %"),
    (r"(\d+) transfers end before their peer begins", r"\1 次传输在对端开始之前结束"),
)
"""Sentences about ranks together and their Chinese."""


def job_why(why: str, lang: Lang) -> str:
    """Why a number about several ranks is withheld or doubtful; what is in no table stays as written."""
    if lang == "en":
        return why
    return _with(in_chinese(why, (*JOB, *MARKS)))


_LISTED = re.compile(r"ranks? [\d\-, ]+\d(?: with ranks? [\d\-, ]+\d)*")


def _with(text: str) -> str:
    return _LISTED.sub(
        lambda found: found[0].replace("ranks ", "rank ").replace(" with ", " 与 ").replace(", ", "、"), text
    )
