"""The whole loop with real processes: a simulated job, its agent, the server, and a receiver of webhooks."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bench.told import LEARNED_STEPS, address_in, ask, job, process, steps_of, until

SCALE = 4.0
"""Simulated seconds in a second: a normal is learned in twenty."""
SEED = 77


class Hook(ThreadingHTTPServer):
    """Keeps the notices that it is sent."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append(({k.lower(): v for k, v in self.headers.items()}, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.mark.slow
def test_a_fault_is_told_with_its_cause_and_rank_once_also_over_a_kill_of_the_server(
    tmp_path: Path, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "s3cret")
    (tmp_path / "channels.toml").write_text(
        f'[[channel]]\nkind = "webhook"\nurl = "http://127.0.0.1:{hook.server_port}/"\n'
        'secret_env = "HOOK_SECRET"\n'
    )
    words = ["serve", "--data", "data", "--notify", "channels.toml", "--time-scale", str(SCALE)]
    name = f"simulated-{SEED}"
    with process(tmp_path, "serve", *words, "--port", "0") as (server, said):
        url = address_in(server, said, "Serving")
        with job(tmp_path / "job", url, SEED, scale=SCALE) as at:
            assert until(lambda: steps_of(url, name) >= LEARNED_STEPS, 180, 0.5)
            assert ask(f"{url}/api/v1/incidents?job={name}")["items"] == []
            ask(f"{at}/faults", b"loader-stall#2 on")
            assert until(lambda: hook.got, 120), ask(f"{url}/api/v1/incidents?job={name}")
            headers, body = hook.got[0]
            told = json.loads(body)
            assert (told["rule"], told["ranks"], told["job"]) == ("input-starvation", [2], name)
            signed = f"{headers['x-stepscope-timestamp']}.".encode() + body
            wanted = hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest()
            assert headers["x-stepscope-signature"] == f"v1={wanted}"
            assert until(lambda: ask(f"{url}/api/v1/incidents?job={name}")["items"][0].get("told_ns"), 30)
            (incident,) = ask(f"{url}/api/v1/incidents?job={name}")["items"]
            assert incident["capture"]["state"] == "done"
            samples = num_samples(url, name)
            os.kill(server.pid, signal.SIGKILL)
            server.wait(20)
            with process(tmp_path, "again", *words, "--port", url.rsplit(":", 1)[1]) as (again, words_said):
                address_in(again, words_said, "Serving")
                # The agent goes on where it was acknowledged.
                assert until(lambda: num_samples(url, name) > samples, 60)
                ask(f"{at}/faults", b"all off")
                ended = until(
                    lambda: [
                        each
                        for each in ask(f"{url}/api/v1/incidents?job={name}")["items"]
                        if each["id"] == incident["id"] and each.get("ended_ns")
                    ],
                    120,
                )
                assert ended
                time.sleep(1.0)
    states = [json.loads(body)["state"] for _, body in hook.got]
    assert states.count("open") == 1
    assert {json.loads(body)["incident"] for _, body in hook.got} == {incident["id"]}


def num_samples(url: str, name: str) -> int:
    """Of one signal of all devices."""
    window = f"job={name}&start=now-2h&end=now"
    lines = ask(f"{url}/api/v1/series?signal=sm_active_ratio&pixels=10000&{window}")["lines"]
    return sum(len(each["at_ns"]) for each in lines)
