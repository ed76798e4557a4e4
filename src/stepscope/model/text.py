"""Words for people: every text in English and Simplified Chinese, and how numbers are written in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Lang = Literal["en", "zh"]
LANGS: tuple[Lang, ...] = ("en", "zh")


@dataclass(frozen=True, slots=True)
class Text:
    """One text in both languages. Neither may be empty: a page half translated reads as a fault."""

    en: str
    zh: str

    def __post_init__(self) -> None:
        if not self.en.strip() or not self.zh.strip():
            raise ValueError(f"a text needs both languages: en={self.en!r}, zh={self.zh!r}")

    def in_(self, lang: Lang) -> str:
        """The text in `lang`."""
        return self.zh if lang == "zh" else self.en


_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))


def duration(ns: int | float) -> str:
    """Nanoseconds as a person reads them, three digits: `41.2 ms`, `3.00 µs`, `17 ns`.

    Rounding may carry into the next unit: 999 999 ns is `1.00 ms`, not `1000 µs`.
    """
    sign, size = ("-", -ns) if ns < 0 else ("", ns)
    for scale, unit in _UNITS:
        if size >= 0.9995 * scale:
            return f"{sign}{_three_digits(size / scale)} {unit}"
    return f"{sign}{size:.0f} ns"


def _three_digits(value: float) -> str:
    for places, limit in ((2, 9.995), (1, 99.95)):
        if value < limit:
            return f"{value:.{places}f}"
    return f"{value:.0f}"


def size(num_bytes: int | float) -> str:
    """Bytes as a person reads them, three digits, in powers of 1024 as PyTorch tells them: `1.50 GiB`."""
    sign, much = ("-", -num_bytes) if num_bytes < 0 else ("", num_bytes)
    for scale, unit in _SIZES:
        # 1023.5 MiB and more would round to 1024 MiB.
        if much >= (scale if scale == _SIZES[-1][0] else 0.9995 * scale):
            return f"{sign}{_three_digits(much / scale)} {unit}"
    return f"{sign}{much:.0f} B"


def percent(share: float) -> str:
    """A share 0..1 as a percentage with one decimal: `33.1 %`; what would round to nothing is `< 0.1 %`."""
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{share * 100:.1f} %"


_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def scaled(value: float, unit: str) -> str:
    """A number of a unit that takes prefixes, three digits: `4.50 TFLOP/s`, `25.0 MB`, `17 B`."""
    for scale, prefix in _PREFIXES:
        if value >= 0.9995 * scale:
            return f"{_three_digits(value / scale)} {prefix}{unit}"
    return f"{value:.0f} {unit}"


_WRITTEN = {"celsius": " °C", "1/s": "/s", "1": "", "state": "", "code": "", "mask": ""}
"""How units are written behind a number whose own name is not for people."""


def _plain(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def number(value: float, unit: str) -> str:
    """A feature's value with its unit."""
    if unit == "ratio":
        return percent(value)
    if unit == "ns":
        return duration(value)
    if unit == "B":
        return size(value)
    if unit in ("B/s", "Hz", "J"):
        return scaled(value, unit)
    if unit == "s":
        return duration(value * 1e9)
    written = _WRITTEN.get(unit)
    if written is not None:
        return f"{_plain(value)}{written}"
    return f"{_plain(value)} {unit}".rstrip()
