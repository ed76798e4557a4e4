"""Prometheus text: scrapes, times, escapes, and what is wrong in it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.sources.formats.exposition import Exposition, read_exposition

S = 1_000_000_000
T0 = 1_700_000_000 * S


def one(exposition: Exposition, name: str) -> tuple[list[int], list[float]]:
    found = [metric for metric in exposition.metrics if metric.name == name]
    assert len(found) == 1
    return found[0].at_ns.tolist(), found[0].value.tolist()


def test_scrapes_after_their_comments_are_one_series_in_order_of_time() -> None:
    text = f"# scraped_at_ns {T0 + S}\na 2\nb 5\n# scraped_at_ns {T0}\na 1\n"
    read = read_exposition(text)
    assert (read.time, read.num_scrapes, read.num_samples, read.faults) == ("scrape", 2, 3, ())
    assert one(read, "a") == ([T0, T0 + S], [1.0, 2.0])
    assert one(read, "b") == ([T0 + S], [5.0])


def test_timestamps_of_prometheus_text_are_milliseconds_and_those_of_openmetrics_seconds() -> None:
    assert one(read_exposition("a 1 1700000000123\n"), "a")[0] == [T0 + 123_000_000]
    assert one(read_exposition("a 1 1700000000.123\n# EOF\n"), "a")[0] == [T0 + 123_000_000]


def test_seconds_where_milliseconds_belong_are_seen_by_their_size_and_said() -> None:
    read = read_exposition("a 1 1606402000\n")
    assert one(read, "a")[0] == [1_606_402_000 * S]
    assert [code for code, _, _ in read.faults] == ["unit_suspect"]


def test_without_any_time_scrapes_stand_a_second_apart_from_zero() -> None:
    read = read_exposition("a 1\nb 2\na 3\nb 4\n")
    assert (read.time, read.num_scrapes) == ("none", 2)
    assert one(read, "b") == ([0, S], [2.0, 4.0])


def test_the_time_that_the_caller_knows_is_that_of_a_single_scrape_only() -> None:
    assert one(read_exposition("a 1\n", given_ns=T0), "a")[0] == [T0]
    assert read_exposition("a 1\n", given_ns=T0).time == "given"
    assert read_exposition("a 1\na 2\n", given_ns=T0).time == "none"


def test_labels_keep_escapes_braces_commas_and_spaces() -> None:
    read = read_exposition('a{x="1,}{ \\"q\\" \\\\ \\n", y="z",} 7\n')
    assert read.metrics[0].labels == {"x": '1,}{ "q" \\ \n', "y": "z"}
    assert read.metrics[0].value.tolist() == [7.0]


def test_two_spellings_of_one_series_are_one() -> None:
    read = read_exposition(
        f'# scraped_at_ns {T0}\na{{x="1",y="2"}} 1\n# scraped_at_ns {T0 + S}\na{{y="2", x="1"}} 2\n'
    )
    assert [metric.value.tolist() for metric in read.metrics] == [[1.0, 2.0]]


def test_a_series_twice_at_one_time_is_counted() -> None:
    read = read_exposition(f"# scraped_at_ns {T0}\nb 9\na 1\na 2\n")
    assert one(read, "a") == ([T0, T0], [1.0, 2.0])
    assert ("duplicate_samples", 1) in [(code, count) for code, count, _ in read.faults]


def test_windows_line_ends_a_byte_order_mark_exponents_and_infinities_are_read() -> None:
    read = read_exposition("\ufeffa 1e-3\r\nb +Inf\r\nc NaN\r\nd -Inf\r\n")
    assert one(read, "a")[1] == [0.001]
    assert one(read, "b")[1] == [math.inf]
    assert math.isnan(one(read, "c")[1][0])
    assert read.faults == ()


def test_a_last_line_without_an_end_is_left_out_and_said() -> None:
    read = read_exposition("a 1\nb 123")
    assert [metric.name for metric in read.metrics] == ["a"]
    assert [code for code, _, _ in read.faults] == ["truncated"]


@pytest.mark.parametrize(
    "line",
    [
        "a",
        "a{ 1",
        'a{x="1} 2',
        "a 1 2 3",
        "a 0x10",
        "a 1_0",
        "9a 1",
        "a{x=1} 2",
        "a one",
        'a{"x"} 1',
        "a 1 inf",
    ],
)
def test_a_malformed_line_is_counted_with_its_place_and_yields_nothing(line: str) -> None:
    read = read_exposition(f"good 1\n{line}\n")
    assert [metric.name for metric in read.metrics if len(metric)] == ["good"]
    assert sum(count for code, count, _ in read.faults if code == "malformed_lines") == 1


def test_types_are_kept_and_a_family_without_a_sample_is_there_with_no_row() -> None:
    read = read_exposition("# HELP a text\n# TYPE a counter\n# TYPE b gauge\na_total 1\na 2\n")
    kinds = {metric.name: (metric.type, len(metric)) for metric in read.metrics}
    assert kinds == {"a_total": ("counter", 1), "a": ("counter", 1), "b": ("gauge", 0)}


def test_an_exemplar_is_no_timestamp() -> None:
    assert one(read_exposition('a_bucket{le="1"} 3 # {trace="x"} 0.5 1700000000\n# EOF\n'), "a_bucket")[
        1
    ] == [3.0]


def test_sample_times_and_lines_without_may_stand_in_one_file() -> None:
    read = read_exposition(f"# scraped_at_ns {T0}\na 1\nb 2 1700000001000\na_ 3\n")
    assert one(read, "a")[0] == [T0]
    assert one(read, "b")[0] == [T0 + S]
    assert read.time == "scrape"


NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True)
KEYS = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,5}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=8)
NUMBERS = st.floats(allow_nan=False)


@given(
    st.dictionaries(
        st.tuples(
            NAMES, st.dictionaries(KEYS, TEXTS, max_size=3).map(lambda each: tuple(sorted(each.items())))
        ),
        st.lists(NUMBERS, min_size=1, max_size=3),
        max_size=5,
    )
)
def test_what_is_written_is_read_back(
    wanted: dict[tuple[str, tuple[tuple[str, str], ...]], list[float]],
) -> None:
    escaped = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    lines = []
    for step in range(3):
        lines.append(f"# scraped_at_ns {T0 + step * S}")
        for (name, labels), column in wanted.items():
            if step < len(column):
                inside = ",".join(f'{key}="{value.translate(escaped)}"' for key, value in labels)
                lines.append(f"{name}{{{inside}}} {column[step]!r}" if labels else f"{name} {column[step]!r}")
    read = read_exposition("\n".join(lines) + "\n")
    assert read.faults == ()
    found = {(m.name, tuple(sorted(m.labels.items()))): m.value.tolist() for m in read.metrics}
    assert found == wanted


@given(st.text(max_size=200))
def test_any_text_is_read_or_counted(text: str) -> None:
    read = read_exposition(text)
    assert all(np.all(np.diff(metric.at_ns) >= 0) for metric in read.metrics)


@given(st.integers(0, 200))
def test_a_text_that_is_cut_anywhere_holds_no_sample_that_the_whole_has_not(cut: int) -> None:
    whole = "".join(
        f'# scraped_at_ns {T0 + step * S}\nDCGM_FI_DEV_GPU_UTIL{{gpu="0"}} {97 + step}\nb 0.951{step}\n'
        for step in range(3)
    )
    samples = {
        (m.name, at, v)
        for m in read_exposition(whole).metrics
        for at, v in zip(m.at_ns, m.value, strict=True)
    }
    read = read_exposition(whole[:cut])
    if read.time == "scrape":
        assert {
            (m.name, at, v) for m in read.metrics for at, v in zip(m.at_ns, m.value, strict=True)
        } <= samples
