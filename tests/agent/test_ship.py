"""Shipping: what each answer of a server leads to, against a real one and against a clock turned by hand."""

from __future__ import annotations

import json
import random
import re
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from stepscope.act.post import Answer
from stepscope.agent.outage import Outage
from stepscope.agent.ship import MOST_ASKED_WAIT_S, MOST_WAIT_S, Shipper, token_from
from stepscope.agent.spool import Spool
from stepscope.model.batch import Happened
from stepscope.model.error import UsageError
from stepscope.sources.formats.frame import frames_of, header_of
from stepscope.sources.formats.spool import batches_of, open_spool
from tests.agent.made import event
from tests.agent.receiver import TOKEN, Receiver, receiving
from tests.job.agent import running_agent
from tests.prometheus import free_port


def _spool(folder: Path, num: int = 0) -> Spool:
    spool = Spool(folder, is_threaded=False)
    for n in range(num):
        spool.append(event(f"e{n}"))
    return spool


def _ship(shipper: Shipper, spool: Spool, most: int = 50) -> list[float]:
    """Steps until everything is acknowledged; their waits are not waited for."""
    waits = []
    while spool.pending() is not None:
        assert len(waits) < most, shipper.state
        waits.append(shipper.step())
    return waits


def _is_whole(receiver: Receiver, num: int) -> bool:
    kept = receiver.kept()
    assert len({(agent, seq) for agent, seq, _ in kept}) == len(kept)
    return [text for _, _, text in kept] == [f"e{n}" for n in range(num)]


# ── a real server ──


def test_batches_arrive_once_in_order_with_the_token(tmp_path: Path) -> None:
    spool = _spool(tmp_path / "spool", 100)
    with receiving(tmp_path / "receiver", token=TOKEN) as receiver:
        shipper = Shipper(spool, receiver.url, lambda: TOKEN, most_bytes=4000)
        _ship(shipper, spool)
        shipper.stop()
        assert _is_whole(receiver, 100)
        asked = receiver.asked()
    assert shipper.state.why is None
    assert shipper.state.num_batches == 100
    assert set(asked["paths"]) == {"/api/v1/ingest"}
    assert asked["headers"]["Authorization"] == f"Bearer {TOKEN}"
    assert spool.state().acknowledged_seq == 100
    spool.close()


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ({"status": 500}, "the server fails (500)"),
        ({"status": 503}, "the server is not ready (503)"),
        ({"status": 429, "headers": {"Retry-After": "3"}}, "the server asks to wait (429)"),
        ({"status": 401}, "the server wants a token, or another one (401)"),
        ({"status": 307, "headers": {"Location": "http://127.0.0.1:9/"}}, "no redirect is followed"),
        ({"status": 202}, "an answer that is no acknowledgement"),
        ({"hang_up": "kept"}, "127.0.0.1"),
        ({"hang_up": "lost"}, "127.0.0.1"),
        ({"lie": "high"}, "an acknowledgement of something else"),
        ({"lie": "other"}, "an acknowledgement of something else"),
        ({"lie": "low"}, "the server keeps nothing"),
        ({"lie": "text"}, "an answer that is no acknowledgement"),
    ],
)  # fmt: skip
def test_nothing_is_lost_or_kept_twice_whatever_the_server_does_twice(
    tmp_path: Path, mode: dict[str, object], why: str
) -> None:
    spool = _spool(tmp_path / "spool", 20)
    with receiving(tmp_path / "receiver") as receiver:
        shipper = Shipper(spool, receiver.url, lambda: TOKEN, random_=random.Random(1))
        receiver.tell(times=2, **mode)
        waits = [shipper.step(), shipper.step()]
        assert why in str(shipper.state.why)
        assert TOKEN not in str(shipper.state.why)
        assert spool.state().acknowledged_seq == 0
        assert min(waits) > 0
        if "Retry-After" in str(mode):
            assert all(3 <= wait <= 4 for wait in waits)
        _ship(shipper, spool)
        shipper.stop()
        assert _is_whole(receiver, 20)
    assert shipper.state.why is None
    spool.close()


