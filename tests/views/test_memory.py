"""The memory section, in both languages, and what is said of snapshots that cannot be used."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepscope.analyse.memory.of_snapshot import memory_of_snapshot
from stepscope.model import report
from stepscope.model.error import InputError, RefusedError
from stepscope.model.text import number, size
from stepscope.sources.catalog.torch_snapshot import parse
from stepscope.views import markdown
from stepscope.views.detail import input_error
from stepscope.views.memory import memory_head, memory_lines, memory_notes, shown_memory
from tests.diagnose.build import MS, rank, row, told
from tests.sources.catalog.test_torch_snapshot import NO_SNAPSHOTS
from tests.sources.formats.test_plain_pickle import HOSTILE_NAMES, hostile
from tests.views.show import shown

MB, GB = 1 << 20, 1 << 30
HAN = re.compile("[\u4e00-\u9fff]")
ROW = report.Memory(
    source="trace",
    device=report.Device(index=0),
    basis="totals",
    num_events=900,
    rank=0,
    timeline=(report.MemoryPoint(at_ns=5, allocated_bytes=6 * GB, reserved_bytes=12 * GB),),
    peak=report.MemoryPeak(
        at_ns=5,
        allocated_bytes=6 * GB,
        reserved_bytes=12 * GB,
        step=7,
        op="aten::empty",
        within="Mul|Backward",
    ),
    reserve=report.MemoryReserve(
        at_ns=5, reserved_bytes=12 * GB, allocated_bytes=6 * GB, unused_share=0.5, grew=True
    ),
    growth=report.MemoryGrowth(
        bytes_per_step=40.0 * MB, error_bytes_per_step=1.5 * MB, certainty=3.9, steady_share=0.9, num_steps=12
    ),
    categories=(
        report.MemoryCategory(kind="before", bytes=4 * GB, share=0.667),
        report.MemoryCategory(kind="gradients", bytes=2 * GB, share=0.333),
    ),
    driver=report.DriverCalls(num_allocations=4, num_frees=3, num_retries=1, steps=(6, 7)),
)


def test_a_trace_s_memory_in_english_lines() -> None:
    assert memory_head(ROW, "en") == "Memory (rank 0, device 0)"
    assert memory_notes(ROW, "en") == []
    assert memory_lines(ROW, "en") == [
        "peak: 6.00 GiB of 12.0 GiB reserved, step 7, aten::empty in Mul|Backward",
        "of it, by the phase that allocated it (an estimate): there before (parameters, buffers) 4.00 GiB "
        "(66.7 %), gradients 2.00 GiB (33.3 %)",
        "growth of step peaks: 40.0 MiB ± 1.50 MiB a step, over 12 steps",
        "largest reserve: 12.0 GiB, 6.00 GiB allocated then, 50.0 % unused",
        "driver calls in steps: 4 allocations, 3 frees, 1 retry",
    ]


def test_the_same_in_chinese() -> None:
    assert memory_head(ROW, "zh") == "显存（rank 0，设备 0）"
    lines = memory_lines(ROW, "zh")
    assert lines[0] == "峰值：6.00 GiB（reserved 12.0 GiB），第 7 步，Mul|Backward 中的 aten::empty"
    assert lines[2] == "步峰值的增长：每步 40.0 MiB ± 1.50 MiB，共 12 步"
    assert all(HAN.search(line) for line in lines)


def test_growth_within_chance_is_none_and_not_a_number() -> None:
    assert ROW.growth is not None
    growth = msgspec.structs.replace(ROW.growth, certainty=2.9)
    lines = memory_lines(msgspec.structs.replace(ROW, growth=growth), "en")
    assert "growth of step peaks: none beyond chance, over 12 steps" in lines


def test_what_was_not_recorded_has_no_line() -> None:
    bare = report.Memory(source="trace", device=report.Device(index=0), basis="changes", num_events=1)
    assert memory_lines(bare, "en") == []
    assert memory_notes(bare, "en") == ["the trace holds changes only: above the lowest level in it"]


def test_failures_then_snapshots_then_peaks_are_shown_and_the_host_s_memory_only_alone() -> None:
    host = msgspec.structs.replace(ROW, device=report.Device(kind="cpu"))
    small = msgspec.structs.replace(ROW, rank=1, peak=report.MemoryPeak(at_ns=5, allocated_bytes=MB))
    taken = msgspec.structs.replace(small, rank=2, source="snapshot")
    lost = msgspec.structs.replace(
        taken,
        rank=3,
        out_of_memory=(report.OutOfMemory(requested_bytes=9, reason="unknown", is_estimate=False),),
    )
    rows, more = shown_memory([host, small, taken, ROW, lost])
    assert ([each.rank for each in rows], more) == ([3, 2, 0], 1)
    assert shown_memory([host]) == ([host], 0)
    assert memory_head(host, "en") == "Host memory (rank 0)"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_page_has_the_section(lang: Any) -> None:
    analysis = rank(row(queued=2 * MS))
    answer = told(_with_memory(analysis), lang=lang)
    head = "Memory (rank 0, device 0)" if lang == "en" else "显存（rank 0，设备 0）"
    assert head in shown(answer, lang)
    page = markdown.render(answer, lang)
    assert f"<summary>{head}</summary>" in page
    # Outside a table a bar in code is a bar.
    assert "`Mul|Backward`" in page


def _with_memory(analysis: Any) -> Any:
    import dataclasses

    return dataclasses.replace(analysis, memory=(ROW,))


@pytest.mark.parametrize(
    ("num_bytes", "written"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536 * MB, "1.50 GiB"),
        (GB - 1, "1.00 GiB"),
        (5 << 40, "5.00 TiB"),
        (-3 * MB, "-3.00 MiB"),
    ],
)
def test_bytes_are_written_in_powers_of_1024(num_bytes: int, written: str) -> None:
    assert size(num_bytes) == written
    assert number(num_bytes, "B") == written


def _said(data: bytes) -> str:
    with pytest.raises((InputError, RefusedError)) as caught:
        parse(data, "s.pickle")
    return str(caught.value)


SAID = {
    **{name: (lambda name=name: _said(hostile(Path("/p"))[name])) for name in HOSTILE_NAMES},
    **{name: (lambda value=value: _said(pickle.dumps(value))) for name, (value, _) in NO_SNAPSHOTS.items()},
    "cut": lambda: _said(pickle.dumps({"segments": []}, 5)[:12]),
    "inconsistent": lambda: _said(b"\x80\x04a."),
}


@pytest.mark.parametrize("name", SAID)
def test_what_is_wrong_with_a_snapshot_is_said_in_chinese(name: str) -> None:
    said = SAID[name]()
    chinese = input_error(report.Input(kind="snapshot", name="s.pickle", error=said), "zh")
    left = re.sub(
        r"s\.pickle|torch\.cuda\.memory\._\w+\(\)|max_entries|pickle|bytearray|int|'\w+'|none", "", chinese
    )
    assert HAN.search(chinese)
    assert not re.search("[A-Za-z]{2}", left), chinese


def test_a_snapshot_s_failure_is_one_line_that_says_which_it_is() -> None:
    from tests.analyse.test_snapshot_memory import pinned

    a = pinned()
    a.alloc(4 * MB)
    (made,) = memory_of_snapshot(parse(pickle.dumps(a.snapshot()), "s"))
    assert memory_lines(made, "en")[0] == (
        "failed request: 4.00 MiB asked for, 20.0 MiB reserved but unallocated in 20 pieces, the largest "
        "1.00 MiB, 1.00 MiB free in the driver: enough in all, but in pieces "
        "(/home/ada/job/train.py:42 forward)"
    )
    assert memory_lines(made, "zh")[0] == (
        "失败的申请：申请 4.00 MiB，reserved 中未分配 20.0 MiB，分为 20 块，最大 1.00 MiB，"
        "驱动尚有 1.00 MiB：总量足够，但都是碎片（/home/ada/job/train.py:42 forward）"
    )
