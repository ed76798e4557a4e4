"""Answers of the Prometheus API, as bytes, to columns."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.sources.prometheus.answer import AnswerError, ascending, lines_of, names_of


def body(result: Any, kind: str = "matrix", **more: Any) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}, **more}).encode()


def test_times_are_whole_milliseconds_in_nanoseconds() -> None:
    rows = [{"metric": {"a": "b"}, "values": [[1773114089.184, "0"], [1773114090, "0.5"]]}]
    (line,) = lines_of(body(rows)).lines
    assert line.labels == {"a": "b"}
    assert line.at_ns.tolist() == [1_773_114_089_184_000_000, 1_773_114_090_000_000_000]
    assert line.value.tolist() == [0.0, 0.5]


def test_a_mark_that_ends_a_series_is_no_sample() -> None:
    rows = [{"metric": {}, "values": [[1, "7"], [2, "NaN"], [3, "+Inf"]]}]  # as VictoriaMetrics 1.79 answers
    (line,) = lines_of(body(rows)).lines
    assert line.at_ns.tolist() == [1_000_000_000, 3_000_000_000]
    assert line.value.tolist() == [7.0, float("inf")]


def test_a_vector_and_a_scalar_have_one_sample() -> None:
    (line,) = lines_of(body([{"metric": {"x": "y"}, "value": [5, "4800"]}], "vector")).lines
    assert (line.labels, line.value.tolist()) == ({"x": "y"}, [4800.0])
    (line,) = lines_of(body([1796016805.281, "1796016805.281"], "scalar")).lines
    assert line.value.tolist() == [1796016805.281]


def test_samples_out_of_order_are_put_in_order_and_the_last_of_an_instant_is_kept() -> None:
    (line,) = lines_of(body([{"metric": {}, "values": [[3, "3"], [1, "1"], [3, "4"], [2, "2"]]}])).lines
    assert line.value.tolist() == [1.0, 2.0, 4.0]


def test_warnings_and_partial_answers_are_doubts() -> None:
    assert lines_of(body([], warnings=["store 10.0.0.1 is gone"])).doubts == ("store 10.0.0.1 is gone",)
    assert "isPartial" in lines_of(body([], isPartial=True)).doubts[0]
    assert lines_of(body([], isPartial=False, infos=["metric might not be a counter"])).doubts == ()
    assert lines_of(body([], warnings=None)).doubts == ()


def test_no_names_may_be_an_empty_list_or_null() -> None:
    assert names_of(b'{"status":"success","data":["up","x"]}') == (["up", "x"], ())
    assert names_of(b'{"status":"success","data":[]}')[0] == []
    assert names_of(b'{"status":"success","data":null}')[0] == []


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"status":"success"}',
        b'{"status":"error","error":"no"}',
        b'{"status":"success","data":{"resultType":"string","result":[1,"x"]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,2]]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"x"]]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1e300,"1"]]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[-5,"1"]]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":[],"values":[]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":' + b"[" * 100_000,
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"\xff"},"values":[]}]}}',
        b'{"status":"success","data":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
    ],
)
def test_what_is_no_answer_is_an_error_of_its_own(bad: bytes) -> None:
    with pytest.raises(AnswerError):
        lines_of(bad)


@given(st.binary(max_size=80), st.integers(0, 200))
def test_a_damaged_answer_is_read_or_refused(junk: bytes, at: int) -> None:
    whole = body([{"metric": {"a": "b"}, "values": [[1, "1"], [2, "2"]]}])
    with contextlib.suppress(AnswerError):
        lines_of(whole[:at] + junk + whole[at + len(junk) :])


@given(st.lists(st.tuples(st.integers(0, 20), st.floats(-5, 5)), max_size=30))
def test_ascending_keeps_the_last_of_each_instant(pairs: list[tuple[int, float]]) -> None:
    at_ns = np.array([a for a, _ in pairs], np.int64)
    times, values = ascending(at_ns, np.array([v for _, v in pairs], np.float64))
    assert dict(zip(times.tolist(), values.tolist(), strict=True)) == dict(pairs)
    assert (np.diff(times) > 0).all()
