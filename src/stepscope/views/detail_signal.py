"""What is written in English of telemetry, of patterns and walks, in Chinese: patterns over the English text.

What the diagnosis wrote in the reader's language already, and what is in no row, stays as it was written.
"""

from __future__ import annotations

import re

from stepscope.model.text import Lang
from stepscope.views.chinese import in_chinese

SIGNAL_TEXT: tuple[tuple[str, str], ...] = (
    # the four patterns of the specification
    (r"compute-bound", "计算受限"),
    (r"memory-bound", "显存带宽受限"),
    (r"communication jitter", "通信抖动"),
    (r"input", "输入"),
    # where its ordered walks begin
    (r"low utilisation", "利用率低"),
    (r"busy but low power", "忙碌但功耗低"),
    (r"the six causes in order", "按顺序排查六类原因"),
    # align/representative.py: whether the window is like the rest of the run
    (r"As in the rest of the run: (.+) and (\d+) more\.", r"与运行的其余部分一致：\1 等另有 \2 项"),
    (r"As in the rest of the run: (.+)\.", r"与运行的其余部分一致：\1"),
    (
        r"([^;]+?) ([\d.,]+%?(?: \S+)?) in the window, ([\d.,]+%?(?: \S+)?) in the rest\.?",
        r"\1 窗口内为 \2、其余为 \3",
    ),
    (r"No signal that tells a run's level\.", "没有能反映运行水平的信号"),
    (r"(\d+) readings lie in the window; (\d+) are needed\.", r"窗口内只有 \1 个读数，需要 \2 个"),
    (
        r"(\d+) windows of equal length lie outside; (\d+) are needed\.",
        r"窗口外只有 \1 个等长窗口，需要 \2 个",
    ),
)
"""Sentences about telemetry and their Chinese."""


_LIST = re.compile(r"一致：[^；]+")
"""Where a Chinese sentence holds a list that was written with English commas."""


def signal_text(text: str, lang: Lang) -> str:
    """A sentence about telemetry in the reader's language; what is in no table stays as written."""
    if lang == "en":
        return text
    told = in_chinese(text, SIGNAL_TEXT)
    return told if told == text else _LIST.sub(lambda found: found[0].replace(", ", "、"), told)