def test_a_body_too_large_for_the_server_is_halved_until_it_fits(tmp_path: Path) -> None:
    spool = _spool(tmp_path / "spool", 200)
    with receiving(tmp_path / "receiver") as receiver:
        receiver.tell(most_bytes=3000)
        shipper = Shipper(spool, receiver.url)
        _ship(shipper, spool, most=200)
        shipper.stop()
        assert _is_whole(receiver, 200)
    assert spool.state().num_dropped == 0
    spool.close()


def test_one_batch_that_the_server_never_takes_is_given_up_and_told_and_no_other(tmp_path: Path) -> None:
    spool = _spool(tmp_path / "spool", 20)
    with receiving(tmp_path / "receiver") as receiver:
        receiver.tell(poison=8)
        shipper = Shipper(spool, receiver.url)
        _ship(shipper, spool)
        spool.append(event("after"))
        _ship(shipper, spool)
        shipper.stop()
        texts = [text for _, _, text in receiver.kept()]
    assert texts[:19] == [f"e{n}" for n in range(20) if n != 7]
    assert "batch 8 was given up: " in texts[19]
    assert texts[20:] == ["after"]
    assert shipper.state.num_refused == 1
    spool.close()


def test_the_server_says_how_long_to_wait(tmp_path: Path) -> None:
    spool = _spool(tmp_path / "spool", 1)
    with receiving(tmp_path / "receiver") as receiver:
        receiver.tell(wait_s=7.5)
        shipper = Shipper(spool, receiver.url)
        assert shipper.step() == 7.5
        spool.append(event("more"))
        receiver.tell(wait_s=1e9)
        assert shipper.step() == MOST_ASKED_WAIT_S
        shipper.stop()
    spool.close()


def test_a_server_that_does_not_answer_is_left_in_time(tmp_path: Path) -> None:
    spool = _spool(tmp_path / "spool", 1)
    with receiving(tmp_path / "receiver") as receiver:
        receiver.tell(slow_s=20, times=1)
        shipper = Shipper(spool, receiver.url, timeout_s=2)
        began = time.monotonic()
        shipper.step()
        assert time.monotonic() - began < 15
        assert shipper.state.why is not None
        _ship(shipper, spool)
        shipper.stop()
        assert _is_whole(receiver, 1)
    spool.close()


def test_a_thread_ships_while_batches_come_and_stops_when_told(tmp_path: Path) -> None:
    spool = _spool(tmp_path / "spool")
    with receiving(tmp_path / "receiver") as receiver:
        shipper = Shipper(spool, receiver.url, every_s=0.01)
        shipper.start()
        for n in range(200):
            spool.append(event(f"e{n}"))
        until = time.monotonic() + 60
        while spool.state().acknowledged_seq < 200:
            assert time.monotonic() < until, shipper.state
            time.sleep(0.01)
        receiver.tell(slow_s=30)
        spool.append(event("e200"))
        began = time.monotonic()
        shipper.stop(flush_s=0.2)
        assert time.monotonic() - began < 15
    assert spool.pending() is not None
    spool.close()


def _certificate(folder: Path) -> Path:
    whole = folder / "server.pem"
    line = [
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(folder / "key"),
        "-out", str(folder / "cert"),
    ]  # fmt: skip
    try:
        subprocess.run(line, check=True, capture_output=True, timeout=120)
    except FileNotFoundError:
        pytest.skip("no openssl to make a certificate with")
    whole.write_text((folder / "key").read_text() + (folder / "cert").read_text())
    return whole


def test_a_certificate_that_is_not_trusted_gets_no_batch_and_no_token(tmp_path: Path) -> None:
    spool = _spool(tmp_path / "spool", 5)
    certificate = _certificate(tmp_path)
    with receiving(tmp_path / "receiver", certificate=certificate) as receiver:
        shipper = Shipper(spool, receiver.url, lambda: TOKEN)
        shipper.step()
        assert "its certificate is not trusted" in str(shipper.state.why)
        assert receiver.asked()["requests"] == 0
        trusted = ssl.create_default_context(cafile=str(tmp_path / "cert"))
        shipper = Shipper(spool, receiver.url, lambda: TOKEN, context=trusted)
        _ship(shipper, spool)
        shipper.stop()
        assert _is_whole(receiver, 5)
    spool.close()


