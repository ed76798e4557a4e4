"""Shapes of events: writers repeat themselves, so one regular expression takes an event apart in one go.

A *shape* is an event's text with its values left open: keys, their order and the white space are literal. It
is learned from an event that was read token by token. A value's pattern only takes what has one meaning (`ts`
of at most 16 digits, whole numbers of at most 18, …): whatever else comes does not match and is read token by
token. The profilers write some dozens of shapes, whatever their layout.

Strings among the arguments that follow one another (input shapes, types, the call stack) are taken as one
piece, a *region*: the same text recurs from event to event, and is read token by token once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from stepscope.trace.kineto_table import KEYS, SLOTS, TABLES, Read
from stepscope.trace.kineto_token import (
    MAX_BARE,
    Malformed,
    NeedMore,
    Tokens,
    Value,
    behind_colon,
    skip_space,
)

MAX_NESTED = 3
"""Brackets inside brackets that a pattern follows."""
MAX_WORD = 8
MAX_LITERAL_CAT = 40


MEMORY = b"[memory]"
"""Name of the instants whose arguments are kept."""
FLOW_SLOT = -1
KEY_OF: dict[bytes, tuple[Read, int]] = {key.encode(): what for key, what in KEYS.items()}


Take = Callable[[bytes, int, int], "re.Match[bytes] | None"]


class Kind(Enum):
    """Where an event's row goes."""

    SPAN = "X"
    MARK = "i"
    PAIR = "B"
    FLOW = "s"
    META = "M"
    COUNTER = "C"
    OTHER = ""


_KINDS: dict[str, Kind] = {
    "X": Kind.SPAN, "i": Kind.MARK, "I": Kind.MARK, "R": Kind.MARK, "B": Kind.PAIR, "E": Kind.PAIR,
    "s": Kind.FLOW, "t": Kind.FLOW, "f": Kind.FLOW, "M": Kind.META, "C": Kind.COUNTER,
}  # fmt: skip
_NAMED = (Kind.SPAN, Kind.MARK, Kind.PAIR, Kind.META)
_TIMED = (Kind.SPAN, Kind.MARK, Kind.PAIR, Kind.FLOW)
_TRACKED = (Kind.SPAN, Kind.MARK, Kind.PAIR, Kind.FLOW, Kind.META)
_IN_TABLES: dict[Kind, frozenset[int]] = {
    kind: frozenset(
        SLOTS[name]
        for table in TABLES
        if table.phase == kind.value
        for name in (*table.triggers, *(column for column, _ in table.columns))
    )
    for kind in (Kind.SPAN, Kind.MARK)
}


def kind_of(phase: int) -> Kind:
    """The kind of an event of this phase (a byte)."""
    return _KINDS.get(chr(phase), Kind.OTHER)


class Role(Enum):
    """What a group of the pattern holds."""

    NAME = 0
    CAT = 1
    PID = 2
    TID = 3
    TS = 4
    TS_FRACTION = 5
    DUR = 6
    DUR_FRACTION = 7
    INT = 8
    """At most 18 digits. Its slot is FLOW_SLOT for a flow's id."""
    BIG_INT = 9
    """Beyond that, and certainly within 64 bits unsigned."""
    INT_STRING = 10
    """A string that may hold a number."""
    FLOAT = 11
    REGION = 12


