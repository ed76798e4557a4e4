"""Records in, marks out: what begins meets its end, whatever the records lack."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import msgspec
import numpy as np
import pytest

from stepscope.analyse.marked import analyse_marks
from stepscope.analyse.marked.tile import tiles
from stepscope.model.batch import Happened, Marks
from stepscope.model.error import InputError
from stepscope.model.mark import PHASES, Identity
from stepscope.sources.marks import marks_of_batches, marks_of_records, marks_of_ring
from stepscope.sources.ring import RECORD
from stepscope_sdk import ring_abi as abi
from stepscope_sdk.ring import Ring

MS = 1_000_000
WALL = 1_790_000_000_000_000_000
NAN = math.nan


def records(*rows):
    """Rows (kind, at in ms, step, a, b, c, flags); a wall clock that starts at `WALL` and does not jump."""
    found = np.zeros(len(rows), dtype=RECORD)
    for n, (kind, at, step, a, b, c, flags) in enumerate(rows):
        found[n]["kind"] = abi.kind_number(kind)
        found[n]["flags"] = flags
        found[n]["step"] = step
        found[n]["mono_ns"] = round(at * MS)
        found[n]["real_ns"] = WALL + round(at * MS)
        found[n]["a"], found[n]["b"], found[n]["c"] = a, b, c
    return found


def step(kind, at, number, a=-1, b=NAN, c=NAN, flags=0):
    return (f"step_{kind}", at, number, a, b, c, flags)


def phase(kind, at, number, name, b=NAN, c=NAN, flags=0):
    return (f"phase_{kind}", at, number, PHASES.index(name), b, c, flags)


def marks(*rows, names=()):
    return marks_of_records(records(*rows), Identity(rank=0), names)


def stretches(of):
    """(phase, start in ms, end in ms)"""
    return [
        (PHASES[p], (s - WALL) / MS, (e - WALL) / MS)
        for p, s, e in zip(of.phases.phase, of.phases.start_ns, of.phases.end_ns, strict=True)
    ]


def test_a_step_has_its_phases_numbers_and_values():
    told = marks(
        ("start", 0, -1, 0, NAN, NAN, 0),
        step("begin", 1, 7, a=512, b=8.0),
        phase("begin", 2, 7, "forward"),
        phase("end", 12, 7, "forward"),
        ("value", 13, 7, 0, 2.5, NAN, 0),
        step("end", 14, 7),
        ("exit", 15, -1, 0, NAN, NAN, 0),
        names=("loss",),
    )
    assert told.steps.step.tolist() == [7]
    assert (told.steps.end_ns - told.steps.start_ns).tolist() == [13 * MS]
    assert (told.steps.tokens[0], told.steps.samples[0]) == (512, 8)
    assert np.isnan(told.steps.sequence_length[0])
    assert stretches(told) == [("forward", 2, 12)]
    assert told.values["loss"].value.tolist() == [2.5]
    assert told.exit_ns == WALL + 15 * MS
    assert told.open_step is None


def test_what_was_open_at_the_last_record_is_where_it_hangs():
    told = marks(
        step("begin", 0, 3), phase("begin", 1, 3, "forward"), phase("end", 2, 3, "forward"),
        phase("begin", 3, 3, "backward"),
    )  # fmt: skip
    assert (told.open_step, told.open_phase, told.open_since_ns) == (3, "backward", WALL + 3 * MS)
    assert len(told.steps) == 0


def test_a_beginning_that_never_ended_steps_ago_is_no_open_phase():
    told = marks(
        step("begin", 0, 0), phase("begin", 1, 0, "eval"), step("end", 2, 0), step("begin", 3, 1),
        step("end", 4, 1), step("begin", 5, 2),
    )  # fmt: skip
    assert (told.open_step, told.open_phase) == (2, None)
    assert told.num_unmatched == 1


def test_an_end_without_its_beginning_is_counted_and_left_out():
    told = marks(phase("end", 1, 0, "forward"), step("end", 2, 0), step("begin", 3, 1), step("end", 4, 1))
    assert told.steps.step.tolist() == [1]
    assert stretches(told) == []
    assert told.num_unmatched == 2


def test_an_end_that_carries_its_own_start_needs_no_beginning():
    told = marks(phase("end", 9, 0, "data", c=-7.0 * MS))
    assert stretches(told) == [("data", 2, 9)]


def test_phases_of_two_threads_meet_their_own_ends():
    told = marks(
        phase("begin", 0, 0, "forward"),
        phase("begin", 1, 0, "forward"),
        phase("end", 5, 0, "forward", c=-5.0 * MS),  # the first one's, though the second was begun last
        phase("end", 9, 0, "forward", c=-8.0 * MS),
    )
    assert stretches(told) == [("forward", 0, 5), ("forward", 1, 9)]


def test_steps_that_only_begin_tile():
    told = marks(*(step("begin", 10 * n, n) for n in range(4)))
    assert told.steps.step.tolist() == [0, 1, 2]
    assert (told.steps.end_ns - told.steps.start_ns).tolist() == [10 * MS] * 3
    assert told.open_step == 3


def test_a_wall_clock_that_is_set_moves_no_step():
    rows = records(*(step(kind, 10 * n + at, n) for n in range(6) for kind, at in (("begin", 0), ("end", 9))))
    rows["real_ns"][7:] += 3600 * 10**9
    told = marks_of_records(rows, Identity())
    assert set((told.steps.end_ns - told.steps.start_ns).tolist()) == {9 * MS}
    assert np.diff(told.steps.start_ns).tolist() == [10 * MS] * 5
    assert told.clock_steps_ns == (3600 * 10**9,)


def test_a_wall_clock_that_is_slewed_or_read_late_was_not_set():
    rows = records(*(step(kind, 10 * n + at, n) for n in range(6) for kind, at in (("begin", 0), ("end", 9))))
    rows["real_ns"][4:] += 2 * 10**6
    rows["real_ns"][8] += 49 * 10**6
    assert marks_of_records(rows, Identity()).clock_steps_ns == ()
    rows["real_ns"][10:] -= 51 * 10**6
    assert marks_of_records(rows, Identity()).clock_steps_ns == (-51 * 10**6,)


def test_a_mark_that_was_written_late_has_its_own_time():
    rows = records(
        step("begin", 0, 0), step("end", 9, 0), phase("begin", 2, 0, "gc"), phase("end", 3, 0, "gc")
    )
    assert stretches(marks_of_records(rows, Identity())) == [("gc", 2, 3)]


def test_flags_and_captures_are_kept():
    flags = abi.FLAGS
    told = marks(
        step("begin", 0, 0, flags=flags["shadow"]), step("end", 1, 0),
        step("begin", 1, 1), ("capture_begin", 1, 1, 9, 1.0, NAN, 0), step("end", 5, 1,
        flags=flags["captured"]), step("begin", 5, 2), ("capture_end", 6, 2, 9, 2.0 * MS, NAN, 0),
        step("end", 7, 2, flags=flags["stalled"]), ("capture_end", 9, 2, 9, 2.0 * MS, 4096.0, 0),
    )  # fmt: skip
    assert told.steps.is_shadow.tolist() == [True, False, False]
    assert told.steps.is_captured.tolist() == [False, True, False]
    assert told.steps.is_stalled.tolist() == [False, False, True]
    (capture,) = told.captures
    assert (capture.mode, capture.stall_ns, capture.num_bytes) == ("light", 2 * MS, 4096)
    assert (capture.first_step, capture.last_step, capture.end_ns) == (1, 2, WALL + 6 * MS)


def test_the_world_is_what_it_is_known_to_be_later():
    told = marks(("world", 0, -1, 8, 3.0, 3.0, 0))
    assert (told.identity.rank, told.identity.world_size, told.identity.local_rank) == (3, 8, 3)


# ── batches ──


def batch(rows, numbers, seq, **more):
    told = records(*rows)
    columns = {
        "record_kind": told["kind"].tolist(), "flags": told["flags"].tolist(), "step": told["step"].tolist(),
        "mono_ns": told["mono_ns"].tolist(), "real_ns": told["real_ns"].tolist(), "a": told["a"].tolist(),
        "b": told["b"].tolist(), "c": told["c"].tolist(),
    }  # fmt: skip
    return Marks(
        **{"agent": "a", "seq": seq, "host": "h", "ring": "r", "names": [], "number": list(numbers)}
        | {"identity": {"rank": 2, "job": "j", "new": 1}} | columns | more
    )  # fmt: skip


def test_batches_that_come_twice_and_late_are_the_ring():
    first = batch([step("begin", 0, 0), step("end", 5, 0)], [0, 1], 1, is_alive=True)
    second = batch([step("begin", 5, 1), step("end", 9, 1)], [2, 3], 2, is_alive=False)
    (told,) = marks_of_batches([second, first, first])
    assert told.steps.step.tolist() == [0, 1]
    assert (told.identity.rank, told.identity.job) == (2, "j")
    assert (told.num_lost, told.is_alive) == (0, False)


def test_when_the_agent_saw_that_a_rank_was_gone_is_told_of_that_rank_alone():
    first = batch([step("begin", 0, 0), step("end", 5, 0)], [0, 1], 1, is_alive=False)
    (alone,) = marks_of_batches([first])
    assert alone.gone_ns is None
    last = alone.last_ns

    def ended(at_ns, host="h", **labels):
        return Happened("a", 9, host, at_ns, "exit", "gone", labels={"job": "j", **labels})

    others = [ended(last + 5, rank="1"), ended(last + 5, host="i", rank="2"), ended(last - 1, rank="2")]
    (told,) = marks_of_batches([first], [*others, ended(last + 7, rank="2"), ended(last + 9, rank="2")])
    assert told.gone_ns == last + 7
    (lives,) = marks_of_batches([msgspec.structs.replace(first, is_alive=True)], [ended(last + 7, rank="2")])
    assert lives.gone_ns is None


def test_records_that_never_came_are_counted():
    (told,) = marks_of_batches([batch([step("begin", 5, 1), step("end", 9, 1)], [4, 7], 1)])
    assert (told.num_lost, told.num_missing) == (0, 6)


# ── rings ──


def looped(first, last):
    """Records of steps of 10 ms that only begin, each with a backward pass in which ranks meet."""
    rows = []
    for n in range(first, last):
        rows += [step("begin", 10 * n, n), phase("begin", 10 * n + 2, n, "backward", flags=8)]
        rows.append(phase("end", 10 * n + 8, n, "backward", flags=8))
    return rows


def test_no_step_and_no_phase_goes_on_over_batches_that_are_missing():
    # Records 30 to 59 never came: step 9 was open, and so was its backward pass until its end.
    rows = looped(0, 30)
    told, *_ = marks_of_batches([batch(rows[:29], range(29), 1), batch(rows[60:], range(60, 90), 3)])
    assert (told.num_lost, told.num_missing, told.num_unmatched) == (0, 31, 0)
    assert told.steps.step.tolist() == [*range(9), *range(20, 29)]
    assert set((told.steps.end_ns - told.steps.start_ns).tolist()) == {10 * MS}
    assert set((told.phases.end_ns - told.phases.start_ns).tolist()) == {6 * MS}
    assert told.gaps_ns == ((WALL + 92 * MS, WALL + 200 * MS),)
    of = tiles(told)
    assert set((of.end_ns - of.start_ns).tolist()) == {10 * MS}
    # What the ring overwrote before the agent read it is another loss.
    told, *_ = marks_of_batches([batch(rows[60:], range(60, 90), 3, num_lost=60)])
    assert (told.num_lost, told.num_missing) == (60, 0)


def test_a_gap_between_two_steps_is_no_time_of_the_second():
    rows = [step("begin", 0, 0), step("end", 10, 0), step("begin", 90, 1), step("end", 100, 1)]
    whole, *_ = marks_of_batches([batch(rows, range(4), 1)])
    assert tiles(whole).start_ns.tolist() == [WALL, WALL + 10 * MS]
    holed, *_ = marks_of_batches([batch(rows, [0, 1, 6, 7], 1)])
    assert tiles(holed).start_ns.tolist() == [WALL, WALL + 90 * MS]


def test_ranks_of_which_one_has_a_gap_meet_by_step_and_not_by_order():
    rows = looped(0, 60)
    whole, *_ = marks_of_batches([batch(rows, range(180), 1, ring="0.ring", identity={"rank": 0})])
    holed, *_ = marks_of_batches(
        [
            batch(rows[:60], range(60), 1, ring="1.ring", identity={"rank": 1}),
            batch(rows[120:], range(120, 180), 3, ring="1.ring", identity={"rank": 1}),
        ]
    )
    analyses = analyse_marks([whole, holed]).analyses
    assert {a.accounting[0].total_ns // a.accounting[0].num_steps for a in analyses} == {10 * MS}
    met = [
        dict(
            zip(
                a.peers[0].collectives.sequence.tolist(),
                a.peers[0].collectives.start_ns.tolist(),
                strict=True,
            )
        )
        for a in analyses
    ]
    assert len(met[1]) == len(met[0]) == 38
    assert met[0] == met[1]
    (issue,) = [each for each in analyses[1].issues if each.code == "marks_missing"]
    assert issue.detail.startswith("60 marks were read by the agent and are not in its spool")


def test_a_ring_of_damaged_records_is_refused_and_one_damaged_record_is_told(tmp_path):
    ring = Ring(str(tmp_path / "a.ring"), {"rank": 0}, num_records=64)
    for n in range(20):
        ring.write(abi.kind_number("step_begin"), 0, n, -1)
    at = abi.HEADER_BYTES + 7 * abi.RECORD_BYTES + abi.place(abi.RECORD, "mono_ns").offset
    with open(ring.path, "r+b") as file:
        file.seek(at)
        file.write(b"\xff\xff")
    told = marks_of_ring(ring.path)
    assert (told.num_lost, told.num_damaged) == (0, 1)
    with open(ring.path, "r+b") as file:
        file.seek(abi.HEADER_BYTES)
        file.write(b"\x55" * 64 * abi.RECORD_BYTES)
    with pytest.raises(InputError, match="none of its records is whole"):
        marks_of_ring(ring.path)


def test_a_ring_is_read_as_it_was_written(tmp_path):
    ring = Ring(str(tmp_path / "a.ring"), {"rank": 1, "world_size": 2, "job": "j"}, num_records=64)
    for n in range(3):
        ring.write(abi.kind_number("step_begin"), 0, n, -1)
        ring.write(abi.kind_number("step_end"), 0, n, -1)
    told = marks_of_ring(str(tmp_path / "a.ring"))
    ring.close()
    assert told.steps.step.tolist() == [0, 1, 2]
    assert (told.identity.rank, told.identity.job, told.num_lost) == (1, "j", 0)


def test_what_a_ring_overwrote_is_lost_and_counted(tmp_path):
    ring = Ring(str(tmp_path / "a.ring"), {}, num_records=16)
    for n in range(20):
        ring.write(abi.kind_number("step_begin"), 0, n, -1)
        ring.write(abi.kind_number("step_end"), 0, n, -1)
    ring.close()
    told = marks_of_ring(str(tmp_path / "a.ring"))
    assert told.num_lost == 24
    assert told.steps.step.tolist() == list(range(12, 20))


def test_a_ring_of_another_version_is_one_line(tmp_path):
    path = tmp_path / "a.ring"
    Ring(str(path), {}, num_records=16).close()
    raw = bytearray(path.read_bytes())
    raw[8:12] = (99).to_bytes(4, "little")
    path.write_bytes(raw)
    with pytest.raises(InputError, match="version 99") as raised:
        marks_of_ring(str(path))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("size", [0, 100, abi.HEADER_BYTES, abi.HEADER_BYTES + 100])
def test_a_ring_that_is_cut_is_refused(tmp_path, size):
    path = tmp_path / "a.ring"
    Ring(str(path), {}, num_records=16).close()
    os.truncate(path, size)
    with pytest.raises(InputError):
        marks_of_ring(str(path))


WRITER = """
import sys, time
from stepscope_sdk.ring import Ring
from stepscope_sdk import ring_abi as abi
ring = Ring(sys.argv[1], {"rank": 0}, num_records=64)
ring.write(abi.kind_number("step_begin"), 0, 5, -1)
ring.write(abi.kind_number("phase_begin"), 0, 5, abi.PHASES.index("backward"))
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_writer_that_lives_and_one_that_was_killed_are_told_apart(tmp_path):
    path = str(tmp_path / "a.ring")
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert writer.stdout.readline().strip() == b"ready"
        alive = marks_of_ring(path)
    finally:
        writer.kill()
        writer.communicate()
    dead = marks_of_ring(path)
    assert (alive.is_alive, dead.is_alive) == (True, False)
    assert (dead.open_step, dead.open_phase, dead.exit_ns) == (5, "backward", None)
