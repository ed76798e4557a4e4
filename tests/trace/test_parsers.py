"""The two parsers, column for column: what they keep, count and intern is the same, and no chunk changes it.

`corpus/` holds small files of every layout and fault, each with enough events for the pure parser to learn
their shapes. Loading as a whole is tested elsewhere (`test_load*.py`); here the parsers are driven alone.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.model.trace import ABSENT_I64
from stepscope.trace import kineto_fallback
from stepscope.trace.kineto_fallback import FallbackParser
from stepscope.trace.kineto_native import NativeParser, library
from stepscope.trace.parsed import Parsed, Parser, State
from tests.trace.parsers import mutated

needs_native = pytest.mark.skipif(library() is None, reason="the native parser is not built")
PARSERS = [
    pytest.param(NativeParser, id="native", marks=needs_native),
    pytest.param(FallbackParser, id="fallback"),
]
CORPUS = Path(__file__).parent / "corpus"
STRINGS = ("names", "cats", "texts", "raws", "tracks")
WIDE = (16 << 20, 256)
"""Longest string and deepest nesting, as loaded by default."""
NARROW = (64, 8)
NUM_MUTATIONS = 4_000


def event_text(data: bytes) -> bytes:
    """What stands behind the event array's bracket."""
    opened = re.search(rb'"traceEvents"\s*:\s*\[', data)
    return data[opened.end() if opened else data.index(b"[") + 1 :]


TEXTS = {path.stem: event_text(path.read_bytes()) for path in sorted(CORPUS.glob("*.json"))}


def parse(
    kind: type[Parser], text: bytes, chunk: int = 0, *, caps: tuple[int, int] = WIDE, max_event: int = 1 << 60
) -> tuple[State, Parsed, int]:
    """State, columns and bytes left over. `chunk`: bytes given at a time, 0 for all at once."""
    parser = kind(*caps)  # type: ignore[call-arg]
    left = b""
    at = 0
    while True:
        piece = text[at : at + chunk] if chunk else text[at:]
        at += len(piece)
        is_final = not piece or not chunk
        left += piece
        left = left[parser.feed(memoryview(left), is_final, len(left) > max_event) :]
        state = parser.state()
        if is_final or state.is_closed or state.mixed_at >= 0:
            return state, parser.finish(), len(text) - at + len(left)


def columns(parsed: Parsed) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    yield from parsed.core.items()
    for table, some in parsed.tables.items():
        for name, column in some.items():
            yield f"{table}.{name}", column


def assert_same(one: tuple[State, Parsed, int], other: tuple[State, Parsed, int], what: object = "") -> None:
    assert one[0] == other[0], what
    for name in STRINGS:
        assert getattr(one[1], name) == getattr(other[1], name), (name, what)
    for (name, a), (same_name, b) in zip(columns(one[1]), columns(other[1]), strict=True):
        assert name == same_name
        assert a.dtype == b.dtype, name
        assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), (name, what)
    assert one[2] == other[2], what


