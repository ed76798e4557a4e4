"""A spool whose process is killed at any moment, while it appends and ships."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.agent.receiver import SRC, receiving

WRITER = Path(__file__).with_name("writer.py")


def _start(*args: str) -> subprocess.Popen[bytes]:
    line = [sys.executable, str(WRITER), *args]
    return subprocess.Popen(line, env={**os.environ, "PYTHONPATH": str(SRC)})


def test_no_batch_is_lost_or_kept_twice_over_twenty_kills(tmp_path: Path) -> None:
    chance = random.Random(6)
    journal = tmp_path / "journal"
    with receiving(tmp_path / "receiver") as receiver:
        for run in range(20):
            if run % 4 == 1:  # what was read is kept, and the answer lost: it must be sent again
                receiver.tell(hang_up="kept", times=3)
            before = journal.stat().st_size if journal.exists() else 0
            process = _start(str(tmp_path / "spool"), receiver.url, str(journal), str(run))
            try:
                until = time.monotonic() + 60
                while (journal.stat().st_size if journal.exists() else 0) == before:
                    assert process.poll() is None
                    assert time.monotonic() < until
                    time.sleep(0.005)
                time.sleep(chance.uniform(0, 0.15))
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait(20)
        receiver.tell()
        assert _start(str(tmp_path / "spool"), receiver.url, "-", "drain").wait(90) == 0
        kept = receiver.kept()
        asked = receiver.asked()
    told = journal.read_text().split("\n")
    told = [line for line in told if line]
    says = [text for _, _, text in kept if "/" in text and "spool" not in text]
    assert len(told) > 200
    assert set(told) <= set(says)
    assert len(says) == len(set(says))
    assert len({(agent, seq) for agent, seq, _ in kept}) == len(kept)
    assert len({agent for agent, _, _ in kept}) == 1
    # The test saw what it is about: batches that were sent twice, and none of them is kept twice.
    assert asked["again"] > 0
