"""One trace to one `RankAnalysis` a process: clean, link, window, account, and nothing but numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stepscope.analyse import collective, host
from stepscope.analyse.account import WindowSums, idle_struct, parts_of, window_sums, without_causes
from stepscope.analyse.culprit import activity_culprits, culprits
from stepscope.analyse.idle import IDLE_CAUSES, IdlePieces, idle_pieces
from stepscope.analyse.operator import kernel_table, operator_table
from stepscope.analyse.variation import periodic_excess_ns, variation
from stepscope.analyse.window import StepUses, Windows, host_windows, step_uses, windows
from stepscope.model import report
from stepscope.model.analysis import Culprit, DeviceAnalysis, RankAnalysis
from stepscope.model.hardware import hardware_of
from stepscope.model.interval import NOTHING, Intervals, overlap_ns, union
from stepscope.model.trace import I32, I64, Trace
from stepscope.trace import health
from stepscope.trace.category import DEVICE_KINDS, HOST_KINDS, Kind, span_kinds
from stepscope.trace.host_cause import RANK, NameFacts, name_facts
from stepscope.trace.link import COMMUNICATION, COPY, Activities, link
from stepscope.trace.nesting import HostRows, HostTimeline, rows_of_track
from stepscope.trace.step import Steps, find_steps, owner_of

AUTOGRAD_LAUNCH_SHARE = 0.10
GRAPH_LAUNCH = "GraphLaunch"


def analyse_rank(trace: Trace, *, steps: tuple[int, int] | None = None, rank: int | None = None) -> list[RankAnalysis]:
    """Everything that one trace says: one analysis a host process that launched device work (one in all, where none did).

    `steps` keeps only steps with these numbers (inclusive) in the accounting; `rank` is what the caller knows the
    trace's rank to be, else what the file says. Pure: the trace is not changed.
    """
    kinds = span_kinds(trace)
    good, issues = health.good_rows(trace, kinds)
    kinds = np.where(good, kinds, Kind.OTHER).astype(np.int32)
    issues = [*health.loss_issues(trace), *issues]
    facts = name_facts(trace, kinds)
    processes, process_of_track = _processes(trace, kinds)
    is_launch_call = (kinds == Kind.CALL) & facts.is_launch_call[kinds, trace.spans.name_id]
    activities = link(trace, kinds, process_of_track, processes, is_launch_call)
    # A call that launched recorded work is a launch whatever its name.
    is_launch_call[activities.launch_row[activities.launch_row >= 0]] = True
    activities, cut = health.cut_corrupt(trace, activities)
    issues += cut
    groups = _split(activities, processes)
    several = len(groups) > 1
    distributed = trace.metadata.get("distributedInfo")
    own_rank = rank if rank is not None else _int(distributed, "rank")
    world = _int(distributed, "world_size")
    return [
        _Process(
            trace=trace,
            kinds=kinds,
            good=good,
            facts=facts,
            is_launch_call=is_launch_call,
            activities=activities.take(chosen),
            tracks=np.flatnonzero(process_of_track == process) if process >= 0 else np.arange(len(trace.tracks)),
            issues=issues,
            rank=None if several else own_rank,
            world_size=world,
            wanted=steps,
        ).analysis()
        for process, chosen in groups
    ]


def _int(mapping: object, key: str) -> int | None:
    value = mapping.get(key) if isinstance(mapping, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _processes(trace: Trace, kinds: I32) -> tuple[tuple[int | str, ...], I32]:
    """Host processes in order of appearance, and each track's position among them (-1: no host rows)."""
    host_track = np.zeros(max(len(trace.tracks), 1), dtype=bool)
    host_track[np.unique(trace.spans.track_id[np.isin(kinds, HOST_KINDS)])] = True
    found: dict[int | str, int] = {}
    position = np.full(max(len(trace.tracks), 1), -1, dtype=np.int32)
    for i, track in enumerate(trace.tracks):
        if host_track[i]:
            position[i] = found.setdefault(track.pid, len(found))
    return tuple(found), position


