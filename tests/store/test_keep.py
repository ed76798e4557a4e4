from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from stepscope.model.batch import BatchOwner, BatchSeries, Lines, Marks, Samples
from stepscope.model.error import RefusedError, UsageError
from stepscope.store.error import StoreFullError
from stepscope.store.retention import DAY_NS, HOUR_NS, Retention
from stepscope.store.store import Store
from tests.store.made import (
    AGENT,
    BATCH_NS,
    HOST,
    NUM_ROWS,
    START_NS,
    counted,
    device,
    event,
    marks,
    request,
    samples,
    value,
)
from tests.store.soak import ROOT

END_NS = START_NS + 10 * DAY_NS


def opened(folder: Path, **given: object) -> Store:
    return Store.open(str(folder), now_ns=lambda: START_NS + HOUR_NS, **given)  # type: ignore[arg-type]


def test_a_request_that_comes_twice_is_kept_once_and_acknowledged_twice(tmp_path: Path) -> None:
    store = opened(tmp_path)
    first, again = store.keep(request(1)), store.keep(request(1))
    assert (first.seq, first.num_samples) == (3, 2 * 3 * NUM_ROWS)
    assert (again.seq, again.fresh, again.num_samples) == (3, (), 0)
    found = counted(store.batches(None, None, START_NS, END_NS))
    assert len(found) == 2 * 3 * NUM_ROWS
    assert found["GPU-0001", "power_watts", START_NS] == [value(1, "power_watts", START_NS)]
    assert all(len(values) == 1 for values in found.values())
    store.close()


