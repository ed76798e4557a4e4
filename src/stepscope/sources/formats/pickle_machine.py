"""A stack machine that runs the program of a pickle: its bytes, its stack, its memo, its limits.

It can do nothing by itself: what its opcodes do is a table that it is given.
"""

from __future__ import annotations

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


class _Mark:
    """Where an open container began."""

    __slots__ = ()


_MARK = _Mark()


class Machine:
    """One run of one program."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        self.data = data
        self.at = 0
        self.limits = limits
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.num_containers = 0
        self.num_marks = 0

    def run(self, table: Mapping[int, Callable[[Machine], None]], refused: Mapping[int, str]) -> Plain:
        """Every opcode in turn, up to STOP: `table` says what each does, `refused` what others ask for.

        The dozen that a snapshot is made of are written out here, which halves the time; what they meet that
        is not plain sailing they leave to the table.
        """
        data, stack, memo = self.data, self.stack, self.memo
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
                        raise self._unknown(code, refused)
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

    def _unknown(self, code: int, refused: Mapping[int, str]) -> BrokenPickle:
        self.at -= 1
        asked = refused.get(code)
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

    @property
    def is_at_mark(self) -> bool:
        """Whether a container was opened and nothing put above its mark."""
        return bool(self.stack) and self.stack[-1] is _MARK

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
