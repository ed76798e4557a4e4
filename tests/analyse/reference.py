"""The accounting once more, as slowly and as literally as the definition reads: nanosecond by nanosecond.

It follows docs/reference/accounting.md and nothing else: it imports nothing of the product, has its own
small tables of names (the vocabulary of `generate.py`), and walks integers in plain loops. It is meant for
traces of a few thousand nanoseconds. Input: the events of a Kineto file as dicts. Decisions where the
definition leaves room are marked `AMBIGUOUS` with what was chosen.

Not covered: corrupt durations (the generator makes none; the worked cases do) and which steps are summed
(the caller says; all by default).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

# ── names: the definition's "Causes of rows", spelled out for the vocabulary of the generator ───────────

ORDER = (
    "checkpoint",
    "eval",
    "profiler",
    "compile",
    "gc",
    "input",
    "allocator",
    "copy_wait",
    "host_sync",
    "logging",
    "peer",
    "launch",
    "python",
    "unknown",
)
CAUSES = (*ORDER, "queued", "preprocess")
MARKED = ("checkpoint", "eval")
RANK = {cause: place for place, cause in enumerate(ORDER)}

ANNOTATION_CAUSE: Mapping[str, str] = {
    "checkpoint": "checkpoint",
    "save_checkpoint": "checkpoint",
    "save_model": "checkpoint",
    "eval": "eval",
    "validation": "eval",
    "test_step": "eval",
    "_compile.compile_inner (dynamo_timed)": "compile",
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__": "input",
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__": "input",
    "get_batch": "input",
    "data_loading": "input",
    "logging": "logging",
    "log_metrics": "logging",
    "gloo:all_reduce": "peer",
    "gloo:broadcast": "peer",
}
OP_CAUSE: Mapping[str, str] = {
    "c10d::barrier": "peer",
    "gloo:all_reduce": "peer",
}
FRAME_CAUSE: Mapping[str, str] = {
    "torch/serialization.py(943): save": "checkpoint",
    "torch/distributed/checkpoint/state_dict_saver.py(99): save": "checkpoint",
    "torch/profiler/profiler.py(864): step": "profiler",
    "torch/autograd/profiler.py(769): __enter__": "profiler",
    "torch/_dynamo/convert_frame.py(1372): __call__": "compile",
    "torch/_inductor/compile_fx.py(1004): compile_fx_inner": "compile",
    "Python GC": "gc",
    "<built-in function collect>": "gc",
    "torch/utils/data/dataloader.py(708): __next__": "input",
    "logging/__init__.py(1479): info": "logging",
    "torch/utils/tensorboard/writer.py(358): add_scalar": "logging",
    "<built-in function print>": "logging",
    "torch/distributed/distributed_c10d.py(4159): barrier": "peer",
}
CALL_CAUSE: Mapping[str, str] = {
    "cudaMalloc": "allocator",
    "cudaFree": "allocator",
    "cudaHostAlloc": "allocator",
    "cuMemCreate": "allocator",
    "cudaMemcpy": "copy_wait",
    "cudaStreamSynchronize": "host_sync",
    "cudaDeviceSynchronize": "host_sync",
    "cudaEventSynchronize": "host_sync",
    "cuCtxSynchronize": "host_sync",
    "cuModuleLoadData": "compile",
}
OVERHEAD_CAUSE: Mapping[str, str] = {
    "Activity Buffer Request": "profiler",
    "Buffer Flush": "profiler",
    "Instrumentation": "profiler",
    "Lazy Function Loading": "compile",
}
# Rows that only wait for the autograd engine or a lock.
WAITING = frozenset(
    {
        "backward",
        "torch/_tensor.py(570): backward",
        "<built-in method run_backward of torch._C._EngineBase object>",
        "<built-in method acquire of _thread.lock object>",
        "threading.py(359): wait",
    }
)
THREAD_START = frozenset(
    {
        "threading.py(1032): _bootstrap",
        "threading.py(1075): _bootstrap_inner",
        "threading.py(1012): run",
    }
)
# Calls that launch by their name, also where the work itself was not recorded.
LAUNCH_CALLS = frozenset(
    {"cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaGraphLaunch"}
)
# Rows of a process-group back end (only asked in traces without device events).
COLLECTIVE = frozenset({"gloo:all_reduce", "gloo:broadcast", "nccl:all_reduce", "c10d::barrier"})

COMMUNICATION_KERNELS = (
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
)

HOST_KINDS: Mapping[str, str] = {
    "cpu_op": "op",
    "Operator": "op",
    "user_annotation": "annotation",
    "python_function": "frame",
    "cuda_runtime": "call",
    "cuda_driver": "call",
    "Runtime": "call",
    "overhead": "overhead",
}
DEVICE_CATS = ("kernel", "gpu_memcpy", "gpu_memset")

Thread = tuple[int, int]


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class HostRow:
    index: int
    kind: str  # op, annotation, frame, call, overhead
    name: str
    thread: Thread
    start: int
    end: int
    correlation: int | None
    cause: str | None = None  # of its own
    serves: list[Activity] = field(default_factory=list)

    @property
    def is_step(self) -> bool:
        return self.kind == "annotation" and self.name.startswith("ProfilerStep#")

    @property
    def is_launch(self) -> bool:
        """AMBIGUOUS: a launch is a call that launched recorded work, or one whose name says it launches."""
        return self.kind == "call" and (bool(self.serves) or self.name in LAUNCH_CALLS)

    @property
    def default_cause(self) -> str:
        """What an open row without a cause of its own counts as."""
        return "launch" if self.kind in ("op", "call") else "python"


@dataclass(slots=True)
class Activity:
    index: int
    name: str
    cls: str  # compute, communication, copy
    device: int
    stream: int
    start: int
    end: int
    correlation: int | None
    launch: HostRow | None = None
    owner: int | None = None
    before_trace: bool = False

    @property
    def launched(self) -> int | None:
        """`L`, or `None` where no launch was recorded."""
        return None if self.launch is None else min(self.launch.start, self.start)


@dataclass
class Parts:
    """One window, or a sum of windows: integers in nanoseconds."""

    total: int = 0
    compute: int = 0
    communication_exposed: int = 0
    copy_exposed: int = 0
    idle: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0))

    def add(self, other: Parts) -> None:
        self.total += other.total
        self.compute += other.compute
        self.communication_exposed += other.communication_exposed
        self.copy_exposed += other.copy_exposed
        for cause, ns in other.idle.items():
            self.idle[cause] += ns

    @property
    def idle_total(self) -> int:
        return sum(self.idle.values())

    def flat(self) -> dict[str, int]:
        """Named as in the product's rows, so that a difference reads well."""
        flat = {
            "total_ns": self.total,
            "compute_ns": self.compute,
            "communication_exposed_ns": self.communication_exposed,
            "copy_exposed_ns": self.copy_exposed,
            "idle_ns": self.idle_total,
        }
        flat.update({f"idle.{cause}_ns": self.idle[cause] for cause in sorted(CAUSES)})
        return flat


