from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import pytest

from stepscope.model.alarm import About, Alarm
from stepscope.model.batch import Samples
from stepscope.model.error import InputError
from stepscope.model.incident import Incident
from stepscope.store.retention import DAY_NS, HOUR_NS, Retention
from stepscope.store.store import Store
from stepscope_sdk.ring_abi import kind_number
from tests.store.made import BATCH_NS, HOST, START_NS, event, marks, request


def alarm(number: int, about: About) -> bytes:
    return msgspec.json.encode(
        Alarm(
            id=f"a{number}", condition="ranks-diverge", level="performance", severity="warning", about=about,
            onset_ns=START_NS + number, seen_ns=START_NS + number,
        )
    )  # fmt: skip


def test_ranks_have_the_device_that_their_samples_name(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path), now_ns=lambda: START_NS)
    store.keep([*request(1), marks(4, 0, 6, "job-1.ring", 1), marks(5, 0, 6, "other.ring", 0)])
    ranks = store.ranks("llama", "r1")
    assert [(each.rank, each.device, each.last_step, each.is_alive) for each in ranks[-1:]] == [
        (1, "GPU-0001", 2, True)
    ]
    assert [each.device for each in store.devices()] == ["GPU-0000", "GPU-0001"]
    assert store.devices()[0].model == "H100"
    store.close()


def test_a_run_is_over_when_its_ranks_are_gone(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path), now_ns=lambda: START_NS)
    store.keep(request(1))
    assert not store.runs("llama")[0].is_over
    store.keep([msgspec.structs.replace(marks(4, 120, 120), is_alive=False)])
    assert store.runs("llama")[0].is_over
    assert store.runs("other") == ()
    store.close()


def test_a_job_that_marks_nothing_is_known_by_its_samples(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path), now_ns=lambda: START_NS + 7 * BATCH_NS)
    for number in range(1, 8):
        store.keep(request(number)[:1])
    store.tend()
    (run,) = store.runs()
    assert (run.job, run.run, run.world_size, run.hosts) == ("llama", "r1", None, (HOST,))
    assert (run.start_ns, run.last_ns) == (START_NS, START_NS + 7 * BATCH_NS - 20_000_000_000)
    store.close()


def test_a_node_s_history_counts_over_jobs(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path), now_ns=lambda: START_NS)
    store.keep(request(1))
    first = request(1)[0]
    assert isinstance(first, Samples)
    series = [msgspec.structs.replace(each, labels={"job": "second", "run": "x"}) for each in first.series]
    store.keep(
        [msgspec.structs.replace(first, seq=10, series=series), event(11), event(12, "ship_failing", None)]
    )
    store.put("alarm", "a1", alarm(1, About(job="llama", run="r1", ranks=(0,))), at_ns=START_NS)
    store.put("alarm", "a2", alarm(2, About(job="second", devices=("GPU-0001",))), at_ns=START_NS)
    store.put("alarm", "a3", alarm(3, About(job="second", hosts=("elsewhere",))), at_ns=START_NS)
    nodes = {each.host: each for each in store.nodes()}
    mine = nodes[HOST]
    assert (mine.num_jobs, mine.num_slow, mine.num_slow_jobs) == (2, 2, 2)
    assert (mine.num_failed, mine.num_failed_jobs, mine.last_slow_ns) == (1, 1, START_NS + 2)
    assert nodes["elsewhere"].num_slow == 1
    store.close()


def test_an_incident_counts_once_for_each_node_that_its_card_names(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path), now_ns=lambda: START_NS)
    store.keep([marks(1, 0, 4, "a.ring", rank=0)])
    store.put("alarm", "1", alarm(1, About("llama", "r1")), at_ns=START_NS)  # of the whole job
    store.put("alarm", "2", alarm(2, About("llama", "r1", (0,))), at_ns=START_NS)
    incident = Incident(
        id="i", about=About("llama", "r1", (0,)), severity="critical", title="slow", onset_ns=START_NS,
        opened_ns=START_NS, alarms=("a1", "a2"),
    )  # fmt: skip
    assert [each.num_slow for each in store.nodes()] == [1]
    store.put("incident", "i", msgspec.json.encode(incident), at_ns=START_NS)
    assert [(each.num_slow, each.num_slow_jobs) for each in store.nodes()] == [(1, 1)]
    store.remove("alarm", "2")
    assert [each.num_slow for each in store.nodes()] == [1]
    store.close()