@needs_native
@pytest.mark.parametrize("caps", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", TEXTS)
def test_both_make_the_same_columns(name: str, caps: tuple[int, int]) -> None:
    assert_same(parse(NativeParser, TEXTS[name], caps=caps), parse(FallbackParser, TEXTS[name], caps=caps))


@pytest.mark.parametrize("name", TEXTS)
def test_shapes_take_what_the_tokens_would_take(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    by_shape = parse(FallbackParser, TEXTS[name])
    monkeypatch.setattr(kineto_fallback, "MIN_FAST", 1 << 60)
    assert_same(by_shape, parse(FallbackParser, TEXTS[name]))


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("FLUSH_ROWS", 3),
        ("MAX_REGION_BYTES", 200),
        ("MAX_REFUSED", -1),
        ("MAX_SHAPES", 2),
        ("MAX_CANDIDATES", 1),
        ("MAX_SEEN", 3),
        ("MAX_LITERAL_CATS", 0),
        ("NEAR", 1 << 60),
        ("NEAR", -1),
    ],
)
def test_the_limits_of_learning_change_no_column(
    limit: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {name: parse(FallbackParser, text) for name, text in TEXTS.items()}
    monkeypatch.setattr(kineto_fallback, limit, value)
    for name, text in TEXTS.items():
        assert_same(parse(FallbackParser, text), expected[name], name)


def test_most_events_are_taken_by_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast path is what the budget rests on: an event read token by token costs ten times as much."""
    slow = 0
    original = FallbackParser._event

    def counted(self: FallbackParser, buf: bytes, begin: int) -> int:
        nonlocal slow
        slow += 1
        return original(self, buf, begin)

    monkeypatch.setattr(FallbackParser, "_event", counted)
    for name in ("native", "compact", "indented", "sorted_keys", "reversed_keys", "crlf_tabs"):
        slow = 0
        body = TEXTS[name][: TEXTS[name].rindex(b"]")]
        state, _, _ = parse(FallbackParser, (body + b",") * 50 + b"]")
        assert slow < state.num_events / 20, name


@pytest.mark.parametrize("kind", PARSERS)
@pytest.mark.parametrize("name", ["T03_embedded_quotes", "T12_bare_words", "torn_argument", "no_commas"])
def test_no_size_of_chunk_changes_anything(kind: type[Parser], name: str) -> None:
    text = TEXTS[name][:3000]
    whole = parse(kind, text)
    for chunk in range(1, 201):
        assert_same(parse(kind, text, chunk), whole, chunk)


@pytest.mark.parametrize("kind", PARSERS)
def test_where_chunks_end_changes_nothing(kind: type[Parser]) -> None:
    for name, text in TEXTS.items():
        whole = parse(kind, text)
        for chunk in (333, 1023, 1024, 1025, 5000):
            assert_same(parse(kind, text, chunk), whole, (name, chunk))


@pytest.mark.parametrize("kind", PARSERS)
def test_a_cut_at_every_byte_keeps_the_events_before_it(kind: type[Parser]) -> None:
    text = TEXTS["native"][1000:3600]
    text = text[text.index(b"\n  {") :]
    ends = [i + 4 for i in range(len(text)) if text[i : i + 4] == b"\n  }"]
    _, whole, _ = parse(kind, text)
    for cut in range(len(text)):
        state, parsed, left = parse(kind, text[:cut])
        before = sum(end <= cut for end in ends)
        assert state.num_kept == state.num_events == before, cut
        assert not state.is_closed
        assert state.num_lost == 0, cut
        assert left <= cut - max((end for end in ends if end <= cut), default=0)
        for name in ("ts", "dur", "index"):
            rows = parsed.core[name]
            assert np.array_equal(rows, whole.core[name][: len(rows)])


@pytest.mark.parametrize("kind", PARSERS)
def test_only_what_fills_the_chunk_is_too_large(kind: type[Parser]) -> None:
    def event(name: str) -> str:
        return f'{{"ph": "X", "name": "{name}", "ts": 1, "dur": 1}}'

    events = [event("a"), event("b" * 5000), event("c"), event("d" * 900), event("e")]
    text = (",".join(events) + "]").encode()
    for chunk in (100, 150, 500, 1500):
        state, parsed, _ = parse(kind, text, chunk, max_event=2000)
        assert parsed.names == [b"a", b"c", b"d" * 900, b"e"], chunk
        assert (state.num_kept, state.num_lost, state.is_closed) == (4, 1, True)


def excerpt(rng: random.Random) -> bytes:
    """Some neighbouring events of the corpus."""
    text = TEXTS[rng.choice(list(TEXTS))]
    begin = text.find(b"{", rng.randrange(len(text) + 1))
    return text[max(begin, 0) :][: rng.randrange(400, 2500)]


@needs_native
@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_both_make_the_same_columns_of_mutated_events(part: int) -> None:
    rng = random.Random(20261129 + part)
    for number in range(NUM_MUTATIONS // 4):
        text = mutated(excerpt(rng), rng)
        caps = NARROW if number % 4 == 0 else WIDE
        chunk = rng.choice((0, 0, 300, 700, 1500))
        one, other = parse(NativeParser, text, chunk, caps=caps), parse(FallbackParser, text, caps=caps)
        assert_same(one, other, (text, chunk, caps))


LEARNED = (
    b'{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 7, "tid": "7", "ts": 5.5, "dur": 1.25, "args": {'
    b'"External id": 5, "Call stack": "s", "Input type": ["f", "g"], "Input Dims": [[1, 2]], "Ev Idx": 1}}',
    b'{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5.500, "dur": 1, "args": {'
    b'"stream": 7, "correlation": 9, "grid": [1, 2, 3], "est. achieved occupancy %": 40, "other": {"a": 1}}}',
)


@needs_native
@pytest.mark.parametrize("event", LEARNED)
@pytest.mark.parametrize("byte", [b"", *(bytes([c]) for c in b'\xcd"\\{}[],:5 n')])
def test_another_byte_anywhere_in_an_event_of_a_known_shape(event: bytes, byte: bytes) -> None:
    """Enough equal events to learn from, then the same with each byte in turn left out or replaced."""
    before = b", ".join([event] * 6)
    for at in range(len(event)):
        text = b"%s, %s, %s]" % (before, event[:at] + byte + event[at + 1 :], event)
        assert_same(parse(NativeParser, text), parse(FallbackParser, text), text[len(before) :])


EVENT = '{"ph": "X", "cat": "k", "name": "n", "pid": 1, "tid": 1, "ts": %s, "dur": %s, "args": {%s}}'
written_numbers = st.from_regex(r"[-+]?[0-9]{0,22}(\.[0-9]{0,9})?([eE][-+]?[0-9]{1,3})?", fullmatch=True)


@needs_native
@settings(max_examples=500, deadline=None)
@given(text=st.one_of(written_numbers, st.text('0123456789.-+eExX"', max_size=24)), is_quoted=st.booleans())
def test_both_read_a_number_alike(text: str, is_quoted: bool) -> None:
    value = f'"{text}"' if is_quoted else text
    event = EVENT % (value, value, f'"stream": {value}, "warps per SM": {value}, "grid": [{value}, 1, 2]')
    # Three times, so that a shape reads it as well as the tokens.
    events = f"{event}, {event}, {event}]".encode()
    assert_same(parse(NativeParser, events), parse(FallbackParser, events), text)


@pytest.mark.parametrize("kind", PARSERS)
@settings(max_examples=300, deadline=None)
@given(number=st.integers(-(2**65), 2**65), is_quoted=st.booleans())
def test_a_whole_number_wraps_within_64_bits_and_is_absent_beyond(
    kind: type[Parser], number: int, is_quoted: bool
) -> None:
    event = EVENT % (1, 1, f'"stream": "{number}"' if is_quoted else f'"stream": {number}')
    _, parsed, _ = parse(kind, f"{event},{event},{event}]".encode())
    wrapped = (number + 2**63) % 2**64 - 2**63
    fits = abs(number) < 2**64 and wrapped != ABSENT_I64
    streams = parsed.tables["gpu"]["stream"].tolist() if "stream" in parsed.tables["gpu"] else []
    assert streams == ([wrapped] * 3 if fits else [])


@pytest.mark.parametrize("kind", PARSERS)
@settings(max_examples=300, deadline=None)
@given(digits=st.integers(0, 10**15 - 1), scale=st.integers(0, 12), is_negative=st.booleans())
def test_a_real_number_is_the_nearest(kind: type[Parser], digits: int, scale: int, is_negative: bool) -> None:
    text = f"{'-' if is_negative else ''}{digits}e-{scale}"
    event = EVENT % (1, 1, f'"device": 0, "warps per SM": {text}')
    _, parsed, _ = parse(kind, f"{event},{event},{event}]".encode())
    exact = np.float32(float(Fraction(-digits if is_negative else digits, 10**scale)))
    assert parsed.tables["gpu"]["warps_per_sm"].tolist() == [exact] * 3


@pytest.mark.parametrize("kind", PARSERS)
def test_strings_are_numbered_in_the_order_of_their_first_event(kind: type[Parser]) -> None:
    """The pure parser works shape by shape, and must not show it."""
    events = []
    for i in range(40):
        more = {"dur": 1} if i % 3 else {"dur": 1, "args": {"Call stack": f"s{i % 7}", "dtype": f"d{i % 5}"}}
        events.append(
            {"ph": "X", "cat": f"c{i % 4}", "name": f"n{i % 11}", "pid": i % 2, "tid": i % 6, "ts": i, **more}
        )
    _, parsed, _ = parse(kind, json.dumps(events).encode()[1:])
    assert parsed.names == [f"n{i}".encode() for i in range(11)]
    assert parsed.cats == [f"c{i}".encode() for i in range(4)]
    tracks = list(dict.fromkeys((i % 2, i % 6) for i in range(40)))
    assert [key[5:] for key in parsed.tracks] == [f"{pid}{tid}".encode() for pid, tid in tracks]
    texts: list[str] = []
    for i in range(0, 40, 3):
        texts += (f"s{i % 7}", f"d{i % 5}")
    assert parsed.texts == [text.encode() for text in dict.fromkeys(texts)]
