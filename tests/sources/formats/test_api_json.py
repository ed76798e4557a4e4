"""Answers of Prometheus' HTTP API."""

from __future__ import annotations

import json

import pytest

from stepscope.model.error import InputError
from stepscope.sources.formats.api_json import read_api_json

S = 1_000_000_000


def answer(kind: str, result: object, **more: object) -> str:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}, **more})


def test_a_vector_is_one_sample_a_series_at_a_whole_millisecond() -> None:
    text = answer("vector", [{"metric": {"__name__": "a", "x": "1"}, "value": [1773114089.184, "0.25"]}])
    (metric,) = read_api_json(text, "a.json").metrics
    assert (metric.name, metric.labels) == ("a", {"x": "1"})
    assert metric.at_ns.tolist() == [1_773_114_089_184_000_000]
    assert metric.value.tolist() == [0.25]


def test_a_matrix_is_a_column_in_order_of_time() -> None:
    pairs = [[1700000001, "2"], [1700000000, "1"], [1700000002, "NaN"]]
    (metric,) = read_api_json(answer("matrix", [{"metric": {"__name__": "a"}, "values": pairs}]), "a").metrics
    assert metric.at_ns.tolist() == [1_700_000_000 * S, 1_700_000_001 * S, 1_700_000_002 * S]
    assert metric.value[:2].tolist() == [1.0, 2.0]


def test_a_scalar_has_no_name_and_a_list_of_answers_or_one_a_line_are_all_read() -> None:
    scalar = answer("scalar", [1700000000, "3"])
    assert read_api_json(scalar, "a").metrics[0].name == ""
    vector = answer("vector", [{"metric": {"__name__": "a"}, "value": [1700000000, "1"]}])
    assert len(read_api_json(f"[{vector},{vector}]", "a").metrics) == 2
    assert len(read_api_json(f"{vector}\n{scalar}\n", "a").metrics) == 2


def test_an_error_of_the_server_is_told_in_its_words() -> None:
    text = json.dumps({"status": "error", "errorType": "bad_data", "error": "parse error at char 3"})
    with pytest.raises(InputError, match=r"bad_data\): parse error at char 3"):
        read_api_json(text, "a.json")


def test_warnings_of_a_partial_answer_are_kept() -> None:
    read = read_api_json(answer("vector", [], warnings=["PromQL: store unavailable"]), "a.json")
    assert read.faults == (("partial_answer", 1, "PromQL: store unavailable"),)


def test_a_value_that_is_no_number_is_counted() -> None:
    read = read_api_json(answer("vector", [{"metric": {}, "value": [1700000000, "x"]}]), "a.json")
    assert len(read.metrics[0]) == 0
    assert read.faults[0][:2] == ("malformed_lines", 1)


@pytest.mark.parametrize(
    "text",
    [
        '{"status": "success"}',
        '{"status": "success", "data": ["up"]}',
        '{"status": "success", "data": {"resultType": "streams", "result": []}}',
        '{"status": "success", "data": {"resultType": "matrix", "result": [{"values": [1]}]}}',
        '{"status": "success", "data": {"resultType": "vector", "result": [',
        "[1]",
        "",
    ],
)
def test_what_is_no_answer_with_samples_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        read_api_json(text, "a.json")
