"""Pickles of plain data, read by a machine of our own that cannot call anything.

A pickle is a program for a stack machine. Python's own reader looks up and calls what the program names, and
grows its memo to any index that the program asks for: neither can be switched off, only replaced. This one
knows None, booleans, numbers, text, bytes, lists, tuples and dictionaries with text as keys; an opcode that
would look up, call, build or fetch anything else is refused before anything is looked up. Protocols 0 to 5.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from stepscope.sources.formats.pickle_machine import (
    BrokenPickle,
    HostilePickle,
    Limits,
    Machine,
    Plain,
)

__all__ = ["OPCODES", "REFUSED", "BrokenPickle", "HostilePickle", "Limits", "is_pickle", "loads"]

REFUSED: Mapping[int, str] = {
    ord("c"): "look up a name",
    ord("\x93"): "look up a name",
    ord("i"): "look up and call a name",
    ord("R"): "call a function",
    ord("o"): "make an object",
    ord("\x81"): "make an object",
    ord("\x92"): "make an object",
    ord("b"): "set an object's state",
    ord("P"): "fetch a persistent object",
    ord("Q"): "fetch a persistent object",
    ord("\x82"): "use a registered extension",
    ord("\x83"): "use a registered extension",
    ord("\x84"): "use a registered extension",
    ord("\x97"): "use a buffer from outside",
    ord("\x98"): "use a buffer from outside",
    ord("\x8f"): "make a set",
    ord("\x90"): "make a set",
    ord("\x91"): "make a set",
    ord("\x96"): "make a bytearray",
}
"""Opcodes that plain data never has, and what they ask for."""


def is_pickle(start: bytes) -> bool:
    """Whether a file that begins so is a pickle of protocol 2 or later, by its first two bytes."""
    return len(start) >= 2 and start[0] == 0x80 and 2 <= start[1] <= 5


def loads(data: bytes, limits: Limits | None = None) -> Plain:
    """The value of a pickle. Raises HostilePickle or BrokenPickle; nothing is ever looked up or called."""
    return Machine(data, limits or Limits()).run(OPCODES, REFUSED)


# ── opcodes ──────────────────────────────────────────────────────────────────────────────────────────────


def _proto(m: Machine) -> None:
    version = m.count(1)
    if version > 5:
        raise m.broken(f"is of protocol {version}, 0 to 5 are known")


def _frame(m: Machine) -> None:
    """A frame only groups bytes: that it is whole is all that is asked."""
    if m.count(8) > len(m.data) - m.at:
        raise m.broken("breaks off within a frame")


def _int_text(m: Machine) -> None:
    text = m.digits()
    if text in (b"00", b"01"):
        return m.push(text == b"01")
    return m.push(_whole(m, text))


def _long_text(m: Machine) -> None:
    m.push(_whole(m, m.digits().removesuffix(b"L")))


def _whole(m: Machine, text: bytes) -> int:
    if len(text) > 40:
        raise m.hostile("holds a number of more digits than any is long")
    try:
        return int(text)
    except ValueError:
        raise m.broken("holds a number that is none") from None


def _float_text(m: Machine) -> None:
    try:
        m.push(float(m.digits()))
    except ValueError:
        raise m.broken("holds a number that is none") from None


def _long(m: Machine, size: int) -> None:
    if size > m.limits.max_number_bytes:
        raise m.hostile(f"holds a number of {size:,} bytes")
    m.push(int.from_bytes(m.take(size), "little", signed=True))


def _long4(m: Machine) -> None:
    size = struct.unpack("<i", m.take(4))[0]
    if size < 0:
        raise m.broken("holds a number of negative length")
    _long(m, size)


def _text(m: Machine, data: bytes, encoding: str = "utf-8") -> None:
    # Half of a surrogate pair has no UTF-8: a lone one is shown as a question mark, as everywhere.
    m.push(data.decode(encoding, "surrogatepass").encode("utf-8", "replace").decode("utf-8"))


def _unicode(m: Machine, size: int) -> None:
    try:
        _text(m, m.take(size))
    except UnicodeDecodeError:
        raise m.broken("holds text that is no UTF-8") from None


def _unicode_line(m: Machine) -> None:
    try:
        _text(m, m.line(), "raw-unicode-escape")
    except UnicodeDecodeError:
        raise m.broken("holds text with a bad escape") from None


def _string_line(m: Machine) -> None:
    """Python 2's text, in quotes; only the escapes of its `repr` occur."""
    line = m.line().strip()
    if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
        raise m.broken("holds text without its quotes")
    try:
        m.push(line[1:-1].decode("unicode_escape"))
    except UnicodeDecodeError:
        raise m.broken("holds text with a bad escape") from None


