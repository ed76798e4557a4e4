"""What was recorded of one call's arguments, and the work that a formula makes of it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import msgspec

Shape = tuple[int, ...]

# The trace's type name -> (precision as in the table of accelerators, bytes of an element).
TYPES: dict[str, tuple[str, int]] = {
    "float": ("fp32", 4),
    "double": ("fp64", 8),
    "c10::Half": ("fp16", 2),
    "c10::BFloat16": ("bf16", 2),
    "c10::Float8_e4m3fn": ("fp8", 1),
    "c10::Float8_e5m2": ("fp8", 1),
    "c10::Float8_e4m3fnuz": ("fp8", 1),
    "c10::Float8_e5m2fnuz": ("fp8", 1),
    "signed char": ("int8", 1),
    "unsigned char": ("int8", 1),
    "bool": ("bool", 1),
    "short": ("int16", 2),
    "short int": ("int16", 2),
    "int": ("int32", 4),
    "long": ("int64", 8),
    "long int": ("int64", 8),
    "long long": ("int64", 8),
}


class Unknown(Exception):
    """The recorded arguments do not tell the work of this call."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one call must do at least.

    `flops` counts a multiply-add as two. `bytes` is the least traffic to memory: every operand read once,
    every result written once, whatever the kernel reads again. `precision` is the operands' (a matrix product
    in `fp32` may run as `tf32`: the kernel's name tells). `is_matrix`: tensor cores can do it.
    """

    flops: int
    bytes: int
    precision: str
    is_matrix: bool
    repeated: int = 0
    """The part of `flops` that does forward work again (scores made anew in the backward pass)."""


@dataclass(frozen=True, slots=True)
class Call:
    """Arguments by position: shapes, types and values, as the profiler wrote them.

    Every accessor raises `Unknown` where the trace does not hold what is asked for.
    """

    shapes: tuple[Any, ...]
    types: tuple[Any, ...]
    values: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.shapes)

    def shape(self, at: int, rank: int | None = None) -> Shape:
        """The shape of the tensor at a position; with `rank`, of exactly so many dimensions."""
        shape = self.shapes[at] if at < len(self.shapes) else None
        if (
            not isinstance(shape, list)
            or not all(isinstance(n, int) and n >= 0 for n in shape)
            or not self.has(at)
            or (rank is not None and len(shape) != rank)
        ):
            raise Unknown
        return tuple(shape)

    def has(self, at: int) -> bool:
        """Whether a tensor stands there: an absent one has no type."""
        return self._name(at) in TYPES

    def precision(self, at: int = 0) -> str:
        """Type of the tensor's elements, as the table of accelerators calls it."""
        return self._type(at)[0]

    def size(self, at: int = 0) -> int:
        """Bytes of one element."""
        return self._type(at)[1]

    def bytes(self, at: int) -> int:
        """Bytes of the tensor at a position, 0 where none stands."""
        return math.prod(self.shape(at)) * self.size(at) if self.has(at) else 0

    def numbers(self, at: int) -> Shape:
        """A list of whole numbers, as `stride`."""
        value = self.values[at] if at < len(self.values) else None
        try:
            found = msgspec.json.decode(value, type=tuple[int, ...]) if isinstance(value, str) else None
        except msgspec.DecodeError:
            found = None
        if not found:
            raise Unknown
        return found

    def number(self, at: int) -> int:
        """A whole number, as `groups`."""
        value = self.values[at] if at < len(self.values) else None
        if not isinstance(value, str) or not re.fullmatch("-?[0-9]{1,18}", value):
            raise Unknown
        return int(value)

    def is_number(self, at: int) -> bool:
        """Whether a whole number that is not negative was written there."""
        value = self.values[at] if at < len(self.values) else None
        return isinstance(value, str) and value.isdecimal()

    def flags(self, at: int) -> list[bool]:
        """A list of True and False."""
        value = self.values[at] if at < len(self.values) else None
        words = value.strip("[]").split(",") if isinstance(value, str) else []
        if not words or any(word.strip() not in ("True", "False") for word in words):
            raise Unknown
        return [word.strip() == "True" for word in words]

    def flag(self, at: int) -> bool:
        """True or False."""
        flags = self.flags(at)
        if len(flags) != 1:
            raise Unknown
        return flags[0]

    def _type(self, at: int) -> tuple[str, int]:
        name = self._name(at)
        if name not in TYPES:
            raise Unknown
        return TYPES[name]

    def _name(self, at: int) -> str:
        name = self.types[at] if at < len(self.types) else None
        return name if isinstance(name, str) else ""


def call_of(dims: str, types: str, values: str) -> Call:
    """The texts of "Input Dims", "Input type" and "Concrete Inputs"; empty where one was not recorded."""
    return Call(_list(dims), _list(types), _list(values))


def _list(text: str) -> tuple[Any, ...]:
    try:
        value = msgspec.json.decode(text) if text else []
    except (msgspec.DecodeError, RecursionError):
        return ()
    return tuple(value) if isinstance(value, list) else ()
