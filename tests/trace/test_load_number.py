"""Times are read from their text: exactly, whatever way they are written."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, localcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.trace.load import load_bytes
from tests.trace.parsers import PARSERS, codes

EVENT = '{"traceEvents": [{"ph": "X", "name": "n", "pid": 1, "tid": 1, "ts": %s, "dur": %s}, %s]}'
OTHER = '{"ph": "X", "name": "other", "pid": 1, "tid": 1, "ts": 1, "dur": 1}'
LARGEST = 2**62

whole = st.one_of(st.integers(0, 10**16), st.integers(0, 10**22), st.just(0))
fraction = st.one_of(
    st.just(""),
    st.text("0123456789", min_size=1, max_size=12),
    st.sampled_from(["0005", "0015", "5", "00050001"]),
)
exponent = st.one_of(
    st.just(""), st.builds("{}{}".format, st.sampled_from(["e", "E", "e+", "e-"]), st.integers(0, 25))
)


@st.composite
def numbers(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(["", "-"])) + str(draw(whole))
    part = draw(fraction)
    return text + (f".{part}" if part else "") + draw(exponent)


def nanoseconds(text: str) -> int:
    with localcontext() as context:
        context.prec = 100
        return int((Decimal(text) * 1000).to_integral_value(ROUND_HALF_EVEN))


@pytest.mark.parametrize("native", PARSERS)
@settings(max_examples=400, deadline=None)
@given(number=numbers(), is_quoted=st.booleans())
def test_a_time_is_its_decimal_rounded_half_to_even(native: bool, number: str, is_quoted: bool) -> None:
    written = f'"{number}"' if is_quoted else number
    trace = load_bytes((EVENT % (written, 1, OTHER)).encode(), "x", native=native)
    expected = nanoseconds(number)
    if abs(expected) <= LARGEST - 1024:
        assert trace.spans.ts_ns.tolist() == [expected, 1000]
        assert codes(trace) == set()
    elif abs(expected) > LARGEST + 1024:
        assert trace.spans.ts_ns.tolist() == [1000]
        assert codes(trace) == {"bad_timestamp"}


@pytest.mark.parametrize("native", PARSERS)
@settings(max_examples=200, deadline=None)
@given(
    pid=st.one_of(st.integers(-(2**63) + 1, 2**63 - 1), st.integers(-(10**25), 10**25)),
    is_quoted=st.booleans(),
)
def test_a_process_is_a_number_within_64_bits_and_a_label_beyond(
    native: bool, pid: int, is_quoted: bool
) -> None:
    written = f'"{pid}"' if is_quoted else pid
    text = f'[{{"ph": "X", "name": "n", "pid": {written}, "tid": "stream 7", "ts": 1, "dur": 1}}]'
    (track,) = load_bytes(text.encode(), "x", native=native).tracks
    assert track.pid == (pid if -(2**63) <= pid < 2**63 else str(pid))
    assert track.tid == "stream 7"
