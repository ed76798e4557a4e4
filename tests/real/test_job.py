"""Eight real ranks (DLRM on eight V100): waits, who came last, clocks, and what moved clocks change."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal

import numpy as np
import pytest

from stepscope import offline
from stepscope.analyse.joined import join
from stepscope.analyse.lateness import lateness
from stepscope.analyse.rank import analyse_rank
from stepscope.trace.load import load, rank_of

FOLDER = "traces/param/dlrm_kineto"


@pytest.fixture(scope="module")
def files(shared_data):
    return sorted((shared_data / FOLDER).glob("*.json.gz"))


def joined_of(files):
    tables = []
    for file in files:
        trace = load(str(file))
        rank, world, _ = rank_of(trace)
        (analysis,) = analyse_rank(trace, rank=rank, world_size=world)
        tables += analysis.peers
    return join(tables)


@pytest.fixture(scope="module")
def joined(files):
    return joined_of(files)


@pytest.fixture(scope="module")
def report(shared_data):
    return offline.diagnose(shared_data / FOLDER)


def moved(files, folder, offsets_us, drift_ppm=()):
    """The files with each clock ahead by so many microseconds, and fast by so many ppm."""
    folder.mkdir(exist_ok=True)
    for file in files:
        data = json.loads(gzip.decompress(file.read_bytes()), parse_float=Decimal)
        rank = data["distributedInfo"]["rank"]
        times = [event["ts"] for event in data["traceEvents"] if "ts" in event]
        first, fast = min(times), (drift_ppm[rank] if len(drift_ppm) else 0)
        for event in data["traceEvents"]:
            if "ts" in event:
                local = Decimal(event["ts"]) + int(offsets_us[rank])
                event["ts"] = local + (Decimal(event["ts"]) - Decimal(first)) * int(fast) / 1_000_000
        text = json.dumps(data, default=str)
        # Decimals were written as text: a number again.
        import re

        text = re.sub(r'"ts": "(-?[0-9.]+)"', r'"ts": \1', text)
        (folder / file.name).write_bytes(gzip.compress(text.encode(), 1))
    return sorted(folder.glob("*.json.gz"))


def test_nearly_all_of_the_time_in_collectives_is_waiting(joined):
    calls = joined.calls
    duration = (calls.end_ns - calls.start_ns)[joined.by_instance]
    wait = joined.wait_ns[joined.by_instance]
    assert duration.sum() / 1e6 == pytest.approx(48.5, abs=0.1)
    assert wait.sum() / 1e6 == pytest.approx(46.8, abs=0.5)
    assert wait.sum() / duration.sum() == pytest.approx(0.965, abs=0.01)


def test_the_last_ranks_by_collective(joined):
    late = lateness(joined)
    assert late.last_rank.tolist() == [7, 7, 7, 7, 7, 5, 5, 4]
    kinds = [joined.calls.kind[t] for t in joined.calls.token[joined.by_instance[joined.heads]].tolist()]
    assert kinds == ["all_to_all"] * 4 + ["all_reduce", "all_to_all", "all_reduce", "all_reduce"]


def test_at_the_first_collective_rank_7_is_late_against_the_earliest_and_the_lower_median(joined):
    first = joined.by_instance[: joined.heads[1]]
    start = joined.start_ns[first]
    order = np.argsort(start)
    assert joined.calls.rank[first[order[-1]]] == 7
    assert (start.max() - start.min()) / 1e6 == pytest.approx(7.6, abs=0.05)
    assert joined.calls.rank[first[order[3]]] == 5
    assert (start.max() - start[order[3]]) / 1e6 == pytest.approx(4.7, abs=0.05)


def test_one_step_names_the_rank_and_no_persistence(report):
    assert [(row.rank, row.persistence, row.is_confirmed) for row in report.stragglers] == [
        (7, "unknown", True)
    ]
    assert report.stragglers[0].lateness_ns / 1e6 == pytest.approx(4.7, abs=0.05)
    assert report.verdict.class_ == "waiting-for-communication"


def test_the_parts_of_communication_add_up(report):
    rows = [row.communication for row in report.accounting if row.scope == "steps"]
    assert len(rows) == 8
    for row in rows:
        assert row.transfer_ns + row.wait_ns == row.total_ns
        assert row.wait_exposed_ns <= row.wait_ns


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_independent_offsets_of_5_ms_are_found_and_change_nothing(seed, files, joined, report, tmp_path):
    offsets = np.random.default_rng(seed).integers(-5_000, 5_001, 8)
    again = joined_of(moved(files, tmp_path / "moved", offsets))
    found = again.clocks.offset_ns - joined.clocks.offset_ns
    apart = (found - found[0]) / 1e3 - (offsets - offsets[0])
    assert np.abs(apart).max() <= 20
    ends = again.end_ns[again.by_instance]
    spread = np.maximum.reduceat(ends, again.heads) - np.minimum.reduceat(ends, again.heads)
    assert spread.max() <= 10_000
    other = offline.diagnose(tmp_path / "moved")
    assert [row.rank for row in other.stragglers] == [row.rank for row in report.stragglers]
    assert other.verdict == report.verdict
    assert lateness(again).last_rank.tolist() == lateness(joined).last_rank.tolist()


def test_50_ppm_in_a_window_of_20_ms_change_nothing_and_are_not_identifiable(files, report, tmp_path):
    moved(files, tmp_path / "moved", np.zeros(8), np.array([50, 0, -50, 0, 50, 0, 0, 50]))
    other = offline.diagnose(tmp_path / "moved")
    assert other.verdict == report.verdict
    assert [(row.rank, row.persistence) for row in other.stragglers] == [
        (row.rank, row.persistence) for row in report.stragglers
    ]
    for clock in other.clocks.ranks:
        assert clock.drift_ppm is None
        assert clock.drift_error_ppm > 50