# ── a clock turned by hand ──


class _Server:
    """Keeps each batch once and is away between two times."""

    def __init__(self, away_s: tuple[float, float]) -> None:
        self.away_s, self.now_s = away_s, 0.0
        self.kept: dict[tuple[str, int], bytes] = {}
        self.num_asked_while_away = 0

    def __call__(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        if self.away_s[0] <= self.now_s < self.away_s[1]:
            self.num_asked_while_away += 1
            raise ConnectionRefusedError(111, "Connection refused")
        header = header_of(body, "body")
        frames = list(frames_of(body, header, []))
        for frame in frames:
            self.kept.setdefault((header.agent, frame.seq), frame.raw)
        return Answer(200, json.dumps({"agent": header.agent, "seq": frames[-1].seq}).encode())


def test_a_server_away_for_ten_minutes_loses_nothing_and_is_not_hammered(tmp_path: Path) -> None:
    server = _Server((100.0, 700.0))
    spool = Spool(tmp_path, is_threaded=False, sync_every_s=3600, monotonic_s=lambda: server.now_s)
    shipper = Shipper(spool, "http://127.0.0.1:9", post=server, random_=random.Random(3))
    next_s = 0.0
    for second in range(900):
        server.now_s = float(second)
        spool.append(event(f"e{second}", second))
        while next_s <= server.now_s:
            next_s += max(shipper.step(), 0.001)
        if second == 650:
            assert "connection refused" in str(shipper.state.why)
            assert spool.state().last_seq - spool.state().acknowledged_seq > 500
    assert sorted(seq for _, seq in server.kept) == list(range(1, len(server.kept) + 1))
    assert len(server.kept) >= 895
    assert spool.state().num_dropped == 0
    # 600 s with waits that grow to a minute: some tries, not hundreds.
    assert 10 <= server.num_asked_while_away <= 40
    spool.close()


def test_waits_grow_to_a_minute_and_differ_between_agents(tmp_path: Path) -> None:
    def away(body: bytes, headers: Mapping[str, str]) -> Answer:
        raise TimeoutError

    def waits(seed: int) -> list[float]:
        shipper = Shipper(spool, "http://127.0.0.1:9", post=away, random_=random.Random(seed))
        return [shipper.step() for _ in range(12)]

    spool = _spool(tmp_path, 1)
    one, other = waits(1), waits(2)
    assert one != other
    assert one[0] <= 1.0
    assert all(MOST_WAIT_S / 2 <= wait <= MOST_WAIT_S for wait in one[7:])
    spool.close()


# ── tokens and addresses ──


def test_the_token_comes_from_a_file_that_is_read_anew_or_from_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    told = token_from({}, str(path))
    assert told() == "one"
    path.write_text("two\n")
    assert told() == "two"
    assert token_from({"STEPSCOPE_TOKEN": " three "})() == "three"
    assert token_from({})() is None
    with pytest.raises(UsageError, match="the token cannot be read"):
        token_from({}, str(tmp_path / "none"))


@pytest.mark.parametrize(
    "url",
    ["ftp://host", "http://", "host:8080", "http://user:hunter2@host", "http://host/?token=hunter2", "http://h:x",
     "http://host\r\nX: y"],
)  # fmt: skip
def test_an_address_that_is_none_or_holds_a_secret_is_refused_without_it(tmp_path: Path, url: str) -> None:
    spool = _spool(tmp_path)
    with pytest.raises(UsageError) as refused:
        Shipper(spool, url)
    assert "hunter2" not in str(refused.value)
    assert "\n" not in str(refused.value)
    spool.close()


# ── what is said of it ──


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(401, b""), "the server wants a token, or another one (401)"),
        (Answer(403, b""), "the token may not write (403)"),
        (Answer(400, b""), "the server does not understand a batch (400)"),
        (Answer(500, b""), "the server fails (500)"),
        (Answer(200, b"<html>"), "an answer that is no acknowledgement"),
        (
            Answer(301, b"", location="https://user:hunter2@other.example/in?token=s3cret"),
            "the server points to https://other.example/in (301)",
        ),
        (Answer(302, b"", location="http://[::1"), "the server points to an address that is none (302)"),
        (TimeoutError(), "no answer in time"),
        (ConnectionResetError(104, "Connection reset by peer"), "connection reset by peer"),
        (OSError("no answer that is HTTP (BadStatusLine)"), "no answer that is http (badstatusline)"),
    ],
)
def test_what_begins_to_fail_is_said_once_with_its_answer_and_so_is_that_it_works_again(
    tmp_path: Path, answer: Answer | OSError, why: str
) -> None:
    spool, told = _spool(tmp_path, 1), list[tuple[str, str]]()
    good = Answer(200, json.dumps({"agent": spool.agent, "seq": 1}).encode())
    answers: list[Answer | OSError] = [answer, answer, good]

    def post(body: bytes, headers: Mapping[str, str]) -> Answer:
        given = answers.pop(0)
        if isinstance(given, OSError):
            raise given
        return given

    shipper = Shipper(
        spool, "http://127.0.0.1:9", post=post, tell=lambda what, text: told.append((what, text))
    )
    for _ in range(3):
        shipper.step()
    spool.close()
    assert [what for what, _ in told] == ["ship_failing", "ship_back"]
    assert told[0][1].startswith(f"http://127.0.0.1:9/api/v1/ingest: {why}")
    assert told[1][1] == "works again, after 2 tries that failed"
    assert "hunter2" not in str(told)
    assert "s3cret" not in str(told)


