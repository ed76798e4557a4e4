from __future__ import annotations

from pathlib import Path

import msgspec

from stepscope.model.batch import Samples
from stepscope.store.retention import DAY_NS, HOUR_NS
from stepscope.store.store import Store
from tests.store.made import AGENT, BATCH_NS, RETENTION, START_NS, counted, marks, request


def of_job(number: int, job: str) -> Samples:
    first = request(number)[0]
    assert isinstance(first, Samples)
    labels = {"job": job, "run": "r1", "rank": "0"}
    series = [msgspec.structs.replace(each, labels=labels) for each in first.series]
    return msgspec.structs.replace(first, series=series, missing=[("power_watts", "blank", number)])


def test_names_and_rings_go_once_nothing_is_left_of_them_and_no_sooner(tmp_path: Path) -> None:
    now = [START_NS]
    store = Store.open(str(tmp_path), now_ns=lambda: now[0], retention=RETENTION)
    store._sealer._pruner.least_names = 0
    num = (2 * RETENTION.coarser_ns) // BATCH_NS
    most = {"labels": 0, "missing": 0}
    for number in range(1, num, 36):  # two jobs a day
        now[0] = START_NS + number * BATCH_NS
        store.keep([of_job(number, f"job-{number}"), marks(3 * number - 1, 0, 4, f"{number}.ring", 0)])
        store.tend()
        names = store._keeper.names
        most = {kind: max(num, len(names.ids[kind])) for kind, num in most.items()}
        jobs = {each.job for each in store.runs()}
        young = number - 3 * DAY_NS // BATCH_NS  # of three days rollups and stretches are there
        assert jobs >= {f"job-{each}" for each in range(1, number + 1, 36) if each > young}
        for of in store.batches(None, None, now[0] - 2 * HOUR_NS, now[0] + HOUR_NS):
            assert not isinstance(of, Samples) or of.series[0].labels["job"] == f"job-{number}"
    # Rollups and stretches are kept four days, raw rows six hours: of sixteen jobs not all are known.
    assert most["labels"] <= 2 * (RETENTION.coarser_ns // DAY_NS + 3)
    assert most["missing"] <= 6
    # All their marks are of the first minute; the last ring came after the day's look.
    assert [each.ring for each in store._keeper.rings.values()] == [f"{number}.ring"]
    kept, known = dict(store._keeper.names.ids["labels"]), counted(store.batches(None, None, 0, now[0]))
    store.close()
    store = Store.open(str(tmp_path), now_ns=lambda: now[0], retention=RETENTION)
    assert store._keeper.names.ids["labels"] == kept
    assert counted(store.batches(None, None, 0, now[0])) == known
    assert store.last_seq(AGENT) > 0
    store.close()


def test_the_oldest_rings_go_where_there_are_too_many(tmp_path: Path) -> None:
    now = [START_NS]
    store = Store.open(str(tmp_path), now_ns=lambda: now[0], retention=RETENTION)
    store.keep([marks(seq, 0, 4, f"{seq}.ring", seq) for seq in range(1, 6)])
    store._sealer._pruner.most_rings = 2
    now[0] = START_NS + 5 * HOUR_NS  # their marks are still kept
    store.tend()
    assert len(store.ranks("llama", "r1")) == 5
    store.keep([msgspec.structs.replace(request(36 * 3)[0], seq=9)])
    now[0] = START_NS + 36 * HOUR_NS
    store.tend()
    assert len(store.ranks("llama", "r1")) == 2
    fresh = store.keep([marks(400, 4, 6, "new.ring", 9)]).fresh
    assert len(fresh) == 1
    assert len({each.id for each in store._keeper.rings.values()}) == 3
    store.close()
