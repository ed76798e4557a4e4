"""One rank of a live job as others see it: its ring, its control file and its traces."""

from __future__ import annotations

import gzip
import heapq
import os
from collections.abc import Mapping
from pathlib import Path

from stepscope.simulate.config import START_NS, Config
from stepscope.simulate.counter.place import Place
from stepscope.simulate.kineto import trace
from stepscope.simulate.row import Row
from stepscope.simulate.serve.capture import Capturer, Job
from stepscope.simulate.serve.clock import Clocks
from stepscope.simulate.serve.live import BEGIN_NS, Hang
from stepscope.simulate.serve.mark import KIND, Record, StepCounts, Stretch, of_stretch, records
from stepscope.simulate.serve.player import LivePlayer
from stepscope.simulate.serve.ring import RingFile
from stepscope_sdk import ring_abi as abi

HUNG_DATA_NS, HUNG_PASS_NS = 400_000, 15_000_000
"""How far the marks of a step come that hangs: a batch, and a pass through the model."""
LEVEL = 1
"""Of gzip."""


class LiveRank:
    """A rank. Records are told ahead of time, and written into the ring when they are due."""

    def __init__(
        self, config: Config, player: LivePlayer, place: Place, clocks: Clocks, folder: Path,
        identity: Mapping[str, str | int],
    ) -> None:  # fmt: skip
        """OSError where the ring cannot be made."""
        self._config, self._player, self._place, self._clocks = config, player, place, clocks
        self._traces = folder / abi.TRACES
        mono, real = clocks.mono(BEGIN_NS), clocks.real(BEGIN_NS)
        self._path = path = os.path.join(folder, f"rank{place.rank}-{place.pid}-{real:x}{abi.SUFFIX}")
        self.ring: RingFile | None = RingFile(path, identity, mono, real, str(self._traces))
        self._names = [self.ring.name(name) for name in ("loss", "grad_norm", "learning_rate")]
        self._due: list[tuple[int, int, Record]] = []
        self._num = 0
        self.capturer = Capturer(player, self._tell, self._write)
        self._flags = 0
        self._hung = Stretch("forward", 0, 0)
        """The phase in which it hangs."""
        self._is_sync = config.ranks > 1 and not config.run_ahead
        self._tell(Record(BEGIN_NS, KIND["start"], 0, -1))
        self._tell(
            Record(
                BEGIN_NS + 1, KIND["world"], 0, -1, config.ranks, float(place.rank), float(place.local_rank)
            )
        )
        for record in of_stretch(Stretch("init", BEGIN_NS + 2, START_NS - 1), -1, 0):
            self._tell(record)

    def before(self, step: int) -> None:
        """A step is about to be played."""
        command = None if self.ring is None else self.ring.command()
        self._flags = self.capturer.begin(step, command)

    def after(self, step: int, values: tuple[float, float, float]) -> None:
        """It was played; `values` are its loss, gradient norm and learning rate."""
        told = dict(zip(self._names, values, strict=True))
        for record in records(step, self._player.notes, self._flags, self._counts(), told, self._is_sync):
            self._tell(record)
        self.capturer.end(step)

    def hangs(self, hang: Hang) -> None:
        """It does not come to the end of this step: the culprit is somewhere in its forward pass, the others
        wait for their devices, and these for it."""
        tell, step, flags, at = self._tell, hang.step, self._flags, self._player.host_ns
        tell(Record(at, KIND["step_begin"], flags, step, -1))
        done = [Stretch("data", at + 1, at + HUNG_DATA_NS)]
        at += HUNG_DATA_NS + 1
        if self._place.rank == hang.culprit:
            self._hung = Stretch("forward", at, at)
        else:
            done.append(Stretch("forward", at, at + HUNG_PASS_NS))
            done.append(Stretch("backward", at + HUNG_PASS_NS + 1, at + 2 * HUNG_PASS_NS))
            at += 2 * HUNG_PASS_NS + 1
            self._hung = Stretch("optimizer", at, at, self._is_sync)
        for stretch in done:
            for record in of_stretch(stretch, step, flags):
                tell(record)
        tell(of_stretch(self._hung, step, flags)[0])

    def resumes(self, hang: Hang, at_ns: int) -> None:
        """It comes to it after all."""
        over = self._hung._replace(end_ns=max(at_ns, self._hung.start_ns))
        self._tell(of_stretch(over, hang.step, self._flags)[1])
        self._tell(Record(over.end_ns, KIND["step_end"], self._flags, hang.step, -1))

    def flush(self, now_ns: int) -> None:
        """Write what is due."""
        if self.ring is None:
            return
        self.capturer.poll(now_ns)
        while self._due and self._due[0][0] <= now_ns:
            record = heapq.heappop(self._due)[2]
            self.ring.write(record, self._clocks.mono(record.at_ns), self._clocks.real(record.at_ns))

    def exits(self, now_ns: int, is_killed: bool) -> None:
        """The process ends, and lets go of its ring: with a word where it is not killed."""
        if self.ring is None:
            return
        self.capturer.give_up()
        self.flush(now_ns)
        if not is_killed:
            last = Record(now_ns, KIND["exit"], 0, -1)
            self.ring.write(last, self._clocks.mono(now_ns), self._clocks.real(now_ns))
        self.ring.close()
        self.ring = None

    @property
    def next_ns(self) -> int | None:
        """When the next record is due, `None` for none."""
        return self._due[0][0] if self._due else None

    def _tell(self, record: Record) -> None:
        self._num += 1
        heapq.heappush(self._due, (record.at_ns, self._num, record))

    def _counts(self) -> StepCounts:
        size, plan = self._config.sized[0], self._player.plans[-1]
        samples = size.batch * self._config.num_micro_batches
        if self._config.model == "resnet":
            return StepCounts(-1, samples, None)
        return StepCounts(size.batch * sum(plan.lengths), samples, sum(plan.lengths) / len(plan.lengths))

    def _write(self, job: Job, rows: list[Row]) -> int:
        """The trace of a capture, in a folder of its own for all ranks."""
        about = {"stepscope": job.about}
        text = trace(self._config, self._place.rank, rows, self._clocks.of_trace(), about)
        path = self._traces / abi.trace_place(self._path, job.capture)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.part")
        unfinished.write_bytes(gzip.compress(text, LEVEL, mtime=0))
        os.replace(unfinished, path)
        return path.stat().st_size