def test_a_server_that_fails_every_other_time_is_not_told_each_time_and_a_new_reason_is() -> None:
    told = list[str]()
    outage = Outage("ship", lambda what, text: told.append(what if what == "ship_back" else text))
    for _ in range(20):
        outage.failed("fails (500)")
        outage.worked()
    assert told == ["fails (500)", "ship_back"]
    for why in ("away", "away", "away", "token (401)", "away"):
        outage.failed(why)
    assert told[2:] == ["away", "token (401)"]
    outage.worked()
    for _ in range(30):
        outage.worked()
    outage.failed("wait (429)", is_wait=True)
    assert told[4:] == ["ship_back"]


def test_an_agent_whose_server_wants_a_token_says_so_on_stderr_in_its_spool_and_as_a_gauge(
    tmp_path: Path,
) -> None:
    with receiving(tmp_path / "receiver") as receiver:
        receiver.tell(status=401)
        words = ("--server", receiver.url, "--source", "own", "--listen", f"127.0.0.1:{free_port()}")
        with running_agent(tmp_path, *words) as agent:
            line = agent.wait_for("ship_failing")
            page = re.search(r"http://\S+/metrics", agent.lines[0])
            assert page is not None
            text = urllib.request.urlopen(page[0], timeout=30).read().decode()
    assert "the server wants a token, or another one (401)" in line
    assert "stepscope_agent_ship_failing 1" in text
    assert "stepscope_agent_ship_status 401" in text
    told = [each for each in batches_of(open_spool(str(tmp_path / "spool"))) if isinstance(each, Happened)]
    assert [each.what for each in told if each.what.startswith("ship")] == ["ship_failing"]


# ── at once ──


def test_what_is_not_to_wait_is_shipped_at_once_but_not_past_a_server_that_asks_to_wait(
    tmp_path: Path,
) -> None:
    spool = _spool(tmp_path / "spool", 1)
    with receiving(tmp_path / "receiver") as receiver:
        shipper = Shipper(spool, receiver.url, every_s=3600.0)
        shipper.start()
        _until(lambda: len(receiver.kept()) == 1)
        for number in range(2, 6):  # also such that come while the one before is on its way
            spool.append(event(f"e{number}"))
            shipper.hasten()
            _until(lambda number=number: len(receiver.kept()) == number)
        receiver.tell(wait_s=3600.0)
        spool.append(event("e6"))
        shipper.hasten()
        _until(lambda: len(receiver.kept()) == 6)
        num = receiver.asked()["requests"]
        spool.append(event("e7"))
        shipper.hasten()
        time.sleep(0.5)
        assert receiver.asked()["requests"] == num
        shipper.stop()
    spool.close()


def _until(said: Callable[[], bool]) -> None:
    ends = time.monotonic() + 60
    while not said():
        assert time.monotonic() < ends
        time.sleep(0.01)
