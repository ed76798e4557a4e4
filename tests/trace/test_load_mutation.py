"""Mutated traces through both parsers: the same events kept, the same codes raised."""

from __future__ import annotations

import random

import pytest

from tests.trace.parsers import PARSERS, corpus, kept, mutated, needs_fallback, needs_native

NUM_TOGETHER = 8_000
NUM_ALONE = 1_000
"""Of a test run; `make fuzz` goes on for as long as one likes."""


@needs_native
@needs_fallback
@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_both_parsers_keep_the_same_of_a_mutated_trace(part: int) -> None:
    rng = random.Random(part)
    texts = [path.read_bytes() for path in corpus()]
    small = [text for text in texts if len(text) < 1500]
    for number in range(NUM_TOGETHER // 4):
        text = mutated(rng.choice(small if number % 10 else texts), rng)
        assert kept(text, native=False) == kept(text, native=True), text


@pytest.mark.parametrize("native", PARSERS)
def test_a_mutated_trace_is_read_or_refused(native: bool) -> None:
    rng = random.Random(99)
    texts = [path.read_bytes() for path in corpus()]
    for _ in range(NUM_ALONE):
        kept(mutated(rng.choice(texts), rng), native)
