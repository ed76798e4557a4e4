"""Mutated traces through both parsers: the same events kept, the same codes raised."""

from __future__ import annotations

import random

import pytest

from tests.trace.parsers import PARSERS, corpus, kept, needs_fallback, needs_native

PIECES = (
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\x01", b"\xff\xfe", b"\n", b" " * 300),
    *(b"nan", b"N/A", b"null", b"1e999", b"-", b".5", b"99999999999999999999", b"]}", b"\\u12", b"\\ud800"),
    *(
        b'"ph": "X"',
        b'{"schemaVersion": 1, "traceEvents": [',
        b'{"ph": "X", "ts": 1}',
        b'"args": {"name": "x"}',
    ),
)
NUM_TOGETHER = 20_000
NUM_ALONE = 2_000


def mutated(text: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        match rng.randrange(6):
            case 0:
                text = text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :]
            case 1:
                text = text[:at] + text[at + rng.randrange(1, 40) :]
            case 2 if rng.random() < 0.3:
                text = text[:at]
            case 3:
                start = rng.randrange(len(text) + 1)
                text = text[:at] + text[start : start + rng.randrange(200)] + text[at:]
            case _:
                text = text[:at] + rng.choice(PIECES) + text[at:]
    return text


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
