"""Windows are diagnosed in a process of their own, which may be slow, greedy or dead without harm."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from stepscope.offline.stored import Asked, Window, diagnose_window, window_of
from stepscope.server.judge import Bounds, NoAnswer, Worker
from tests.server.judge_store import JudgeStore
from tests.server.simulated import Watched

TOKEN = "sk-live-0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Window:
    """8 s of two ranks."""
    folder = tmp_path_factory.mktemp("worker")
    watched = Watched(folder / "job", layers=1)
    watched.until(8)
    store = JudgeStore(folder)
    store.keep(watched.batches)
    row = store.runs()[0]
    return window_of(store, row.job, row.run, 0, watched.now_ns + 1)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    patched = pytest.MonkeyPatch()
    patched.setenv("STEPSCOPE_TOKEN", TOKEN)
    made = Worker()
    made.start()
    patched.undo()
    yield made
    made.close()


def test_its_report_is_that_of_the_same_window_here(worker: Worker, window: Window) -> None:
    found = worker.diagnose(window, Asked())
    assert msgspec.json.encode(found) == msgspec.json.encode(diagnose_window(window, Asked()).report)
    assert worker.num_started == 1


def test_it_knows_no_secret_and_is_of_low_priority(worker: Worker, window: Window) -> None:
    worker.diagnose(window, Asked())
    assert worker.pid is not None
    assert TOKEN.encode() not in Path(f"/proc/{worker.pid}/environ").read_bytes()
    assert os.getpriority(os.PRIO_PROCESS, worker.pid) >= 10


def test_a_window_that_cannot_be_diagnosed_is_an_error_and_not_its_end(
    worker: Worker, window: Window
) -> None:
    with pytest.raises(NoAnswer, match="nothing of it is stored"):
        worker.diagnose(Window("llama", "r1", 0, 1), Asked())
    with pytest.raises(NoAnswer, match="absent"):
        worker.diagnose(Window("llama", "r1", 0, 1, traces=("/absent.json",)), Asked())
    assert worker.diagnose(window, Asked()).steps
    assert worker.num_started == 1


def test_one_that_is_killed_is_started_again(window: Window) -> None:
    worker = Worker()
    try:
        worker.start()
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGSTOP)
        threading.Timer(0.2, os.kill, (worker.pid, signal.SIGKILL)).start()
        with pytest.raises(NoAnswer, match="died"):
            worker.diagnose(window, Asked())
        assert worker.diagnose(window, Asked()).steps
        assert (worker.num_started, worker.num_failed) == (2, 1)
    finally:
        worker.close()


@pytest.mark.parametrize(
    ("bounds", "why"), [(Bounds(seconds=0.0), "longer"), (Bounds(bytes=1 << 24), "died")]
)
def test_one_that_takes_too_much_is_ended(window: Window, bounds: Bounds, why: str) -> None:
    worker = Worker(bounds)
    try:
        with pytest.raises(NoAnswer, match=why):
            worker.diagnose(window, Asked())
        assert worker.pid is None
    finally:
        worker.close()
