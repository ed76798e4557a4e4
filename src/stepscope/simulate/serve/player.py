"""One rank that is played step by step: it notes when its host did what, and what it kept can be dropped."""

from __future__ import annotations

from typing import NamedTuple

from stepscope.simulate.config import Config
from stepscope.simulate.counter.meter import Meter
from stepscope.simulate.fault import Chosen, apply
from stepscope.simulate.meeting import Key, Meetings
from stepscope.simulate.plan import Place, Plan
from stepscope.simulate.player import Player
from stepscope.simulate.program import (
    CLOSE,
    DRAIN,
    END_STEP,
    GC,
    LATE,
    LOAD,
    LOADER_NS,
    NODES,
    OPEN,
    STEP,
    THREAD,
    Instruction,
    Programs,
)
from stepscope.simulate.row import ROW_EXCHANGE, ROW_MARK, Row
from stepscope.simulate.serve.switch import Switched

KEPT_STEPS = 4
"""That a rank remembers beside those that a window still needs: more than a host may be ahead."""
READ_BACK = (DRAIN, "read back")
MARKED = {"evaluate": "eval", "save_checkpoint": "checkpoint"}
"""Annotations that are phases, by the phase."""
_NOTED = frozenset((CLOSE, DRAIN, END_STEP, GC, LATE, LOAD, NODES, STEP, THREAD))


class Note(NamedTuple):
    """The host's main thread did this: `code` is the instruction's, `what` the annotation that ended, else
    the instruction's argument, "" without one."""

    code: int
    what: str
    start_ns: int
    end_ns: int


class LivePrograms(Programs):
    """The programs of one rank, with faults that come and go."""

    def __init__(self, config: Config, rank: int) -> None:
        super().__init__(config, rank, ())
        self.drained: set[int] = set()
        """Steps at whose end the host waits for the device, since a profiler starts or stops."""

    def plan_with(self, step: int, switched: tuple[Switched, ...]) -> Plan:
        """What this step is like with these faults."""
        config, size, groups = self.config, self.config.sized[0], self.groups
        plan = Plan(LOADER_NS, (size.length,) * config.num_micro_batches)
        for fault in switched:
            chosen: Chosen = fault.chosen
            is_experts = chosen.name == "expert-imbalance" and groups.experts is not None
            mates = len(groups.experts.ranks) if is_experts and groups.experts is not None else config.ranks
            place = Place(
                rank=self.rank,
                step=step,
                culprit=-1 if fault.culprit is None else fault.culprit,
                num_ranks=mates,
                stage=groups.stage,
                num_stages=config.pipeline_stages,
                step_ns=config.step_ns,
                host_ns=self._host_ns(),
                length=size.length,
                seed=config.seed,
                number=fault.number,
                first=fault.first,
                last=fault.grown,
                period=fault.period or config.period,
                run_ahead=config.run_ahead,
            )
            apply(plan, chosen, fault.culprit, place)
        return plan

    def step(self, step: int, plan: Plan, lucky_layer: float) -> list[Instruction]:
        """One step, and the wait of a profiler at its end."""
        program = super().step(step, plan, lucky_layer)
        if not self.config.run_ahead and (plan.eval_batches or plan.checkpoint_ns):
            # The loop reads a number back in its optimizer, before it goes on to anything else.
            program.insert(
                next(at for at, each in enumerate(program) if each[:1] == (OPEN,) and each[1] in MARKED),
                READ_BACK,
            )
        if step in self.drained:
            program.append((DRAIN,))
        return program


class LivePlayer(Player):
    """`play(step)` is due once a step, on every rank before any of the next."""

    def __init__(self, config: Config, rank: int, meetings: Meetings) -> None:
        self.meter = Meter(config.device, rank, meetings)
        super().__init__(config, rank, (), meetings, meter=self.meter, last=-1)
        self.programs: LivePrograms = LivePrograms(config, rank)
        self.switched: tuple[Switched, ...] = ()
        """The faults of the steps that are played next."""
        self.first_kept = 0
        """The step of `plans[0]` and `step_end_ns[0]`."""
        self.notes: list[Note] = []
        """Of the step that was played last."""
        self.captured: list[Row] | None = None
        """Where rows of the next steps go, `None` for nowhere."""
        self._unfinished: list[tuple[int, Key]] = []
        self.programs.plan = self._plan_now  # type: ignore[method-assign]

    def _plan_now(self, step: int) -> Plan:
        return self.programs.plan_with(step, self.switched)

    @property
    def host_ns(self) -> int:
        """When its host begins the next step."""
        return self._now[0]

    @property
    def device_ns(self) -> int:
        """When its device has done what it was given."""
        return self._tail

    def allow(self, step: int) -> None:
        """Let it play up to this step."""
        self._last = step

    def skip(self, until_ns: int) -> None:
        """The next step ends then without having done anything."""
        self.step += 1
        self.plans.append(self._plan_now(self.step))
        self.step_end_ns.append(until_ns)
        self.wait(until_ns)

    def wait(self, until_ns: int) -> None:
        """Do nothing until then."""
        self._now = [max(at, until_ns) for at in self._now]
        self._tail = max(self._tail, until_ns)

    def forget(self, before_ns: int) -> None:
        """Drop plans, ends and happenings of steps that no window will ask for."""
        num = 0
        while num < len(self.step_end_ns) - KEPT_STEPS - self.config.run_ahead:
            if self.step_end_ns[num] >= before_ns:
                break
            num += 1
        del self.plans[:num], self.step_end_ns[:num]
        self.first_kept += num
        self.happenings = [each for each in self.happenings if each[2] >= before_ns]

    def needed(self) -> set[Key]:
        """Exchanges that its streams may still wait for."""
        return set(self._streams.values())

    def finish_rows(self) -> None:
        """Say of captured exchanges when they ended: when they were issued nobody knew."""
        if self.captured is not None:
            for at, key in self._unfinished:
                over = self.meetings.end_ns(key, self.rank)
                self.captured[at] = self.captured[at]._replace(end_ns=over)
        self._unfinished = []

    def _next_step(self) -> None:
        self.notes = []
        super()._next_step()
        self.rows = self.captured

    def _do(self, instruction: Instruction) -> Key | None:
        code = instruction[0]
        if code not in _NOTED:
            return super()._do(instruction)
        start, what = self._now[0], ""
        if code == CLOSE:
            kind, _thread, start, name, _external, _place = self._open[-1]
            if kind != ROW_MARK:
                return super()._do(instruction)
            what = str(name)
        elif len(instruction) > 1:
            what = str(instruction[1])
        waits = super()._do(instruction)
        if waits is None:
            self.notes.append(Note(code, what, start, self._now[0]))
        return waits

    def _exchange(self, exchange: object) -> Key | None:
        num = 0 if self.rows is None else len(self.rows)
        waits = super()._exchange(exchange)  # type: ignore[arg-type]
        if waits is None and self.rows is not None:
            for at in range(num, len(self.rows)):
                row = self.rows[at]
                if row.kind == ROW_EXCHANGE:
                    lane = row.what[0].lane
                    self._unfinished.append((at, (lane, self._lanes[lane])))
        return waits
