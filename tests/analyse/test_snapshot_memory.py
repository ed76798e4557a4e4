"""Memory of a snapshot: what is held, by whom, its history, and why requests failed."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyse.features import facts
from stepscope.analyse.features.memory import memory_in_pieces_share
from stepscope.analyse.memory.failure import Reserve, driver_bytes, reason, retries
from stepscope.analyse.memory.frame import NOBODY, site
from stepscope.analyse.memory.of_snapshot import memory_of_snapshot
from stepscope.model import report
from stepscope.model.feature import Observed
from stepscope.model.snapshot import Action
from stepscope.sources.catalog.torch_snapshot import parse
from tests.diagnose.build import rank
from tests.diagnose.build import row as of_time
from tests.sources.allocator import BEGIN_US, KB, MB, TRAIN, Allocator


def memory_of(plain: dict[str, Any]) -> report.Memory:
    (row,) = memory_of_snapshot(parse(pickle.dumps(plain), "s.pickle"), place=0)
    return row


def in_pieces(row: report.Memory) -> float | None:
    analysis = dataclasses.replace(rank(of_time()), memory=(row,))
    observed = Observed(analysis, analysis.devices[0])
    return facts(observed, [memory_in_pieces_share]).get(memory_in_pieces_share)


EVAL = (("/home/ada/job/eval.py", 7, "score"), ("/home/ada/job/eval.py", 70, "main"))


def pinned() -> Allocator:
    """Of 40 MB every other megabyte is in use: 20 MB lie free, in pieces of one."""
    a = Allocator(41 * MB)
    blocks = [a.alloc(MB, TRAIN if i % 4 else EVAL) for i in range(40)]
    for address in blocks[1::2]:
        assert address is not None
        a.free(address)
    return a


def test_what_is_held_is_summed_from_the_blocks() -> None:
    row = memory_of(pinned().snapshot())
    assert row.held == report.HeldMemory(
        reserved_bytes=40 * MB,
        allocated_bytes=20 * MB,
        requested_bytes=20 * MB,
        pending_bytes=0,
        free_bytes=20 * MB,
        largest_free_bytes=MB,
        free_in_pieces_share=0.95,
        inactive_split_bytes=20 * MB,
        num_segments=20,
        num_blocks=40,
        num_free_blocks=20,
        expandable_segments=False,
    )
    assert (row.source, row.unverified, row.input, row.device.index) == ("snapshot", True, 0, 0)


def test_only_segments_in_use_pin_their_free_bytes() -> None:
    a = Allocator(41 * MB)
    kept, gone = a.alloc(MB), a.alloc(6 * MB)
    assert kept is not None
    assert gone is not None
    a.free(gone)
    held = memory_of(a.snapshot()).held
    assert held is not None
    assert (held.free_bytes, held.inactive_split_bytes, held.num_segments) == (7 * MB, MB, 2)


def test_the_stacks_that_hold_the_most_come_first() -> None:
    row = memory_of(pinned().snapshot())
    assert [(each.name, each.bytes // MB, each.count, each.share) for each in row.sites] == [
        ("/home/ada/job/eval.py:7 score", 10, 10, 0.5),
        ("/home/ada/job/train.py:42 forward", 10, 10, 0.5),
    ]
    assert row.sites[1].stack[0] == "at::native::empty_cuda(c10::ArrayRef<long>)"


def test_a_request_that_pieces_cannot_serve_is_called_fragmented() -> None:
    a = pinned()
    assert a.alloc(4 * MB) is None
    (failed,) = memory_of(a.snapshot()).out_of_memory
    assert failed == report.OutOfMemory(
        requested_bytes=4 * MB,
        reason="fragmented",
        at_ns=(BEGIN_US + len(a.history) - 1) * 1000,
        device_free_bytes=MB,
        reserved_bytes=40 * MB,
        allocated_bytes=20 * MB,
        unallocated_bytes=20 * MB,
        num_free_blocks=20,
        largest_free_bytes=MB,
        is_estimate=False,
        name="/home/ada/job/train.py:42 forward",
        stack=tuple(f"{f}:{n} {name}" if f != "??" else name for f, n, name in TRAIN),
    )


def test_what_was_freed_since_is_reckoned_back() -> None:
    """The exception unwinds and frees all of it before the snapshot is taken."""
    a = pinned()
    a.alloc(4 * MB)
    for blocks in list(a.segments.values()):
        for block in list(blocks):
            if block["state"] != "inactive":
                a.free(block["address"])
    a.empty_cache()
    assert a.reserved == 0
    (failed,) = memory_of(a.snapshot()).out_of_memory
    assert failed.is_estimate
    assert (failed.reason, failed.reserved_bytes, failed.num_free_blocks) == ("fragmented", 40 * MB, 20)


def test_a_request_larger_than_all_that_is_free_is_too_big() -> None:
    a = Allocator(10 * MB)
    a.alloc(7 * MB)
    assert a.alloc(5 * MB) is None
    (failed,) = memory_of(a.snapshot()).out_of_memory
    assert (failed.reason, failed.unallocated_bytes, failed.device_free_bytes) == ("too_big", MB, 2 * MB)


@pytest.mark.parametrize(
    ("requested", "pieces", "usable", "free", "why"),
    [
        # A public case: 960 MiB asked, 15.5 GiB free, 76 MiB reserved and unallocated.
        (960 * MB, [76 * MB], [76 * MB], 15892 * MB, "outside"),
        (960 * MB, [76 * MB], [76 * MB], 500 * MB, "too_big"),
        (960 * MB, [500 * MB] * 10, [500 * MB] * 10, 500 * MB, "fragmented"),
        # Together with what the driver has it would be enough.
        (960 * MB, [500 * MB], [500 * MB], 500 * MB, "fragmented"),
        # 4 MiB are asked of the driver as 20.
        (4 * MB, [MB], [MB], 10 * MB, "fragmented"),
        (4 * MB, [MB], [MB], 20 * MB, "outside"),
        (960 * MB, [76 * MB], [76 * MB], None, "unknown"),
        (960 * MB, [500 * MB] * 4, [500 * MB] * 4, None, "fragmented"),
        # What is too small together in the request's own pool, and large enough with another's.
        (960 * MB, [76 * MB, 2000 * MB], [76 * MB], 500 * MB, "other_pool"),
        (960 * MB, [76 * MB, 500 * MB], [76 * MB], 500 * MB, "other_pool"),
        (960 * MB, [76 * MB, 300 * MB], [76 * MB], 500 * MB, "too_big"),
        # Nobody knows why this one did not serve.
        (960 * MB, [2000 * MB], [2000 * MB], 500 * MB, "unknown"),
    ],
)
def test_why_a_request_failed(
    requested: int, pieces: list[int], usable: list[int], free: int | None, why: str
) -> None:
    assert reason(requested, pieces, usable, free) == why


@given(
    st.integers(1, 64 * MB),
    st.lists(st.tuples(st.integers(1, 64 * MB), st.booleans()), max_size=6),
    st.none() | st.integers(0, 64 * MB),
)
def test_a_piece_as_large_as_the_request_is_never_called_fragments(
    requested: int, free: list[tuple[int, bool]], device_free: int | None
) -> None:
    pieces, usable = [size for size, _ in free], [size for size, is_own in free if is_own]
    why = reason(requested, pieces, usable, device_free)
    if why == "fragmented":
        assert max(usable, default=0) < requested <= sum(usable) + (device_free or 0)
    if max(pieces, default=0) >= requested:
        assert why in ("outside", "other_pool", "unknown", "fragmented")
        assert why != "fragmented" or max(usable, default=0) < requested


@pytest.mark.parametrize(
    ("stream", "pool", "why"),
    [(0, (0, 0), "unknown"), (7, (0, 0), "other_pool"), (0, (0, 1), "other_pool"), (7, (1, 0), "other_pool")],
)
@pytest.mark.parametrize("is_undone", [True, False])
def test_free_memory_of_another_stream_or_pool_is_no_fragment(
    stream: int, pool: tuple[int, int], why: str, is_undone: bool
) -> None:
    """20 of 40 MB are in use; of 16 more all but a half lie free in one piece, and 8 are asked for. The same
    where the whole of it was freed after the failure."""
    a = Allocator(40 * MB)
    a.alloc(20 * MB)
    side = a.alloc(16 * MB)
    assert side is not None
    a.free(side)
    kept = a.alloc(MB // 2)
    assert kept is not None
    a._note("oom", 0, 8 * MB, TRAIN, device_free=4 * MB)
    if is_undone:
        a.free(kept)
    plain = a.snapshot()
    (segment,) = (each for each in plain["segments"] if each["total_size"] == 16 * MB)
    segment |= {"stream": stream, "segment_pool_id": pool}
    row = memory_of(plain)
    (failed,) = row.out_of_memory
    assert (failed.reason, failed.is_estimate) == (why, is_undone)
    assert failed.largest_free_bytes == 31 * MB // 2


def test_the_driver_is_asked_for_whole_segments() -> None:
    asked = [1, MB, MB + 1, 10 * MB - 1, 10 * MB, 11 * MB]
    assert [driver_bytes(each) // MB for each in asked] == [2, 2, 20, 20, 10, 12]


A, F, USED, FREED = Action.SEGMENT_ALLOC, Action.SEGMENT_FREE, Action.ALLOC, Action.FREE


@pytest.mark.parametrize(
    ("history", "num"),
    [
        # 8 held at most, and 8 + 3 are more: the driver had refused.
        ([(A, 5), (USED, 5), (FREED, 5), (A, 3), (F, 3), (A, 3)], 1),
        ([(A, 5), (A, 3), (F, 3), (A, 3), (F, 3), (A, 3)], 2),
        ([(A, 5), (A, 3), (F, 5), (F, 3), (A, 6)], 1),
        # 2 + 1 were no more than the 8 that fitted later: nobody was refused.
        ([(A, 2), (F, 2), (A, 1), (A, 1), (A, 6)], 0),
        # Blocks were given out between: not one request.
        ([(A, 5), (A, 3), (F, 3), (USED, 1), (A, 3)], 0),
        # Of the levels before the history nothing is known: 3 given back, and 3 asked for.
        ([(F, 3), (A, 3)], 1),
    ],
)
def test_a_retry_is_a_request_that_the_driver_refused(history: list[tuple[Action, int]], num: int) -> None:
    actions, sizes = [action for action, _ in history], [size for _, size in history]
    told = retries(actions, sizes, [False] * len(history))
    assert told == (actions.count(A), actions.count(F), num)
    assert retries(actions, sizes, [True] * len(history))[2] == 0


@pytest.mark.parametrize(("clears", "num"), [(True, 0), (False, 3)])
def test_a_cache_that_somebody_clears_was_not_refused_anything(clears: bool, num: int) -> None:
    """Four times 30 of 40 MB are taken and given back: by the code, or because 30 more do not fit."""
    a = Allocator(40 * MB)
    for size in (30, 32, 34, 36):
        address = a.alloc(size * MB)
        assert address is not None
        a.free(address)
        if clears:
            a.empty_cache()
    plain = a.snapshot()
    if clears:
        for entry in plain["device_traces"][0]:
            if entry["action"] == "segment_free":
                entry["frames"] = [{"filename": "torch/cuda/memory.py", "line": 2, "name": "empty_cache"}]
    driver = memory_of(plain).driver
    assert driver is not None
    assert driver.num_retries == num


def test_a_healthy_run_that_freed_its_activations_is_not_in_pieces() -> None:
    """The cache emptied once after loading; then steps that free all they take: whole segments lie free."""
    a = Allocator(80 * MB)
    loaded = a.alloc(20 * MB)
    assert loaded is not None
    a.free(loaded)
    a.empty_cache()
    for _ in range(4):
        a.alloc(10 * MB)
    for _ in range(3):
        for address in [a.alloc(4 * MB) for _ in range(8)]:
            assert address is not None
            a.free(address)
    plain = a.snapshot()
    row = memory_of(plain)
    assert row.held is not None
    assert row.driver is not None
    assert (row.held.free_bytes, row.held.inactive_split_bytes) == (32 * MB, 0)
    assert row.driver.num_retries == 0
    assert in_pieces(row) == 0.0


def test_free_bytes_beside_blocks_in_use_are_in_pieces() -> None:
    """19 of 20 free megabytes, of 40: the largest piece serves."""
    assert in_pieces(memory_of(pinned().snapshot())) == 19 / 40


def test_a_history_that_does_not_fit_what_is_held_gives_no_timeline() -> None:
    plain = pinned().snapshot()
    plain["segments"] = plain["segments"][:1]
    row = memory_of(plain)
    assert (row.timeline, row.peak) == ((), None)
    assert row.held is not None


def test_a_snapshot_without_history_knows_no_failures_and_no_retries() -> None:
    row = memory_of(pinned().snapshot() | {"device_traces": []})
    assert (row.driver, row.timeline, row.out_of_memory, row.num_events) == (None, (), (), 0)


def test_each_device_has_its_row() -> None:
    first, second = pinned().snapshot(), Allocator(9 * MB, device=1)
    second.alloc(3 * MB)
    other = second.snapshot()
    both = first | {
        "segments": first["segments"] + other["segments"],
        "device_traces": [first["device_traces"][0], other["device_traces"][1]],
    }
    rows = memory_of_snapshot(parse(pickle.dumps(both), "s.pickle"))
    assert [(r.device.index, r.held.reserved_bytes // MB) for r in rows if r.held] == [(0, 40), (1, 4)]


@pytest.mark.parametrize(
    ("said", "grows"), [(True, True), ("True", True), ("False", False), (0, False), (None, None)]
)
def test_whether_segments_grow_is_read_from_the_settings(said: Any, grows: bool | None) -> None:
    plain = pinned().snapshot()
    plain["allocator_settings"] = {} if said is None else {"expandable_segments": said}
    row = memory_of(plain)
    assert row.held is not None
    assert row.held.expandable_segments is grows


def test_ranges_of_growing_segments_join_and_are_cut() -> None:
    state = Reserve(ranges={100: 200, 300: 400}, growing={100, 300})
    state.give(200, 300, is_growing=True)
    assert (state.ranges, state.growing) == ({100: 400}, {100})
    state.take(150, 250)
    assert (state.ranges, state.growing) == ({100: 150, 250: 400}, {100, 250})
    # What the driver gave in pieces stays in pieces.
    state.give(150, 200, is_growing=False)
    assert state.ranges == {100: 150, 250: 400, 150: 200}


@pytest.mark.parametrize(
    ("stack", "named"),
    [
        (
            ("at::empty", "/opt/lib/python3.10/site-packages/torch/_tensor.py:5 new", "/w/a.py:3 f"),
            "/w/a.py:3 f",
        ),
        (("/w/pytorch/aten/src/Empty.cpp:30 empty", "/w/a.py:3 f"), "/w/a.py:3 f"),
        (("/x/site-packages/torch/a.py:1 f", "/x/site-packages/hf/b.py:2 g"), "/x/site-packages/hf/b.py:2 g"),
        (("at::empty", "/x/site-packages/torch/a.py:1 f"), "/x/site-packages/torch/a.py:1 f"),
        (("at::empty", "at::full"), "at::empty"),
        (("<string>:1 <module>", "/tmp/ipykernel_7/9.py:4 <module>"), "/tmp/ipykernel_7/9.py:4 <module>"),
        ((), NOBODY),
    ],
)
def test_a_stack_is_named_after_the_users_own_code(stack: tuple[str, ...], named: str) -> None:
    assert site(stack) == named


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9 * MB)), max_size=60))
def test_the_past_is_reckoned_back_exactly(todo: list[tuple[int, int]]) -> None:
    """Whatever happens: levels behind every entry, and what lay free at every failure, are those of the
    allocator at that moment."""
    a = Allocator(16 * MB)
    alive: list[int] = []
    for what, size in todo:
        if what == 0 and alive:
            a.free(alive.pop(size % len(alive)))
        elif what == 1:
            a.empty_cache()
        else:
            address = a.alloc(size)
            alive += [] if address is None else [address]
    if not a.history:
        return
    row = memory_of(a.snapshot())
    told = [(each.reserved_bytes, each.allocated_bytes) for each in row.out_of_memory]
    failed = a.failed[::-1][:20]
    assert told == [(reserved, used) for reserved, used, _ in failed]
    assert [e.num_free_blocks for e in row.out_of_memory] == [len(pieces) for _, _, pieces in failed]
    assert [e.largest_free_bytes for e in row.out_of_memory] == [max(p, default=0) for _, _, p in failed]
    if row.timeline:
        assert [(p.allocated_bytes, p.reserved_bytes) for p in row.timeline] == a.levels[: len(row.timeline)]
        assert row.peak is not None
        assert row.peak.allocated_bytes == max(used for used, _ in a.levels)


def test_sizes_that_are_no_multiple_are_rounded_as_blocks_are() -> None:
    a = Allocator(16 * MB)
    first = a.alloc(700)
    a.alloc(3 * KB + 1)
    assert first is not None
    a.free(first)
    row = memory_of(a.snapshot())
    assert [point.allocated_bytes for point in row.timeline] == [0, 1024, 1024 + 3584, 3584]
    assert row.held is not None
    assert (row.held.allocated_bytes, row.held.requested_bytes) == (3584, 3 * KB + 1)
