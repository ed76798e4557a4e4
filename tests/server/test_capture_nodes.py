"""Captures over two nodes: real agents, a simulated job that obeys control files, real HTTP."""

from __future__ import annotations

import gzip
import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from stepscope.act.capture import Budget, Request
from stepscope.trace.load import load
from tests.server.nodes import Job, Served, agent, until


class Nodes:
    """Everything that runs."""

    def __init__(self, folder: Path, stack: ExitStack, more: tuple[str, ...] = (), **options: Any) -> None:
        self.folder, self.stack = folder, stack
        (folder / "store").mkdir()
        self.served = Served(folder / "store", **options)
        stack.callback(self.served.close)
        self.job = Job(folder)
        stack.callback(self.job.end)
        self.agents = [self.begin(at, *(more if at == 1 else ())) for at in (0, 1)]

    def begin(self, at: int, *more: str) -> Any:
        spool = self.folder / f"spool{at}"
        return self.stack.enter_context(agent(self.served, self.job.dirs[at], spool, f"node{at}", *more))

    def ask(self, **given: Any) -> Any:
        captures = self.served.captures

        def known() -> Any:
            captures.step()
            ranks = captures._table.of(*self.name) if self.name else []
            return len(ranks) == 2 and all(each.step_ns for each in ranks)

        until(known, "the ranks never showed themselves")
        return captures.ask(*self.name, Request(num_steps=3, **given), by="test", why="a test")

    @property
    def name(self) -> tuple[str, str] | None:
        for batch in self.served.batches:
            identity = getattr(batch, "identity", None)
            if identity:
                return str(identity["job"]), str(identity["run"])
        return None


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_all_ranks_on_both_nodes_record_the_same_steps_and_their_traces_come(
    tmp_path: Path, stack: ExitStack
) -> None:
    nodes = Nodes(tmp_path, stack)
    doc = nodes.served.ended(nodes.ask().id)
    assert (doc.state, doc.refusal, doc.ranks) == ("done", None, (0, 1))
    paths = nodes.served.store.traces(doc.job, doc.run, doc.id)
    assert len(paths) == 2
    for path in paths:
        steps = {name for name in load(path).names if name.startswith("ProfilerStep#")}
        assert steps == {f"ProfilerStep#{n}" for n in range(doc.steps[0], doc.steps[1] + 1)}
    assert doc.stall_ns > 0
    assert doc.bytes == sum(each.bytes for each in doc.parts) > 0
    assert doc.hour.captures == 1
    assert [each.state for each in nodes.served.told] == [
        "agreeing",
        "agreeing",
        "recording",
        "sending",
        "done",
    ]