@dataclass(slots=True, eq=False)
class Region:
    """One region of a shape: its group, the slots that it may fill, and text -> its number among all regions
    (-1 where it may not stand here)."""

    at: int
    slots: frozenset[int]
    texts: dict[bytes, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Shape:
    """One shape, and the rows that it took since the last flush."""

    kind: Kind
    phase: int
    plain: bytes
    escaped: bytes
    roles: tuple[tuple[Role, int], ...]
    cat: bytes | None
    """`None` where a group holds it."""
    track_flags: int
    regions: tuple[Region, ...]
    take: Take | None = None
    take_escaped: Take | None = None
    rows: list[tuple[bytes, ...]] = field(default_factory=list)
    ordinals: list[int] = field(default_factory=list)
    followers: list[Shape] = field(default_factory=list)
    """Shapes that may come next, the likeliest first."""

    def compile(self) -> Take:
        """Make the pattern ready for use."""
        self.take = take = re.compile(self.plain, re.DOTALL).match
        return take

    def compile_escaped(self) -> Take:
        """Make the pattern for events with backslashes ready: strings are dearer there."""
        self.take_escaped = take = re.compile(self.escaped, re.DOTALL).match
        return take


_STRING = rb'[^"]*'
_STRING_ESCAPED = rb'[^"\\]*(?:\\.[^"\\]*)*'
_GENERAL = rb'[^,}\] \n\r\t"{\[:]{1,%d}' % MAX_BARE
_NUMBER = rb"[-+.eE0-9]{1,%d}" % MAX_BARE
_DIGITS = rb"[0-9]{1,%d}" % MAX_BARE
# Up to 2⁶² ns without looking, and no sign: a negative fraction would need one of its own.
_MICROSECONDS = rb"([0-3]?[0-9]{1,15})((?:\.[0-9]{1,40})?)"
_INT_ANY = rb"-?[0-9]{1,18}"
_INT = b"(%s)" % _INT_ANY
_TRIPLE = rb"\[[ \n\r\t]*%s[ \n\r\t]*,[ \n\r\t]*%s[ \n\r\t]*,[ \n\r\t]*%s[ \n\r\t]*\]" % (_INT, _INT, _INT)
_BIG_INT = rb"((?!9223372036854775808)(?:1[0-7][0-9]{18}|[0-9]{19}))"
_IS_BIG_INT = re.compile(_BIG_INT)
_IS_MICROSECONDS = re.compile(_MICROSECONDS)
_IS_INT = re.compile(_INT)
_IS_TRIPLE = re.compile(_TRIPLE)
_IS_NUMBER = re.compile(_NUMBER)
_IS_DIGITS = re.compile(_DIGITS)
_IS_WORD = re.compile(rb"[A-Za-z]{1,%d}" % MAX_WORD)
_SEPARATOR = re.compile(rb"[ \n\r\t]*,[ \n\r\t]*(?=\{)")


def _nested(string: bytes) -> bytes:
    """Arrays in arrays. Objects are left to the tokens."""
    inside = rb'[^"\[\]{}]*(?:"%s"[^"\[\]{}]*)*' % string
    pattern = rb"\[%s\]" % inside
    for _ in range(MAX_NESTED - 1):
        pattern = rb"\[%s(?:%s%s)*\]" % (inside, pattern, inside)
    return pattern


_NESTED = _nested(_STRING)
_NESTED_ESCAPED = _nested(_STRING_ESCAPED)
_IS_NESTED = re.compile(_NESTED_ESCAPED, re.DOTALL)


class _Unlearnable(Exception):
    """An event that stays with the tokens."""


class _Pattern:
    """A pattern in the making: two spellings, and what its groups hold."""

    def __init__(self) -> None:
        self.plain = bytearray()
        self.escaped = bytearray()
        self.roles: list[tuple[Role, int]] = []

    def literal(self, text: bytes) -> None:
        self.add(re.escape(text))

    def add(self, plain: bytes, escaped: bytes | None = None, *roles: tuple[Role, int]) -> None:
        self.plain += plain
        self.escaped += plain if escaped is None else escaped
        self.roles += roles

    def string(self, *roles: tuple[Role, int]) -> None:
        """A string with its quotes; a group of what is between them where it has a role."""
        if roles:
            self.add(rb'"(%s)"' % _STRING, rb'"(%s)"' % _STRING_ESCAPED, *roles)
        else:
            self.add(rb'"%s"' % _STRING, rb'"%s"' % _STRING_ESCAPED)


def _quoted(value: Value, pattern: bytes) -> bytes:
    return b'"' + pattern + b'"' if value.is_string else pattern


@dataclass(frozen=True, slots=True)
class _Member:
    key: bytes
    key_at: int
    value: Value
    at: int
    """Where the value begins, its quote included."""


class Learner:
    """Makes shapes of events that the tokens found whole and in order."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self.is_loose = True
        """Whether regions are taken without following their strings: faster, as long as it fits."""

    def learn(self, buf: bytes, begin: int, *, has_literal_cat: bool) -> Shape | None:
        """The shape of the event at `begin`, `None` where it has something that no pattern takes."""
        try:
            return self._learn(buf, begin, has_literal_cat)
        except (_Unlearnable, NeedMore, Malformed):
            return None

    def _members(self, buf: bytes, begin: int) -> tuple[list[_Member], int]:
        """Members of the object at `begin`, and its closing brace. Raises where commas are not in order."""
        found: list[_Member] = []
        p = skip_space(buf, begin + 1)
        while buf[p] != 125:
            if found:
                if buf[p] != 44:
                    raise _Unlearnable
                p = skip_space(buf, p + 1)
            if buf[p] != 34:
                raise _Unlearnable
            close = self._tokens.string_end(buf, p + 1)
            at = behind_colon(buf, close + 1)
            value = self._tokens.value(buf, at)
            found.append(_Member(buf[p + 1 : close], p, value, at))
            p = skip_space(buf, value.next)
        return found, p

    def _learn(self, buf: bytes, begin: int, has_literal_cat: bool) -> Shape:
        members, end = self._members(buf, begin)
        known = [m.key for m in members if m.key in _TOP]
        if len(set(known)) != len(known):
            raise _Unlearnable
        by_key = {m.key: m for m in members}
        ph = by_key.get(b"ph")
        if ph is None or ph.value.end - ph.value.begin != 1:
            raise _Unlearnable
        phase = buf[ph.value.begin]
        kind = kind_of(phase)
        if (kind in _TIMED and b"ts" not in by_key) or (kind is Kind.SPAN and b"dur" not in by_key):
            raise _Unlearnable
        pattern = _Pattern()
        cat: bytes | None = None if b"cat" in by_key else b""
        flags = 0
        region_slots: list[frozenset[int]] = []
        is_memory = False
        if kind is Kind.MARK and b"name" in by_key:
            named = by_key[b"name"].value
            is_memory = buf[named.begin : named.end] == MEMORY
        keeps_texts = is_memory or kind in (Kind.SPAN, Kind.META)
        done = begin
        for member in members:
            value = member.value
            pattern.literal(buf[done : member.at])
            text = buf[value.begin : value.end]
            match member.key:
                case b"ph":
                    pattern.literal(buf[member.at : value.next])
                case b"name" if kind is Kind.MARK:
                    if not value.is_string:
                        raise _Unlearnable
                    # What is kept of the arguments depends on it.
                    pattern.add(b"(?=" if is_memory else b"(?!")
                    pattern.literal(b'"%s"' % MEMORY)
                    pattern.add(b")")
                    self._text(pattern, buf, value, Role.NAME)
                case b"name" if kind in _NAMED:
                    self._text(pattern, buf, value, Role.NAME)
                case b"cat" if kind in _TRACKED and kind is not Kind.META:
                    if has_literal_cat and len(text) <= MAX_LITERAL_CAT:
                        cat = text
                        pattern.literal(buf[member.at : value.next])
                    else:
                        self._text(pattern, buf, value, Role.CAT)
                case b"pid" if kind in _TRACKED:
                    flags += 2 * value.is_string
                    self._text(pattern, buf, value, Role.PID)
                case b"tid" if kind in _TRACKED:
                    flags += value.is_string
                    self._text(pattern, buf, value, Role.TID)
                case b"ts" if kind in _TIMED:
                    self._time(pattern, value, text, Role.TS, Role.TS_FRACTION)
                case b"dur" if kind is Kind.SPAN:
                    self._time(pattern, value, text, Role.DUR, Role.DUR_FRACTION)
                case b"id" if kind is Kind.FLOW:
                    self._int(pattern, value, text, FLOW_SLOT)
                case b"args" if text[:1] == b"{" and not value.is_string:
                    region_slots = self._arguments(pattern, buf, member.at, kind, keeps_texts)
                case _:
                    self._any(pattern, buf, value)
            done = value.next
        pattern.literal(buf[done : end + 1])
        separator = _SEPARATOR.match(buf, end + 1)
        if separator is not None:
            # Mostly the next event follows in the same way.
            pattern.add(b"(?:%s)?" % re.escape(separator[0]))
        at = [i for i, (role, _) in enumerate(pattern.roles) if role is Role.REGION]
        if len(at) == 1:
            # Alone it may hold any texts: whatever it fills, nothing else does.
            region_slots = [_TEXT_SLOTS]
        return Shape(
            kind=kind,
            phase=phase,
            plain=bytes(pattern.plain),
            escaped=bytes(pattern.escaped),
            roles=tuple(pattern.roles),
            cat=cat,
            track_flags=flags,
            regions=tuple(Region(*what) for what in zip(at, region_slots, strict=True)),
        )

    def _arguments(
        self, pattern: _Pattern, buf: bytes, begin: int, kind: Kind, keeps_texts: bool
    ) -> list[frozenset[int]]:
        """Patterns of the arguments; returns the slots that each region fills."""
        members, end = self._members(buf, begin)
        wanted = _IN_TABLES.get(kind, frozenset())
        regions: list[frozenset[int]] = []
        slots: set[int] = set()
        done = begin
        i = 0
        while i < len(members):
            member = members[i]
            read, slot = KEY_OF.get(member.key, (None, -1))
            last = i
            is_region = keeps_texts and read in _TEXT
            if is_region:
                while last + 1 < len(members) and KEY_OF.get(members[last + 1].key, (None, -1))[0] in _TEXT:
                    last += 1
            filled = _filled(members[i : last + 1])
            if slots & filled:
                raise _Unlearnable
            slots |= filled
            if is_region:
                pattern.literal(buf[done : member.key_at])
                self._region(pattern, buf, members[i : last + 1])
                regions.append(filled)
            else:
                pattern.literal(buf[done : member.at])
                self._argument(pattern, buf, member, read, slot, bool(filled & wanted))
            done = members[last].value.next
            i = last + 1
        pattern.literal(buf[done : end + 1])
        return regions

    def _argument(
        self, pattern: _Pattern, buf: bytes, member: _Member, read: Read | None, slot: int, is_wanted: bool
    ) -> None:
        value = member.value
        text = buf[value.begin : value.end]
        if read is Read.INT and is_wanted:
            self._int(pattern, value, text, slot)
        elif read is Read.INT:
            # Also where nobody needs it, a bare one that is no whole number counts as a repair.
            if value.is_string:
                pattern.string()
            elif _IS_INT.fullmatch(text):
                pattern.add(_INT_ANY)
            elif text == b"null":
                pattern.literal(text)
            else:
                raise _Unlearnable
        elif read is None or not is_wanted:
            self._any(pattern, buf, value)
        elif read is Read.TRIPLE:
            if value.is_string or not _IS_TRIPLE.fullmatch(text):
                raise _Unlearnable
            pattern.add(_TRIPLE, None, *((Role.INT, slot + axis) for axis in range(3)))
        elif _IS_NUMBER.fullmatch(text):
            pattern.add(_quoted(value, b"(%s)" % _NUMBER), None, (Role.FLOAT, slot))
        else:
            pattern.literal(buf[member.at : value.next])

    def _region(self, pattern: _Pattern, buf: bytes, members: list[_Member]) -> None:
        """One group over members that are interned; what it takes is read token by token later."""
        whole = buf[members[0].key_at : members[-1].value.next]
        if self.is_loose and b"}" not in whole:
            key = re.escape(buf[members[0].key_at : members[0].at])
            pattern.add(b"(%s[^}]*)" % key, None, (Role.REGION, 0))
            return
        pattern.add(b"(", None, (Role.REGION, 0))
        done = members[0].key_at
        for member in members:
            pattern.literal(buf[done : member.at])
            self._any(pattern, buf, member.value)
            done = member.value.next
        pattern.add(b")")

    def region(self, text: bytes) -> list[tuple[Read, int, bytes | None]] | None:
        """How, where and what of a region's members, `None` for a value that is null.

        `None` instead of the list where the text is not just members with texts, in order, each slot once.
        """
        try:
            members, end = self._members(b"{%s}" % text, 0)
            filled = _filled(members)
        except (_Unlearnable, NeedMore, Malformed, IndexError):
            return None
        if end != len(text) + 1:
            return None
        found: list[tuple[Read, int, bytes | None]] = []
        for member in members:
            read, slot = KEY_OF.get(member.key, (None, -1))
            if read not in _TEXT or read is None:
                return None
            begin, stop = member.value.begin - 1, member.value.end - 1
            is_null = not member.value.is_string and text[begin:stop] == b"null"
            found.append((read, slot, None if is_null else text[begin:stop]))
        return found if len(filled) == len(found) else None

    def _any(self, pattern: _Pattern, buf: bytes, value: Value) -> None:
        """A value that nobody needs."""
        text = buf[value.begin : value.end]
        if value.is_string:
            pattern.string()
        elif _IS_DIGITS.fullmatch(text):
            pattern.add(_DIGITS)
        elif _IS_NUMBER.fullmatch(text):
            pattern.add(_NUMBER)
        elif _IS_WORD.fullmatch(text):
            pattern.literal(text)
        elif text[:1] == b"[" and _IS_NESTED.fullmatch(text):
            pattern.add(_NESTED, _NESTED_ESCAPED)
        elif text[:1] in (b"[", b"{"):
            raise _Unlearnable
        else:
            pattern.add(_GENERAL)

    def _text(self, pattern: _Pattern, buf: bytes, value: Value, role: Role) -> None:
        """A value that is kept as written."""
        text = buf[value.begin : value.end]
        if value.is_string:
            pattern.string((role, 0))
        elif role in (Role.PID, Role.TID) and _IS_INT.fullmatch(text):
            pattern.add(_INT, None, (role, 0))
        elif text[:1] in (b"[", b"{"):
            raise _Unlearnable
        else:
            pattern.add(b"(%s)" % _GENERAL, None, (role, 0))

    def _time(self, pattern: _Pattern, value: Value, text: bytes, role: Role, fraction: Role) -> None:
        if not _IS_MICROSECONDS.fullmatch(text):
            raise _Unlearnable
        pattern.add(_quoted(value, _MICROSECONDS), None, (role, 0), (fraction, 0))

    def _int(self, pattern: _Pattern, value: Value, text: bytes, slot: int) -> None:
        if _IS_INT.fullmatch(text):
            pattern.add(_quoted(value, _INT), None, (Role.INT, slot))
        elif value.is_string:
            pattern.string((Role.INT_STRING, slot))
        elif _IS_BIG_INT.fullmatch(text):
            pattern.add(_BIG_INT, None, (Role.BIG_INT, slot))
        elif text == b"null":
            pattern.literal(text)
        else:
            raise _Unlearnable


def _filled(members: list[_Member]) -> frozenset[int]:
    """Slots that the members fill, or empty. Raises where two want the same."""
    slots: list[int] = []
    for member in members:
        read, slot = KEY_OF.get(member.key, (None, -1))
        if read is Read.TRIPLE:
            slots += (slot, slot + 1, slot + 2)
        elif read is not None:
            slots.append(slot)
    if len(set(slots)) != len(slots):
        raise _Unlearnable
    return frozenset(slots)


_TOP = frozenset((b"ph", b"cat", b"name", b"pid", b"tid", b"ts", b"dur", b"id", b"args"))
_TEXT = (Read.STRING, Read.RAW)
_TEXT_SLOTS = frozenset(slot for read, slot in KEYS.values() if read in _TEXT)
