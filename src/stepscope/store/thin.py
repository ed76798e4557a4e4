"""Series thinned to what a picture shows: the least and the most of each pixel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stepscope.model.sample import F64
from stepscope.model.trace import I64


def thin(at_ns: I64, least: F64, most: F64, start_ns: int, width_ns: int) -> tuple[I64, F64]:
    """At most two points a pixel of `width_ns`, in order of time. `at_ns` ascends; `least` and `most` are of
    each time, the same array where it is one value."""
    return thin_all(at_ns, [least], [most], start_ns, width_ns)[0]


def thin_all(
    at_ns: I64, least: Sequence[F64], most: Sequence[F64], start_ns: int, width_ns: int
) -> list[tuple[I64, F64]]:
    """The same of many series that have the same times: `least[i]` and `most[i]` are of the i-th."""
    if not len(at_ns):
        return [(at_ns, each) for each in least]
    pixel = (at_ns - start_ns) // width_ns
    begins = np.flatnonzero(np.diff(pixel, prepend=pixel[0] - 1))
    is_one = all(low is high for low, high in zip(least, most, strict=True))
    if len(begins) == len(at_ns) and is_one:
        return [(at_ns, each) for each in least]
    counts = np.diff(begins, append=len(at_ns))
    of = np.repeat(np.arange(len(begins), dtype=np.int32), counts)
    lows = np.stack(least)
    highs = lows if is_one else np.stack(most)
    bottom, top = np.minimum.reduceat(lows, begins, axis=1), np.maximum.reduceat(highs, begins, axis=1)
    low, high = _first(lows == bottom[:, of], of), _first(highs == top[:, of], of)
    is_swapped = low > high
    places = np.stack([np.where(is_swapped, high, low), np.where(is_swapped, low, high)], axis=2)
    values = np.stack([np.where(is_swapped, top, bottom), np.where(is_swapped, bottom, top)], axis=2)
    kept = np.ones(places.shape, dtype=np.bool_)
    kept[:, :, 1] = (low != high) | (bottom != top)
    return [
        (at_ns[place[mine]], value[mine]) for place, value, mine in zip(places, values, kept, strict=True)
    ]


def _first(chosen: npt.NDArray[np.bool_], of: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """The first chosen place of each pixel of each row; every pixel has one."""
    row, place = np.nonzero(chosen)
    pixel = of[place]
    is_first = np.ones(len(place), dtype=np.bool_)
    is_first[1:] = (pixel[1:] != pixel[:-1]) | (row[1:] != row[:-1])
    return place[is_first].reshape(len(chosen), -1)
