"""Lines on a console: harmless, wrapped under their indent, and in the terminal's own encoding."""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.text import Text as Styled

from stepscope.model.text import Lang
from stepscope.views.shape import harmless

_ASCII = str.maketrans(
    {
        "…": "...",
        "–": "-",
        "—": "-",
        "µ": "u",
        "×": "x",
        "’": "'",
        "“": '"',
        "”": '"',
        "≥": ">=",
        "≤": "<=",
        "±": "+-",
    }
    | {"−": "-", "→": "->", "·": ".", **{block: str(n) for n, block in enumerate("▁▂▃▄▅▆▇█", 1)}}
)


# A wide character stands alone, everything else sticks together up to the next space or wide character.
_PIECE = re.compile(
    r"\s+|[\u2e80-\u9fff\uff00-\uffef\u3000-\u303f]|[^\s\u2e80-\u9fff\uff00-\uffef\u3000-\u303f]+"
)
_NEVER_FIRST = set("，。：；、！？）」』》”’")


def wrapped(text: str, width: int) -> list[str]:
    """A text in lines of at most `width` cells. Chinese breaks between characters, not only at spaces."""
    lines: list[str] = []
    line: list[str] = []
    for piece in _PIECE.findall(text):
        if cell_len("".join([*line, piece])) > width:
            # What may not begin a line takes the character before it along.
            kept = len(line)
            while kept > 1 and piece in _NEVER_FIRST and (kept == len(line) or line[kept] in _NEVER_FIRST):
                kept -= 1
            if "".join(line[:kept]).strip():
                lines.append("".join(line[:kept]).rstrip())
            line = line[kept:]
            piece = piece.lstrip() if not line else piece
        while cell_len(piece) > width:
            lines.append(piece[:width])
            piece = piece[width:]
        line.append(piece)
    return [*lines, "".join(line).rstrip()] if "".join(line).strip() or not lines else lines


def _can_say(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


class Page:
    """Where a report is printed. A terminal that is not Unicode gets what its encoding can say."""

    def __init__(self, console: Console, lang: Lang) -> None:
        self.console = console
        self.lang = lang
        encoding = console.encoding or "ascii"
        self._encoding = None if encoding.lower().replace("-", "").startswith("utf") else encoding
        if lang == "zh" and self._encoding is not None and not _can_say("中文", encoding):
            self.line(
                f"This terminal's encoding ({encoding}) has no Chinese: set PYTHONIOENCODING=utf-8", "red"
            )

    @property
    def width(self) -> int:
        """Columns of the console."""
        return self.console.width

    def text(self, text: str, style: str = "") -> Styled:
        """A string of ours or of an input as rich text: never markup, never an escape sequence."""
        text = harmless(text)
        if self._encoding is not None:
            text = text.translate(_ASCII).encode(self._encoding, "replace").decode(self._encoding)
        return Styled(text, style, overflow="fold")

    def line(self, text: str, style: str = "", *, indent: int = 0) -> None:
        """One line, wrapped under its indent."""
        for piece in wrapped(self.text(text).plain, max(20, self.width - indent)):
            self.console.print(Styled(" " * indent + piece, style), soft_wrap=True)

    def verbatim(self, text: str, style: str = "", *, indent: int = 0) -> None:
        """A line of code: never broken by us, so that it can be copied whole."""
        self.console.print(self.text(" " * indent + text, style), soft_wrap=True)

    def command(self, label: str, command: str) -> None:
        """A command on a line of its own, never wrapped by us, so that it can be copied whole."""
        self.console.print(self.text(label, "bold"), end="", soft_wrap=True)
        self.console.print(self.text(command, "bold"), soft_wrap=True)

    def put(self, renderable: RenderableType) -> None:
        """Anything rich can draw, made of `text`."""
        self.console.print(renderable)

    def gap(self) -> None:
        """An empty line."""
        self.console.print()
