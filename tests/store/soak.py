"""Kills in the middle of keeping, sealing, rolling up and forgetting; then everything is looked for.

python -m tests.store.soak [KILLS]
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from stepscope.model.batch import Lines, Marks
from stepscope.model.signal import SIGNALS
from stepscope.store.retention import DAY_NS, HOUR_NS, MINUTE_NS
from stepscope.store.store import Store
from tests.store.made import (
    BATCH_NS,
    EVERY_NS,
    NUM_ROWS,
    RETENTION,
    START_NS,
    counted,
    device,
    owners,
    times,
    value,
)

ROOT = Path(__file__).resolve().parent.parent.parent
POINTS = ("written", "synced", "renamed", "before commit", "committed", "doomed")
PER_RUN = 400


def killed(folder: Path, first: int, *, after_s: float | None = None, point: str = "", count: int = 1) -> int:
    """Run a writer until it is killed, at a moment or at a point: the last request that it said was kept."""
    words = [sys.executable, "-m", "tests.store.writer", str(folder), str(first), str(first + PER_RUN)]
    if point:
        words += [point, str(count)]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}
    )
    assert process.stdout is not None
    last = first - 1
    try:
        line = process.stdout.readline()
        begun = time.monotonic()
        while line:
            if line.strip() == "end":
                break
            last = int(line)
            if after_s is not None and time.monotonic() - begun >= after_s:
                process.send_signal(signal.SIGKILL)
            line = process.stdout.readline()
    finally:
        if process.poll() is None and not point:
            process.kill()
        code = process.wait(60)
        process.stdout.close()
    if point and code not in (0, -signal.SIGKILL):
        raise AssertionError(f"the writer ended with {code}")
    return last


def check(folder: Path, acknowledged: int) -> int:
    """Everything is there once, and rollups are what the rows give: the last request that is kept."""
    store = Store.open(str(folder), now_ns=lambda: START_NS, retention=RETENTION)
    try:
        kept = store.last_seq("agent-1") // 3
        assert kept >= acknowledged, f"request {acknowledged} was acknowledged, {kept} is the last one"
        if kept:
            _check_rows(store, kept)
            _check_rollups(store, kept)
        return kept
    finally:
        store.close()


def _check_rows(store: Store, kept: int) -> None:
    end = START_NS + kept * BATCH_NS
    batches = store.batches(None, None, START_NS, end)
    found = counted(batches)
    twice = [key for key, values in found.items() if len(values) > 1]
    assert not twice, f"{len(twice)} samples are there twice: {twice[:2]}"
    oldest = end - RETENTION.raw_ns
    for number in range(1, kept + 1):
        for index, at_ns in owners(number):
            for name in ("power_watts", "energy_joules_total", "clock_event_reasons"):
                for each in at_ns:
                    values = found.get((device(index).uuid or "", name, each))
                    assert values or each < oldest, f"request {number}: {name} of {index} at {each} is lost"
                    assert values is None or values == [value(index, name, each)]
    numbers = [n for batch in batches if isinstance(batch, Marks) for n in batch.number]
    times_ = [n for batch in batches if isinstance(batch, Marks) for n in batch.real_ns]
    assert len(set(numbers)) == len(numbers), "a record is there twice"
    missing = set(range(2 * NUM_ROWS * kept)) - {
        2 * ((at - START_NS) // EVERY_NS) + (at - START_NS) % EVERY_NS * 2 // EVERY_NS for at in times_
    }
    young = [n for n in missing if START_NS + n // 2 * EVERY_NS >= oldest]
    assert not young, f"{len(young)} records are lost"
    lines = [text for batch in batches if isinstance(batch, Lines) for text in batch.text]
    assert len(set(lines)) == len(lines), "a line is there twice"
    for number in range(1, kept + 1):
        assert f"line {number}" in lines or times(number)[0] < oldest, f"line {number} is lost"


def _check_rollups(store: Store, kept: int) -> None:
    """Each rollup that is there against what the rows were, which can be told again."""
    known: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for number in range(1, kept + 1):
        for index, at_ns in owners(number):
            for name in ("power_watts", "energy_joules_total", "clock_event_reasons"):
                for each in at_ns:
                    known[device(index).uuid or "", name][each] = value(index, name, each)
    names = store._keeper.names
    with store._db.reading() as cursor:
        live = cursor.execute("SELECT owner, at_ns FROM raw_device").fetchall()
        unsealed = {(names.owner(owner)[1].uuid, at_ns) for owner, at_ns in live}
        for table, width in (("minute", MINUTE_NS), ("hour", HOUR_NS), ("day", DAY_NS)):
            rows = cursor.execute(f"SELECT * FROM {table} WHERE kind = 'device'").fetchall()
            if table == "minute":
                pieces = store._pieces.named(cursor, "minute", 0, 1 << 62)
                if pieces:
                    rows += cursor.execute(
                        f"SELECT * FROM {store._pieces.relation(pieces)} WHERE kind = 'device'"
                    ).fetchall()
            keys = [(row[1], row[2], row[4]) for row in rows]
            assert len(set(keys)) == len(keys), f"a {table} is there twice"
            for row in rows:
                _check_rollup(row, table, width, known, names, unsealed)


def _check_rollup(row, table, width, known, names, unsealed) -> None:  # type: ignore[no-untyped-def]
    _, signal_, owner, _, start, mean, least, most, last, p95, num, increase, bits = row
    uuid, name = names.owner(owner)[1].uuid, names.texts["signal"][signal_]
    of = known[uuid, name]
    inside = {
        at: of[at] for at in range(start, start + width, EVERY_NS) if at in of and (uuid, at) not in unsealed
    }
    values = list(inside.values())
    said = f"{table} {name} of {uuid} at {start}"
    assert num == len(values), f"{said}: {num} of {len(values)} samples"
    assert (least, most, last) == (min(values), max(values), inside[max(inside)]), said
    shape = SIGNALS[name].kind
    if shape == "gauge":
        assert np.isclose(mean, np.mean(values)), said
        assert p95 is None if table == "day" else np.isclose(p95, np.quantile(values, 0.95)), said
    elif shape == "mask":
        assert bits == int(np.bitwise_or.reduce(np.array(values, dtype=np.int64))), said
    else:
        grew = sum(of[at] - of[at - EVERY_NS] for at in inside if at - EVERY_NS in of)
        assert np.isclose(increase or 0.0, grew, atol=7 * 20 * 3), said


def main(num: int) -> None:
    chance = random.Random(20261130)
    with tempfile.TemporaryDirectory() as name:
        folder, kept = Path(name, "store"), 0
        for turn in range(num):
            if turn % 2:
                point, count = chance.choice(POINTS), chance.randint(1, 6)
                last = killed(folder, max(kept - 1, 1), point=point, count=count)
            else:
                last = killed(folder, max(kept - 1, 1), after_s=chance.uniform(0.0, 1.5))
            kept = check(folder, last)
            print(f"kill {turn + 1} of {num}: {kept} requests kept, all there once", flush=True)
            if kept > 600:
                folder, kept = Path(name, f"store-{turn}"), 0
    print(f"{num} kills, nothing lost, nothing twice")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
