"""The list of counters that the how-to gives away."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stepscope.sources.dcgm_field import BY_NAME
from stepscope.sources.formats.exposition import read_exposition
from stepscope.sources.prometheus.read import is_wanted
from stepscope.sources.prometheus.url import OPTIONS
from stepscope.sources.telemetry import telemetry_of

PAGE = "docs/how-to/telemetry-from-prometheus.md"
NEEDED = {
    *(
        203,
        204,
        252,
        251,
        253,
        155,
        156,
        164,
        150,
        140,
        100,
        113,
        112,
        240,
        241,
        230,
        202,
        393,
        394,
        395,
        396,
    ),
    *(1001, 1002, 1003, 1004, 1005, 1007, 1009, 1010, 1011, 1012),
}
"""Fields for a diagnosis of seconds, by DCGM's ids."""


def rows(root: Path) -> list[list[str]]:
    (block,) = re.findall(r"```csv\n(.*?)```", (root / PAGE).read_text(encoding="utf-8"), re.DOTALL)
    return [[cell.strip() for cell in line.split(",")] for line in block.splitlines() if line[0] != "#"]


def test_the_counters_to_enable_are_those_that_are_read(root: Path) -> None:
    assert {BY_NAME[name.lower()].id for name, *_ in rows(root)} == NEEDED
    assert all(is_wanted(name) for name, *_ in rows(root))


def test_each_line_is_one_that_dcgm_exporter_takes(root: Path) -> None:
    assert all(len(row) == 3 and row[1] in ("gauge", "counter") for row in rows(root))


def test_every_option_of_an_address_is_in_the_page(root: Path) -> None:
    text = (root / PAGE).read_text(encoding="utf-8")
    assert [name for name in OPTIONS if f"`{name}=" not in text and f"{name}=" not in text] == []


def test_what_is_not_asked_for_would_not_have_been_read(shared_data: Path) -> None:
    folder = shared_data / "telemetry"
    if not folder.is_dir():
        pytest.skip("no shared telemetry")
    compared = 0
    for path in sorted(folder.rglob("*.prom")):
        metrics = read_exposition(path.read_text(errors="replace")).metrics
        asked = [metric for metric in metrics if is_wanted(metric.name)]
        whole, less = (telemetry_of(m, name="x", time="given") for m in (metrics, asked))
        for part in whole:
            same = next((each for each in less if each.format == part.format), None)
            assert same is not None or not part.series, path.name
            if same is not None:
                assert _values(same) == _values(part), path.name
                compared += 1
    assert compared >= 10


def _values(part: object) -> object:
    return [(s.signal, s.owner, s.at_ns.tolist(), s.value.tolist()) for s in part.series]  # type: ignore[attr-defined]
