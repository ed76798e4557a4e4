"""A window of a store is diagnosed as a spool of the same time is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepscope.agent.spool import Spool
from stepscope.model.error import InputError
from stepscope.offline import diagnose
from stepscope.offline.stored import Asked, Window, diagnose_stored, diagnose_window, window_of
from tests.server.judge_store import JudgeStore
from tests.server.simulated import NS, Watched


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """14 s of two ranks, of which one waits for its loader from 6 s on; and then a capture."""
    made = Watched(tmp_path_factory.mktemp("stored") / "job")
    made.until(6)
    made.job.service.switch("loader-stall#1:severe on")
    made.until(14)
    return made


@pytest.fixture(scope="module")
def store(watched: Watched, tmp_path_factory: pytest.TempPathFactory) -> JudgeStore:
    kept = JudgeStore(tmp_path_factory.mktemp("store"))
    kept.keep(watched.batches)
    return kept


def _bare(found: Any) -> Any:
    """A report without what its inputs are called."""
    tree = msgspec.to_builtins(found)
    for each in tree["inputs"]:
        for name in ("name", "bytes", "sha256", "format", "events", "start_ns", "end_ns"):
            each.pop(name, None)
    tree.pop("next", None)
    for signal in tree.get("clocks", {}).get("telemetry", ()):
        signal.pop("source")
    for row in (*tree.get("signals", ()), *tree.get("progress", ())):
        row.pop("source", None)
    for row in tree["undecided"]:
        row.pop("command", None)
    return tree


@pytest.mark.parametrize("has_traces", [False, True])
def test_a_stored_window_and_a_spool_of_it_give_the_same_report(
    watched: Watched, store: JudgeStore, tmp_path: Path, has_traces: bool
) -> None:
    traces: list[str] = []
    if has_traces:
        traces, _ = watched.capture()
        store.keep(watched.batches[len(store.kept) :])
    row = store.runs()[0]
    spool = Spool(tmp_path / "spool", agent="a1", is_threaded=False)
    for each in watched.batches:
        spool.append(each)
    spool.close()
    expected = diagnose(traces, telemetry=[tmp_path / "spool"], job=row.job, keep_identities=True)
    found = diagnose_stored(store, row.job, row.run, 0, watched.now_ns + 1, traces=traces)
    assert _bare(found.report) == _bare(expected)
    assert found.report.cards[0].id == "input-starvation"


def test_what_began_before_a_window_is_neither_lost_nor_odd(watched: Watched, store: JudgeStore) -> None:
    row = store.runs()[0]
    found = diagnose_stored(store, row.job, row.run, watched.now_ns - 6 * NS, watched.now_ns + 1).report
    assert not {"marks_missing", "marks_lost", "marks_unmatched"} & {
        each.code for each in found.health.issues
    }
    assert found.cards[0].id == "input-starvation"
    assert min(step.start_ns for step in found.steps) >= watched.now_ns - 6 * NS


def test_a_window_in_which_nothing_is_stored_is_told_so() -> None:
    with pytest.raises(InputError, match="nothing of it is stored"):
        diagnose_window(Window("llama", "r1", 0, 10 * NS), Asked())


def test_a_site_s_thresholds_and_language_count(watched: Watched, store: JudgeStore) -> None:
    row = store.runs()[0]
    window = window_of(store, row.job, row.run, 0, watched.now_ns + 1)
    high = {"input-starvation": {"idle_input_share": 0.99}}
    found = diagnose_window(window, Asked(lang="zh", thresholds=high)).report
    assert "input-starvation" not in {each.id for each in found.cards}
    assert found.lang == "zh"


def test_hosts_keep_their_names_in_the_report_of_a_store(watched: Watched, store: JudgeStore) -> None:
    """The identities of a stored window are kept: who is to drain a node must know its name."""
    row = store.runs()[0]
    found = diagnose_stored(store, row.job, row.run, 0, watched.now_ns + 1)
    assert watched.host in msgspec.json.encode(found.report).decode()