def test_a_second_open_goes_on_where_the_first_one_was(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.keep(request(1))
    store.close()
    store = opened(tmp_path)
    assert store.last_seq(AGENT) == 3
    assert store.keep(request(1)).fresh == ()
    assert len(store.keep(request(2)).fresh) == 3
    (run,) = store.runs()
    assert (run.job, run.run, run.world_size, run.hosts, run.is_over) == ("llama", "r1", 2, (HOST,), False)
    store.close()


def test_a_record_of_a_ring_counts_once_whatever_batch_it_comes_in(tmp_path: Path) -> None:
    store = opened(tmp_path)
    kept = store.keep([marks(1, 0, 10), marks(2, 8, 12)])
    fresh = kept.fresh[1]
    assert isinstance(fresh, Marks)
    assert fresh.number == [10, 11]
    # What an agent gave up and read again comes late, below what is there.
    store.keep([marks(3, 30, 40)])
    late = store.keep([marks(4, 10, 42)]).fresh[0]
    assert isinstance(late, Marks)
    assert late.number == [*range(12, 30), 40, 41]
    (batch,) = (each for each in store.batches(None, None, START_NS, END_NS) if isinstance(each, Marks))
    assert batch.number == list(range(42))
    store.close()


def test_what_is_not_known_is_counted_and_acknowledged(tmp_path: Path) -> None:
    store = opened(tmp_path)
    odd = BatchSeries("light_lumens", device(0), [START_NS], [1.0])
    uneven = BatchSeries("power_watts", device(0), [START_NS, START_NS + 1], [1.0])
    never = BatchSeries("power_watts", device(0), [1 << 70], [1.0])
    kept = store.keep([Samples(AGENT, 1, HOST, "nvml", [odd, uneven, never])])
    assert (kept.seq, kept.num_samples) == (1, 0)
    (note,) = store.notes()
    assert note[:2] == ("store_unknown", 3)
    assert "light_lumens" in note[2]
    store.close()


def test_a_value_that_was_not_measured_is_absent_and_no_zero(tmp_path: Path) -> None:
    store = opened(tmp_path)
    at_ns = [START_NS, START_NS + 1]
    series = [
        BatchSeries("power_watts", device(0), at_ns, [float("nan"), 7.0]),
        BatchSeries("temperature_celsius", device(0), at_ns[:1], [40.0]),
    ]
    assert store.keep([Samples(AGENT, 1, HOST, "nvml", series)]).num_samples == 2
    found = counted(store.batches(None, None, START_NS, END_NS))
    assert found == {
        ("GPU-0000", "power_watts", START_NS + 1): [7.0],
        ("GPU-0000", "temperature_celsius", START_NS): [40.0],
    }
    store.close()


SECRET = "hunter2-very-secret-token"


def test_a_secret_in_any_place_is_nowhere_in_the_folder(tmp_path: Path) -> None:
    store = opened(tmp_path)
    owner = BatchOwner(kind="process", host=HOST, pid=7, name=f"train --api-key={SECRET}")
    labels = {"job": "llama", "api_key": SECRET, "pod": f"https://me:{SECRET}@registry/x"}
    series = [BatchSeries("process_cpu_cores", owner, [START_NS], [1.0], labels)]
    first = Samples(AGENT, 1, HOST, "host", series)
    second = msgspec.structs.replace(
        marks(2, 0, 4), identity={"job": "llama", "script": f"t.py --token {SECRET}"}
    )
    third = msgspec.structs.replace(event(3), text=f"export TOKEN={SECRET}", labels=labels)
    lines = msgspec.structs.replace(request(1)[2], seq=4, text=[f"Authorization: Bearer {SECRET}"])
    kept = store.keep([first, second, third, lines])
    assert SECRET not in repr(kept)
    assert SECRET not in repr(store.batches(None, None, START_NS, END_NS))
    store.tend()
    store.close()
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


HOLDS = """
import sys
from stepscope.store.store import Store
store = Store.open(sys.argv[1], now_ns=lambda: 0)
print("open", flush=True)
sys.stdin.read()
store.close()
"""


def test_a_second_process_is_refused_in_one_line(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    words = [sys.executable, "-c", HOLDS, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "open\n"
        second = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False, env=env
        )
        assert "another stepscope server has this store open" in second.stderr.splitlines()[-1]
        with pytest.raises(RefusedError) as refused:
            opened(tmp_path)
        assert refused.value.exit_code == 5
        assert first.stdin is not None
        first.stdin.close()
        assert first.wait(60) == 0
    opened(tmp_path).close()


def test_a_full_disk_refuses_whole_and_reads_go_on(tmp_path: Path) -> None:
    free = [1 << 40]
    store = opened(tmp_path, free_bytes=lambda: free[0])
    store.keep(request(1))
    free[0] = 1 << 20
    with pytest.raises(StoreFullError, match="make room"):
        store.keep(request(2))
    with pytest.raises(StoreFullError):
        store.put("alarm", "a", b"{}", at_ns=START_NS)
    assert len(counted(store.batches(None, None, START_NS, END_NS))) == 2 * 3 * NUM_ROWS
    free[0] = 1 << 40
    assert len(store.keep(request(2)).fresh) == 3
    store.close()


def test_a_write_that_the_engine_fails_leaves_nothing_and_the_next_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path)
    store.keep(request(1))
    keeper = store._keeper

    def broken(*_: object) -> None:
        raise store._db.error("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(keeper, "_lines", broken)
        with pytest.raises(StoreFullError, match="No space left"):
            store.keep(request(2))
    assert store.last_seq(AGENT) == 3
    assert len(counted(store.batches(None, None, START_NS, END_NS))) == 2 * 3 * NUM_ROWS
    assert len(store.keep(request(2)).fresh) == 3
    assert len(counted(store.batches(None, None, START_NS, END_NS))) == 4 * 3 * NUM_ROWS
    store.close()


def test_rows_of_an_hour_ahead_are_kept_by_their_own_time(tmp_path: Path) -> None:
    now = [START_NS + HOUR_NS]
    store = Store.open(str(tmp_path), now_ns=lambda: now[0])
    store.keep([samples(1)])
    ahead = samples(2)
    for each in ahead.series:
        each.at_ns[:] = [at_ns + HOUR_NS for at_ns in each.at_ns]
    store.keep([ahead])
    now[0] = START_NS + BATCH_NS
    store.tend()
    assert len(counted(store.batches(None, None, START_NS, END_NS))) == 4 * 3 * NUM_ROWS
    store.close()


def test_retention_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match="raw rows are kept"):
        Retention(raw_ns=10 * DAY_NS, minutes_ns=DAY_NS)
    with pytest.raises(UsageError, match="traces_ns is -1"):
        Retention(traces_ns=-1)


def test_requests_that_wait_go_into_one_transaction_and_a_bad_one_is_refused_alone(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.keep(request(1))
    before = store._keeper.n
    others = [[msgspec.structs.replace(samples(2), agent=f"node-{n}", seq=1)] for n in range(6)]
    results: dict[int, object] = {}
    broken = store._keeper._events

    def ask(place: int, batches: list[object]) -> None:
        try:
            results[place] = store.keep(batches)  # type: ignore[arg-type]
        except StoreFullError as error:
            results[place] = error

    def refuses(cursor: object, happened: object) -> None:
        if happened:
            raise store._db.error("no such thing")
        broken(cursor, happened)  # type: ignore[arg-type]

    store._keeper._events = refuses  # type: ignore[method-assign,assignment]
    bad = [msgspec.structs.replace(event(1), agent="bad")]
    with store._db.lock:  # all come while another one writes
        threads = [threading.Thread(target=ask, args=each) for each in enumerate([*others, bad])]
        for each in threads:
            each.start()
        until = time.monotonic() + 30
        while len(store._keeper._queue) < len(threads) and time.monotonic() < until:
            time.sleep(0.005)
    for each in threads:
        each.join(60)
    assert isinstance(results.pop(6), StoreFullError)
    assert [each.num_samples for each in results.values()] == [2 * 3 * NUM_ROWS] * 6  # type: ignore[attr-defined]
    assert store.last_seq("bad") == 0
    assert all(store.last_seq(f"node-{n}") == 1 for n in range(6))
    # Without the bad one: six agents, one number of a transaction.
    more = [[msgspec.structs.replace(samples(3), agent=f"node-{n}", seq=2)] for n in range(6)]
    before = store._keeper.n
    with store._db.lock:
        threads = [threading.Thread(target=ask, args=each) for each in enumerate(more)]
        for each in threads:
            each.start()
        until = time.monotonic() + 30
        while len(store._keeper._queue) < len(threads) and time.monotonic() < until:
            time.sleep(0.005)
    for each in threads:
        each.join(60)
    assert store._keeper.n == before + 1
    found = counted(store.batches(None, None, START_NS + 2 * BATCH_NS, END_NS))
    assert {len(values) for values in found.values()} == {6}
    store.close()


def test_a_key_that_is_shipped_line_by_line_is_kept_nowhere(tmp_path: Path) -> None:
    store = opened(tmp_path)
    body = "MIIBbluebird+0a/"
    key = ["-----BEGIN PRIVATE KEY-----", body, body[::-1], "-----END PRIVATE KEY-----", "step 7 done"]
    for seq, text in enumerate(key, 1):
        store.keep([Lines(AGENT, seq, HOST, "kernel", "kernel", [START_NS + seq], [text])])
    found = [
        text
        for each in store.batches(None, None, START_NS, END_NS)
        if isinstance(each, Lines)
        for text in each.text
    ]
    assert found == ["[secret-removed]"] * 4 + ["step 7 done"]
    store.close()
