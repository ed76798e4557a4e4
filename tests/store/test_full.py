"""A disk that takes no more, and requests that come while hours are sealed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from stepscope.store.store import Store
from tests.store.made import BATCH_NS, RETENTION, START_NS, request
from tests.store.soak import ROOT, check

FULL = """
import resource, signal, sys
from stepscope.store.error import StoreFullError
from stepscope.store.store import Store
from tests.store.made import BATCH_NS, RETENTION, START_NS, request

now = [START_NS]
store = Store.open(sys.argv[1], now_ns=lambda: now[0], retention=RETENTION)
store.keep(request(1))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
refused, number = 0, 2
while number < 60:
    now[0] = START_NS + number * BATCH_NS
    try:
        store.keep(request(number))
        number += 1
    except StoreFullError as error:
        assert "nothing can be written" in str(error), error
        refused += 1
        kept = store.last_seq("agent-1") // 3
        assert kept == number - 1, (kept, number)
        assert store.batches(None, None, START_NS, now[0]), "reads go on"
        if refused == 1:  # still full
            continue
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.close()
print(refused)
"""


def test_a_file_that_cannot_grow_refuses_loses_nothing_and_works_again(tmp_path: Path) -> None:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    said = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert int(said.stdout) == 2
    assert check(tmp_path, 59) == 59


def test_requests_that_come_while_hours_are_sealed_are_all_there_once(tmp_path: Path) -> None:
    now = [START_NS]
    store = Store.open(str(tmp_path), now_ns=lambda: now[0], retention=RETENTION)
    is_over = threading.Event()

    def tend() -> None:
        while not is_over.is_set():
            store.tend()

    sealing = threading.Thread(target=tend)
    sealing.start()
    try:
        for number in range(1, 25):
            now[0] = START_NS + number * BATCH_NS
            store.keep(request(number))
    finally:
        is_over.set()
        sealing.join(60)
    store.tend()  # on a busy machine the thread may not have come to an hour that was over
    store.close()
    assert check(tmp_path, 24) == 24
    assert list(tmp_path.rglob("device-*.parquet"))