def test_a_killed_rank_is_a_failure_of_its_node_and_one_that_said_goodbye_is_none(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path), now_ns=lambda: START_NS)
    killed = [marks(1, 0, 6, "a.ring", 0), marks(2, 0, 8, "b.ring", 1)]
    store.keep([msgspec.structs.replace(each, is_alive=False) for each in killed])
    (node,) = store.nodes()
    # Two ranks of one run on one node are one failure, at the last mark of the first that fell silent.
    assert (node.num_failed, node.num_failed_jobs, node.last_failed_ns) == (1, 1, killed[0].real_ns[-1])
    ended = marks(3, 0, 6, "c.ring", 0)
    ended.record_kind[-1] = kind_number("exit")
    ended.identity["run"] = "r2"
    store.keep([msgspec.structs.replace(ended, is_alive=False)])
    assert store.nodes()[0].num_failed == 1
    store.close()


@pytest.mark.parametrize(
    ("code", "num_failed"), [(79, 1), (48, 1), (119, 1), (74, 1), (13, 0), (31, 0), (43, 0), (45, 0), (63, 0)]
)
def test_an_xid_of_the_program_is_no_failure_of_the_node(tmp_path: Path, code: int, num_failed: int) -> None:
    store = Store.open(str(tmp_path), now_ns=lambda: START_NS)
    store.keep([event(1, "xid", code), event(2, "exit", None)])
    assert sum(each.num_failed for each in store.nodes()) == num_failed
    store.close()


def test_documents_are_kept_whole_and_newest_first(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path), now_ns=lambda: START_NS)
    for number in range(3):
        store.put("report", str(number), b"\x00body%d" % number, job="llama", at_ns=START_NS + number)
    store.put("report", "1", b"new", job="llama", at_ns=START_NS + 9)
    store.close()
    store = Store.open(str(tmp_path), now_ns=lambda: START_NS)
    assert store.get("report", "0") == b"\x00body0"
    assert [each.id for each in store.documents("report", job="llama")] == ["1", "2", "0"]
    assert [each.body for each in store.documents("report", start_ns=START_NS + 9)] == [b"new"]
    assert store.remove("report", "1")
    assert not store.remove("report", "1")
    assert store.get("report", "1") is None
    store.close()


def test_a_trace_becomes_a_summary_of_a_tenth_at_most(tmp_path: Path) -> None:
    def summarise(path: str) -> bytes:
        return gzip.decompress(Path(path).read_bytes())[:100]

    store = Store.open(str(tmp_path), now_ns=lambda: START_NS, summarise=summarise)
    body = gzip.compress(bytes(range(256)) * 500, 0)
    path = store.put_trace("llama", "r1", 3, "../../etc/passwd", 1, body)
    assert Path(path).resolve().is_relative_to(tmp_path.resolve())
    assert Path(path).read_bytes() == body
    other = store.put_trace("llama", "r1", 3, "job-0.ring", 0, body)
    assert store.traces("llama", "r1", 3) == (other, path)
    store.summarise_traces("llama", "r1", 3)
    assert store.traces("llama", "r1", 3) == ()
    summaries = store.summaries("llama", "r1", 3)
    assert len(summaries) == 2
    assert gzip.decompress(Path(summaries[0]).read_bytes()) == bytes(range(100))
    store.tend()
    store.tend()
    assert not Path(path).exists()
    with pytest.raises(InputError):
        store.put_trace("llama", "r1", -1, "r", 0, b"")
    store.close()


def test_old_traces_are_summed_up_and_references_stay(tmp_path: Path) -> None:
    now = [START_NS]
    store = Store.open(
        str(tmp_path), now_ns=lambda: now[0], summarise=lambda path: b"{}",
        retention=Retention(traces_ns=HOUR_NS, most_trace_bytes=None),
    )  # fmt: skip
    for capture in (1, 2):
        store.put_trace("llama", "r1", capture, "job-0.ring", 0, b"trace" * 4000)
    store.put("reference", "llama/r1/2", b"{}", job="llama", at_ns=START_NS)
    now[0] += DAY_NS
    store.tend()
    assert store.traces("llama", "r1", 1) == ()
    assert len(store.traces("llama", "r1", 2)) == 1
    store.close()
