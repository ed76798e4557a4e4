"""Tokens and numbers of a trace's text, as the native parser reads them: byte for byte, broken text too.

The pure parser's exact half. `buf` is always the whole text at hand: where it ends inside a token, more is
needed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

SPACE = b" \n\r\t"
_SPACES = re.compile(rb"[ \n\r\t]*")
# What goes on to a comma, a closing bracket or white space: a number, a word, or what other writers leave.
_BARE = re.compile(rb'[^,}\] \n\r\t"{\[:]*')
_BRACKET_OR_QUOTE = re.compile(rb'["\[\]{}]')
_INTEGER = re.compile(rb"([-+]?)([0-9]+)(?:\.[0-9]*)?")
_DECIMAL = re.compile(rb"([-+]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([-+]?)([0-9]+))?")
_HEX = re.compile(rb"([-+]?)0[xX]([0-9a-fA-F]+)")
_EVENT = re.compile(rb'[ \n\r\t]*"ph".', re.DOTALL)

MAX_BARE = 4096
_MAX_WHOLE_US = 9223372036854774
_MAX_BEFORE_LAST_DIGIT = 922337203685477579
_MAX_DIGITS = 60
MAX_NS = 2**62
"""Times beyond are no times; a base of the same size can be added without overflow."""


class NeedMore(Exception):
    """The text ends before the token does."""


class Malformed(Exception):
    """No continuation makes this an event."""


class Value(NamedTuple):
    """A value's bytes without quotes, and where the text goes on behind it."""

    begin: int
    end: int
    is_string: bool
    next: int


def skip_space(buf: bytes, p: int) -> int:
    """Where white space that begins at `p` ends."""
    match = _SPACES.match(buf, p)
    return match.end() if match is not None else p


def behind_colon(buf: bytes, p: int) -> int:
    """Where the value of a key begins that ends at `p`."""
    p = skip_space(buf, p)
    if p >= len(buf):
        raise NeedMore
    if buf[p] != 58:
        raise Malformed
    p = skip_space(buf, p + 1)
    if p >= len(buf):
        raise NeedMore
    return p


class Tokens:
    """Strings and values within the caps. Raises NeedMore or Malformed."""

    def __init__(self, max_string: int, max_nesting: int) -> None:
        self.max_string = max_string
        self.max_nesting = max_nesting

    def string_end(self, buf: bytes, p: int) -> int:
        """The closing quote of the string whose first byte is at `p`."""
        start = p
        while True:
            quote = buf.find(b'"', p)
            stop = quote if quote >= 0 else len(buf)
            slash = stop - 1
            while slash >= start and buf[slash] == 92:
                slash -= 1
            is_escaped = (stop - 1 - slash) & 1
            if quote < 0:
                if stop - is_escaped - start > self.max_string:
                    raise Malformed
                raise NeedMore
            if not is_escaped:
                if quote - start > self.max_string:
                    raise Malformed
                return quote
            p = quote + 1

    def value(self, buf: bytes, p: int) -> Value:
        """The value at `p`. Brackets are counted, not paired."""
        if p >= len(buf):
            raise NeedMore
        first = buf[p]
        if first == 34:
            close = self.string_end(buf, p + 1)
            return Value(p + 1, close, True, close + 1)
        if first == 91 or first == 123:
            end = self._nested_end(buf, p)
            return Value(p, end, False, end)
        match = _BARE.match(buf, p)
        end = match.end() if match is not None else p
        if end >= len(buf):
            raise NeedMore
        if buf[end] in b'"{[:' or not 0 < end - p <= MAX_BARE:
            raise Malformed
        return Value(p, end, False, end)

    def _nested_end(self, buf: bytes, p: int) -> int:
        opened = bytearray()
        while True:
            match = _BRACKET_OR_QUOTE.search(buf, p)
            if match is None:
                raise NeedMore
            p = match.end()
            byte = buf[p - 1]
            if byte == 34:
                p = self.string_end(buf, p) + 1
            elif byte in b"[{":
                # An event inside an argument: the argument was torn.
                if len(opened) >= self.max_nesting or (opened and byte == 123 and _EVENT.match(buf, p)):
                    raise Malformed
                opened.append(byte)
            else:
                if opened.pop() + 2 != byte:
                    raise Malformed
                if not opened:
                    return p


