"""How much a file may ask of us: caps against hostile or broken input."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.model.error import UsageError


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps of one load. Sizes in bytes."""

    max_nesting: int = 256
    max_string: int = 16 << 20
    max_event: int = 64 << 20
    """An event larger than this is given up."""
    max_header: int = 256 << 20
    """Text in front of the events, and behind them."""
    max_output: int = 64 << 30
    """Text after decompression."""
    max_ratio: float = 250.0
    """Output over input of a compressed file, once `ratio_from` bytes have come out: real traces reach 35."""
    ratio_from: int = 100 << 20
    chunk: int = 1 << 20

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise UsageError(f"limit {name} must be positive")
