"""Pickles of plain data, read by a machine of our own that cannot call anything.

A pickle is a program for a stack machine. Python's own reader looks up and calls what the program names, and
grows its memo to any index that the program asks for: neither can be switched off, only replaced. This one
knows None, booleans, numbers, text, bytes, lists, tuples and dictionaries with text as keys; an opcode that
would look up, call, build or fetch anything else is refused before anything is looked up. Protocols 0 to 5.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Plain = Any
"""None, bool, int, float, str, bytes, list, tuple or dict of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a pickle may ask of us at most."""

    max_opcodes: int = 100_000_000
    """Each makes at most one value: that bounds stack, memo and containers alike."""
    max_containers: int = 10_000_000
    """Lists, tuples and dictionaries: the largest of what one opcode makes."""
    max_depth: int = 64
    """Containers open at the same time; a snapshot has 8."""
    max_number_bytes: int = 16
    """Of one whole number; addresses have 8."""
    max_line: int = 4096
    """Of one number or memo index written as text (protocol 0)."""


class BrokenPickle(ValueError):
    """The bytes are no pickle, or one that breaks off. `place` is the byte where that shows."""

    def __init__(self, what: str, place: int) -> None:
        super().__init__(what)
        self.what = what
        self.place = place


class HostilePickle(BrokenPickle):
    """The program asks for what plain data never needs: to run code, or for more than a limit allows."""


_REFUSED: Mapping[int, str] = {
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


class _Mark:
    """Where an open container began."""

    __slots__ = ()


_MARK = _Mark()


def is_pickle(start: bytes) -> bool:
    """Whether a file that begins so is a pickle of protocol 2 or later, by its first two bytes."""
    return len(start) >= 2 and start[0] == 0x80 and 2 <= start[1] <= 5


def loads(data: bytes, limits: Limits | None = None) -> Plain:
    """The value of a pickle. Raises HostilePickle or BrokenPickle; nothing is ever looked up or called."""
    return _Machine(data, limits or Limits()).run()


class _Machine:
    """One run of one program."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        self.data = data
        self.at = 0
        self.limits = limits
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.num_containers = 0
        self.num_marks = 0

    def run(self) -> Plain:
        """Every opcode in turn, up to STOP.

        The dozen that a snapshot is made of are written out here, which halves the time; what they meet that
        is not plain sailing they leave to the table.
        """
        data, stack, memo, table = self.data, self.stack, self.memo, _OPCODES
        whole, at = int.from_bytes, 0
        try:
            for _ in range(self.limits.max_opcodes):
                code = data[at]
                if code == 0x68:  # BINGET
                    stack.append(memo[data[at + 1]])
                    at += 2
                elif code == 0x6A:  # LONG_BINGET
                    stack.append(memo[whole(data[at + 1 : at + 5], "little")])
                    at += 5
                elif code == 0x4B:  # BININT1
                    stack.append(data[at + 1])
                    at += 2
                elif code == 0x94 and stack and stack[-1] is not _MARK:  # MEMOIZE
                    memo[len(memo)] = stack[-1]
                    at += 1
                elif code == 0x2E:  # STOP
                    self.at = at
                    return self.result()
                else:
                    self.at = at + 1
                    step = table.get(code)
                    if step is None:
                        raise self._unknown(code)
                    step(self)
                    at = self.at
        except IndexError:
            self.at = len(data)
            raise self.broken("breaks off") from None
        except KeyError:
            self.at = at
            raise self.broken("recalls a value that was never remembered") from None
        self.at = at
        raise self.hostile(f"has more than {self.limits.max_opcodes:,} opcodes")

    def result(self) -> Plain:
        """What is left when the program ends: one value and no open container."""
        if len(self.stack) != 1 or self.num_marks:
            raise self.broken("ends with open containers")
        return self.stack[0]

    def _unknown(self, code: int) -> BrokenPickle:
        self.at -= 1
        asked = _REFUSED.get(code)
        return (
            self.broken(f"holds 0x{code:02x}, which is no opcode")
            if asked is None
            else self.hostile(f"asks to {asked}")
        )

    def broken(self, what: str) -> BrokenPickle:
        """An error at the present byte."""
        return BrokenPickle(what, self.at)

    def hostile(self, what: str) -> HostilePickle:
        """The same for what is refused."""
        return HostilePickle(what, self.at)

    # ── bytes of the program ─────────────────────────────────────────────────────────────────────────

    def take(self, size: int) -> bytes:
        """The next bytes, all of them."""
        end = self.at + size
        if end > len(self.data):
            raise self.broken("breaks off")
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def count(self, size: int) -> int:
        """An unsigned number of so many bytes."""
        return int.from_bytes(self.take(size), "little")

    def line(self) -> bytes:
        """The bytes up to the next line feed; long ones are text, and no number."""
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise self.broken("breaks off")
        piece = self.data[self.at : end]
        self.at = end + 1
        return piece

    def digits(self) -> bytes:
        """A number as text."""
        piece = self.line()
        if len(piece) > self.limits.max_line:
            raise self.hostile("holds a number of more digits than any is long")
        return piece

    # ── the stack ────────────────────────────────────────────────────────────────────────────────────

    def push(self, value: Plain) -> None:
        """A value on top."""
        self.stack.append(value)

    def contain(self, value: Plain) -> None:
        """A new container on top."""
        self.num_containers += 1
        if self.num_containers > self.limits.max_containers:
            raise self.hostile(f"makes more than {self.limits.max_containers:,} containers")
        self.stack.append(value)

    def pop(self) -> Plain:
        """The value on top."""
        if not self.stack or self.stack[-1] is _MARK:
            raise self.broken("takes a value where none is")
        return self.stack.pop()

    def mark(self) -> None:
        """Open a container."""
        self.num_marks += 1
        if self.num_marks > self.limits.max_depth:
            raise self.hostile(f"is nested more than {self.limits.max_depth} deep")
        self.stack.append(_MARK)

    def pop_mark(self) -> list[Any]:
        """The values above the last mark; the mark goes too."""
        stack = self.stack
        if not self.num_marks:
            raise self.broken("closes a container that is not open")
        place = len(stack) - 1
        while stack[place] is not _MARK:
            place -= 1
        values = stack[place + 1 :]
        del stack[place:]
        self.num_marks -= 1
        return values

    def top(self, kind: type) -> Any:
        """The container on top, which stays."""
        if not self.stack or type(self.stack[-1]) is not kind:
            raise self.broken(f"fills a {kind.__name__} where none is")
        return self.stack[-1]

    def put(self, index: int) -> None:
        """Remember the value on top. A dictionary grows by what is put in, whatever the index."""
        if not self.stack or self.stack[-1] is _MARK:
            raise self.broken("remembers a value where none is")
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        """A remembered value on top."""
        try:
            self.push(self.memo[index])
        except KeyError:
            raise self.broken("recalls a value that was never remembered") from None

    def fill(self, target: dict[str, Any], values: list[Any]) -> None:
        """Key and value in turn."""
        if len(values) % 2:
            raise self.broken("holds a key without a value")
        for key in values[::2]:
            # Numbers could be chosen to collide; what we read has names for keys.
            if type(key) is not str:
                raise self.hostile(f"has a {type(key).__name__} for a key")
        target.update(zip(values[::2], values[1::2], strict=True))


