"""Marks of a made-up data-parallel job, step by step: each rank takes its own time, all meet at the end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stepscope.detect.watch import Watch
from stepscope.model.alarm import Alarm
from stepscope.model.batch import Marks, Samples
from stepscope_sdk import ring_abi as abi
from tests.detect.alert.series import NS, START_S, second

KIND = {each.name: each.number for each in abi.KINDS}
PHASE = {name: place for place, name in enumerate(abi.PHASES)}
FLAGS = abi.FLAGS
MS = 1_000_000


@dataclass(slots=True)
class Loop:
    """A job of `ranks` ranks on one host. `offset_ms` is how far each rank's wall clock is ahead."""

    ranks: int = 4
    job: str = "llama"
    run: str = "r1"
    offset_ms: Mapping[int, int] = field(default_factory=dict)
    watch: Watch = field(default_factory=Watch)
    now_ns: int = START_S * NS
    step: int = 0
    told: list[tuple[int, Alarm]] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)

    def records(self, rank: int, rows: Sequence[tuple[int, str, int, int, int, float, float]]) -> Marks:
        """(when, kind, flags, step, a, b, c) as a batch of this rank's ring."""
        first = self._numbers.get(rank, 0)
        self._numbers[rank] = first + len(rows)
        ahead = self.offset_ms.get(rank, 0) * MS
        return Marks(
            agent="a", seq=0, host="n1", ring=f"{self.run}-rank{rank}",
            identity={"job": self.job, "run": self.run, "rank": rank, "world_size": self.ranks,
                      "device_uuids": [f"GPU-{rank:04d}"]},
            names=["loss"], number=list(range(first, first + len(rows))),
            record_kind=[KIND[row[1]] for row in rows], flags=[row[2] for row in rows],
            step=[row[3] for row in rows], mono_ns=[row[0] for row in rows],
            real_ns=[row[0] + ahead for row in rows], a=[row[4] for row in rows],
            b=[row[5] for row in rows], c=[row[6] for row in rows], is_alive=True,
        )  # fmt: skip

    def go(
        self, steps: int, own_ms: float = 400.0, *, late: Mapping[int, float] | None = None,
        data: Mapping[int, float] | None = None, flags: int = 0, phase: tuple[str, float] | None = None,
        loss: float | None = None, sync: bool = True,
    ) -> list[tuple[int, Alarm]]:  # fmt: skip
        """So many steps: `late` and `data` are milliseconds more of a rank, in its forward and in its loader;
        `phase` is one more at the end of each step. What was told meanwhile, with the step."""
        first = len(self.told)
        nan = math.nan
        for _ in range(steps):
            begin, step = self.now_ns, self.step
            # A little noise that is the same in each run: of 1 %.
            noise = [1 + 0.01 * math.sin(12.9898 * (step * 7 + rank)) for rank in range(self.ranks)]
            loads = [MS * (1.0 + (data or {}).get(rank, 0.0)) for rank in range(self.ranks)]
            comes = [
                begin + int(loads[rank] + MS * (own_ms * noise[rank] + (late or {}).get(rank, 0.0)))
                for rank in range(self.ranks)
            ]
            end = max(comes) + 50 * MS
            after = end + int((phase[1] if phase else 0.0) * MS)
            batches = []
            for rank in range(self.ranks):
                loaded = begin + int(loads[rank])
                sync_flags = flags | (FLAGS["sync"] if sync else 0)
                rows = [
                    (begin, "step_begin", flags, step, 4096, nan, nan),
                    (begin, "phase_begin", flags, step, PHASE["data"], -1.0, nan),
                    (loaded, "phase_end", flags, step, PHASE["data"], -1.0, float(begin - loaded)),
                    (comes[rank], "phase_begin", sync_flags, step, PHASE["communication"], -1.0, nan),
                    (end, "phase_end", sync_flags, step, PHASE["communication"], -1.0,
                     float(comes[rank] - end)),
                ]  # fmt: skip
                if phase is not None:
                    place = PHASE[phase[0]]
                    rows += [
                        (end, "phase_begin", flags, step, place, -1.0, nan),
                        (after, "phase_end", flags, step, place, -1.0, float(end - after)),
                    ]
                if loss is not None:
                    rows.append((after, "value", flags, step, 0, loss, nan))
                rows.append((after, "step_end", flags, step, -1, nan, nan))
                batches.append(self.records(rank, rows))
            self.now_ns, self.step = after, step + 1
            self.look(batches)
        return self.told[first:]

    def look(self, batches: Sequence[Marks | Samples] = ()) -> None:
        self.watch.take(batches)
        self.told += [(self.step, alarm) for alarm in self.watch.tick(self.now_ns)]

    def wait(self, seconds: int, counters: Mapping[str, float] | None = None) -> list[tuple[int, Alarm]]:
        """Nothing is marked for so long; counters of rank 0's device go on."""
        first = len(self.told)
        for _ in range(seconds):
            self.now_ns += NS
            told = []
            if counters is not None:
                labels = {"job": self.job, "run": self.run, "rank": "0"}
                told = [second(self.now_ns // NS - START_S, counters, labels)]
            self.look(told)
        return self.told[first:]

    def ends(self) -> list[tuple[int, Alarm]]:
        """Every rank says that it ends."""
        first = len(self.told)
        nan = math.nan
        self.look([
            self.records(rank, [(self.now_ns, "exit", 0, -1, 0, nan, nan)]) for rank in range(self.ranks)
        ])  # fmt: skip
        self.wait(5)
        return self.told[first:]


def of(told: Sequence[tuple[int, Alarm]], *, paged: bool = False) -> dict[str, Alarm]:
    """The newest form of each alarm, by condition; `paged`: only what would be told to somebody."""
    newest = {alarm.id: alarm for _, alarm in told}
    return {
        each.condition: each
        for each in newest.values()
        if not paged or (each.pages and each.inhibited_by is None)
    }