@dataclass
class Row:
    """One device's accounting (`device` is `None` for a trace without device events)."""

    device: int | None
    window: str  # host or device
    windows: list[tuple[int, int, int]]  # (step, start, end)
    by_step: dict[int, Parts]
    steps: Parts  # the sum over the steps asked for
    trace: Parts
    host: dict[str, tuple[int, int]]  # share -> (numerator, denominator), of the steps asked for
    lost_run_ahead: int = 0  # instants that took a blocked instant's cause, over the whole trace
    is_withheld: dict[str, bool] = field(default_factory=dict)  # by scope
    activities: dict[int, int] = field(default_factory=dict)  # by the step that owns them, on all devices


def nanoseconds(microseconds: float) -> int:
    """Written with three decimals, so the nearest integer is the written one."""
    return round(microseconds * 1000)


# ── the accounting ───────────────────────────────────────────────────────────────────────────────────


class Reference:
    def __init__(self, events: Iterable[Mapping[str, Any]]) -> None:
        self.rows: list[HostRow] = []
        self.everywhere: list[HostRow] = []  # overhead rows on a track without a process
        self.activities: list[Activity] = []
        self._read(events)
        self._link()
        self._steps()
        self._threads()
        starts = [r.start for r in (*self.rows, *self.activities)]
        ends = [r.end for r in (*self.rows, *self.activities)]
        self.t0, self.t1 = min(starts), max(ends)
        self._paint()

    # ·· reading ··

    def _read(self, events: Iterable[Mapping[str, Any]]) -> None:
        for index, event in enumerate(events):
            if event.get("ph") != "X":
                continue
            cat, name, args = event.get("cat", ""), event["name"], event.get("args", {})
            start = nanoseconds(event["ts"])
            end = start + nanoseconds(event["dur"])
            if cat in DEVICE_CATS:
                cls = "copy"
                if cat == "kernel":
                    cls = "communication" if name in COMMUNICATION_KERNELS else "compute"
                self.activities.append(
                    Activity(
                        index, name, cls, args["device"], args["stream"], start, end, args.get("correlation")
                    )
                )
            elif cat in HOST_KINDS:
                kind = HOST_KINDS[cat]
                thread = (event["pid"], event["tid"])
                row = HostRow(index, kind, name, thread, start, end, args.get("correlation"))
                table = {
                    "annotation": ANNOTATION_CAUSE,
                    "op": OP_CAUSE,
                    "frame": FRAME_CAUSE,
                    "call": CALL_CAUSE,
                    "overhead": OVERHEAD_CAUSE,
                }[kind]
                row.cause = table.get(name)
                if kind == "overhead" and event["pid"] < 0:
                    self.everywhere.append(row)
                else:
                    self.rows.append(row)

    def _link(self) -> None:
        calls = {r.correlation: r for r in self.rows if r.kind == "call" and r.correlation is not None}
        for a in self.activities:
            a.launch = calls.get(a.correlation)
            if a.launch is not None:
                a.launch.serves.append(a)
        for call in calls.values():
            # An asynchronous copy of pageable memory waits like a synchronous one.
            if call.name == "cudaMemcpyAsync" and any("Pageable" in a.name for a in call.serves):
                call.cause = "copy_wait"
        linked = [c for c, call in calls.items() if c is not None and call.is_launch]
        for a in self.activities:
            if a.launch is None and a.correlation is not None:
                a.before_trace = all(a.correlation < c for c in linked)

    def _steps(self) -> None:
        found = {int(r.name.split("#")[1]): r for r in self.rows if r.is_step}
        self.step_thread = next((r.thread for r in self.rows if r.is_step), None)
        self.tiles: dict[int, tuple[int, int]] = {}
        in_order = sorted(found)
        for n, after in zip(in_order, [*in_order[1:], None], strict=False):
            end = found[n].end
            if after is not None:
                end = found[after].start if after == n + 1 else min(end, found[after].start)
            self.tiles[n] = (found[n].start, end)
        for a in self.activities:
            if a.launch is None:
                continue
            # AMBIGUOUS: by the start of the launching call as recorded, not by the corrected `L`.
            for n, (start, end) in self.tiles.items():
                if start <= a.launch.start < end:
                    a.owner = n

    def _threads(self) -> None:
        self.threads: list[Thread] = []  # in order of appearance (AMBIGUOUS: in the file)
        for r in self.rows:
            if r.thread not in self.threads:
                self.threads.append(r.thread)
        # Launches are calls, not activities: a graph launch is one.
        self.launches = dict.fromkeys(self.threads, 0)
        for r in self.rows:
            if r.is_launch:
                self.launches[r.thread] += 1
        total = sum(self.launches.values())
        if self.step_thread is not None:
            self.main = self.step_thread
        else:
            same = [t for t in self.threads if t[0] == t[1]]
            # AMBIGUOUS: of threads that start together, the first to appear.
            first = min(self.rows, key=lambda r: (r.start, self.threads.index(r.thread)), default=None)
            self.main = same[0] if same or first is None else first.thread
        autograd = [
            t
            for t in self.threads
            if t != self.main
            and (
                any(r.thread == t and r.name.startswith("autograd::engine") for r in self.rows)
                or (self.launches[t] > 0 and self.launches[t] * 10 >= total)
            )
        ]
        autograd.sort(key=lambda t: -self.launches[t])  # stable: order of appearance among equals
        self.autograd = autograd

    # ·· what is open, per thread and nanosecond ··

    def _paint(self) -> None:
        """`leaf[thread][t]`, `rank[thread][t]` (the first cause of the open rows, or -1)."""
        length = self.t1 - self.t0
        self.leaf: dict[Thread, list[HostRow | None]] = {}
        self.rank: dict[Thread, list[int]] = {}
        for thread in self.threads:
            mine = [r for r in self.rows if r.thread == thread]
            leaf: list[HostRow | None] = [None] * length
            rank = [-1] * length
            # The one that started last wins; of equal starts the one that ends first.
            # AMBIGUOUS: of two rows with one start and one end, the later in the file.
            for r in sorted(mine, key=lambda r: (r.start, -r.end, r.index)):
                # Overhead has a cause but makes a thread neither busy nor weak; steps say nothing.
                if r.kind == "overhead" or r.is_step or r.name in THREAD_START:
                    continue
                for t in range(r.start - self.t0, r.end - self.t0):
                    leaf[t] = r
            for r in (*mine, *self.everywhere):
                place = RANK[r.cause or r.default_cause]
                for t in range(max(0, r.start - self.t0), min(length, r.end - self.t0)):
                    if rank[t] < 0 or place < rank[t]:
                        rank[t] = place
            self.leaf[thread] = leaf
            self.rank[thread] = rank
        self.speaks = {t: any(r.kind in ("op", "annotation", "frame") for r in self.rows if r.thread == t)
                       for t in self.threads}  # fmt: skip

    def state(self, thread: Thread, t: int) -> str:
        row = self.leaf[thread][t - self.t0]
        if row is None:
            return "empty"
        if row.name in WAITING:
            return "weak"
        if row.kind == "annotation" and row.cause is None:
            return "weak"
        return "busy"

    def responsible(self, launching: Thread, t: int) -> Thread:
        candidates = [c for c in (self.main, *self.autograd) if c != launching]
        own = self.state(launching, t)
        if own == "busy":
            return launching
        states = [(c, self.state(c, t)) for c in candidates]
        for c, state in states:
            if state == "busy":
                return c
        if own == "weak":
            return launching
        for c, state in states:
            if state == "weak":
                return c
        return launching

    def cause(self, thread: Thread, t: int) -> str:
        place = self.rank[thread][t - self.t0]
        if place >= 0:
            return ORDER[place]
        return "python" if self.speaks[thread] else "unknown"

    def why(self, launching: Thread, t: int) -> str:
        return self.cause(self.responsible(launching, t), t)

    # ·· gaps of one device ··

    def explain(
        self, acts: list[Activity], g0: int, g1: int, a: Activity | None
    ) -> tuple[dict[int, str], int]:
        """The cause of each nanosecond of one gap, and how many of them are lost run-ahead."""
        if a is not None and a.launch is None:
            return dict.fromkeys(range(g0, g1), "unknown"), 0
        if a is None:
            launching, started = self.main, g1
        else:
            assert a.launch is not None
            assert a.launched is not None
            launching, started = a.launch.thread, a.launched
        if started <= g0:
            return dict.fromkeys(range(g0, g1), "queued"), 0

        causes = {t: self.why(launching, t) for t in range(g0, started)}

        # Lost run-ahead. AMBIGUOUS: launch starts are `L`, corrected where the clocks disagree.
        lost = 0
        earlier = [(p.launched, p.index, p) for p in acts if p.launched is not None and p.launched < started]
        if earlier:
            previous = max(earlier, key=lambda e: e[:2])[2]
            assert previous.launched is not None
            busy = {t for p in acts for t in range(p.start, p.end)}
            blocked = [
                cause
                for t in range(g0 - 1, previous.launched - 1, -1)
                if t in busy and (cause := self.why(launching, t)) in ("host_sync", "copy_wait")
            ]
            free = [t for t in range(started - 1, g0 - 1, -1) if causes[t] in ("launch", "python", "unknown")]
            for t, cause in zip(free, blocked, strict=False):
                causes[t] = cause
                lost += 1

        if a is not None and a.owner is not None:
            # The first of the step on this device; work for another device prepares nothing here.
            first = min((x for x in acts if x.owner == a.owner), key=lambda x: (x.start, x.index))
            if first is a:
                begin, end = self.tiles[a.owner]
                mine = [x for x in self.activities if x.owner == a.owner]
                prepared = min(mine, key=lambda x: (x.start, x.index)).launched
                assert prepared is not None
                pre = [
                    t
                    for t in range(g0, min(started, prepared))
                    if t >= begin and causes[t] in ("launch", "python")
                ]
                if len(pre) * 20 > end - begin:
                    causes.update(dict.fromkeys(pre, "preprocess"))

        if a is not None:
            assert a.launch is not None
            # A blocking copy is a call whose own cause is copy_wait.
            otherwise = "copy_wait" if a.launch.cause == "copy_wait" else "launch"
            for t in range(started, g1):
                place = self.marked(launching, t)
                causes[t] = place or otherwise
        return causes, lost

    def marked(self, thread: Thread, t: int) -> str | None:
        place = self.rank[thread][t - self.t0]
        return ORDER[place] if place >= 0 and ORDER[place] in MARKED else None

    def device_row(self, device: int, summed: Collection[int]) -> Row:
        acts = [a for a in self.activities if a.device == device]
        first, last = min(a.start for a in acts), max(a.end for a in acts)
        t0 = self.t0
        painted: list[set[str]] = [set() for _ in range(self.t1 - t0)]
        for a in acts:
            for t in range(a.start, a.end):
                painted[t - t0].add(a.cls)

        starts = {a.start for a in acts}  # an activity of no length divides a gap
        causes: dict[int, str] = {}
        lost = 0
        g0 = t0
        while g0 < last:
            if painted[g0 - t0]:
                g0 += 1
                continue
            g1 = g0
            while g1 < last and not painted[g1 - t0] and (g1 == g0 or g1 not in starts):
                g1 += 1
            here = [a for a in acts if a.start == g1]
            if not here:  # only where the last activity has no length and so nothing starts at `last`
                break
            known = [a for a in here if a.launched is not None]
            a = min(known, key=lambda a: (a.launched, a.index)) if known else min(here, key=lambda a: a.index)
            gap, n = self.explain(acts, g0, g1, a)
            causes.update(gap)
            lost += n
            g0 = g1

        kind, windows = self.windows(acts)
        by_step: dict[int, Parts] = {}
        # The gap after the last activity is one gap, up to the end of the last window.
        tail: dict[int, str] = {}
        if kind == "host" and max(end for _, _, end in windows) > last:
            tail, _ = self.explain(acts, last, max(end for _, _, end in windows), None)
        for n, start, end in windows:
            by_step[n] = self.count(painted, causes, tail, start, end)
        total = Parts()
        for n, parts in by_step.items():
            if n in summed:
                total.add(parts)
        return Row(
            device=device,
            window=kind,
            windows=windows,
            by_step=by_step,
            steps=total,
            trace=self.count(painted, causes, {}, first, last),
            host=self.shares(summed),
            lost_run_ahead=lost,
            is_withheld={
                "steps": self.is_withheld(acts, [(s, e) for n, s, e in windows if n in summed]),
                "trace": self.is_withheld(acts, [(first, last)]),
            },
            activities={n: sum(a.owner == n for a in self.activities) for n in self.tiles},
        )

    def is_withheld(self, acts: list[Activity], windows: list[tuple[int, int]]) -> bool:
        """More than half of the device time there has no recorded launch: no cause can be believed."""
        inside = {t for start, end in windows for t in range(start, end)}
        time = [(a.launch is None, sum(t in inside for t in range(a.start, a.end))) for a in acts]
        return 2 * sum(ns for is_lost, ns in time if is_lost) > sum(ns for _, ns in time)

    def count(
        self,
        painted: list[set[str]],
        causes: Mapping[int, str],
        tail: Mapping[int, str],
        start: int,
        end: int,
    ) -> Parts:
        parts = Parts()
        for t in range(start, end):
            parts.total += 1
            what = painted[t - self.t0]
            if "compute" in what:
                parts.compute += 1
            elif "communication" in what:
                parts.communication_exposed += 1
            elif "copy" in what:
                parts.copy_exposed += 1
            else:
                parts.idle[causes[t] if t in causes else tail[t]] += 1
        return parts

    def windows(self, acts: list[Activity]) -> tuple[str, list[tuple[int, int, int]]]:
        """AMBIGUOUS: all of it per device: `D`, the first boundary, and the 5 % that decide."""
        if not self.tiles:
            return "device", []
        owned = outside = 0
        for a in acts:
            if a.owner is None:
                continue
            start, end = self.tiles[a.owner]
            for t in range(a.start, a.end):  # AMBIGUOUS: device time is the sum over activities, not a union
                owned += 1
                if not start <= t < end:
                    outside += 1
        if outside * 20 < owned:
            return "host", [(n, start, end) for n, (start, end) in self.tiles.items()]
        begin = self.tiles[min(self.tiles)][0]
        boundary = begin
        for a in acts:
            if a.before_trace or (a.launch is not None and a.launch.start < begin):
                boundary = max(boundary, a.end)
        windows = []
        for n in self.tiles:
            if n - 1 not in self.tiles:  # the steps in between were not recorded
                boundary = max(boundary, self.tiles[n][0])
            # `D` never steps back, so that windows tile.
            until = max([boundary, *(a.end for a in acts if a.owner == n)])
            windows.append((n, boundary, until))
            boundary = until
        return "device", windows

    # ·· host shares ··

    def shares(self, summed: Collection[int]) -> dict[str, tuple[int, int]]:
        """AMBIGUOUS: rows are cut to the tiles of the summed steps; the union is over time."""
        inside = {t for n in summed if n in self.tiles for t in range(*self.tiles[n])}
        beside = {self.main, *self.autograd}

        def union(rows: Iterable[HostRow]) -> int:
            return len({t for r in rows for t in range(r.start, r.end)} & inside)

        whole = len(inside)
        return {
            "loader_share": (
                union(r for r in self.rows if r.thread == self.main and r.cause == "input"),
                whole,
            ),
            "sync_share": (
                union(r for r in self.rows if r.thread in beside and r.cause == "host_sync"),
                whole,
            ),
            "copy_call_share": (
                union(r for r in self.rows if r.thread in beside and r.cause == "copy_wait"),
                whole,
            ),
            "launch_share": (
                union(r for r in self.rows if r.thread in beside and r.is_launch and r.cause != "copy_wait"),
                whole,
            ),
        }

    # ·· without device events ··

    def cpu_row(self, summed: Collection[int]) -> Row:
        length = self.t1 - self.t0
        painted: list[set[str]] = [set() for _ in range(length)]
        for thread in self.threads:
            mine = [r for r in self.rows if r.thread == thread]
            ops, comm, no = [False] * length, [False] * length, [False] * length
            for r in (*mine, *self.everywhere):
                for t in range(max(0, r.start - self.t0), min(length, r.end - self.t0)):
                    ops[t] |= r.kind == "op"
                    comm[t] |= r.kind in ("op", "annotation") and r.name in COLLECTIVE
                    no[t] |= r.cause in ("profiler", "compile", "gc", "input")
            for t in range(length):
                if comm[t]:
                    painted[t].add("communication")
                elif ops[t] and not no[t]:
                    painted[t].add("compute")
        causes = {t: self.why(self.main, t) for t in range(self.t0, self.t1) if not painted[t - self.t0]}
        # AMBIGUOUS: "the first idle interval of a window that begins at S(n)": the interval begins there.
        steps_causes = dict(causes)
        for start, end in self.tiles.values():
            run = []
            for t in range(start, end):
                if painted[t - self.t0]:
                    break
                run.append(t)
            pre = [t for t in run if causes[t] in ("launch", "python")]
            if len(pre) * 20 > end - start:
                steps_causes.update(dict.fromkeys(pre, "preprocess"))
        windows = [(n, start, end) for n, (start, end) in self.tiles.items()]
        by_step = {n: self.count(painted, steps_causes, {}, start, end) for n, start, end in windows}
        total = Parts()
        for n, parts in by_step.items():
            if n in summed:
                total.add(parts)
        # AMBIGUOUS: `preprocess` belongs to windows of steps; the scope trace keeps it all the same.
        return Row(
            None,
            "host",
            windows,
            by_step,
            total,
            self.count(painted, steps_causes, {}, self.t0, self.t1),
            self.shares(summed),
        )


def account(events: Iterable[Mapping[str, Any]], summed: Collection[int] | None = None) -> list[Row]:
    """One row for each device, by device index; one row with `device=None` where there is no device work.

    `summed` are the step numbers that the sums run over (those counted or marked); all where `None`.
    """
    reference = Reference(events)
    steps = list(reference.tiles) if summed is None else summed
    devices = sorted({a.device for a in reference.activities})
    if not devices:
        return [reference.cpu_row(steps)]
    return [reference.device_row(device, steps) for device in devices]
