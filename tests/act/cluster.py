"""Ranks that are not there: the SDK's own capturer in each, a control word, a ring; a clock that is told."""

from __future__ import annotations

from stepscope.act.capture.agreement import Agreement
from stepscope.act.capture.request import Limits, Request, Seen
from stepscope_sdk import ring_abi as abi
from stepscope_sdk.capture import Capturer
from stepscope_sdk.control import Command

ANSWER, END = abi.kind_number("answer"), abi.kind_number("capture_end")


class Later:
    """A thread that runs when it is told to."""

    def __init__(self, work):
        self.work = work

    def is_alive(self):
        return self.work is not None

    def join(self, seconds=None):
        if self.work is not None:
            work, self.work = self.work, None
            work()


class Profiler:
    """Records which steps it was told."""

    def __init__(self, rank):
        self.rank, self.recorded = rank, []

    def prepare(self):
        self.rank.fail_at("prepare")

    def start(self, step):
        self.rank.fail_at("start")
        self.recorded = [step]

    def mark(self, step):
        self.recorded.append(step)

    def stop(self):
        self.rank.fail_at("stop")

    def discard(self):
        self.recorded = []

    def write(self, job):
        self.rank.fail_at("write")
        self.rank.traces[job.capture] = tuple(self.recorded)
        return 1, 0


class Rank:
    """One rank: `now_step` began; it looks at its control word as the monitor does."""

    def __init__(self, step=0, refuses=None, fails=()):
        self.step, self.is_between = step, False
        self.is_alive, self.is_stuck = True, False
        self.refuses, self.fails = refuses, set(fails)
        self.word = self.last = None
        self.answers, self.stall_ns, self.num_bytes = {}, {}, {}
        self.traces, self.flags = {}, {}
        self.thread = None
        self.capturer = Capturer(self.write, self, now=lambda: 0, spawn=self.spawn)

    # what the capturer calls

    def write(self, kind, flags, step, a=0, b=0.0, c=0.0):
        if kind == ANSWER:
            self.answers[a] = abi.ANSWERS[int(b)]
        elif kind == END:
            self.stall_ns[a] = int(b)

    def spawn(self, work):
        self.thread = Later(work)
        return self.thread

    def refusal(self, job):
        return self.refuses

    def recorder(self, job):
        return Profiler(self)

    def remove(self, job):
        self.traces.pop(job.capture, None)

    def fail_at(self, where):
        if where in self.fails:
            raise OSError(where)

    # what the test calls

    def move(self):
        """Half a step: one ends, or the next begins."""
        if not self.is_alive or self.is_stuck:
            return
        word, self.last = (self.word, self.word) if self.word != self.last else (None, self.last)
        try:
            if self.is_between:
                self.step += 1
                self.flags[self.step] = self.capturer.begin(self.step, word)
            else:
                self.capturer.end(self.step, word)
        except OSError:
            self.capturer.give_up()
        self.is_between = not self.is_between

    def export(self):
        if self.is_alive and self.thread is not None:
            self.thread.join()

    def seen(self):
        return Seen(
            self.is_alive,
            self.step,
            20_000_000,
            dict(self.answers),
            dict(self.stall_ns),
            dict(self.num_bytes),
        )


class Cluster:
    """Ranks and the one who agrees with them."""

    def __init__(self, ranks, *, num_steps=3, delay_ns=40_000_000, limits=None):
        self.ranks = {f"rank{n}.ring": rank for n, rank in enumerate(ranks)}
        self.request = Request(num_steps=num_steps)
        self.now = 0
        self.orders, self.committed = [], []
        self.agreement = Agreement(
            tuple(self.ranks), self.request, capture=1, delay_ns=delay_ns, limits=limits or Limits()
        )

    def look(self, wait_ns=50_000_000, seen=None):
        """The agreement looks once."""
        self.now += wait_ns
        for order in self.agreement.advance(self.now, seen or self.seen()):
            self.orders.append(order)
            if order.command == "commit":
                self.committed.append([rank.answers.get(order.capture) for rank in self.ranks.values()])
            self.ranks[order.ring].word = Command(
                order.command, order.capture, order.first_step, self.request.num_steps, "full", 0
            )

    def seen(self):
        return {ring: rank.seen() for ring, rank in self.ranks.items()}

    def finish(self, rounds=3000):
        """Everything goes on until the agreement has ended and every rank has seen its last word."""
        for _ in range(rounds):
            if self.agreement.outcome is not None:
                break
            for rank in self.ranks.values():
                rank.move()
                rank.export()
            self.look()
        for rank in self.ranks.values():
            rank.is_stuck = False
            for _ in range(4):
                rank.move()
                rank.export()
        return self.agreement.outcome
