"""A node's day through the spool, with a clock turned by hand.

8 devices × 40 signals × 1 Hz, and a server that is away now and then.
    python -m tests.agent.soak [HOURS]
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stepscope.act.post import Answer
from stepscope.agent.metrics import Exposition, cost_of_process
from stepscope.agent.ship import Shipper
from stepscope.agent.spool import Spool
from stepscope.model.batch import Samples
from stepscope.sources.formats.frame import frames_of, header_of
from tests.agent.made import NS, node_second

MOST_BYTES = 64 << 20
HOUR_S = 3600


@dataclass(frozen=True)
class Soaked:
    """`resident_bytes` after the first tenth and at the end; the rest over all of it."""

    num_samples: int
    seconds: float
    early_bytes: float
    late_bytes: float
    most_spool_bytes: int
    bytes_per_sample: float
    num_kept: int
    num_dropped: int
    num_left: int
    num_series_shown: int


class _Server:
    """Counts each batch once. Away for ten minutes in each hour, and longer than the spool can hold once."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.last_seq = 0
        self.num_kept = 0

    def __call__(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        if self.now_s % HOUR_S > HOUR_S - 600 or 6 * HOUR_S < self.now_s < 11 * HOUR_S:
            raise ConnectionRefusedError(111, "Connection refused")
        header = header_of(body, "body")
        for frame in frames_of(body, header, []):
            if frame.seq > self.last_seq:
                self.last_seq = frame.seq
                self.num_kept += 1
        answer = json.dumps({"agent": header.agent, "seq": self.last_seq}).encode()
        return Answer(200, answer)


def _at(second: int, minute: list[Samples]) -> Samples:
    """A second of a day, made from one of a minute."""
    batch = minute[second % len(minute)]
    at_ns = [1_700_000_000 * NS + second * NS]
    labels = {"steps": (2 * second, 2 * second + 2)}
    rows = [msgspec.structs.replace(each, at_ns=at_ns, **labels) for each in batch.series]
    return msgspec.structs.replace(batch, series=rows)


def soak(hours: float, folder: Path) -> Soaked:
    """Run a simulated time of that many hours."""
    server = _Server()
    spool = Spool(
        folder,
        max_bytes=MOST_BYTES,
        is_threaded=False,
        sync_every_s=1e9,
        monotonic_s=lambda: server.now_s,
        now_ns=lambda: int(server.now_s * NS),
    )
    shipper = Shipper(spool, "http://127.0.0.1:9", post=server, random_=random.Random(1))
    shown = Exposition(monotonic_s=lambda: server.now_s)
    shown.watch(spool, shipper)
    minute = [node_second(second) for second in range(60)]
    seconds = int(hours * HOUR_S)
    began, next_s, early, most, written = time.monotonic(), 0.0, 0.0, 0, 0
    for second in range(seconds):
        server.now_s = float(second)
        batch = _at(second, minute)
        before = spool.state().num_bytes
        spool.append(batch)
        shown.update(batch)
        now = spool.state().num_bytes
        written += max(now - before, 0)
        most = max(most, now)
        while next_s <= server.now_s:
            next_s += max(shipper.step(), 0.01)
        if second % 15 == 0:
            text = shown.text()
        if second == seconds // 10:
            early = cost_of_process()["stepscope_agent_resident_bytes"]
    late = cost_of_process()["stepscope_agent_resident_bytes"]
    state = spool.state()
    left = state.last_seq - state.acknowledged_seq
    spool.close()
    return Soaked(
        num_samples=320 * seconds,
        seconds=time.monotonic() - began,
        early_bytes=early,
        late_bytes=late,
        most_spool_bytes=most,
        bytes_per_sample=written / (320 * seconds),
        num_kept=server.num_kept,
        num_dropped=state.num_dropped,
        num_left=left,
        num_series_shown=text.count("\nDCGM_") + text.count("\nstepscope_"),
    )


def check(found: Soaked) -> None:
    """What must hold, however long it ran."""
    assert found.most_spool_bytes <= MOST_BYTES
    assert found.late_bytes - found.early_bytes < 16 << 20, "memory grows"
    assert found.num_kept + found.num_dropped + found.num_left >= found.num_samples // 320
    assert found.num_series_shown < 400


def main() -> None:
    hours = float(sys.argv[1]) if len(sys.argv) > 1 else 24.0
    with tempfile.TemporaryDirectory() as folder:
        found = soak(hours, Path(folder))
    print(f"{hours:g} h of a node, {found.num_samples:,} samples, in {found.seconds:.0f} s")
    print(
        f"memory: {found.early_bytes / 1e6:.1f} MB after a tenth, {found.late_bytes / 1e6:.1f} MB at the end"
    )
    print(
        f"spool: at most {found.most_spool_bytes / 1e6:.1f} MB, {found.bytes_per_sample:.1f} bytes a sample"
    )
    print(f"batches: {found.num_kept:,} kept, {found.num_dropped:,} given up, {found.num_left:,} left")
    check(found)


if __name__ == "__main__":
    main()