# ── opcodes ──────────────────────────────────────────────────────────────────────────────────────────────


def _proto(m: _Machine) -> None:
    version = m.count(1)
    if version > 5:
        raise m.broken(f"is of protocol {version}, 0 to 5 are known")


def _frame(m: _Machine) -> None:
    """A frame only groups bytes: that it is whole is all that is asked."""
    if m.count(8) > len(m.data) - m.at:
        raise m.broken("breaks off within a frame")


def _int_text(m: _Machine) -> None:
    text = m.digits()
    if text in (b"00", b"01"):
        return m.push(text == b"01")
    return m.push(_whole(m, text))


def _long_text(m: _Machine) -> None:
    m.push(_whole(m, m.digits().removesuffix(b"L")))


def _whole(m: _Machine, text: bytes) -> int:
    if len(text) > 40:
        raise m.hostile("holds a number of more digits than any is long")
    try:
        return int(text)
    except ValueError:
        raise m.broken("holds a number that is none") from None


def _float_text(m: _Machine) -> None:
    try:
        m.push(float(m.digits()))
    except ValueError:
        raise m.broken("holds a number that is none") from None


def _long(m: _Machine, size: int) -> None:
    if size > m.limits.max_number_bytes:
        raise m.hostile(f"holds a number of {size:,} bytes")
    m.push(int.from_bytes(m.take(size), "little", signed=True))


def _long4(m: _Machine) -> None:
    size = struct.unpack("<i", m.take(4))[0]
    if size < 0:
        raise m.broken("holds a number of negative length")
    _long(m, size)


def _text(m: _Machine, data: bytes, encoding: str = "utf-8") -> None:
    # Half of a surrogate pair has no UTF-8: a lone one is shown as a question mark, as everywhere.
    m.push(data.decode(encoding, "surrogatepass").encode("utf-8", "replace").decode("utf-8"))


def _unicode(m: _Machine, size: int) -> None:
    try:
        _text(m, m.take(size))
    except UnicodeDecodeError:
        raise m.broken("holds text that is no UTF-8") from None


def _unicode_line(m: _Machine) -> None:
    try:
        _text(m, m.line(), "raw-unicode-escape")
    except UnicodeDecodeError:
        raise m.broken("holds text with a bad escape") from None


def _string_line(m: _Machine) -> None:
    """Python 2's text, in quotes; only the escapes of its `repr` occur."""
    line = m.line().strip()
    if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
        raise m.broken("holds text without its quotes")
    try:
        m.push(line[1:-1].decode("unicode_escape"))
    except UnicodeDecodeError:
        raise m.broken("holds text with a bad escape") from None


def _tuple_of(size: int) -> Callable[[_Machine], None]:
    def make(m: _Machine) -> None:
        values = [m.pop() for _ in range(size)]
        m.contain(tuple(reversed(values)))

    return make


def _append(m: _Machine) -> None:
    value = m.pop()
    m.top(list).append(value)


def _appends(m: _Machine) -> None:
    values = m.pop_mark()
    m.top(list).extend(values)


def _set_item(m: _Machine) -> None:
    value = m.pop()
    key = m.pop()
    m.fill(m.top(dict), [key, value])


def _set_items(m: _Machine) -> None:
    values = m.pop_mark()
    m.fill(m.top(dict), values)


def _dict_of_mark(m: _Machine) -> None:
    made: dict[str, Any] = {}
    m.fill(made, m.pop_mark())
    m.contain(made)


def _pop(m: _Machine) -> None:
    if m.stack and m.stack[-1] is _MARK:
        m.pop_mark()
    else:
        m.pop()


def _pop_mark(m: _Machine) -> None:
    m.pop_mark()


def _dup(m: _Machine) -> None:
    value = m.pop()
    m.push(value)
    m.push(value)


def _index_text(m: _Machine) -> int:
    index = _whole(m, m.digits())
    if index < 0:
        raise m.broken("remembers a value at a negative place")
    return index


_OPCODES: Mapping[int, Callable[[_Machine], None]] = {
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
