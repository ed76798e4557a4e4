"""`HangWatch` over marks and counters that are made up: who is silent for too long, and who is left alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.detect.alert.table import TABLE
from stepscope.detect.hang import HangWatch
from stepscope.detect.hang.limit import Tail
from stepscope.detect.hang.watch import _SEVERITY, CONDITIONS
from stepscope.model.alarm import Alarm
from stepscope.model.batch import BatchOwner, BatchSeries, Marks, Samples
from stepscope.model.mark import ASIDE, PHASES, RECORD_KINDS
from stepscope_sdk import ring_abi as abi

NS = 1_000_000_000
START = 1_700_000_000 * NS
NAN = float("nan")


@dataclass
class Made:
    """A job of some ranks, each on its own host, second by second: so often the watch hears each agent."""

    num_ranks: int = 3
    watch: HangWatch = field(default_factory=HangWatch)
    now: float = 0.0
    alarms: list[Alarm] = field(default_factory=list)
    dumb: set[int] = field(default_factory=set)
    """Ranks whose agents say nothing."""
    run: str = "r1"
    power: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Rank -> (busy, watts) that its counters show; none where they show nothing."""
    jump: float = 0.0
    """By how much the wall clock of every host is ahead."""
    again: str = ""
    """Of rings that were made when processes were started again."""
    numbers: dict[int, int] = field(default_factory=dict)
    written: float | None = None

    def mark(self, rank: int, *rows: tuple[str, int, str | None], alive: bool | None = True) -> None:
        """Records (kind, step, phase) of a rank, all at this moment."""
        mono = round(self.now * NS)
        first = self.numbers.get(rank, 0)
        self.numbers[rank] = first + len(rows)
        batch = Marks(
            agent=f"a{rank}",
            seq=0,
            host=f"n{rank}",
            ring=f"rank{rank}-{self.run}{self.again}.ring",
            identity={"job": "j", "run": self.run, "rank": rank, "world_size": self.num_ranks},
            names=[],
            number=list(range(first, first + len(rows))),
            record_kind=[RECORD_KINDS[kind] for kind, _, _ in rows],
            flags=[ASIDE if phase == "aside" else 0 for _, _, phase in rows],
            step=[step for _, step, _ in rows],
            mono_ns=[mono] * len(rows),
            real_ns=[START + mono + round(self.jump * NS)] * len(rows),
            a=[
                PHASES.index("checkpoint" if p == "aside" else p) if p in (*PHASES, "aside") else 0
                for _, _, p in rows
            ],
            b=[-1.0] * len(rows),
            c=[NAN] * len(rows),
            is_alive=alive,
        )
        self.watch.take([batch])

    def wait(self, seconds: float, each: float = 1.0) -> list[Alarm]:
        """Time goes on, agents say that they live; the alarms of that time."""
        found = []
        ends = self.now + seconds
        while self.now < ends:
            self.now += each
            at = START + round((self.now + self.jump) * NS)
            for rank in set(range(self.num_ranks)) - self.dumb:
                series = [
                    BatchSeries("cpu_user_ratio", BatchOwner(kind="host", host=f"n{rank}"), [at], [0.1])
                ]
                labels = {"job": "j", "run": self.run, "rank": str(rank)}
                if rank in self.power:
                    device = BatchOwner(uuid=f"GPU-{rank}", host=f"n{rank}")
                    busy, watts = self.power[rank]
                    series.append(BatchSeries("compute_busy_ratio", device, [at], [busy], labels))
                    series.append(BatchSeries("power_watts", device, [at], [watts], labels))
                if self.written is not None:
                    host = BatchOwner(kind="host", host=f"n{rank}")
                    series.append(BatchSeries("disk_write_bytes_per_second", host, [at], [self.written]))
                self.watch.take([Samples(f"a{rank}", 0, f"n{rank}", "host", series)])
            found += self.watch.tick(START + round(self.now * NS))
        self.alarms += found
        return found

    def steps(self, first: int, last: int, seconds: float = 1.0) -> None:
        """All ranks make these whole steps."""
        for step in range(first, last + 1):
            for rank in range(self.num_ranks):
                self.mark(rank, ("step_begin", step, None), ("phase_begin", step, "forward"))
            self.wait(seconds)
            for rank in range(self.num_ranks):
                self.mark(rank, ("phase_end", step, "forward"), ("step_end", step, None))

    def begin(self, step: int, phases: Sequence[str]) -> None:
        """Every rank begins a step and is in its phase."""
        for rank, phase in enumerate(phases):
            self.mark(rank, ("step_begin", step, None), ("phase_begin", step, phase))


