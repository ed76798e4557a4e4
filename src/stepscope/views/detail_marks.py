"""What is written in English of marks, in Chinese: what happened, what is withheld, and between which phases.

What the loop itself called a phase stays as it is.
"""

from __future__ import annotations

import re

from stepscope.diagnose.word import phase
from stepscope.model.text import Lang
from stepscope.views.chinese import in_chinese

MARKS: tuple[tuple[str, str], ...] = (
    # analyse/marked/rank.py: what is withheld, and what would settle it
    (
        r"marks tell of the training loop alone: kernels and what a device did meanwhile are not in them",
        "标记只反映训练循环本身：其中没有 kernel，也没有设备在此期间的活动",
    ),
    (
        r"a trace of a few steps \(stepscope takes one on request, or torch\.profiler\)",
        "几步的 trace（可由 stepscope 按需录制，或用 torch.profiler）",
    ),
    (
        r"no phase is marked in which the ranks meet \(backward of a data-parallel model, a collective\)",
        "没有标记各 rank 会合的阶段（数据并行的反向，或集合通信）",
    ),
    (
        r"ranks are held against each other over their last ([\d,]+) of ([\d,]+) steps only",
        r"各 rank 只在 \2 步中的最后 \1 步上相互比较",
    ),
    (r"a range of steps \(--steps FIRST:LAST\)", "指定步范围（--steps FIRST:LAST）"),
    (r"no two ranks have a meeting of the same step and order", "没有两个 rank 在同一步、同一次序上会合"),
    (
        r"in (\d+) % of the phases that are marked as meetings a rank leaves before the last one comes: the "
        r"host does not wait there",
        r"在标记为会合的阶段中，有 \1 % 在最后一个 rank 到达之前就有 rank 离开：主机并不在那里等待",
    ),
    # analyse/rank.py, analyse/use.py: light captures
    (
        r"a light capture records device activity alone: why the device idled is not in it",
        "轻量采集只录制设备活动：其中没有设备空闲的原因",
    ),
    # analyse/marked/rank.py: issues
    (
        r"([\d,]+) marks were overwritten before they were read: their steps are missing",
        r"\1 个标记在读取之前已被覆盖：缺少相应的步",
    ),
    (
        r"([\d,]+) marks have no partner \(an end without its beginning, or the reverse\) and are left out",
        r"\1 个标记没有配对（有结束而无开始，或相反），不计入",
    ),
    (
        r"the wall clock was set, by up to (\S+ s)",
        r"系统时钟被调整，最多 \1",
    ),
    (r"times here follow the monotonic clock", "此处的时间以单调时钟为准"),
    (
        r"the loop's step numbers go back or repeat; here they are counted on",
        "循环的步号出现回退或重复；此处连续计数",
    ),
    (r"(\d+) steps of a capture, which held the loop up for (\S+ ms): they are not counted",
     r"\1 步属于采集，共阻塞循环 \2：不计入"),
    (r"(\d+) steps of a capture: they are not counted", r"\1 步属于采集：不计入"),
    # analyse/marked/log.py: what happened
    (r"the process began to mark", "进程开始标记"),
    (r"a full capture", "一次完整采集"),
    (r"a light capture", "一次轻量采集"),
    (r"it held the loop up for (\S+ ms)", r"阻塞循环 \1"),
    (r"the process ended", "进程已结束"),
    (r"the process ended by an error", "进程因错误结束"),
)  # fmt: skip
"""Sentences about marks and their Chinese."""
_DURING = re.compile(r"(?P<phase>\S+) (?P<how>begins|ends)")
_HOW = {"begins": "开始", "ends": "结束"}
_STATE = (
    (r"the process lives", "进程仍在运行"),
    (r"the process ended by an error", "进程因错误结束"),
    (r"the process ended", "进程已结束"),
    (r"the process is gone and never said that it ends", "进程已不在，且未表示结束"),
)
_WHERE = re.compile(
    r"(?: in (?P<phase>.+?) of step (?P<of>\d+)| in step (?P<step>\d+)| in (?P<only>.+?)"
    r"| after step (?P<after>\d+)| before its first step)?(?P<end> ?: it was (?:killed|interrupted))?"
)
_LABELS = {
    "between steps": "两步之间",
    "before forward": "前向之前",
    "in no phase": "不在任何阶段内",
    "waiting for peers": "等待其他 rank",
}


def marks_text(text: str, lang: Lang) -> str:
    """A sentence about marks in the reader's language; what is in no table stays as written."""
    if lang == "en":
        return text
    during = _DURING.fullmatch(text)
    if during is not None:
        return f"{phase(during['phase']).zh}{_HOW[during['how']]}"
    for begin, told in _STATE:
        if text.startswith(begin) and (where := _WHERE.fullmatch(text[len(begin) :])) is not None:
            how = where["end"]
            by = "" if how is None else "：被终止" if how.endswith("killed") else "：被中断"
            return f"{told}{_where(where)}{by}"
    return in_chinese(text, MARKS)


def _where(found: re.Match[str]) -> str:
    if found["of"] is not None:
        return f"，在第 {found['of']} 步的{phase(found['phase']).zh}"
    if found["step"] is not None:
        return f"，在第 {found['step']} 步"
    if found["only"] is not None:
        return f"，在{phase(found['only']).zh}"
    if found["after"] is not None:
        return f"，在第 {found['after']} 步之后"
    return "，在首步之前" if "before its first step" in found[0] else ""


def marked_name(name: str, lang: Lang, *, is_marked: bool) -> str:
    """What ran meanwhile in the reader's language: of marks a phase, or between which phases it lay."""
    if lang == "en":
        return name
    if name in _LABELS:
        return _LABELS[name]
    last = name.removeprefix("after ")
    if last != name and phase(last).zh != last:
        return f"{phase(last).zh}之后"
    return phase(name).zh if is_marked else name