def integer(text: bytes, is_string: bool = False) -> int | None:
    """A whole number, its fraction cut, or "0x…" in a string. Unsigned 64 bits wrap to signed ones, what is
    beyond is none."""
    match = _INTEGER.fullmatch(text)
    if match is not None:
        sign, digits = match[1], match[2].lstrip(b"0")
        if len(digits) > 20:
            return None
        number = int(digits or b"0")
    else:
        match = _HEX.fullmatch(text) if is_string else None
        if match is None:
            return None
        sign, digits = match[1], match[2].lstrip(b"0")
        if len(digits) > 16:
            return None
        number = int(digits or b"0", 16)
    if number >= 2**64:
        return None
    if sign == b"-":
        number = -number
    number = (number + 2**63) % 2**64 - 2**63
    return number if number != -(2**63) else None


def fraction_ns(digits: bytes) -> int:
    """Decimals of a microsecond in nanoseconds, 0 to 1000, ties to even."""
    part = int(digits[:3].ljust(3, b"0"))
    dropped = digits[3:].rstrip(b"0")
    if dropped and (dropped > b"5" or (dropped == b"5" and part & 1)):
        part += 1
    return part


def nanoseconds(text: bytes) -> int | None:
    """Microseconds in decimal text as nanoseconds, ties to even; `None` where it is none or too large."""
    match = _DECIMAL.fullmatch(text)
    if match is None:
        return None
    whole, fraction = match[2], match[3] or b""
    if not whole and not fraction:
        return None
    magnitude: int | None
    if match[5] is not None:
        magnitude = _scaled(whole, fraction, match[4] == b"-", match[5])
        if magnitude is None:
            return None
    else:
        digits = whole.lstrip(b"0")
        if len(digits) > 16 or int(digits or b"0") > _MAX_WHOLE_US:
            return None
        magnitude = int(digits or b"0") * 1000 + fraction_ns(fraction)
        if magnitude > MAX_NS:
            return None
    return -magnitude if match[1] == b"-" else magnitude


def _scaled(whole: bytes, fraction: bytes, is_down: bool, exponent: bytes) -> int | None:
    """Digits and a shifted point, exactly, in nanoseconds."""
    digits = whole + fraction
    shift = exponent.lstrip(b"0")
    if len(digits) > _MAX_DIGITS or len(shift) > 6 or int(shift or b"0") // 10 > 1000:
        return None
    by = int(shift or b"0")
    point = len(whole) + 3 + (-by if is_down else by)
    number = int(digits)
    if not number or point < 0:
        return 0
    if point >= len(digits):
        # More zeros than 64 bits hold: no need to write them out.
        if point - len(digits) > 20:
            return None
        result, rest = number * 10 ** (point - len(digits)), 0
        half = 1
    else:
        unit: int = 10 ** (len(digits) - point)
        result, rest = divmod(number, unit)
        half = unit // 2
    if result // 10 > _MAX_BEFORE_LAST_DIGIT:
        return None
    if rest > half or (rest == half and result & 1):
        result += 1
    return result if result <= MAX_NS else None


def real(text: bytes) -> float | None:
    """A floating number; `None` for words such as nan and inf. Exact up to 15 digits and a scale of 22.

    Computed as the native parser does, digit by digit, so that both give the same number beyond that too.
    """
    match = _DECIMAL.fullmatch(text)
    if match is None:
        return None
    whole, fraction = match[2], match[3] or b""
    digits = whole + fraction
    exponent = (match[5] or b"").lstrip(b"0")
    if not 0 < len(digits) <= 300 or len(exponent) > 4 or int(exponent or b"0") // 10 > 300:
        return None
    by = int(exponent or b"0")
    by = (-by if match[4] == b"-" else by) - len(fraction)
    if len(digits) <= 15:
        mantissa = float(int(digits))
    else:
        mantissa = 0.0
        for digit in digits:
            mantissa = mantissa * 10 + (digit - 48)
    if mantissa and by:
        factor = 1.0
        for _ in range(abs(by)):
            factor *= 10
        mantissa = mantissa / factor if by < 0 else mantissa * factor
    return -mantissa if match[1] == b"-" else mantissa


def triple(text: bytes) -> list[int]:
    """The first numbers, at most three, of `[x, y, z]`; it ends at the first that is none."""
    found: list[int] = []
    if text[:1] != b"[":
        return found
    p = 1
    while len(found) < 3:
        p = skip_space(text, p)
        begin = p
        while p < len(text) and text[p] not in b",] \n\r\t":
            p += 1
        number = integer(text[begin:p])
        if number is None:
            break
        found.append(number)
        p = skip_space(text, p)
        if p >= len(text) or text[p] != 44:
            break
        p += 1
    return found