def conditions(alarms: Sequence[Alarm]) -> list[str]:
    return [each.condition for each in alarms if each.end_ns is None]


def test_every_condition_is_a_row_of_the_table_of_alerts_with_its_severity() -> None:
    rows = {each.id: each for each in TABLE if each.id in CONDITIONS}
    assert set(rows) == set(CONDITIONS)
    assert {name: rows[name].severity for name in _SEVERITY} == _SEVERITY


def test_kinds_of_records_are_those_of_the_ring() -> None:
    assert {name: abi.kind_number(name) for name in RECORD_KINDS} == RECORD_KINDS
    assert abi.FLAGS["aside"] == ASIDE


def test_a_job_of_one_second_steps_hangs_after_thirty_and_its_odd_rank_is_named() -> None:
    job = Made()
    job.steps(1, 25)
    job.begin(26, ["backward", "forward", "backward"])
    assert job.wait(30) == []
    (alarm,) = job.wait(10)
    assert alarm.condition == "hang"
    assert alarm.about.ranks == (1,)
    assert alarm.about.hosts == ("n1",)
    assert alarm.steps == (25, 26)
    assert alarm.onset_ns == START + 25 * NS
    assert "rank 1 is in forward of step 26, ranks 0, 2 are in backward of step 26" in alarm.text
    assert "rank 1 停在第 26 步的前向" in alarm.text_zh


def test_three_times_the_learned_tail_is_waited_where_steps_are_long() -> None:
    job = Made()
    job.steps(1, 22, seconds=20.0)
    job.begin(23, ["forward"] * 3)
    assert job.wait(60) == []
    assert conditions(job.wait(10)) == ["hang"]


def test_a_hang_ends_when_steps_go_on() -> None:
    job = Made()
    job.steps(1, 25)
    job.begin(26, ["forward"] * 3)
    (begun,) = job.wait(40)
    for rank in range(3):
        job.mark(rank, ("phase_end", 26, "forward"), ("step_end", 26, None))
    (ended,) = job.wait(2)
    assert ended.id == begun.id
    assert ended.end_ns == START + 65 * NS


def test_one_long_step_among_many_does_not_stretch_the_bound() -> None:
    tail = Tail()
    for took in [*[1] * 40, 500, *[1] * 40]:
        tail.add(took * NS, 0)
    assert tail.ns == NS
    tail.add(400 * NS, 0)
    assert tail.ns == 400 * NS


@given(st.lists(st.integers(0, 10**12), min_size=20, max_size=1500))
def test_the_tail_is_the_second_longest_of_the_last_1024(took: list[int]) -> None:
    tail = Tail()
    for each in took:
        tail.add(each, 0)
    assert tail.ns == sorted(took[-1024:])[-2]


def test_an_evaluation_is_left_alone_for_three_times_as_long_as_it_took_before() -> None:
    job = Made()
    job.steps(1, 25)
    job.mark(0, ("phase_begin", -1, "eval"))
    for rank in (1, 2):
        job.mark(rank, ("step_begin", 26, None), ("phase_begin", 26, "backward"))
    assert job.wait(200) == []  # the others wait for rank 0
    job.mark(0, ("phase_end", -1, "eval"), ("step_begin", 26, None))
    for rank in range(3):
        job.mark(rank, ("step_end", 26, None))
    job.steps(27, 30)
    job.mark(0, ("phase_begin", -1, "eval"))
    for rank in (1, 2):
        job.mark(rank, ("step_begin", 31, None), ("phase_begin", 31, "backward"))
    assert job.wait(590) == []
    (alarm,) = job.wait(30)
    assert alarm.about.ranks == (0,)
    assert "rank 0 is in eval after step 30" in alarm.text


def test_a_first_evaluation_has_ten_minutes_without_a_sign_and_more_with_one() -> None:
    job = Made()
    job.steps(1, 25)
    job.mark(0, ("phase_begin", -1, "eval"))
    assert job.wait(500) == []
    job.mark(0, ("value", -1, None))
    assert job.wait(500) == []
    assert conditions(job.wait(200)) == ["hang"]


def test_a_device_that_works_in_a_first_evaluation_is_work() -> None:
    job = Made(power=dict.fromkeys(range(3), (0.98, 600.0)))
    job.steps(1, 25)
    job.mark(0, ("phase_begin", -1, "eval"))
    assert job.wait(1500) == []


def test_a_device_that_is_busy_at_idle_power_in_a_first_evaluation_hangs() -> None:
    job = Made(power=dict.fromkeys(range(3), (0.98, 600.0)))
    job.steps(1, 25)
    for rank in range(3):
        job.mark(rank, ("phase_begin", -1, "eval"))
    job.power = dict.fromkeys(range(3), (1.0, 150.0))
    (alarm,) = job.wait(80)
    assert alarm.condition == "hang"
    assert "busy at 25 % of their usual power" in alarm.text


