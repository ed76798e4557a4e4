"""How questions are cut, and whose a target is."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.sources.prometheus.plan import (
    Span,
    count_query,
    one_of,
    parts_of,
    quoted,
    ranged,
    selector,
    span_of,
    target_of,
    without_port,
)


def test_a_window_is_rounded_outwards_to_milliseconds() -> None:
    assert span_of(1_000_000_001, 2_000_000_001, 0) == Span(1000, 2001)
    assert span_of(5_000_000_000, 6_000_000_000, 2_000_000_000) == Span(3000, 8000)


def test_a_range_reaches_a_millisecond_before_its_span() -> None:
    # VictoriaMetrics and Prometheus 3 leave the begin of a range out.
    assert ranged(selector("up", ['a="b"']), Span(1000, 61_000)) == 'up{a="b"}[60001ms]'


def test_the_query_that_counts_names_every_label_of_a_target() -> None:
    assert count_query("up", (), Span(0, 1000)) == (
        "sum by (job, Hostname, hostname, nodename, node, kubernetes_node, host, exported_instance, "
        "instance) (count_over_time(up[1001ms]))"
    )


@given(st.text(max_size=20))
def test_a_quoted_string_ends_where_it_should(text: str) -> None:
    inside = quoted(text)[1:-1]
    assert re.fullmatch(r'(?:[^"\\\n]|\\.)*', inside, re.DOTALL)
    assert "\n" not in inside


def test_instances_are_matched_as_they_are_written() -> None:
    assert one_of("instance", ["a.b:9400"]) == 'instance="a.b:9400"'
    assert one_of("instance", ["a.b:1", "c|d"]) == r'instance=~"a\\.b:1|c\\|d"'


@pytest.mark.parametrize(
    ("name", "bare"),
    [("Node-1:9100", "node-1"), ("node-1", "node-1"), ("[::1]:9400", "::1"), ("::1", "::1"), ("a:b", "a:b")],
)
def test_a_port_is_no_part_of_a_host(name: str, bare: str) -> None:
    assert without_port(name) == bare


def test_a_target_is_on_its_host_whichever_label_says_so() -> None:
    by_hostname = target_of({"Hostname": "gpu-1", "instance": "10.0.0.1:9400", "gpu": "0"})
    by_instance = target_of({"instance": "gpu-1.corp.example:9100"})
    for target in (by_hostname, by_instance):
        assert target.is_on("gpu-1")
        assert target.is_on("GPU-1.corp.example")
        assert not target.is_on("gpu-10")
        assert not target.is_on("gpu")
    assert by_hostname.is_on("10.0.0.1")
    assert not by_hostname.is_on("10.0.0")


INSTANCES = st.from_regex(r"[a-z0-9.:\-]{0,30}", fullmatch=True)
COUNTS = st.dictionaries(INSTANCES, st.integers(0, 5000), max_size=30)


@given(COUNTS, st.integers(1, 3000), st.integers(200, 4000), st.booleans())
def test_parts_hold_every_target_and_instant_once(
    samples: dict[str, int], most: int, characters: int, is_all: bool
) -> None:
    span = Span(1000, 601_000)
    parts = parts_of(
        "m", samples, ('a="b"',), span, is_all=is_all, most_samples=most, most_characters=characters
    )
    by_group: dict[tuple[str, ...], list[Span]] = {}
    for part in parts:
        by_group.setdefault(part.matchers, []).append(part.span)
    for spans in by_group.values():
        assert spans[0].start_ms == 1000
        assert spans[-1].end_ms == 601_000
        assert all(a.end_ms == b.start_ms for a, b in itertools.pairwise(spans))
    for instance in samples:
        hits = [group for group in by_group if _matches(group, instance)]
        assert len(hits) == 1
        held = sum(n for other, n in samples.items() if _matches(hits[0], other))
        assert held / len(by_group[hits[0]]) <= most


def _matches(matchers: tuple[str, ...], instance: str) -> bool:
    if len(matchers) == 1:
        return True
    hit = re.fullmatch(r'instance(=~|=)"(.*)"', matchers[1])
    assert hit
    text = hit[2].replace("\\\\", "\\")
    return bool(re.fullmatch(text, instance)) if hit[1] == "=~" else text == instance
