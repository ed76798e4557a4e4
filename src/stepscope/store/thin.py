"""Series thinned to what a picture shows: the least and the most of each pixel."""

from __future__ import annotations

import numpy as np

from stepscope.model.sample import F64
from stepscope.model.trace import I64


def thin(at_ns: I64, least: F64, most: F64, start_ns: int, width_ns: int) -> tuple[I64, F64]:
    """At most two points a pixel of `width_ns`, in order of time. `at_ns` ascends; `least` and `most` are of
    each time, the same array where it is one value."""
    if not len(at_ns):
        return at_ns, least
    pixel = (at_ns - start_ns) // width_ns
    begins = np.flatnonzero(np.diff(pixel, prepend=pixel[0] - 1))
    if len(begins) == len(at_ns) and least is most:
        return at_ns, least
    counts = np.diff(begins, append=len(at_ns))
    of = np.repeat(np.arange(len(begins)), counts)
    low = _first(least == np.repeat(np.minimum.reduceat(least, begins), counts), of)
    high = _first(most == np.repeat(np.maximum.reduceat(most, begins), counts), of)
    places = np.stack([low, high], axis=1)
    values = np.stack([least[low], most[high]], axis=1)
    swapped = low > high
    places[swapped], values[swapped] = places[swapped][:, ::-1], values[swapped][:, ::-1]
    kept = np.ones(places.shape, dtype=np.bool_)
    kept[:, 1] = (low != high) | (least[low] != most[high])
    return at_ns[places[kept]], values[kept]


def _first(chosen: np.ndarray[tuple[int], np.dtype[np.bool_]], of: I64) -> I64:
    """The first chosen place of each pixel; each has one."""
    places = np.flatnonzero(chosen)
    return np.asarray(places[np.diff(of[places], prepend=-1) != 0])