def _split(activities: Activities, processes: tuple[int | str, ...]) -> list[tuple[int, npt.NDArray[np.bool_]]]:
    """Activities by launching process. Work without launch goes to the process its device's other work belongs to.

    One process (or none that launched): everything belongs together, helper threads with other pids included.
    """
    launching = np.unique(activities.process[activities.process >= 0])
    if len(launching) <= 1:
        return [(-1, np.ones(len(activities), dtype=bool))]
    process = activities.process.copy()
    for device in np.unique(activities.device).tolist():
        mine = activities.device == device
        known = process[mine & (process >= 0)]
        if len(known):
            process[mine & (process < 0)] = np.bincount(known).argmax()
    return [(int(p), process == p) for p in launching.tolist()]


@dataclass
class _Process:
    """The analysis of one host process: inputs as fields, results by the methods, in the order of the page."""

    trace: Trace
    kinds: I32
    good: npt.NDArray[np.bool_]
    facts: NameFacts
    is_launch_call: npt.NDArray[np.bool_]
    activities: Activities
    tracks: npt.NDArray[np.intp]
    issues: list[health.Issue]
    rank: int | None
    world_size: int | None
    wanted: tuple[int, int] | None

    def analysis(self) -> RankAnalysis:
        trace, spans, activities = self.trace, self.trace.spans, self.activities
        self.issues = list(self.issues)
        is_copy_call = np.zeros(len(spans.ts_ns), dtype=bool)
        pageable = activities.launch_row[activities.is_pageable & (activities.launch_row >= 0)]
        is_copy_call[pageable] = True
        self.rows = self._host_rows(is_copy_call)
        self.steps = find_steps(trace, self.kinds, self.facts, self.tracks, self.good)
        self.is_launch_call = self.is_launch_call & np.isin(spans.track_id, self.tracks)
        self.main = self._main_thread()
        self.autograd = self._autograd_threads()
        low, high = self._span()
        self.timeline = self._timeline(low, high)
        self.launch_thread = np.where(
            activities.launch_row >= 0, spans.track_id[activities.launch_row], -1
        ).astype(np.int32)
        self.is_blocking = np.zeros(len(activities), dtype=bool)
        has = activities.launch_row >= 0
        launch_row = activities.launch_row[has]
        own = self.facts.cause[self.kinds[launch_row], spans.name_id[launch_row]]
        self.is_blocking[has] = (own == RANK["copy_wait"]) | is_copy_call[launch_row]

        self.issues += health.launch_issues(trace, activities, self.kinds, self.is_launch_call)
        unclassified, found = health.class_issues(activities, self.kinds)
        self.issues += found
        self.unclassified_share = unclassified
        if len(activities):
            results = [self._device(int(d)) for d in np.unique(activities.device).tolist()]
        else:
            results = [self._cpu()]
        unlaunched = max((d.numbers.get("unlaunched_device_share", 0.0) for _, d in results), default=0.0)
        self.issues += health.missing_launch(activities, self.kinds, unlaunched)
        rows = tuple(row for found_rows, _ in results for row in found_rows)
        devices = tuple(device for _, device in results)
        chosen = self._chosen_activities()
        if not len(self.steps):
            self.issues.append(
                health.Issue("no_steps", 1, "none", "no ProfilerStep annotations: the whole trace is one window")
            )
        merged = health.merge(self.issues)
        return RankAnalysis(
            rank=self.rank,
            world_size=self.world_size,
            issues=tuple(issue.for_rank(self.rank) for issue in merged),
            withheld=tuple(self._withheld()),
            steps=self._step_rows(),
            accounting=rows,
            devices=devices,
            operators=operator_table(trace, activities, self.rows, self.launch_thread, self.rank, chosen),
            kernels=kernel_table(trace, activities, self.rank, chosen & (self.kinds[activities.row] == Kind.KERNEL)),
            collectives=self.collective_rows,
            device_name=self._device_name(int(activities.device[0])) if len(activities) else None,
            accelerator=self._accelerator(),
        )

    # ── host ───────────────────────────────────────────────────────────────────────────────────────

    def _host_rows(self, is_copy_call: npt.NDArray[np.bool_]) -> dict[int, HostRows]:
        """Rows of every host thread of the process, empty threads left out."""
        result = {}
        for track in self.tracks.tolist():
            pid = self.trace.tracks[track].pid
            if isinstance(pid, int) and pid < 0:
                continue
            rows = rows_of_track(self.trace, track, self.kinds, self.facts, is_copy_call, self.good)
            if len(rows):
                result[track] = rows
        return result

    def _main_thread(self) -> int | None:
        """The thread of the steps, else the one whose tid is its pid, else the one that starts first."""
        if self.steps.thread is not None:
            return self.steps.thread
        if not self.rows:
            return None
        same = [t for t in self.rows if self.trace.tracks[t].tid == self.trace.tracks[t].pid]
        return same[0] if same else min(self.rows, key=lambda t: int(self.rows[t].start_ns[0]))

    def _autograd_threads(self) -> list[int]:
        """Other threads that run the autograd engine or launch much; most launches first."""
        launches = {t: int(self.is_launch_call[rows.row].sum()) for t, rows in self.rows.items()}
        total = sum(launches.values())
        engine = np.array([n.startswith("autograd::engine") for n in self.trace.names] or [False])
        found = [
            t
            for t, rows in self.rows.items()
            if t != self.main
            and (
                (total and launches[t] >= AUTOGRAD_LAUNCH_SHARE * total)
                or bool(engine[self.trace.spans.name_id[rows.row]].any())
            )
        ]
        return sorted(found, key=lambda t: (-launches[t], t))

    def _span(self) -> tuple[int, int]:
        """From the first to the last believable event of the process."""
        ends = [(int(r.start_ns.min()), int(r.end_ns.max())) for r in self.rows.values()]
        if len(self.activities):
            ends.append((int(self.activities.start_ns.min()), int(self.activities.end_ns.max())))
        if not ends:
            return 0, 0
        return min(a for a, _ in ends), max(b for _, b in ends)

    def _timeline(self, low: int, high: int) -> HostTimeline | None:
        if not self.rows:
            return None
        spans = self.trace.spans
        everywhere: dict[int, list[tuple[I64, I64]]] = {}
        overhead = np.flatnonzero(self.kinds == Kind.OVERHEAD)
        for row in overhead.tolist():
            pid = self.trace.tracks[spans.track_id[row]].pid
            if isinstance(pid, int) and pid < 0:
                cause = int(self.facts.cause[Kind.OVERHEAD, spans.name_id[row]])
                everywhere.setdefault(cause, []).append((spans.ts_ns[row], spans.ts_ns[row] + spans.dur_ns[row]))
        sets = {
            cause: union(np.array([a for a, _ in pairs], dtype=np.int64), np.array([b for _, b in pairs], dtype=np.int64))
            for cause, pairs in everywhere.items()
        }
        return HostTimeline(self.rows, self.main, self.autograd, sets, low, high)

    def _marks(self) -> dict[str, Intervals]:
        """When checkpoint and evaluation marks were open on the threads that drive the step."""
        threads = [t for t in (self.main, *self.autograd) if t is not None and t in self.rows]
        return {
            phase: union(
                np.concatenate([self.rows[t].of_cause(RANK[phase]).start for t in threads] or [np.empty(0, np.int64)]),
                np.concatenate([self.rows[t].of_cause(RANK[phase]).end for t in threads] or [np.empty(0, np.int64)]),
            )
            for phase in ("checkpoint", "eval")
        }

    def _compile_time(self) -> Intervals:
        threads = [t for t in (self.main, *self.autograd) if t is not None and t in self.rows]
        sets = [self.rows[t].of_cause(RANK["compile"]) for t in threads]
        return union(
            np.concatenate([s.start for s in sets] or [np.empty(0, np.int64)]),
            np.concatenate([s.end for s in sets] or [np.empty(0, np.int64)]),
        )

    # ── steps ──────────────────────────────────────────────────────────────────────────────────────

    def _uses(self) -> StepUses:
        """How each step is used; computed once, over all devices."""
        if not hasattr(self, "_cached_uses"):
            self._cached_uses = self._judge_steps()
        return self._cached_uses

    def _judge_steps(self) -> StepUses:
        steps, activities, spans = self.steps, self.activities, self.trace.spans
        launches = linked = kernels = None
        if len(activities):
            calls = np.flatnonzero(self.is_launch_call)
            has_work = np.zeros(len(spans.ts_ns), dtype=bool)
            has_work[activities.launch_row[activities.launch_row >= 0]] = True
            at = owner_of(steps, spans.ts_ns[calls], np.ones(len(calls), dtype=bool))
            num = len(steps)
            launches = np.bincount(at[at >= 0], minlength=num)
            linked = np.bincount(at[(at >= 0) & has_work[calls]], minlength=num)
            owner = owner_of(steps, activities.called_ns, activities.launch_row >= 0)
            kernels = np.bincount(owner[owner >= 0], minlength=num)
        uses = step_uses(
            steps,
            launches=launches,
            linked=linked,
            kernels=kernels,
            marks=self._marks(),
            compile_time=self._compile_time(),
        )
        for use, code, affects in (("partial", "partial_step", ()), ("no_device_data", "no_device_data", ("idle",))):
            count = sum(u == use for u in uses.use)
            if count:
                numbers = [str(n) for n, u in zip(steps.number.tolist(), uses.use, strict=True) if u == use]
                shown = ", ".join(numbers[:6]) + (", …" if len(numbers) > 6 else "")
                words = "are cut" if use == "partial" else "have launches but no device data"
                self.issues.append(health.Issue(code, count, "none", f"steps {shown} {words} and are not counted"))
        self._graph_coverage(uses)
        return uses

    def _graph_coverage(self, uses: StepUses) -> None:
        """Graph launches whose nodes were not recorded: idle between them cannot be told from their work."""
        spans, names = self.trace.spans, self.trace.names
        is_graph = np.array([GRAPH_LAUNCH in n for n in names] or [False])
        calls = np.flatnonzero(self.is_launch_call & is_graph[spans.name_id])
        self.graph_coverage: float | None = None
        if not len(calls):
            return
        count = np.zeros(len(spans.ts_ns), dtype=np.int64)
        np.add.at(count, self.activities.launch_row[self.activities.launch_row >= 0], 1)
        covered = float((count[calls] > 0).mean())
        self.graph_coverage = covered
        if covered < 1.0:
            self.issues.append(
                health.Issue(
                    "graph_underrecorded",
                    int((count[calls] == 0).sum()),
                    "withheld" if covered < 0.5 else "degraded",
                    f"{100 * covered:.4g} % of {len(calls)} graph launches have recorded device work; idle and per-kernel "
                    "shares of the others are withheld",
                    ("idle", "kernels"),
                )
            )

    def _in_scope(self) -> npt.NDArray[np.bool_]:
        """Steps that the accounting sums: counted and marked, and asked for."""
        mask = self._uses().mask("counted", "marked")
        if self.wanted is not None:
            mask &= (self.steps.number >= self.wanted[0]) & (self.steps.number <= self.wanted[1])
        return mask

    def _counted(self) -> npt.NDArray[np.bool_]:
        return self._in_scope() & self._uses().mask("counted")

    def _durations(self) -> tuple[I64, I64, npt.NDArray[np.bool_]]:
        """Number, tile length and whether it is counted, of every step in scope."""
        mask = self._in_scope()
        return self.steps.number[mask], (self.steps.end_ns - self.steps.start_ns)[mask], self._counted()[mask]

    def _step_rows(self) -> tuple[report.Step, ...]:
        if not len(self.steps):
            return ()
        uses = self._uses()
        return tuple(
            report.Step(
                rank=self.rank,
                step=int(self.steps.number[i]),
                start_ns=int(self.steps.start_ns[i]),
                end_ns=int(self.steps.end_ns[i]),
                dur_ns=int(self.steps.end_ns[i] - self.steps.start_ns[i]),
                use=uses.use[i],
                why=uses.why[i],
            )
            for i in range(len(self.steps))
        )

    # ── one device ─────────────────────────────────────────────────────────────────────────────────

    def _device(self, device: int) -> tuple[list[report.Accounting], DeviceAnalysis]:
        mine = self.activities.device == device
        activities = self.activities.take(mine)
        owner = owner_of(self.steps, activities.called_ns, activities.launch_row >= 0)
        parts = parts_of(activities)
        scopes: list[tuple[str, Windows, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]] = []
        if len(self.steps) and self._in_scope().any():
            scopes.append(("steps", windows(self.steps, activities, owner), self._in_scope(), self._counted()))
        first, last = int(activities.start_ns.min()), int(activities.end_ns.max())
        whole = Windows("device", np.array([first]), np.array([last]))
        scopes.append(("trace", whole, np.ones(1, bool), np.ones(1, bool)))
        # A gap reaches back to the first event: what was launched while the device stood still was not queued.
        low = min(int(s[1].start_ns.min()) for s in scopes)
        low = low if self.timeline is None else min(low, self.timeline.start_ns)
        high = max(int(s[1].end_ns.max()) for s in scopes)
        pieces = idle_pieces(
            activities,
            self.timeline,
            self.launch_thread[mine],
            self.is_blocking[mine],
            self.steps,
            owner,
            low,
            high,
        )
        rows = []
        statuses = []
        for scope, window, chosen, _ in scopes:
            inside = union(window.start_ns[chosen], window.end_ns[chosen])
            status = self._status(health.unlaunched_effect(health.unlaunched_share(activities, inside)))
            statuses.append(status)
            sums = window_sums(window.start_ns, window.end_ns, parts, pieces)
            shown = without_causes(sums) if status == "withheld" else sums
            rows.append(self._row(device, scope, window, chosen, shown, status))
        # What decides is the first: steps where there are any.
        scope, window, chosen, counted = scopes[0]
        sums = window_sums(window.start_ns, window.end_ns, parts, pieces)
        analysis = self._decide(device, activities, mine, owner, rows[0], window, chosen, counted, sums, pieces, parts, statuses[0])
        return rows, analysis

    def _status(self, launches: report.Effect) -> report.RowStatus:
        """Whether idle causes can be believed, from the row's own missing launches and the issues that touch them."""
        effects = {launches, *(i.effect for i in self.issues if "idle" in i.affects)}
        if "withheld" in effects and self.graph_coverage_is_local():
            effects = {launches, "degraded"}
        return "withheld" if "withheld" in effects else "degraded" if "degraded" in effects else "ok"

    def graph_coverage_is_local(self) -> bool:
        """Under-recorded graphs fall into steps that are not counted anyway; the others can be judged."""
        withheld = [i for i in self.issues if i.effect == "withheld" and "idle" in i.affects]
        return (
            bool(withheld)
            and all(i.code == "graph_underrecorded" for i in withheld)
            and len(self.steps) > 0
            and bool(self._counted().any())
        )

    def _row(
        self,
        device: int,
        scope: str,
        window: Windows,
        chosen: npt.NDArray[np.bool_],
        sums: WindowSums,
        status: report.RowStatus,
    ) -> report.Accounting:
        named = sums.summed(chosen)
        is_steps = scope == "steps"
        return report.Accounting(
            rank=self.rank,
            device=report.Device(index=device, name=self._device_name(device)),
            scope=scope,  # type: ignore[arg-type]
            window=window.kind,
            num_steps=int(chosen.sum()) if is_steps else 0,
            total_ns=named["total_ns"],
            compute_ns=named["compute_ns"],
            communication_exposed_ns=named["communication_exposed_ns"],
            copy_exposed_ns=named["copy_exposed_ns"],
            idle_ns=named["idle_ns"],
            idle=idle_struct(named),
            communication=report.Communication(
                total_ns=named["communication_ns"],
                hidden_ns=named["communication_ns"] - named["communication_exposed_ns"],
            )
            if named["communication_ns"]
            else None,
            host=self._host_shares(chosen) if is_steps else self._host_shares_of_trace(),
            variation=variation(*self._durations()) if is_steps else None,
            status=status,
        )

    def _host_shares(self, chosen: npt.NDArray[np.bool_]) -> report.HostShares | None:
        when = union(self.steps.start_ns[chosen], self.steps.end_ns[chosen])
        return host.shares(self.rows, self.main, self.autograd, self.is_launch_call, when)

    def _host_shares_of_trace(self) -> report.HostShares | None:
        if self.timeline is None:
            return None
        when = union(np.array([self.timeline.start_ns]), np.array([self.timeline.end_ns]))
        return host.shares(self.rows, self.main, self.autograd, self.is_launch_call, when)

    def _decide(
        self,
        device: int,
        activities: Activities,
        mine: npt.NDArray[np.bool_],
        owner: I64,
        row: report.Accounting,
        window: Windows,
        chosen: npt.NDArray[np.bool_],
        counted: npt.NDArray[np.bool_],
        sums: WindowSums,
        pieces: IdlePieces,
        parts: object,
        status: report.RowStatus,
    ) -> DeviceAnalysis:
        from stepscope.analyse.account import Parts

        assert isinstance(parts, Parts)
        inside = union(window.start_ns[chosen], window.end_ns[chosen])
        named = sums.summed(chosen)
        numbers = self._numbers(device, activities, row, named, pieces, inside, parts.communication_exposed)
        blame: dict[str, tuple[Culprit, ...]] = {}
        if status != "withheld":
            blame.update(culprits(self.trace, pieces, self.rows, inside))
        for part, when, code in (
            ("communication_exposed", parts.communication_exposed, COMMUNICATION),
            ("copy_exposed", parts.copy_exposed, COPY),
        ):
            which = activities.part == code
            from stepscope.model.interval import intersect

            named_rows = activity_culprits(
                self.trace,
                activities.row[which],
                activities.start_ns[which],
                activities.end_ns[which],
                intersect(when, inside),
            )
            if named_rows:
                blame[part] = named_rows
        shown = without_causes(sums) if status == "withheld" else sums
        by_step = (
            {int(self.steps.number[i]): shown.by_window(int(i)) for i in np.flatnonzero(counted)}
            if row.scope == "steps"
            else {}
        )
        return DeviceAnalysis(accounting=row, culprits=blame, by_step=by_step, numbers=numbers)

    def _numbers(
        self,
        device: int,
        activities: Activities,
        row: report.Accounting,
        named: Mapping[str, int],
        pieces: IdlePieces,
        inside: Intervals,
        exposed: Intervals,
    ) -> dict[str, float]:
        numbers: dict[str, float] = {"unlaunched_device_share": health.unlaunched_share(activities, inside)}
        if named["idle_ns"]:
            _, piece, length = pieces.within(inside.start, inside.end)
            late = int(length[pieces.is_host_late[piece]].sum())
            numbers["host_late_idle_share"] = late / named["idle_ns"]
            numbers["queued_or_unlaunched_idle_share"] = 1.0 - late / named["idle_ns"]
        if row.scope == "steps":
            counted = self._counted()
            number, duration, is_counted = self._durations()
            excess = periodic_excess_ns(number, duration, is_counted)
            if row.variation is not None and row.variation.period_steps is not None and duration.sum():
                numbers["periodic_stall_share"] = excess / int(duration.sum())
                numbers["periodic_stall_steps"] = float(row.variation.period_steps)
            elif is_counted.sum() > 1:
                numbers["periodic_stall_share"] = 0.0
            calls = np.flatnonzero(self.is_launch_call)
            at = owner_of(self.steps, self.trace.spans.ts_ns[calls], np.ones(len(calls), dtype=bool))
            if counted.any():
                numbers["launches_per_step"] = float(np.isin(at, np.flatnonzero(counted)).sum() / counted.sum())
        is_kernel = self.kinds[activities.row] == Kind.KERNEL
        compute = is_kernel & (activities.part != COMMUNICATION)
        if compute.any():
            numbers["kernel_median_ns"] = float(np.median((activities.end_ns - activities.start_ns)[compute]))
            numbers["unclassified_share"] = self.unclassified_share
        copies = activities.part == COPY
        copy_ns = int((activities.end_ns - activities.start_ns)[copies].sum())
        if copy_ns:
            pageable = copies & activities.is_pageable
            numbers["pageable_copy_share"] = float((activities.end_ns - activities.start_ns)[pageable].sum() / copy_ns)
        if self.graph_coverage is not None:
            numbers["graph_coverage"] = self.graph_coverage
        found = collective.collectives_of(self.trace, activities, self.world_size)
        hardware = hardware_of(self._device_name(device))
        link_rate = hardware.link_bytes_per_second if hardware is not None else None
        if len(found.at):
            own = overlap_ns(activities.start_ns[found.at], activities.end_ns[found.at], exposed)
            numbers.update(collective.plausibility(found, own, link_rate))
        self.collective_rows = (*self.collective_rows, *collective.rows(found, self.rank, link_rate))
        return numbers

    collective_rows: tuple[report.Collective, ...] = ()
    graph_coverage: float | None = None

    # ── no device ──────────────────────────────────────────────────────────────────────────────────

    def _cpu(self) -> tuple[list[report.Accounting], DeviceAnalysis]:
        """The row of a run without device work: ops, collectives and the idle causes of the main thread."""
        expected = self._accelerator() != "cpu"
        self.issues.append(self._unseen_issue() if expected else _NO_DEVICE)
        device = report.Device(kind="cpu")
        if self.timeline is None or self.main is None:
            empty = report.Accounting(
                rank=self.rank, device=device, scope="trace", window="host", num_steps=0, total_ns=0, compute_ns=0,
                communication_exposed_ns=0, copy_exposed_ns=0, idle_ns=0, idle=report.Idle(), status="withheld",
            )  # fmt: skip
            return [empty], DeviceAnalysis(accounting=empty)
        cpu = host.cpu_parts(self.rows, self.timeline, self.main, self.kinds, self.facts, self.trace, self.steps)
        rows: list[report.Accounting] = []
        scopes: list[tuple[str, Windows, npt.NDArray[np.bool_]]] = []
        if len(self.steps) and self._in_scope().any():
            scopes.append(("steps", host_windows(self.steps), self._in_scope()))
        low, high = self.timeline.start_ns, self.timeline.end_ns
        scopes.append(("trace", Windows("host", np.array([low]), np.array([high])), np.ones(1, bool)))
        all_sums = []
        for scope, window, chosen in scopes:
            sums = window_sums(window.start_ns, window.end_ns, cpu.parts, cpu.idle)
            all_sums.append(sums)
            row = self._row(0, scope, window, chosen, sums, "withheld" if expected else "ok")
            rows.append(replace_device(row, device))
        scope, window, chosen = scopes[0]
        inside = union(window.start_ns[chosen], window.end_ns[chosen])
        counted = self._counted() if scope == "steps" else np.zeros(0, bool)
        analysis = DeviceAnalysis(
            accounting=rows[0],
            culprits=culprits(self.trace, cpu.idle, self.rows, inside),
            by_step={int(self.steps.number[i]): all_sums[0].by_window(int(i)) for i in np.flatnonzero(counted)},
            numbers={},
        )
        return rows, analysis

    def _accelerator(self) -> str:
        """Which accelerator the trace speaks of: by its calls' names, its device rows, or its properties."""
        spans, names = self.trace.spans, self.trace.names
        cats = {c.lower() for c in self.trace.cats}
        if any(c.startswith("mtia") for c in cats):
            return "mtia"
        calls = np.unique(spans.name_id[self.kinds == Kind.CALL])
        used = [names[n] for n in calls.tolist()]
        if any(n.startswith("hip") for n in used):
            return "hip"
        if any(n.startswith(("cuda", "cu")) for n in used):
            return "cuda"
        if len(self.activities):
            return "cuda"
        if (self.kinds == Kind.UNSEEN).any() or used:
            return "other"
        return "cpu"

    def _unseen_issue(self) -> health.Issue:
        unseen = int((self.kinds == Kind.UNSEEN).sum())
        if unseen:
            cats = sorted({self.trace.cats[c] for c in np.unique(self.trace.spans.cat_id[self.kinds == Kind.UNSEEN])})
            detail = (
                f"{unseen} device rows of category {', '.join(cats)} are not understood: device work cannot be seen, "
                "the accounting is the host's alone"
            )
            return health.Issue("no_device_data", unseen, "withheld", detail, ("accounting",))
        launches = int(self.is_launch_call.sum())
        detail = (
            f"{launches} launches were recorded and no device activity: device work cannot be seen, "
            "the accounting is the host's alone"
        )
        return health.Issue("no_device_data", launches, "withheld", detail, ("accounting",))

    # ── the rest ───────────────────────────────────────────────────────────────────────────────────

    def _withheld(self) -> list[report.Withheld]:
        found = []
        for issue in health.merge(self.issues):
            if issue.effect == "withheld":
                found.append(
                    report.Withheld(
                        what="idle causes" if "idle" in issue.affects else "device accounting",
                        why=issue.detail,
                        would_settle=_SETTLES.get(issue.code),
                    )
                )
        if any(r.kind in collective.SYNCHRONISING for r in self.collective_rows):
            found.append(
                report.Withheld(
                    what="transfer and wait of collectives",
                    why="one rank cannot tell a slow link from a late peer",
                    would_settle="the traces of all ranks of the same steps",
                )
            )
        return found

    def _chosen_activities(self) -> npt.NDArray[np.bool_]:
        """Activities of the steps in scope, or all where there are no steps."""
        if not len(self.steps) or not self._in_scope().any():
            return np.ones(len(self.activities), dtype=bool)
        owner = owner_of(self.steps, self.activities.called_ns, self.activities.launch_row >= 0)
        return (owner >= 0) & self._in_scope()[np.maximum(owner, 0)]

    def _device_name(self, device: int) -> str | None:
        properties = self.trace.metadata.get("deviceProperties")
        if not isinstance(properties, list):
            return None
        for entry in properties:
            if isinstance(entry, Mapping) and entry.get("id") == device:
                name = entry.get("name")
                return name if isinstance(name, str) and name else None
        return None


_NO_DEVICE = health.Issue(
    "no_device_data",
    0,
    "none",
    "no launch and no device activity was recorded: if this run used an accelerator, its work cannot be seen here",
)
_SETTLES = {
    "missing_launch": "a trace that records host calls too (ProfilerActivity.CPU beside CUDA)",
    "graph_underrecorded": "a trace with CUDA graphs off, or a newer CUPTI that records graph nodes",
    "no_device_data": "a trace with ProfilerActivity.CUDA and a warm-up step",
}


def replace_device(row: report.Accounting, device: report.Device) -> report.Accounting:
    """The row under another device."""
    import msgspec

    return msgspec.structs.replace(row, device=device)


__all__ = ["DEVICE_KINDS", "IDLE_CAUSES", "NOTHING", "analyse_rank", "replace"]