def test_counters_without_values_excuse_nothing_and_prove_nothing() -> None:
    job = Made()
    job.steps(1, 25)
    job.begin(26, ["forward"] * 3)
    (alarm,) = job.wait(40)
    assert "power" not in alarm.text


def test_a_checkpoint_that_writes_is_left_alone_and_one_that_does_not_is_not() -> None:
    job = Made(written=200e6)
    job.steps(1, 25)
    job.mark(1, ("phase_begin", -1, "checkpoint"))
    assert job.wait(900) == []
    job.written = 1e3
    assert conditions(job.wait(640)) == ["hang"]


def test_a_checkpoint_in_another_thread_excuses_no_silence() -> None:
    job = Made()
    job.steps(1, 25)
    job.mark(1, ("phase_begin", 25, "aside"))
    job.begin(26, ["forward"] * 3)
    assert conditions(job.wait(40)) == ["hang"]


def test_a_silent_agent_is_unknown_and_no_hang() -> None:
    job = Made()
    job.steps(1, 25)
    job.begin(26, ["forward"] * 3)
    job.dumb = {0, 1, 2}
    alarms = job.wait(300)
    assert conditions(alarms) == ["agent-silent"] * 3
    assert not any(each.pages for each in alarms)
    job.dumb = set()
    assert all(each.end_ns is not None for each in job.wait(2) if each.condition == "agent-silent")


def test_where_one_host_is_not_heard_the_others_hang_and_its_host_is_told() -> None:
    job = Made()
    job.steps(1, 25)
    job.begin(26, ["backward"] * 3)
    job.dumb = {2}
    hang = next(each for each in job.wait(60) if each.condition == "hang")
    assert hang.about.ranks == ()
    assert "nothing is heard of n2" in hang.text


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_a_clock_that_jumps_by_an_hour_is_no_silence(jump: float) -> None:
    job = Made()
    job.steps(1, 25)
    job.jump = jump
    job.steps(26, 60)
    assert job.alarms == []


def test_a_ring_that_nobody_holds_is_gone_and_one_that_said_so_is_not() -> None:
    job = Made()
    job.steps(1, 25)
    job.mark(0, ("exit", 0, None), alive=False)
    assert job.wait(5) == []
    job.mark(1, alive=False)
    (alarm,) = job.wait(5)
    assert (alarm.condition, alarm.about.ranks) == ("process-gone", (1,))


def test_a_gone_rank_is_back_once_its_next_process_makes_steps_in_the_same_run() -> None:
    job = Made()
    job.steps(1, 25)
    for rank in range(3):
        job.mark(rank, alive=False)
    (gone,) = job.wait(5)
    job.again, job.numbers = "-again", {}
    job.mark(0, ("step_begin", 20, None))
    assert job.wait(2) == []  # the others are not there yet
    job.steps(20, 25)
    (over,) = job.alarms[1:]
    assert (over.id, over.end_ns is None) == (gone.id, False)


def test_who_waits_for_a_gone_rank_is_told_below_it() -> None:
    job = Made()
    job.steps(1, 25)
    job.begin(26, ["backward"] * 3)
    job.mark(1, alive=False)
    gone, hang = job.wait(60)
    assert (gone.condition, hang.condition) == ("process-gone", "hang")
    assert hang.inhibited_by == gone.id
    assert hang.about.ranks == (1,)
    assert "rank 1 is not there any more" in hang.text


def test_a_run_that_never_makes_a_step_is_told_after_half_an_hour() -> None:
    job = Made()
    for rank in (0, 2):
        job.mark(rank, ("start", -1, None), ("phase_begin", -1, "init"))
    assert job.wait(1790, each=10.0) == []
    (alarm,) = job.wait(60, each=10.0)
    assert alarm.condition == "never-started"
    assert alarm.about.ranks == (1,)
    assert "rank 1 never began to mark" in alarm.text


def test_only_the_newest_run_is_watched() -> None:
    job = Made()
    for rank in range(3):
        job.mark(rank, ("start", -1, None))
    job.steps(1, 25)
    job.begin(26, ["forward"] * 3)
    (begun,) = job.wait(40)
    job.run, job.numbers = "r2", {}
    for rank in range(3):
        job.mark(rank, ("start", -1, None))
    (ended,) = job.wait(2)
    assert (ended.id, ended.end_ns is not None) == (begun.id, True)
    job.steps(1, 25)
    assert job.wait(20) == []
