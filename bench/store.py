"""What the store takes in, holds and gives, beside bare DuckDB, Prometheus and VictoriaMetrics.

50 GPUs × 40 signals × 1 Hz in batches of 5 s (10,000 samples): a quarter constant, a quarter slow whole
numbers, a fifth counters, the rest noise of three decimals and ratios of six. All sides in turns in one run;
rates by the wall clock and a processor second, since load slows the one and hardly the other.

    python -m bench.store [--seconds 3600] [--days 90]
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stepscope.model.batch import BatchOwner, BatchSeries, Samples
from stepscope.model.signal import SIGNALS
from stepscope.sources.formats.frame import Header, batch_of, frames_of, header_of, pack_frame, pack_header
from stepscope.store.retention import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS, Retention
from stepscope.store.store import Store

NUM_GPUS, BATCH_S, JOB_GPUS = 50, 5, 8
NAMES = tuple(
    each.name for each in SIGNALS.values() if each.of == "device" and each.kind in ("gauge", "counter")
)[:40]
START_NS = 1_700_000_000 * SECOND_NS // HOUR_NS * HOUR_NS


def values(seconds: int) -> np.ndarray:
    """[signal, GPU, second], of the five shapes."""
    rng = np.random.default_rng(20261130)
    found = np.empty((len(NAMES), NUM_GPUS, seconds))
    for n in range(len(NAMES)):
        size = (NUM_GPUS, seconds)
        if n % 20 < 5:
            found[n] = np.repeat(rng.integers(1, 1000, (NUM_GPUS, 1)), seconds, axis=1)
        elif n % 20 < 10:
            found[n] = 50 + np.cumsum(rng.random(size) < 0.02, axis=1) % 30
        elif n % 20 < 14:
            found[n] = np.cumsum(rng.integers(0, 500, size), axis=1)
        elif n % 20 < 17:
            found[n] = np.round(rng.normal(300, 20, size), 3)
        else:
            found[n] = np.round(rng.random(size), 6)
    return found


def owner(gpu: int) -> BatchOwner:
    return BatchOwner(
        uuid=f"GPU-{gpu:08d}-0000-4000-8000-000000000000", index=gpu % 8, model="H100", host="n1"
    )


def batches(data: np.ndarray, num_agents: int = 1) -> Iterator[Samples]:
    """In turns of so many agents."""
    for place, first in enumerate(range(0, data.shape[2], BATCH_S), start=1):
        at_ns = [START_NS + (first + n) * SECOND_NS for n in range(BATCH_S)]
        part = data[:, :, first : first + BATCH_S].tolist()
        series = [
            BatchSeries(
                name, owner(gpu), at_ns, part[n][gpu],
                {"job": f"job-{gpu // JOB_GPUS}", "run": "r1", "rank": str(gpu % JOB_GPUS)},
            )
            for gpu in range(NUM_GPUS)
            for n, name in enumerate(NAMES)
        ]  # fmt: skip
        yield Samples(f"bench-{place % num_agents}", place, "n1", "nvml", series, SECOND_NS, None, 0)


class Timed:
    """Wall and processor seconds of a stretch."""

    def __enter__(self) -> Timed:
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *error: object) -> None:
        self.wall, self.cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu


@dataclass(frozen=True)
class Took:
    """Seconds of the best of some tries: by the wall clock, and of the processor of whoever answered."""

    wall: float
    cpu: float


def best(ask: Callable[[], object], times: int = 5, cpu: Callable[[], float] = time.process_time) -> Took:
    """The best of so many, each clock by itself: load only ever adds."""
    walls, cpus = [], []
    for _ in range(times):
        begun, before = time.perf_counter(), cpu()
        ask()
        walls.append(time.perf_counter() - begun)
        cpus.append(cpu() - before)
    # The clock of another process counts hundredths: of it the mean of all tries is told.
    return Took(min(walls), min(cpus) if cpu is time.process_time else float(np.mean(cpus)))


def say(
    who: str, rate: float | None, cpu_rate: float | None, size: float | None, queries: dict[str, Took]
) -> None:
    """One row; rates in samples a second, of the wall clock and of the processor."""
    shown = "   ".join(
        f"{name} {1e3 * each.wall:,.1f} ms ({1e3 * each.cpu:,.1f} CPU)" for name, each in queries.items()
    )
    parts = [
        f"{rate / 1e3:7,.0f} k/s" if rate else " " * 11,
        f"{cpu_rate / 1e3:7,.0f} k/CPU s" if cpu_rate else " " * 15,
        f"{size:5.2f} B/sample" if size else " " * 14,
    ]
    print(f"  {who:<34} {'  '.join(parts)}   {shown}", flush=True)


def bare(data: np.ndarray, folder: Path) -> float:
    """Samples a processor second of `INSERT` alone, from columns that lie ready, one transaction a batch."""
    import duckdb

    connection = duckdb.connect(str(folder / "bare.duckdb"), config={"threads": 2})
    columns = ", ".join(f'"{name}" DOUBLE' for name in NAMES)
    connection.execute(f"CREATE TABLE t (at_ns BIGINT, gpu INTEGER, {columns})")
    ready = []
    for first in range(0, data.shape[2], BATCH_S):
        part = data[:, :, first : first + BATCH_S]
        at_ns = START_NS + (first + np.tile(np.arange(BATCH_S), NUM_GPUS)) * SECOND_NS
        rows = {"at_ns": at_ns, "gpu": np.repeat(np.arange(NUM_GPUS), BATCH_S)}
        ready.append(rows | {name: np.ascontiguousarray(part[n].reshape(-1)) for n, name in enumerate(NAMES)})
    with Timed() as timed:
        for rows in ready:  # noqa: B007  DuckDB reads it by its name
            connection.execute("INSERT INTO t SELECT * FROM rows")
    connection.close()
    say("bare DuckDB", data.size / timed.wall, data.size / timed.cpu, None, {})
    return data.size / timed.cpu


def keep_bodies(store: Store, bodies: list[bytes]) -> None:
    for body in bodies:
        header = header_of(body, "body")
        store.keep([batch_of(frame, header, "body") for frame in frames_of(body, header, [])])


def opened(folder: Path, now: list[int]) -> Store:
    return Store.open(str(folder), now_ns=lambda: now[0], retention=Retention(reserve_bytes=0))


def ours(data: np.ndarray, folder: Path, bodies: list[bytes], days: int) -> dict[str, float]:
    now = [START_NS]
    decoded = list(batches(data))
    store = opened(folder / "decoded", now)
    with Timed() as timed:
        for each in decoded:
            store.keep([each])
    store.close()
    del decoded
    found = {"decoded": data.size / timed.cpu}
    say("stepscope, from decoded batches", data.size / timed.wall, found["decoded"], None, {})
    store = opened(folder / "bodies", now)
    with Timed() as timed:
        keep_bodies(store, bodies)
    end = START_NS + data.shape[2] * SECOND_NS
    hour = end - HOUR_NS

    def asked() -> dict[str, Took]:
        one = [owner(3).uuid or ""]
        return {
            "one series": best(lambda: store.lines(NAMES[17:18], hour, end, 1000, devices=one)),
            "job": best(lambda: store.lines(NAMES, hour, end, 1000, job="job-0", run="r1")),
        }

    found["bodies"] = data.size / timed.cpu
    queries = asked()
    say("stepscope, from bodies", data.size / timed.wall, found["bodies"], None, queries)
    found["hour live"] = queries["job"].cpu
    several = [
        pack_header(Header(each.agent, each.seq)) + pack_frame(each) for each in batches(data, SEVERAL)
    ]
    of_agents = [several[n::SEVERAL] for n in range(SEVERAL)]
    del several
    beside_it = opened(folder / "several", now)
    with Timed() as timed, ThreadPoolExecutor(SEVERAL) as threads:
        list(threads.map(lambda mine: keep_bodies(beside_it, mine), of_agents))
    beside_it.close()
    found["several"] = data.size / timed.cpu
    say(f"… of {SEVERAL} agents at once", data.size / timed.wall, found["several"], None, {})
    now[0] = end + 3 * HOUR_NS
    with Timed() as timed:
        store.tend()
    size = sum(each.stat().st_size for each in (folder / "bodies" / "hours").rglob("*.parquet"))
    found["bytes"] = size / data.size
    queries = asked()
    say(f"stepscope, sealed in {timed.wall:.1f} s", None, data.size / timed.cpu, found["bytes"], queries)
    found["hour sealed"] = queries["job"].cpu
    found["days"] = long_ago(store, days)
    store.close()
    for num in (1, NUM_AGENTS):
        store = opened(folder / f"small-{num}", now)
        found[f"small {num}"] = small(store, num)
        store.close()
    return found


NUM_AGENTS, NUM_SMALL, SEVERAL = 16, 40, 4


def small(store: Store, num_at_once: int) -> float:
    """Samples a processor second of bodies of 8 GPUs × 40 signals × 1 s, of 16 agents, so many at once."""
    rng = np.random.default_rng(1)
    of_agents = []
    for agent in range(NUM_AGENTS):
        mine = []
        for seq in range(1, NUM_SMALL + 1):
            at_ns, value = [START_NS + seq * SECOND_NS], rng.random((JOB_GPUS, len(NAMES))).tolist()
            series = [
                BatchSeries(
                    name, owner(gpu + 8 * agent), at_ns, [value[gpu][n]], {"job": "j", "rank": str(gpu)}
                )
                for gpu in range(JOB_GPUS)
                for n, name in enumerate(NAMES)
            ]
            batch = Samples(f"agent-{agent}", seq, f"n{agent}", "nvml", series, SECOND_NS, None, 0)
            mine.append(pack_header(Header(batch.agent, seq)) + pack_frame(batch))
        of_agents.append(mine)
    num = NUM_AGENTS * NUM_SMALL * JOB_GPUS * len(NAMES)
    with Timed() as timed, ThreadPoolExecutor(num_at_once) as threads:
        list(threads.map(lambda bodies: keep_bodies(store, bodies), of_agents))
    say(f"bodies of 320 samples, {num_at_once} at once", num / timed.wall, num / timed.cpu, None, {})
    return num / timed.cpu


def long_ago(store: Store, days: int) -> float:
    """Minutes of so many days, of 50 GPUs × 40 signals for the 8 that are asked for and 8 others, written as
    the store writes them; then one signal of 8 GPUs over all of it."""
    from stepscope.store.piece import Piece

    keeper, pieces = store._keeper, store._pieces
    signals = keeper.settle("signal", list(NAMES))
    owners = list(range(2 * JOB_GPUS))
    day = START_NS // DAY_NS * DAY_NS
    now = store._now_ns()
    cursor = store._db.cursor()
    made = []
    for n in range(1, days + 1):
        start = day - n * DAY_NS
        select = (
            "SELECT 'device' AS kind, CAST(s AS INTEGER) AS signal, CAST(o AS INTEGER) AS owner, "
            "0 AS source, "
            f"{start} + m * {MINUTE_NS} AS at_ns, v AS mean, v - 1 AS least, v + 1 AS most, v AS last, "
            "v + 1 AS p95, CAST(60 AS BIGINT) AS num, CAST(NULL AS DOUBLE) AS increase, "
            "CAST(NULL AS BIGINT) AS bits FROM "
            "(SELECT s, o, m, round(300 + 20 * sin(m / 60.0 + o) + random(), 3) AS v FROM "
            f"unnest({signals}) a(s), unnest({owners}) b(o), range(1440) c(m)) "
            "ORDER BY signal, owner, source, at_ns"
        )
        path = f"minutes/bench-{n}/minute-{n}.parquet"
        path, num_bytes = pieces.write(cursor, select, path)
        made.append(
            Piece(path, "minute", start, start + DAY_NS, len(signals) * len(owners) * 1440, num_bytes)
        )
    with store._db.writing(cursor):
        for piece in made:
            pieces.name(cursor, piece)
        first, last = day - days * DAY_NS, now
        for number in owners:
            cursor.execute(
                "INSERT INTO stretch VALUES ('device', ?, 0, ?, ?, ?)", [number, first, first, last]
            )
    cursor.close()
    devices = [owner(gpu).uuid or "" for gpu in range(JOB_GPUS)]
    start = now - min(days, 90) * DAY_NS + HOUR_NS
    took = best(lambda: store.lines(NAMES[17:18], start, now, 4000, devices=devices))
    line = store.lines(NAMES[17:18], start, now, 4000, devices=devices)[0]
    size = sum(each.num_bytes for each in made) / sum(each.num_rows for each in made)
    say(f"stepscope, {days} days of minutes", None, None, None, {f"8 GPUs ({line.resolution})": took})
    print(f"  {'':<34} {size:.1f} bytes a minute of six numbers")
    return took.cpu


# ── the others, over remote write ──


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def written(data: np.ndarray) -> Iterator[bytes]:
    """Requests of remote write, packed by snappy, one a batch."""
    import snappy

    labels = {}
    for n, name in enumerate(NAMES):
        for gpu in range(NUM_GPUS):
            pairs = (("__name__", name), ("gpu", str(gpu)), ("host", "n1"), ("job", f"job-{gpu // JOB_GPUS}"))
            labels[n, gpu] = b"".join(field(1, field(1, k.encode()) + field(2, v.encode())) for k, v in pairs)
    for first in range(0, data.shape[2], BATCH_S):
        out = bytearray()
        for (n, gpu), head in labels.items():
            body = bytearray(head)
            for second in range(BATCH_S):
                at_ms = (START_NS + (first + second) * SECOND_NS) // 1_000_000
                sample = b"\x09" + struct.pack("<d", data[n, gpu, first + second]) + b"\x10" + varint(at_ms)
                body += field(2, sample)
            out += field(1, bytes(body))
        yield snappy.compress(bytes(out))


@contextmanager
def serving(words: list[str], port: int, ready: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(url + ready, timeout=5).close()
                break
            except OSError:
                if time.monotonic() > until or process.poll() is not None:
                    raise
                time.sleep(0.05)
        yield url, process
    finally:
        process.terminate()
        process.wait(30)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def cpu_of(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def beside(kind: str, data: np.ndarray, requests: list[bytes], folder: Path) -> None:
    program = {"Prometheus": "prometheus", "VictoriaMetrics": "victoria-metrics"}[kind]
    path = shutil.which(program)
    if path is None:
        print(f"  {kind}: not installed (Debian: apt install {program})")
        return
    port, at = free_port(), folder / program
    at.mkdir()
    if kind == "Prometheus":
        (at / "c.yml").write_text("global: {}\n")
        words = [
            path,
            f"--config.file={at}/c.yml",
            f"--storage.tsdb.path={at}/data",
            "--web.enable-remote-write-receiver",
            f"--web.listen-address=127.0.0.1:{port}",
            "--web.enable-admin-api",
            "--storage.tsdb.retention.time=20y",
        ]
        ready = "/-/ready"
    else:
        words = [
            path, f"-storageDataPath={at}/data", f"-httpListenAddr=127.0.0.1:{port}", "-retentionPeriod=20y",
            "-search.latencyOffset=0s",
        ]  # fmt: skip
        ready = "/health"
    with serving(words, port, ready) as (url, process):
        begun, cpu = time.perf_counter(), cpu_of(process.pid)
        for body in requests:
            head = {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"}
            urllib.request.urlopen(
                urllib.request.Request(f"{url}/api/v1/write", body, head), timeout=60
            ).close()
        wall, cpu = time.perf_counter() - begun, cpu_of(process.pid) - cpu
        if kind == "Prometheus":
            asked = urllib.request.Request(f"{url}/api/v1/admin/tsdb/snapshot", b"", method="POST")
            urllib.request.urlopen(asked, timeout=120).close()
            size = sum(
                each.stat().st_size for each in (at / "data" / "snapshots").rglob("*") if each.is_file()
            )
        else:
            urllib.request.urlopen(f"{url}/internal/force_flush", timeout=60).close()
            urllib.request.urlopen(f"{url}/internal/force_merge", timeout=60).close()
            time.sleep(2)
            size = sum(each.stat().st_size for each in (at / "data").rglob("*") if each.is_file())
        end = START_NS // SECOND_NS + data.shape[2] - 1

        def ask(query: str) -> Callable[[], object]:
            given = {"query": query, "start": end - 3599, "end": end, "step": 4}
            address = f"{url}/api/v1/query_range?{urllib.parse.urlencode(given)}"
            return lambda: urllib.request.urlopen(address, timeout=60).read()

        def spent() -> float:
            return cpu_of(process.pid)

        queries = {
            "one series": best(ask(f'{NAMES[17]}{{gpu="3"}}'), 10, spent),
            "job": best(ask('{job="job-0"}'), 10, spent),
        }
        say(f"{kind} (its side only)", data.size / wall, data.size / cpu, size / data.size, queries)


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--seconds", type=int, default=3600)
    asked.add_argument("--days", type=int, default=90)
    given = asked.parse_args()
    data = values(given.seconds)
    print(
        f"store: {NUM_GPUS} GPUs × {len(NAMES)} signals × {given.seconds} s, {data.size / 1e6:.1f} M samples"
    )
    bodies = [pack_header(Header(each.agent, each.seq)) + pack_frame(each) for each in batches(data)]
    gc.collect()
    gc.freeze()  # what the benchmark holds is not the store's
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = bare(data, folder)
        found = ours(data, folder, bodies, given.days)
        base = (base + bare(data, Path(tempfile.mkdtemp(dir=folder)))) / 2  # before and after
        requests = list(written(data))
        for kind in ("Prometheus", "VictoriaMetrics"):
            beside(kind, data, requests, folder)
    share, several = found["bodies"] / base, found["several"] / base
    rows = (
        ("end to end, against bare DuckDB", share, 1.0, ">= 0.3", share >= 0.3),
        (f"… of {SEVERAL} agents at once", several, 1.0, ">= 0.3", several >= 0.3),
        ("end to end, k samples/CPU s", found["bodies"], 1e-3, ">= 200", found["bodies"] >= 200e3),
        ("bytes a sample, sealed", found["bytes"], 1.0, "<= 2.5", found["bytes"] <= 2.5),
        ("last hour of a job, live, CPU ms", found["hour live"], 1e3, "< 50", found["hour live"] < 0.05),
        (
            "last hour of a job, sealed, CPU ms",
            found["hour sealed"],
            1e3,
            "< 50",
            found["hour sealed"] < 0.05,
        ),
        (f"{given.days} days of minutes, CPU ms", found["days"], 1e3, "< 300", found["days"] < 0.3),
    )
    for what, value, factor, target, is_met in rows:
        shown = "met" if is_met else "MISSED"
        print(f"  {what:<34} {value * factor:10.2f}   target {target:<8} {shown}")


if __name__ == "__main__":
    main()
