"""The product against the reference, on generated traces: every part of every window, to the nanosecond."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analyse.compare import Comparison, compare
from tests.analyse.generate import generate
from tests.analyse.reference import CAUSES

SEEDS = 1500
CHUNK = 100


@pytest.mark.parametrize("chunk", range(SEEDS // CHUNK))
def test_product_and_reference_agree_on_every_nanosecond(chunk: int) -> None:
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        found = compare(generate(seed))
        assert not found.differences, found.describe()


@given(st.integers(min_value=SEEDS, max_value=2**32))
@settings(max_examples=60, deadline=None)
def test_product_and_reference_agree_on_other_seeds(seed: int) -> None:
    found = compare(generate(seed))
    assert not found.differences, found.describe()


@pytest.mark.parametrize("chunk", range(3))
def test_product_and_reference_agree_where_the_device_stops_before_the_steps_do(chunk: int) -> None:
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        found = compare(generate(seed, stops_early=True))
        assert not found.differences, found.describe()


def test_a_seed_is_always_the_same_trace() -> None:
    assert generate(5).json() == generate(5).json()
    assert generate(5).json() != generate(6).json()


@pytest.fixture(scope="module")
def coverage() -> Counter[str]:
    """In how many of the fixed traces each thing occurs, by the reference alone."""
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        trace = generate(seed)
        comparison = Comparison.expected_of(trace)
        rows = comparison.expected
        seen["cpu"] += trace.cpu_only
        seen["no steps"] += not trace.steps
        seen["several devices"] += len(rows) > 1
        seen.update({f"window {row.window}" for row in rows if row.device is not None and row.windows})
        seen["lost run-ahead"] += any(row.lost_run_ahead for row in rows)
        seen["after the last activity"] += any(
            row.window == "host" and row.windows[-1][2] > max(_ends(trace.events, row.device))
            for row in rows
            if row.device is not None and row.windows
        )
        parts = [p for row in rows for p in row.by_step.values()]
        seen.update({cause for p in parts for cause, ns in p.idle.items() if ns})
        for part in ("compute", "communication_exposed", "copy_exposed"):
            seen[part] += any(getattr(p, part) for p in parts)
    return seen


def _ends(events: list[dict[str, Any]], device: int) -> list[int]:
    return [
        round((e["ts"] + e["dur"]) * 1000)
        for e in events
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and e["args"]["device"] == device
    ]


@pytest.mark.parametrize("cause", CAUSES)
def test_every_idle_cause_occurs_in_many_traces(cause: str, coverage: Counter[str]) -> None:
    assert coverage[cause] >= 100


@pytest.mark.parametrize(
    ("what", "least"),
    [
        ("window host", 200),
        ("window device", 200),
        ("lost run-ahead", 200),
        ("after the last activity", 100),
        ("cpu", 100),
        ("no steps", 80),
        ("several devices", 200),
        ("compute", 1000),
        ("communication_exposed", 200),
        ("copy_exposed", 400),
    ],
)
def test_every_branch_occurs_in_many_traces(what: str, least: int, coverage: Counter[str]) -> None:
    assert coverage[what] >= least
