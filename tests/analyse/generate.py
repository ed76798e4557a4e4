"""Small traces from a seed: a host program that is played, and the device work that follows from it.

Vocabulary, with the cause each row has by the definition's "Causes of rows" (`-` = none of its own: ops
and calls then count as `launch`, frames and annotations as `python`; `wait` = a waiting row):

| cause      | rows                                                                                       |
|------------|--------------------------------------------------------------------------------------------|
| checkpoint | annotations `checkpoint`, `save_checkpoint`, `save_model`; frames of torch/serialization.py  |
|            | save and torch/distributed/checkpoint                                                      |
| eval       | annotations `eval`, `validation`, `test_step`                                               |
| profiler   | overhead `Activity Buffer Request`, `Buffer Flush`, `Instrumentation` (pid -1); frames of    |
|            | torch/profiler and torch/autograd/profiler                                                  |
| compile    | annotation `_compile.compile_inner (dynamo_timed)`; frames of torch/_dynamo, torch/_inductor; |
|            | call `cuModuleLoadData`; overhead `Lazy Function Loading`                                   |
| gc         | frames `Python GC`, `<built-in function collect>`                                           |
| input      | annotations `enumerate(DataLoader)#…__next__`, `get_batch`, `data_loading`; loader frame     |
| allocator  | calls cudaMalloc, cudaFree, cudaHostAlloc, cuMemCreate                                      |
| copy_wait  | call cudaMemcpy; cudaMemcpyAsync whose copy is `Pageable`                                   |
| host_sync  | calls cudaStreamSynchronize, cudaDeviceSynchronize, cudaEventSynchronize, cuCtxSynchronize   |
| logging    | annotations `logging`, `log_metrics`; frames of logging, tensorboard, `print`                |
| peer       | annotation and op `gloo:all_reduce`; op `c10d::barrier`; frame of distributed_c10d barrier   |
| -          | ops aten::…, `autograd::engine::evaluate_function: …`, `CheckpointFunction`; other calls;    |
|            | annotations forward, optimizer, Optimizer.step…, activation_checkpointing, nccl:…; frames    |
|            | of the training script, torch/utils/checkpoint.py (activation checkpointing), acquire        |
| wait       | op and annotation `backward`; frames backward, run_backward, acquire, threading wait         |

Every step launches the same work, so that none is partial. A compilation is dropped where its step is so
much longer than the others that the two together would mean warm-up.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.analyse.build import write_trace

PID = 4242
START_NS = 5_000_000  # a real trace does not begin at 0
FIRST_CORRELATION = 100  # lower ones were launched before the trace
EPOCH_US = 1_700_000_000_000_000

COMPUTE = (
    "ampere_sgemm_128x64_nn",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>(int)",
    "triton_poi_fused_add_relu_0",
)
COMMUNICATION = (
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
)
PINNED = (
    "Memcpy HtoD (Pinned -> Device)",
    "Memcpy DtoH (Device -> Pinned)",
    "Memcpy DtoD (Device -> Device)",
)
PAGEABLE = ("Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)")
OPS = ("aten::mm", "aten::add_", "aten::addmm", "aten::to", "CheckpointFunction", "aten::_foreach_add_")
FRAMES = (
    "train.py(41): train_step",
    "torch/nn/modules/linear.py(124): forward",
    "<built-in method linear of type object at 0x7f0000000000>",
    "torch/utils/checkpoint.py(488): checkpoint",
    "nn.Module: Linear_0",
)
NOTES = (
    "forward",
    "optimizer",
    "Optimizer.step#SGD.step",
    "activation_checkpointing",
    "nccl:all_reduce",
    "backward",
)
WAITING_FRAMES = (
    "<built-in method acquire of _thread.lock object>",
    "threading.py(359): wait",
)
CALLS = ("cudaEventRecord", "cudaStreamWaitEvent", "cudaEventQuery", "cudaStreamIsCapturing")
SYNCS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cuCtxSynchronize")
ALLOCATIONS = ("cudaMalloc", "cudaFree", "cudaHostAlloc", "cuMemCreate")
OVERHEADS = ("Activity Buffer Request", "Buffer Flush", "Instrumentation", "Lazy Function Loading")
# (cat, name) of rows with a cause of their own, by flavour.
PHASES: dict[str, tuple[tuple[str, str], ...]] = {
    "checkpoint": (
        ("user_annotation", "checkpoint"),
        ("user_annotation", "save_checkpoint"),
        ("user_annotation", "save_model"),
        ("python_function", "torch/serialization.py(943): save"),
        ("python_function", "torch/distributed/checkpoint/state_dict_saver.py(99): save"),
    ),
    "eval": (
        ("user_annotation", "eval"),
        ("user_annotation", "validation"),
        ("user_annotation", "test_step"),
    ),
    "profiler": (
        ("python_function", "torch/profiler/profiler.py(864): step"),
        ("python_function", "torch/autograd/profiler.py(769): __enter__"),
    ),
    "compile": (
        ("user_annotation", "_compile.compile_inner (dynamo_timed)"),
        ("python_function", "torch/_dynamo/convert_frame.py(1372): __call__"),
        ("python_function", "torch/_inductor/compile_fx.py(1004): compile_fx_inner"),
        ("cuda_driver", "cuModuleLoadData"),
    ),
    "gc": (("python_function", "Python GC"), ("python_function", "<built-in function collect>")),
    "input": (
        ("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
        ("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
        ("user_annotation", "get_batch"),
        ("user_annotation", "data_loading"),
        ("python_function", "torch/utils/data/dataloader.py(708): __next__"),
    ),
    "logging": (
        ("user_annotation", "logging"),
        ("user_annotation", "log_metrics"),
        ("python_function", "logging/__init__.py(1479): info"),
        ("python_function", "torch/utils/tensorboard/writer.py(358): add_scalar"),
        ("python_function", "<built-in function print>"),
    ),
    "peer": (
        ("user_annotation", "gloo:all_reduce"),
        ("cpu_op", "gloo:all_reduce"),
        ("cpu_op", "c10d::barrier"),
        ("python_function", "torch/distributed/distributed_c10d.py(4159): barrier"),
    ),
}
FLAVOURS = (*PHASES, "sync", "alloc", "lock", "quiet")


def void(_: object) -> None:
    """For a lambda that is run for what it plays."""


@dataclass(frozen=True)
class Launch:
    """One launching call of a step's plan, the same in every step."""

    kind: str  # kernel, communication, pinned, pageable, blocking, set, graph
    device: int
    stream: int
    name: str
    weight: int  # longest duration of its activities, ns
    nodes: int = 1


