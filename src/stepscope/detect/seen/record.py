"""Kinds and flags of a ring's records, by their numbers on the wire. A copy of `stepscope_sdk.ring_abi`,
which nobody here may import (a test compares)."""

from __future__ import annotations

START, STEP_BEGIN, STEP_END, PHASE_BEGIN, PHASE_END, VALUE = 1, 2, 3, 4, 5, 6
CAPTURE_BEGIN, CAPTURE_END, WORLD, EXIT = 10, 11, 12, 13
SHADOW, CAPTURED, STALLED, SYNC, ERROR, ASIDE, TILED = 1, 2, 4, 8, 16, 32, 64
