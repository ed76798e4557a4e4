"""`stepscope simulate --serve` as a process of its own: scraped, read, switched and ended by another one."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepscope.sources.formats.exposition import read_exposition
from stepscope.sources.ring import RingReader
from stepscope.sources.telemetry import telemetry_of
from tests.simulate.live import KIND

PATIENCE_S = 60.0
SMALL = "--ranks 2 --layers 1 --step-ms 300 --seed 3 --counters full --log-style plain --port 0".split()


class Served:
    """A serving process: its port, and how it ended."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port

    def ask(self, path: str, body: str | None = None, **headers: str) -> tuple[int, str]:
        """Status and text of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request("GET" if body is None else "POST", path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Its exit code and what it said until then."""
        self.process.send_signal(number)
        said, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, said


@contextmanager
def serving(out: Path, *words: str) -> Iterator[Served]:
    """A process that serves a small job into this folder."""
    process = subprocess.Popen(
        [sys.executable, "-m", "stepscope", "simulate", "--serve", "--out", str(out), *SMALL, *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
        env=os.environ | {"COLUMNS": "400"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "http://127.0.0.1:" in line, line
        yield Served(process, int(line.partition("127.0.0.1:")[2].partition("/")[0]))
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def eventually(what: Callable[[], bool]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def test_another_process_scrapes_reads_switches_and_ends_it(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with serving(out, "--time-scale", "6") as served:
        eventually(lambda: "PROF_SM_ACTIVE" in served.ask("/metrics")[1])
        status, text = served.ask("/metrics")
        assert status == 200
        (part,) = telemetry_of(read_exposition(text, given_ns=time.time_ns()).metrics, name="x", time="given")
        assert part.format == "dcgm-exporter"
        assert "node_cpu_seconds_total" in served.ask("/node/metrics")[1]
        assert served.ask("/0/metrics")[0] == 200
        assert served.ask("/health") == (200, "OK")
        (path,) = out.glob("run/rank1-*.ring")
        ring = RingReader(str(path))
        assert ring.is_alive()
        identity = ring.identity()
        assert (identity.rank, identity.world_size, identity.job) == (1, 2, "simulated-3")
        assert identity.device_uuids[0] in text
        assert f'Hostname="{identity.host}"' in text
        assert served.ask("/faults", "loader-stall#1:severe on")[0] == 200
        state = json.loads(served.ask("/faults")[1])
        assert state["on"][0]["fault"] == "loader-stall#1:severe"
        first = state["on"][0]["first_step"]
        found: dict[int, float] = {}

        def is_slow() -> bool:
            for each in ring.poll().records:
                if KIND[int(each["kind"])] == "phase_end" and int(each["a"]) == 1:
                    found[int(each["step"])] = -float(each["c"]) / 1e9
            return max(found, default=0) > first + 2

        eventually(is_slow)
        assert found[first - 1] < 0.01
        assert found[first + 1] > 0.2
        code, said = served.end()
        assert (code, ring.is_alive()) == (0, False)
        assert [KIND[int(each["kind"])] for each in ring.poll().records][-1] == "exit"
        assert "Traceback" not in said
    truth = json.loads((tmp_path / "run.truth.json").read_text())
    assert [each["fault"] for each in truth["faults"]] == ["loader-stall#1:severe"]
    assert "step=3/" in (out / "logs/train.log").read_text()
    assert (out / "logs/nccl.log").read_text().count("Init COMPLETE") == 2
    assert "GPU-" in (out / "telemetry/node0.apps.csv").read_text()


def test_it_ends_by_itself_and_after_an_interrupt_with_code_0(tmp_path: Path) -> None:
    with serving(tmp_path / "short", "--time-scale", "50", "--duration", "12") as served:
        assert served.process.wait(timeout=PATIENCE_S) == 0
    assert "Training completed after 2" in (tmp_path / "short/logs/train.log").read_text()
    with serving(tmp_path / "long") as served:
        assert served.end(signal.SIGINT)[0] == 0
    with serving(tmp_path / "long") as served:  # a second job in the same folder is another run
        assert len(list((tmp_path / "long/run").glob("rank0-*.ring"))) == 2
        assert served.end()[0] == 0


def test_strangers_and_nonsense_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "run") as served:
        assert served.ask("/nothing")[0] == 404
        assert served.ask("/7/metrics")[0] == 404
        assert served.ask("/nothing", "gc on")[0] == 404
        assert served.ask("/faults", "gc on", Origin="http://example.org")[0] == 403
        assert served.ask("/faults", "x" * 5000)[0] == 413
        status, text = served.ask("/faults", "nothing on")
        assert (status, text.partition(";")[0]) == (400, "fault nothing: no such fault")
        assert served.ask("/events", "explode")[0] == 400
        assert json.loads(served.ask("/faults")[1])["on"] == []
        # Nobody but this machine reaches it.
        assert {each[4][0] for each in socket.getaddrinfo("127.0.0.1", served.port)} == {"127.0.0.1"}
        assert served.end()[0] == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--serve", "--steps", "4"],
            "--steps is of a run that is written at once: leave it out with --serve",
        ),
        (["--duration", "4"], "--duration is of a job that goes on: add --serve"),
        (["--serve", "--bind", "203.0.113.1"], "203.0.113.1:9400: cannot be listened on"),
    ],
)
def test_options_of_the_other_kind_are_one_line(tmp_path: Path, words: list[str], says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "simulate", "--out", str(tmp_path / "run"), *words],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert says in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_port_that_is_taken_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = ["simulate", "--serve", "--out", str(tmp_path / "run"), "--port", str(port)]
        done = subprocess.run(
            [sys.executable, "-m", "stepscope", *words],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert f"127.0.0.1:{port}: cannot be listened on: address already in use; " in done.stderr
    assert not (tmp_path / "run").exists()