def _tuple_of(size: int) -> Callable[[Machine], None]:
    def make(m: Machine) -> None:
        values = [m.pop() for _ in range(size)]
        m.contain(tuple(reversed(values)))

    return make


def _append(m: Machine) -> None:
    value = m.pop()
    m.top(list).append(value)


def _appends(m: Machine) -> None:
    values = m.pop_mark()
    m.top(list).extend(values)


def _set_item(m: Machine) -> None:
    value = m.pop()
    key = m.pop()
    m.fill(m.top(dict), [key, value])


def _set_items(m: Machine) -> None:
    values = m.pop_mark()
    m.fill(m.top(dict), values)


def _dict_of_mark(m: Machine) -> None:
    made: dict[str, Any] = {}
    m.fill(made, m.pop_mark())
    m.contain(made)


def _pop(m: Machine) -> None:
    if m.is_at_mark:
        m.pop_mark()
    else:
        m.pop()


def _pop_mark(m: Machine) -> None:
    m.pop_mark()


def _dup(m: Machine) -> None:
    value = m.pop()
    m.push(value)
    m.push(value)


def _index_text(m: Machine) -> int:
    index = _whole(m, m.digits())
    if index < 0:
        raise m.broken("remembers a value at a negative place")
    return index


OPCODES: Mapping[int, Callable[[Machine], None]] = {
    0x80: _proto,
    0x95: _frame,
    ord("N"): lambda m: m.push(None),
    0x88: lambda m: m.push(True),
    0x89: lambda m: m.push(False),
    ord("I"): _int_text,
    ord("L"): _long_text,
    ord("J"): lambda m: m.push(struct.unpack("<i", m.take(4))[0]),
    ord("K"): lambda m: m.push(m.count(1)),
    ord("M"): lambda m: m.push(m.count(2)),
    0x8A: lambda m: _long(m, m.count(1)),
    0x8B: _long4,
    ord("F"): _float_text,
    ord("G"): lambda m: m.push(struct.unpack(">d", m.take(8))[0]),
    ord("S"): _string_line,
    ord("T"): lambda m: m.push(m.take(m.count(4)).decode("latin-1")),
    ord("U"): lambda m: m.push(m.take(m.count(1)).decode("latin-1")),
    ord("V"): _unicode_line,
    ord("X"): lambda m: _unicode(m, m.count(4)),
    0x8C: lambda m: _unicode(m, m.count(1)),
    0x8D: lambda m: _unicode(m, m.count(8)),
    ord("B"): lambda m: m.push(m.take(m.count(4))),
    ord("C"): lambda m: m.push(m.take(m.count(1))),
    0x8E: lambda m: m.push(m.take(m.count(8))),
    ord("("): lambda m: m.mark(),
    ord("]"): lambda m: m.contain([]),
    ord("l"): lambda m: m.contain(m.pop_mark()),
    ord("a"): _append,
    ord("e"): _appends,
    ord(")"): lambda m: m.contain(()),
    ord("t"): lambda m: m.contain(tuple(m.pop_mark())),
    0x85: _tuple_of(1),
    0x86: _tuple_of(2),
    0x87: _tuple_of(3),
    ord("}"): lambda m: m.contain({}),
    ord("d"): _dict_of_mark,
    ord("s"): _set_item,
    ord("u"): _set_items,
    ord("0"): _pop,
    ord("1"): _pop_mark,
    ord("2"): _dup,
    ord("g"): lambda m: m.get(_index_text(m)),
    ord("h"): lambda m: m.get(m.count(1)),
    ord("j"): lambda m: m.get(m.count(4)),
    ord("p"): lambda m: m.put(_index_text(m)),
    ord("q"): lambda m: m.put(m.count(1)),
    ord("r"): lambda m: m.put(m.count(4)),
    0x94: lambda m: m.put(len(m.memo)),
}
