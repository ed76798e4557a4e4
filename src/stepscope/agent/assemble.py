"""Puts an agent together from what was asked for, runs it, and ends it in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from stepscope.agent import line
from stepscope.agent.catalog.rings import newest_ns
from stepscope.agent.clock import Clock, RealClock, ScaledClock
from stepscope.agent.context import RUN_DIRS, Context
from stepscope.agent.loop import Loop
from stepscope.agent.metrics import Exposition, serve
from stepscope.agent.pack import Packer
from stepscope.agent.profile import profile
from stepscope.agent.remote_write import RemoteWriter
from stepscope.agent.ship import Shipper, token_from
from stepscope.agent.source import Kind, Reading, Source, kinds
from stepscope.agent.spool import Spool
from stepscope.agent.stacks import stacks_of
from stepscope.model.batch import Batch, Happened, Samples
from stepscope.model.text import Lang, Text

SERVED_HOLD_NS, SERVED_EVERY_S = 1_000_000_000, 1.0
"""With a server in use: how long values wait for others of their series, and how often they are shipped at
the least. Marks, events and lines go at once."""
SENT_NS = 600_000_000_000
"""For how long after a rank's end its traces may still be asked for."""
APART_NS = 1_000_000_000
"""Between the two looks of `--once`."""
OVER_NS = 20_000_000_000
"""How long `--once` waits for a source."""
INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was asked for; `cli/agent.py` says what each is. `environment` holds the token."""

    host: str
    profile: str = "training"
    is_once: bool = False
    shows: bool = False
    spool_dir: str | None = None
    server: str | None = None
    token_file: str | None = None
    remote_write: str | None = None
    listen: tuple[str, int] | None = None
    run_dirs: tuple[str, ...] | None = None
    exporters: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    nccl_logs: tuple[str, ...] = ()
    uses_dcgm: bool = False
    stacks_pid: int | None = None
    capture_steps: int = 0
    capture_budget: tuple[int, float, int] = (12, 120.0, 4 << 30)
    refuses_captures: bool = False
    time_scale: float = 1.0
    environment: Mapping[str, str] = field(default_factory=dict)
    lang: Lang = "en"


def run(wanted: Wanted, *, out: Callable[[str], None], err: Callable[[str], None]) -> int:
    """Run until SIGTERM, Ctrl-C or, for `--once`, until every source was asked twice: the exit code."""
    with ExitStack() as stack:
        sink = Sink(wanted, out, err, stack)
        context = context_of(wanted, sink.agent)
        if sink.spool is not None:
            context.ring_read = sink.spool.rings.of
        loop = loop_of(wanted, context, sink)
        sink.start(loop.tell)
        if wanted.stacks_pid is not None:
            _stacks(wanted.stacks_pid, context, loop)
        if wanted.is_once:
            loop.once(apart_ns=APART_NS, over_ns=OVER_NS)
            return 0
        stop = threading.Event()
        code = _signals(stop, stack)
        if wanted.capture_steps:
            from stepscope.act.capture import Budget
            from stepscope.agent.capture import Captures, on_signal

            budget = Budget(*wanted.capture_budget)
            on_signal(Captures(wanted.capture_steps, budget, loop.tell), context.jobs, stack)
        if wanted.server is not None:
            _take_orders(wanted, wanted.server, context, loop, sink, stack)
        err(_begin(wanted, loop, sink))
        loop.run(stop)
        return code()


class Sink:
    """Where batches go: the spool first, then whoever shows or serves them."""

    def __init__(
        self, wanted: Wanted, out: Callable[[str], None], err: Callable[[str], None], stack: ExitStack
    ) -> None:
        """UsageError and RefusedError as of its parts: a spool that another agent holds, an address that is
        taken."""
        self._out, self._err, self._shows = out, err, wanted.shows
        self._lang = wanted.lang
        self._stack = stack
        self._start: list[Shipper | RemoteWriter] = []
        self.spool: Spool | None = None
        self.address: str | None = None
        self._shipper: Shipper | None = None
        if wanted.spool_dir is not None:
            self.spool = Spool(wanted.spool_dir, host=wanted.host)
            stack.callback(self.spool.close)
        if wanted.server is not None and self.spool is not None:
            token = token_from(wanted.environment, wanted.token_file)
            self._shipper = Shipper(self.spool, wanted.server, token, every_s=SERVED_EVERY_S)
            self._start.append(self._shipper)
        self._takers: list[Callable[[Batch], object]] = []
        if wanted.remote_write is not None:
            writer = RemoteWriter(wanted.remote_write)
            self._start.append(writer)
            self._takers.append(writer.update)
        if wanted.listen is not None:
            exposition = Exposition()
            if self.spool is not None:
                exposition.watch(self.spool, self._shipper)
            server = serve(*wanted.listen, exposition)
            stack.callback(server.stop)
            self._takers.append(exposition.update)
            self.address = f"http://{wanted.listen[0]}:{server.port}"
        self.agent = self.spool.agent if self.spool is not None else ""

    def start(self, tell: Callable[[str, str], None]) -> None:
        """Begin to ship and to write; `tell` hears when that begins to fail, and when it works again."""
        for each in self._start:
            each.start(tell)
            self._stack.callback(each.stop)

    def __call__(self, batch: Batch) -> None:
        if self.spool is not None:
            self.spool.append(batch)
            if self._shipper is not None and not isinstance(batch, Samples):
                self._shipper.hasten()
        for taker in self._takers:
            taker(batch)
        if self._shows:
            for text in line.lines(batch, self._lang):
                self._out(text)
        elif isinstance(batch, Happened):
            for text in line.lines(batch, self._lang):
                self._err(text)


def context_of(wanted: Wanted, agent: str) -> Context:
    """What sources are made from."""
    run_dirs = wanted.run_dirs or RUN_DIRS
    clock: Clock = RealClock()
    if wanted.time_scale != 1.0:  # the simulated clock began to run so when its rings were made
        clock = ScaledClock(wanted.time_scale, newest_ns(run_dirs))
    return Context(
        host=wanted.host,
        agent=agent,
        clock=clock,
        run_dirs=run_dirs,
        exporters=wanted.exporters,
        has_default_exporter=not wanted.exporters,
        nccl_logs=wanted.nccl_logs,
        load_nvml=_load_nvml,
        load_dcgm=_load_dcgm if wanted.uses_dcgm else None,
    )


def loop_of(wanted: Wanted, context: Context, sink: Callable[[Batch], object]) -> Loop:
    """The loop over every source that is asked for."""
    chosen = profile(wanted.profile)
    sources: list[tuple[Kind, Source]] = [
        (kind, source)
        for kind in kinds()
        if not wanted.sources or kind.name in wanted.sources
        for source in kind.make(context)
    ]
    packer = Packer(
        agent=context.agent,
        host=context.host,
        jobs=context.jobs,
        devices=context.devices,
        hold_ns=chosen.hold_ns if wanted.server is None else min(chosen.hold_ns, SERVED_HOLD_NS),
    )
    return Loop(
        sources,
        profile=chosen,
        clock=context.clock,
        packer=packer,
        sink=sink,
        is_busy=lambda: context.jobs.is_busy,
        tally=context.tally,
    )


def _take_orders(
    wanted: Wanted, server: str, context: Context, loop: Loop, sink: Sink, stack: ExitStack
) -> None:
    """Do what the server asks of this node, until the end."""
    from stepscope.act.capture import Budget
    from stepscope.agent.obey import Obeyer
    from stepscope.agent.order import OrderTaker
    from stepscope.agent.upload import Uploader

    token = token_from(wanted.environment, wanted.token_file)
    obeyer = Obeyer(
        lambda: context.jobs.all(context.clock.real_ns() - SENT_NS),
        loop,
        lambda: Uploader(sink.agent, server, token, wanted.spool_dir),
        stacks_of,
        budget=None if wanted.refuses_captures else Budget(*wanted.capture_budget),
    )
    obeyer.start()
    stack.callback(obeyer.stop)
    taker = OrderTaker(sink.agent, server, token, obeyer)
    taker.start(loop.tell)
    stack.callback(taker.stop)


def _stacks(pid: int, context: Context, loop: Loop) -> None:
    at_ns = context.clock.real_ns()
    loop.take("stacks", Reading(at_ns, lines=stacks_of(pid, at_ns)))


def _signals(stop: threading.Event, stack: ExitStack) -> Callable[[], int]:
    """Both signals end the loop; the returned function tells the exit code. Outside of the main thread there
    are none: whoever runs us there stops us otherwise."""
    seen: list[int] = []

    def end(number: int, frame: object) -> None:
        seen.append(number)
        stop.set()

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.signal(number, end)
            stack.callback(signal.signal, number, before)
    return lambda: INTERRUPTED if signal.SIGINT in seen else 0


_BEGIN = Text(en="{num} sources, profile {profile}", zh="{num} 个来源，采样配置 {profile}")
_SPOOL = Text(en="; spool {folder}", zh="；数据写入 {folder}")
_METRICS = Text(en="; metrics at {address}/metrics", zh="；指标位于 {address}/metrics")


def _begin(wanted: Wanted, loop: Loop, sink: Sink) -> str:
    said = _BEGIN.in_(wanted.lang).format(num=len(loop.workers), profile=wanted.profile)
    if wanted.spool_dir is not None:
        said += _SPOOL.in_(wanted.lang).format(folder=wanted.spool_dir)
    if sink.address is not None:
        said += _METRICS.in_(wanted.lang).format(address=sink.address)
    return said


def _load_nvml() -> Any:
    import pynvml

    return pynvml


def _load_dcgm() -> Any:
    from DcgmReader import DcgmReader

    return DcgmReader
