"""Captures over two nodes: real agents, a simulated job that obeys control files, real HTTP."""

from __future__ import annotations

import gzip
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from stepscope.act.capture import Request
from stepscope.model.batch import Marks
from stepscope.model.capture import CaptureDocument
from stepscope.model.order import Upload
from stepscope.offline import diagnose
from stepscope_sdk import ring_abi as abi
from tests.job.test_ddp import python_with_torch
from tests.server.nodes import Job, Served, TorchJob, agent, until

BEGIN_STEP = abi.kind_number("step_begin")
SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"


class Nodes:
    """Everything that runs."""

    def __init__(self, folder: Path, stack: ExitStack, make: Callable[[Path], Any] = Job) -> None:
        self.folder, self.stack = folder, stack
        (folder / "store").mkdir()
        self.served = Served(folder / "store")
        stack.callback(self.served.close)
        self.job = make(folder)
        stack.callback(self.job.end)
        self.agents = [self.begin(at) for at in (0, 1)]

    def begin(self, at: int, *more: str) -> Any:
        spool = self.folder / f"spool{at}"
        return self.stack.enter_context(agent(self.served, self.job.dirs[at], spool, f"node{at}", *more))

    def ask(self) -> CaptureDocument:
        """A capture, once both ranks have shown themselves again."""
        captures, start = self.served.captures, len(self.served.batches)

        def marking() -> set[str]:
            marks = [each for each in self.served.batches[start:] if isinstance(each, Marks)]
            rings = [each.ring for each in marks if BEGIN_STEP in each.record_kind]
            return {ring for ring in rings if rings.count(ring) > 1}

        until(lambda: len(marking()) == 2, "the ranks never showed themselves")
        doc = captures.ask(*self.name, Request(num_steps=3), by="test", why="a test")
        assert doc.state == "agreeing", doc.refusal
        return doc

    @property
    def name(self) -> tuple[str, str]:
        identity = next(each.identity for each in self.served.batches if hasattr(each, "identity"))
        return str(identity["job"]), str(identity["run"])


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with ExitStack() as stack:
        yield Nodes(tmp_path_factory.mktemp("nodes"), stack)


def test_all_ranks_on_both_nodes_record_the_same_steps_and_their_traces_come_clean(nodes: Nodes) -> None:
    planted: list[Path] = []

    def plant(order: Any) -> None:
        """A secret, as training scripts put them into the names of their own annotations."""
        if isinstance(order, Upload):
            (path,) = (p for p in nodes.job.traces(order.capture) if p.name.startswith(order.ring[:-5]))
            text = json.loads(gzip.decompress(path.read_bytes()))
            text["traceEvents"].append(text["traceEvents"][-1] | {"name": f"pull https://x:{SECRET}@host/y"})
            path.write_bytes(gzip.compress(json.dumps(text).encode()))
            planted.append(path)

    nodes.served.before = plant
    doc = nodes.served.ended(nodes.ask().id)
    nodes.served.before = lambda order: None
    assert (doc.state, doc.refusal, doc.ranks) == ("done", None, (0, 1))
    assert len(planted) == 2
    paths = nodes.served.store.traces(doc.job, doc.run, doc.id)
    assert len(paths) == 2
    assert not any(SECRET.encode() in gzip.decompress(Path(path).read_bytes()) for path in paths)
    assert not any(SECRET.encode() in body for body in nodes.served.bodies)
    assert doc.steps is not None
    first, last = doc.steps
    report = diagnose(list(paths))
    steps = {(row.rank, row.step) for row in report.steps}
    assert steps == {(rank, step) for rank in (0, 1) for step in range(first, last + 1)}
    assert doc.stall_ns is not None
    assert doc.stall_ns > 0
    assert doc.bytes == sum(each.bytes or 0 for each in doc.parts) > 0
    assert [each.state for each in nodes.served.told[-3:]] == ["recording", "sending", "done"]


def test_a_node_whose_agent_is_killed_in_the_middle_leaves_nothing_and_the_next_one_works(
    nodes: Nodes,
) -> None:
    asked = nodes.ask()
    until(lambda: nodes.served.captures.get(asked.id).attempts, "it was never proposed")  # type: ignore[union-attr]
    nodes.agents[1].send_signal(signal.SIGKILL)
    nodes.agents[1].wait(20)
    doc = nodes.served.ended(asked.id)
    assert (doc.state, doc.steps) == ("failed", None)
    assert "rank 1 on node1 is on a node whose agent is silent" in (doc.refusal or "")
    assert nodes.served.store.traces(doc.job, doc.run, doc.id) == ()
    nodes.agents[1] = nodes.begin(1)
    again = nodes.served.ended(nodes.ask().id)
    assert (again.state, again.refusal) == ("done", None)


def test_a_real_training_on_two_nodes_records_the_same_steps(tmp_path: Path) -> None:
    python = python_with_torch()
    if python is None:
        pytest.skip("no Python with torch: make .venv-torch with torch in it, or set STEPSCOPE_TORCH_PYTHON")
    with ExitStack() as stack:
        nodes = Nodes(tmp_path, stack, lambda folder: TorchJob(folder, str(python)))
        doc = nodes.served.ended(nodes.ask().id)
        assert (doc.state, doc.refusal, doc.ranks) == ("done", None, (0, 1))
        assert doc.steps is not None
        report = diagnose(list(nodes.served.store.traces(doc.job, doc.run, doc.id)))
        steps = {(row.rank, row.step) for row in report.steps}
        first, last = doc.steps
        assert steps == {(rank, step) for rank in (0, 1) for step in range(first, last + 1)}
