"""Answers of Prometheus' HTTP API, saved to a file: `query` and `query_range`.

One answer, a list of answers, or one a line.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from stepscope.model.error import InputError
from stepscope.sources.formats.metric import Metric
from stepscope.sources.formats.moment import EPOCH_NS

Pair = tuple[float, str]


class _Result(msgspec.Struct):
    metric: dict[str, str] = {}
    value: Pair | None = None
    values: list[Pair] = []


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Answer(msgspec.Struct, rename="camel"):
    status: str
    data: msgspec.Raw = msgspec.Raw(b"{}")
    error: str = ""
    error_type: str = ""
    warnings: list[str] = []


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """`metrics` are its series, `faults` (code, count, detail), such as the server's own warnings."""

    metrics: list[Metric]
    num_samples: int
    faults: tuple[tuple[str, int, str], ...] = ()


def read_api_json(text: str, name: str) -> ApiAnswer:
    """Every series of every answer. InputError where the text is no answer, or the answer is an error."""
    metrics: list[Metric] = []
    faults: dict[str, tuple[int, str]] = {}
    answers = _answers(text, name)
    for answer in answers:
        if answer.status != "success":
            what = (
                f"Prometheus answered with an error ({answer.error_type or 'unknown'}): {answer.error or '?'}"
            )
            raise InputError(name, what, "mend the query and ask again")
        for warning in answer.warnings:
            count, first = faults.get("partial_answer", (0, warning))
            faults["partial_answer"] = (count + 1, first)
        metrics += _metrics(answer, name, faults)
    num_samples = sum(map(len, metrics))
    return ApiAnswer(
        metrics, num_samples, tuple((code, count, detail) for code, (count, detail) in faults.items())
    )


def _answers(text: str, name: str) -> list[_Answer]:
    text = text.lstrip("\ufeff").strip()
    wanted = "give an answer of /api/v1/query or /api/v1/query_range"
    try:
        if text.startswith("["):
            return msgspec.json.decode(text, type=list[_Answer])
        try:
            return [msgspec.json.decode(text, type=_Answer)]
        except msgspec.DecodeError:
            lines = [line for line in text.split("\n") if line.strip()]
            if len(lines) < 2 or not all(line.lstrip().startswith("{") for line in lines):
                raise
            return [msgspec.json.decode(line, type=_Answer) for line in lines]
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InputError(name, f"no answer of Prometheus' API ({error})", wanted) from error


def _metrics(answer: _Answer, name: str, faults: dict[str, tuple[int, str]]) -> list[Metric]:
    wanted = "ask /api/v1/query or /api/v1/query_range"
    try:
        data = msgspec.json.decode(answer.data, type=_Data)
        if data.result_type in ("scalar", "string"):
            pair = msgspec.json.decode(data.result, type=Pair)
            results = [_Result(value=pair)] if data.result_type == "scalar" else []
        elif data.result_type in ("vector", "matrix"):
            results = msgspec.json.decode(data.result, type=list[_Result])
        else:
            raise InputError(name, "an answer without samples (it lists names or targets)", wanted)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(name, f"an answer of another shape ({error})", wanted) from error
    metrics = []
    for result in results:
        pairs = [result.value] if result.value else result.values
        at_ns, value, num_bad = _columns(pairs)
        if num_bad:
            faults["malformed_lines"] = (
                faults.get("malformed_lines", (0, ""))[0] + num_bad,
                "no number or no time",
            )
        labels = dict(result.metric)
        metrics.append(Metric(labels.pop("__name__", ""), labels, at_ns, value))
    return metrics


def _columns(pairs: list[Pair]) -> tuple[np.ndarray, np.ndarray, int]:
    """Times in milliseconds are whole in Prometheus: seconds as a float are rounded to them."""
    times, values, num_bad = [], [], 0
    for second, text in pairs:
        try:
            value = float(text)
        except ValueError:
            num_bad += 1
            continue
        at_ns = round(second * 1000) * 1_000_000 if abs(second) < EPOCH_NS / 1e9 else None
        if at_ns is None or "_" in text:
            num_bad += 1
            continue
        times.append(at_ns)
        values.append(value)
    at = np.array(times, np.int64)
    order = np.argsort(at, kind="stable")
    return at[order], np.array(values, np.float64)[order], num_bad
