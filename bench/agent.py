"""What the agent takes of a core and of memory: 8 devices, 40 signals, once a second, host and spool.

Alone, and with a server that it ships to and takes orders from: then it holds values for a second at most.

The real agent in a process of its own, with the real binding over a driver's library that is made up
(`tests/agent/fake_nvml.c`), the host's own counters, a job that marks its steps, and a spool on the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAKE = ROOT / "tests" / "agent" / "fake_nvml.c"
NUM_DEVICES = 8
MOST_SHARE, MOST_BYTES = 0.01, 120e6
_START = """
import ctypes, sys
library = ctypes.CDLL({library!r}, mode=ctypes.RTLD_GLOBAL)
library.fake_set(b"count", 0, ctypes.c_longlong({num}))
from stepscope.cli import main
sys.exit(main({words!r}))
"""
_JOB = """
import time, stepscope_sdk
mon = stepscope_sdk.monitor()
while True:
    with mon.step():
        for name in ("data", "forward", "backward", "optimizer"):
            with mon.phase(name):
                time.sleep(0.05)
"""


def built(folder: str) -> str:
    out = str(Path(folder, "libnvidia-ml.so.1"))
    words = ["gcc", "-shared", "-fPIC", "-w", "-O1", "-Wl,-soname,libnvidia-ml.so.1", "-o", out, str(FAKE)]
    subprocess.run(words, check=True)
    return out


def usage(pid: int) -> tuple[float, int]:
    """(processor seconds, bytes resident) of a process."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return (int(words[11]) + int(words[12])) / ticks, int(words[21]) * os.sysconf("SC_PAGE_SIZE")


class _Server(ThreadingHTTPServer):
    """Takes everything, has no orders, and notes how old the newest value of each request is."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.age_s: list[float] = []
        self.num_requests = 0
        self.last = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        from stepscope.model.batch import Samples
        from stepscope.sources.formats.frame import batch_of, frames_of, header_of

        body = self.rfile.read(int(self.headers["Content-Length"]))
        now_ns = time.time_ns()
        header = header_of(body, "body")
        frames = [each for each in frames_of(body, header, []) if each.seq > self.server.last]
        for frame in frames:
            batch = batch_of(frame, header, "body")
            self.server.last = frame.seq
            if isinstance(batch, Samples):
                found = [(now_ns - at) / 1e9 for each in batch.series for at in each.at_ns]
                self.server.age_s += found
        self.server.num_requests += 1
        self._say(json.dumps({"agent": header.agent, "seq": self.server.last}).encode())

    def do_GET(self) -> None:
        if "after=-1" not in self.path:
            time.sleep(20.0)
        self._say(b'{"orders": [], "next": 0}')

    def _say(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--seconds", type=float, default=60.0)
    seconds = asked.parse_args().seconds
    measure(seconds, None)
    server = _Server()
    measure(seconds, f"http://127.0.0.1:{server.server_address[1]}")
    ages = sorted(server.age_s)
    if ages:
        half, most = ages[len(ages) // 2], ages[int(len(ages) * 0.99)]
        rate = server.num_requests / (seconds + 5.0)
        print(f"  a value is there after {half:.2f} s (median), {most:.2f} s (99 %); {rate:.1f} requests/s")
    server.shutdown()


def measure(seconds: float, url: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spool, run_dir = Path(folder, "spool"), Path(folder, "run")
        run_dir.mkdir()
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "STEPSCOPE_RUN_DIR": str(run_dir)}
        words = ["agent", "--profile", "inference", "--spool", str(spool), "--host", "bench"]
        words += ["--server", url] if url is not None else []
        script = _START.format(library=built(folder), num=NUM_DEVICES, words=words)
        job = subprocess.Popen([sys.executable, "-c", _JOB], env=environment)
        agent = subprocess.Popen([sys.executable, "-c", script], env=environment)
        try:
            time.sleep(5.0)  # its start: imports, devices
            start_cpu, _ = usage(agent.pid)
            start = time.monotonic()
            time.sleep(seconds)
            cpu, resident = usage(agent.pid)
            passed = time.monotonic() - start
            agent.send_signal(signal.SIGTERM)
            code = agent.wait(30)
        finally:
            for process in (agent, job):
                if process.poll() is None:
                    process.kill()
                process.wait()
        if code != 0:
            raise SystemExit(f"the agent ended with {code}")
        size = sum(each.stat().st_size for each in spool.rglob("*") if each.is_file())
        num = num_samples(spool)
    share = (cpu - start_cpu) / passed
    rate = num / (passed + 5.0)
    size_each = size / max(num, 1)
    how = "alone" if url is None else "with a server"
    figures = f"{rate:.0f} samples/s, {passed:.0f} s, {size_each:.1f} bytes a sample"
    print(f"agent, {how}: {NUM_DEVICES} devices, {figures}")
    for what, found, most in (
        ("processor", f"{share:.2%} of a core", f"{MOST_SHARE:.0%}"),
        ("memory", f"{resident / 1e6:.1f} MB", f"{MOST_BYTES / 1e6:.0f} MB"),
    ):
        is_kept = share < MOST_SHARE if what == "processor" else resident < MOST_BYTES
        print(f"  {what:<10} {found:>16}   budget {most:>6}   {'kept' if is_kept else 'EXCEEDED'}")


def num_samples(folder: Path) -> int:
    """Samples in the spool."""
    from stepscope.model.batch import Samples
    from stepscope.sources.formats.spool import batches_of, open_spool

    return sum(
        len(series.value)
        for batch in batches_of(open_spool(str(folder)))
        if isinstance(batch, Samples)
        for series in batch.series
    )


if __name__ == "__main__":
    main()