@dataclass
class Host:
    """One thread: rows are emitted at the clock, which only moves on."""

    tid: int
    now: int
    rows: set[tuple[int, int]] = field(default_factory=set)


@dataclass
class Generated:
    """A trace: its events (the reference's input) and how its file is written."""

    seed: int
    events: list[dict[str, Any]]
    steps: list[int]
    cpu_only: bool
    base_ns: int | None
    shift_us: int

    def json(self) -> str:
        return write_trace(self.events, base_ns=self.base_ns, shift_us=self.shift_us, world_size=2)

    def bytes(self) -> bytes:
        return self.json().encode()


class _Play:
    def __init__(self, seed: int, compile_allowed: bool, stops_early: bool) -> None:
        self.seed = seed
        self.rng = rng = random.Random(f"stepscope-{seed}")
        self.compile_allowed = compile_allowed
        self.events: list[dict[str, Any]] = []
        self.correlation = FIRST_CORRELATION
        self.cpu_only = rng.random() < 0.12
        self.with_steps = rng.random() < 0.9
        self.with_frames = rng.random() < 0.6
        self.drain = rng.random() < 0.4  # each step waits for its own work: host windows
        self.inverted = rng.random() < 0.15
        self.zero_length = rng.random() < 0.15
        self.overhanging = rng.random() < 0.1  # a row may end a little after the one around it
        self.colliding = rng.random() < 0.08  # an activity may start a little before its predecessor ends
        self.dependent = rng.random() < 0.3  # work waits on the device: queued gaps
        self.loses = rng.random() < 0.12  # launches whose kernels were not recorded
        self.stops_early = stops_early  # no device work in the last step
        self.bare_worker = rng.random() < 0.5  # a thread of which only calls were recorded
        self.flavours = [
            f for f in rng.sample(FLAVOURS, rng.randint(2, 5)) if compile_allowed or f != "compile"
        ]
        self.devices = [0] if rng.random() < 0.75 else [0, 1]
        self.streams = rng.sample((7, 20, 24), rng.choice((1, 1, 2, 3)))
        self.free: dict[tuple[int, int], int] = {}
        self.tids: dict[str, int] = {}
        main_is_process = self.with_steps or rng.random() < 0.6
        self.main = Host(PID if main_is_process else PID + 9, START_NS)
        self.autograd = [Host(PID + 1 + d, START_NS) for d in self.devices] if rng.random() < 0.5 else []
        self.named_autograd = rng.random() < 0.7
        self.worker = Host(PID + 5, START_NS) if rng.random() < 0.2 else None
        self.plan = [] if self.cpu_only else self._plan()
        self.tiles: list[tuple[int, int]] = []
        self.numbers: list[int] = []

    # ·· rows ··

    def emit(self, cat: str, name: str, start: int, end: int, pid: int, tid: int, **args: Any) -> None:
        event: dict[str, Any] = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid}
        event["ts"], event["dur"] = start / 1000, (end - start) / 1000
        if args:
            event["args"] = args
        self.events.append(event)

    def span(
        self, host: Host, cat: str, name: str, inside: Callable[[], None] | None = None, **args: Any
    ) -> tuple[int, int]:
        """A row around whatever `inside` plays; never with exactly the interval of another row, because
        which of two such rows is the inner one cannot be told."""
        start = host.now
        if inside is not None:
            inside()
        host.now += self.rng.choice((0, 0, 1, 2)) if inside is not None else 0
        while host.now > start and (start, host.now) in host.rows:
            host.now += 1
        host.rows.add((start, host.now))
        end = host.now
        if self.overhanging and end > start and self.rng.random() < 0.2:
            end += self.rng.randint(1, 3)
            while (start, end) in host.rows:
                end += 1
            host.rows.add((start, end))
        self.emit(cat, name, start, end, PID, host.tid, **args)
        return start, end

    def rest(self, host: Host, most: int = 8) -> None:
        if self.rng.random() < 0.6:
            host.now += self.rng.randint(0, most)

    def new_correlation(self) -> int:
        self.correlation += self.rng.choice((1, 1, 2))
        return self.correlation

    def call(self, host: Host, name: str, length: int, correlation: int | None = None) -> tuple[int, int]:
        cat = "cuda_driver" if name.startswith("cu") and not name.startswith("cuda") else "cuda_runtime"
        number = self.new_correlation() if correlation is None else correlation

        def inside() -> None:
            host.now += length

        return self.span(host, cat, name, inside, correlation=number)

    # ·· the device ··

    def _plan(self) -> list[Launch]:
        rng = self.rng
        weight = rng.choice((4, 12, 30, 60))
        plan = []
        for device in self.devices:
            for _ in range(rng.randint(2, 5)):
                kind = rng.choices(
                    ("kernel", "communication", "pinned", "pageable", "blocking", "set", "graph"),
                    (10, 3, 2, 2, 2, 1, 2),
                )[0]
                if not any(p.device == device for p in plan):
                    kind = "kernel"
                names = {"communication": COMMUNICATION, "pinned": PINNED, "pageable": PAGEABLE}.get(
                    kind, COMPUTE
                )
                if kind == "blocking":
                    names = PINNED + PAGEABLE
                plan.append(
                    Launch(
                        kind,
                        device,
                        rng.choice(self.streams),
                        rng.choice(names),
                        rng.randint(2, weight),
                        rng.randint(2, 6) if kind == "graph" else 1,
                    )
                )
        return plan

    def run(self, device: int, stream: int, earliest: int, longest: int) -> tuple[int, int]:
        """The next free place on a stream."""
        rng = self.rng
        key = (device, stream)
        free = self.free.get(key, START_NS)
        start = max(free, earliest)
        if self.dependent and rng.random() < 0.4:
            others = [f for (d, s), f in self.free.items() if d == device and s != stream]
            start = max([start + rng.choice((0, 3, 12)), *(others if rng.random() < 0.5 else [])])
        elif rng.random() < 0.3:
            start += rng.randint(0, 2)
        length = 0 if self.zero_length and rng.random() < 0.2 else rng.randint(max(1, longest // 2), longest)
        if self.colliding and start == free > START_NS and length > 3 and rng.random() < 0.3:
            start -= rng.randint(1, 2)
            length += 2
        self.free[key] = start + length
        return start, start + length

    def drained(self) -> int:
        return max(self.free.values(), default=START_NS)

    def place(self, launch: Launch, name: str, begun: int, correlation: int | None) -> int:
        """Puts one activity on its stream; its end."""
        rng = self.rng
        delay = -rng.randint(1, 5) if self.inverted and rng.random() < 0.3 else rng.randint(1, 9)
        start, end = self.run(launch.device, launch.stream, max(START_NS, begun + delay), launch.weight)
        cat = "kernel"
        args: dict[str, Any] = {"device": launch.device, "context": 1, "stream": launch.stream}
        if name.startswith("Memcpy"):
            cat, args["bytes"] = "gpu_memcpy", 1024 * (end - start)
        elif name.startswith("Memset"):
            cat, args["bytes"] = "gpu_memset", 512
        else:
            args.update(grid=[8, 1, 1], block=[128, 1, 1])
        if correlation is not None:
            args["correlation"] = correlation
            args["External id"] = correlation + 5000
        self.emit(cat, name, start, end, launch.device, launch.stream, **args)
        return end

    def launch(self, host: Host, launch: Launch) -> None:
        rng = self.rng
        number = self.new_correlation()
        begun = host.now
        if launch.kind in ("kernel", "communication"):
            name = rng.choice(("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel"))
            self.call(host, name, rng.choice((0, 1, 3, 5)), number)
            self.place(launch, launch.name, begun, number)
        elif launch.kind == "graph":
            self.call(host, "cudaGraphLaunch", rng.randint(2, 9), number)
            for _ in range(launch.nodes):
                self.place(launch, launch.name, begun, number)
        elif launch.kind == "set":
            self.call(host, "cudaMemsetAsync", rng.randint(1, 4), number)
            self.place(launch, "Memset (Device)", begun, number)
        elif launch.kind == "pinned":
            self.call(host, "cudaMemcpyAsync", rng.randint(1, 4), number)
            self.place(launch, launch.name, begun, number)
        else:
            end = self.place(launch, launch.name, begun, number)
            until = (
                max(end + rng.randint(0, 2), begun + 1) if rng.random() < 0.8 else begun + rng.randint(1, 20)
            )
            until = min(until, begun + 150)
            name = "cudaMemcpy" if launch.kind == "blocking" else "cudaMemcpyAsync"
            self.call(host, name, until - begun, number)

    # ·· what a host does ··

    def operation(self, host: Host, launch: Launch | None = None, depth: int = 0) -> None:
        rng = self.rng

        def inside() -> None:
            host.now += rng.randint(0, 6)
            if depth < 2 and rng.random() < 0.3:
                self.operation(host, launch, depth + 1)
            elif launch is not None:
                self.launch(host, launch)
            host.now += rng.randint(0, 4)

        name = "CheckpointFunction" if rng.random() < 0.1 else rng.choice(OPS)
        self.span(host, "cpu_op", name, inside, **{"External id": self.correlation + 5001})

    def within_frames(self, host: Host, what: Callable[[], None], depth: int = 0) -> None:
        rng = self.rng
        if not self.with_frames or depth > 1 or rng.random() < 0.4:
            what()
            return

        def inside() -> None:
            self.rest(host, 4)
            self.within_frames(host, what, depth + 1)
            self.rest(host, 4)

        self.span(host, "python_function", rng.choice(FRAMES), inside)

    def flavour(self, host: Host, flavour: str) -> None:
        rng = self.rng
        if flavour == "quiet":
            host.now += rng.randint(1, 25)
        elif flavour == "sync":
            if self.cpu_only:
                return
            wait = rng.randint(1, 12)
            if rng.random() < 0.7:
                wait = min(max(wait, self.drained() - host.now + rng.randint(0, 3)), 150)
            self.call(host, rng.choice(SYNCS), wait)
        elif flavour == "alloc":
            if not self.cpu_only:
                self.call(host, rng.choice(ALLOCATIONS), rng.randint(2, 20))
        elif flavour == "lock":
            self.span(host, "python_function", rng.choice(WAITING_FRAMES), lambda: self.rest(host, 20))
        else:
            cat, name = rng.choice(PHASES[flavour])
            if self.cpu_only and cat == "cuda_driver":
                return

            def inside() -> None:
                host.now += rng.randint(1, 12)
                chance = rng.random()
                if chance < 0.2:
                    self.operation(host)
                elif chance < 0.3:
                    self.flavour(host, rng.choice(self.flavours))
                elif chance < 0.4 and self.with_frames:
                    self.flavour(host, "lock")
                elif chance < 0.5:
                    self.flavour(host, "sync")
                host.now += rng.randint(0, 8)

            args = {"correlation": self.new_correlation()} if cat == "cuda_driver" else {}
            self.span(host, cat, name, inside, **args)

    def backward(self, host: Host, mine: list[Launch]) -> None:
        """Main hands over to the autograd threads and waits for them, or nearly."""
        rng = self.rng
        form = rng.choice(("op", "note", "frames", "lock"))

        def engine() -> None:
            host.now += rng.randint(0, 5)
            last = host.now
            for thread in self.autograd:
                thread.now = max(thread.now, host.now + rng.randint(0, 6))
                for item in [p for p in mine if p.device == self.autograd.index(thread)] or [None]:
                    self.engine_node(thread, item)
                    self.rest(thread, 6)
                    if rng.random() < 0.25:
                        self.flavour(thread, rng.choice(self.flavours))
                last = max(last, thread.now)
            if rng.random() < 0.2:
                self.flavour(host, rng.choice(("gc", "quiet", "lock")))
            host.now = max(host.now + 1, last + rng.randint(-6, 6))

        if form == "op":
            self.span(host, "cpu_op", "backward", engine)
        elif form == "note":
            self.span(host, "user_annotation", "backward", engine)
        elif form == "lock":
            self.span(host, "python_function", rng.choice(WAITING_FRAMES), engine)
        else:
            self.span(
                host,
                "python_function",
                "torch/_tensor.py(570): backward",
                lambda: (  # type: ignore[arg-type,return-value]
                    self.rest(host, 3),
                    self.span(
                        host,
                        "python_function",
                        "<built-in method run_backward of torch._C._EngineBase object>",
                        engine,
                    ),
                ),
            )

    def engine_node(self, host: Host, launch: Launch | None) -> None:
        rng = self.rng

        def inside() -> None:
            host.now += rng.randint(0, 4)
            self.operation(host, launch)

        if self.named_autograd:
            self.span(host, "cpu_op", "autograd::engine::evaluate_function: MmBackward0", inside)
        else:
            inside()

    # ·· the trace ··

    def body(self, has_work: bool = True) -> None:
        """One step: the plan in some order, with other things between."""
        rng, host = self.rng, self.main
        plan = list(self.plan) if has_work else []
        rng.shuffle(plan)
        late: list[Launch] = []
        if self.autograd:
            keep = rng.randint(0, len(plan))
            plan, late = plan[:keep], plan[keep:]
        aside: list[Launch] = []
        if self.worker is not None and len(plan) > 1:
            aside = [plan.pop()]
        todo: list[Callable[[], None]] = []
        for item in plan:
            if rng.random() < 0.75:
                todo.append(lambda item=item: self.within_frames(host, lambda: self.operation(host, item)))  # type: ignore[misc]
            else:
                todo.append(lambda item=item: self.launch(host, item))  # type: ignore[misc]
        if self.cpu_only:
            todo += [lambda: self.within_frames(host, lambda: self.operation(host))] * rng.randint(1, 4)
        for _ in range(rng.randint(1, 3)):
            flavour = rng.choice(self.flavours)
            todo.insert(rng.randint(0, len(todo)), lambda flavour=flavour: self.flavour(host, flavour))  # type: ignore[misc]
        if rng.random() < 0.3:
            todo.append(lambda: self.call_other(host))
        if self.loses and not self.cpu_only and rng.random() < 0.5:
            todo.insert(
                rng.randint(0, len(todo)),
                lambda: void(self.call(host, "cudaLaunchKernel", rng.randint(1, 5))),
            )
        if rng.random() < 0.4 and len(todo) > 1:
            half = rng.randint(1, len(todo))
            first, todo = todo[:half], todo[half:]

            def phase() -> None:
                for what in first:
                    what()
                    self.rest(host)

            self.span(host, "user_annotation", rng.choice(NOTES), phase)
        for what in todo:
            what()
            self.rest(host)
        if self.autograd:
            self.backward(host, late)
        if self.worker is not None:
            self.worker.now = max(self.worker.now, host.now - rng.randint(0, 20))
            for item in aside:
                if self.bare_worker:
                    self.launch(self.worker, item)
                else:
                    self.operation(self.worker, item)
            if self.cpu_only:
                self.operation(self.worker)
        if self.drain and not self.cpu_only:
            wait = self.drained() - host.now + rng.randint(1, 3)
            if wait > 0:
                if rng.random() < 0.5:
                    self.call(host, rng.choice(SYNCS), wait)
                else:
                    host.now += wait

    def call_other(self, host: Host) -> None:
        if not self.cpu_only:
            self.call(host, self.rng.choice(CALLS), self.rng.randint(1, 4))

    def play(self) -> Generated:
        rng, host = self.rng, self.main
        before = not self.cpu_only and rng.random() < 0.3
        if before:
            for i in range(rng.randint(1, 3)):
                item = rng.choice(self.plan)
                self.place(item, rng.choice(COMPUTE), START_NS + rng.randint(-8, 30), 1 + i)
        if rng.random() < 0.3:
            host.now += rng.randint(1, 20)
        if rng.random() < 0.3:
            self.operation(host, rng.choice(self.plan) if self.plan and rng.random() < 0.5 else None)
        number = rng.randint(0, 20)
        outer_start = host.now
        spans = []
        count = rng.randint(2, 4)
        for i in range(count):
            start = host.now
            self.body(has_work=not (self.stops_early and i + 1 == count))
            if host.now == start:
                host.now += 1
            spans.append((number, start, host.now))
            number += 1
            if rng.random() < 0.06:  # a step whose annotation was not recorded
                number += 1
                if rng.random() < 0.7:
                    self.body()
            if rng.random() < 0.3:  # a pause between steps
                host.now += rng.randint(1, 40)
                if rng.random() < 0.5:
                    self.flavour(host, rng.choice(self.flavours))
        if self.with_steps:
            nested = rng.random() < 0.06
            for i, (n, start, end) in enumerate(spans):
                if nested and i + 2 == len(spans):
                    end = spans[-1][2] + 2  # the last step lies within the one before it
                while (start, end) in host.rows:
                    end += 1
                host.rows.add((start, end))
                host.now = max(host.now, end)
                self.emit("user_annotation", f"ProfilerStep#{n}", start, end, PID, host.tid)
                self.numbers.append(n)
            starts = [s for _, s, _ in spans]
            self.tiles = [
                (s, starts[i + 1] if i + 1 < len(spans) and spans[i + 1][0] == n + 1 else e)
                for i, (n, s, e) in enumerate(spans)
            ]
        if self.with_frames and rng.random() < 0.25:
            self.emit("python_function", "train.py(90): main", outer_start - 1, host.now + 9, PID, host.tid)
        self.extras()
        host.now += rng.randint(0, 20)
        if rng.random() < 0.7:
            self.flavour(host, rng.choice(("quiet", "profiler", "sync")))
            self.operation(host)
        return self.finish()

    def extras(self) -> None:
        rng, end = self.rng, self.main.now
        if rng.random() < 0.25:
            for _ in range(rng.randint(1, 3)):
                start = rng.randint(START_NS, end - 1)
                name = rng.choice(OVERHEADS[: None if self.compile_allowed else 3])
                self.emit("overhead", name, start, min(end, start + rng.randint(2, 25)), -1, 0)
        if not self.cpu_only and rng.random() < 0.25:  # work whose launch was lost
            for _ in range(rng.randint(1, 2)):
                item = rng.choice(self.plan)
                correlation = self.new_correlation() if rng.random() < 0.7 else None
                self.place(item, rng.choice(COMPUTE), self.drained() - rng.randint(0, 60), correlation)
        if rng.random() < 0.2:  # a thread that neither steps nor launches
            tid, start = PID + 7, START_NS + rng.randint(0, 9)
            self.emit("python_function", "threading.py(1032): _bootstrap", start, end + 3, PID, tid)
            loop = "torch/utils/data/_utils/pin_memory.py(30): _pin_memory_loop"
            self.emit("python_function", loop, start + 1, end + 2, PID, tid)
        if rng.random() < 0.15 and self.autograd:  # an autograd thread that idles in its start frames
            tid = self.autograd[0].tid
            self.emit("python_function", "threading.py(1032): _bootstrap", START_NS, end + 40, PID, tid)
            self.emit("python_function", "threading.py(1012): run", START_NS + 1, end + 39, PID, tid)
        if not self.cpu_only and rng.random() < 0.3:  # rows of a device track that are not work
            self.emit("gpu_user_annotation", "forward", START_NS, end, 0, 7, device=0, stream=7)
            self.emit("cuda_sync", "Context Sync", START_NS + 5, end, 0, -1, device=0, stream=-1)

    def finish(self) -> Generated:
        rng = self.rng
        if rng.random() < 0.3:
            rng.shuffle(self.events)
        else:
            self.events.sort(key=lambda e: e["ts"])
        names = {PID: "python", 0: "python", 1: "python"}
        heads = [
            {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0, "args": {"name": name}}
            for pid, name in names.items()
        ]
        if rng.random() < 0.5:
            self.events[:0] = heads
        else:
            self.events += heads
        epoch = rng.random() < 0.3
        return Generated(
            seed=self.seed,
            events=self.events,
            steps=self.numbers,
            cpu_only=self.cpu_only,
            base_ns=None if epoch else 1_700_000_000_000_000_000,
            shift_us=EPOCH_US if epoch else 0,
        )

    @property
    def too_long_for_compile(self) -> bool:
        """A step that, with evidence of a compilation, could be taken for warm-up."""
        lengths = [end - start for start, end in self.tiles]
        return bool(lengths) and max(lengths) > 1.4 * min(lengths)

    @property
    def compiles(self) -> bool:
        names = {name for _, name in PHASES["compile"]} | {"Lazy Function Loading"}
        return any(e["name"] in names for e in self.events)


def generate(seed: int, *, stops_early: bool = False) -> Generated:
    """The trace of a seed, always the same. `stops_early`: the last step launches nothing."""
    play = _Play(seed, True, stops_early)
    trace = play.play()
    if play.compiles and play.too_long_for_compile:
        play = _Play(seed, False, stops_early)
        if not play.flavours:
            play.flavours = ["quiet"]
        trace = play.play()
    return trace
