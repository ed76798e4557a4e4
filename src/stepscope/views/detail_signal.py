"""What is written in English of telemetry, of patterns and walks, in Chinese: patterns over the English text.

What the diagnosis wrote in the reader's language already, and what is in no row, stays as it was written.
"""

from __future__ import annotations

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
)
"""Sentences about telemetry and their Chinese."""


def signal_text(text: str, lang: Lang) -> str:
    """A sentence about telemetry in the reader's language; what is in no table stays as written."""
    return text if lang == "en" else in_chinese(text, SIGNAL_TEXT)
