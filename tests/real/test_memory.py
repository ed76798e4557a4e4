"""Memory in real traces: the numbers that their allocator's own totals give."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepscope
from stepscope.model import report
from tests.real.test_answers import TRACES, diagnosed

MIB = 1 << 20
RMS = "tracelens/perf_model/normalization/normalization_layer_test.json.gz"


def memory_of(shared_data: Path, name: str) -> report.Memory:
    answer = diagnosed(shared_data / "traces" / TRACES.get(name, name))
    return next(row for row in answer.memory if row.device.kind != "cpu")


@pytest.mark.parametrize(
    ("name", "peak", "reserved", "step", "op"),
    [
        ("df_index", 6_629_508_096, 12_782_141_440, 2, "aten::empty"),
        ("qwen", 2_088_508_416, 2_629_828_608, 6, "aten::mul"),
        ("timesformer", 4_490_752_000, 4_588_568_576, 6, "aten::mul"),
        (RMS, 8_154_624, 8_388_608, None, "aten::mean"),
    ],
)
def test_the_peak_is_the_largest_total(
    shared_data: Path, name: str, peak: int, reserved: int, step: int | None, op: str
) -> None:
    row = memory_of(shared_data, name)
    assert row.basis == "totals"
    assert row.peak is not None
    assert (row.peak.allocated_bytes, row.peak.reserved_bytes) == (peak, reserved)
    assert (row.peak.step, row.peak.op) == (step, op)
    assert max(point.allocated_bytes for point in row.timeline) == peak


@pytest.mark.parametrize("name", ["workers_0", "workers_4"])
def test_the_profilers_of_2021_give_a_lower_limit(shared_data: Path, name: str) -> None:
    """ResNet-50 at batch 32: no totals, no addresses; every step has the same peak."""
    row = memory_of(shared_data, name)
    assert (row.basis, row.reserve, row.categories) == ("changes", None, ())
    assert row.peak is not None
    assert 2000 * MIB < row.peak.allocated_bytes < 4000 * MIB
    assert len({step.peak_bytes for step in row.steps}) == 1
    assert row.growth is None


def test_memory_at_the_peak_by_phase(shared_data: Path) -> None:
    """A model trained with SGD without momentum: no optimizer state."""
    row = memory_of(shared_data, "df_index")
    assert [each.kind for each in row.categories] == ["before", "activations", "gradients"]
    assert row.peak is not None
    assert sum(each.bytes for each in row.categories) == row.peak.allocated_bytes
    # Five equal steps end as they began: what was there before is what is there between them.
    assert row.categories[0].bytes == min(point.allocated_bytes for point in row.timeline)


@pytest.mark.parametrize("name", ["df_index", "qwen", "timesformer", "workers_0", "workers_4"])
def test_no_real_trace_is_called_leaking_or_in_pieces(shared_data: Path, name: str) -> None:
    """Reserved memory that is half unused says nothing while nobody asks the driver for more."""
    answer = diagnosed(shared_data / "traces" / TRACES[name])
    assert not {"memory-creep", "memory-fragmentation", "out-of-memory"} & {f.rule for f in answer.findings}


def test_a_trace_without_memory_events_says_how_to_record_them(shared_data: Path) -> None:
    answer = stepscope.diagnose(shared_data / "traces" / TRACES["ns_resolution"])
    assert answer.memory == ()
    open_ = next(each for each in answer.undecided if each.rule == "memory-creep")
    assert "profile_memory=True" in (open_.would_settle or "")
