"""Channels against real receivers: Alertmanager, HTTP, SMTP; and what apprise would put on the wire to chat
services that have no other address than their own."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import shutil
import socket
import socketserver
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from stepscope.act.notify.catalog.apprise import BotSender
from stepscope.act.notify.channel import Message, Sender, Settings
from stepscope.act.notify.config import sender_of
from stepscope.act.notify.post import Answered
from stepscope.views.markup import MARKUPS
from stepscope.views.notice import text_of, title_of
from tests.act.notify.made import notice

ROOT = Path(__file__).parents[3]


def message(markup: str, **more: object) -> Message:
    what = notice(**more)
    return Message("i-1.open.chat", what, title_of(what, MARKUPS[markup]), text_of(what, MARKUPS[markup]))


def sender(kind: str, secrets: dict[str, str], **options: object) -> Sender:
    settings = Settings(name="mine", kind=kind, options=options)
    return sender_of(settings, lambda source: secrets.get(source.partition(":")[2]))


class Hook:
    """An HTTP server that keeps what it is sent and answers as it is told."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[tuple[int, dict[str, str], float]] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                status, headers, wait_s = hook.answers.pop(0) if hook.answers else (200, {}, 0.0)
                time.sleep(wait_s)
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def hook() -> Iterator[Hook]:
    found = Hook()
    yield found
    found.close()


def test_a_webhook_is_signed_over_time_and_body_and_holds_the_notice(hook: Hook) -> None:
    url = f"http://127.0.0.1:{hook.port}/in"
    mine = sender("webhook", {"HOOK": "s3cret"}, url=url, secret_env="HOOK")
    assert mine.send(message("text")).is_sent
    ((path, headers, body),) = hook.got
    assert path == "/in"
    # As the documentation has a receiver do it.
    at = headers["x-stepscope-timestamp"]
    wanted = hmac.new(b"s3cret", f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    assert headers["x-stepscope-signature"] == f"v1={wanted}"
    assert abs(int(at) - time.time()) < 300
    assert headers["x-stepscope-delivery"] == "i-1.open.chat"
    told = json.loads(body)
    jsonschema.validate(told, json.loads((ROOT / "docs/reference/notice.schema.json").read_text()))
    assert (told["schema"], told["rule"], told["ranks"]) == (
        "stepscope.notice/1", "input-starvation", [0, 1, 2, 3, 7],
    )  # fmt: skip
    assert b"s3cret" not in body


@pytest.mark.parametrize(
    ("status", "headers", "is_final", "retry"),
    [
        (429, {"Retry-After": "7"}, False, 7.0),
        (503, {}, False, None),
        (404, {}, True, None),
        (302, {"Location": "http://127.0.0.1:1/"}, True, None),
    ],
    ids=["busy", "away", "gone", "redirect"],
)
def test_what_a_webhook_answers_decides_whether_it_is_tried_again(
    hook: Hook, status: int, headers: dict[str, str], is_final: bool, retry: float | None
) -> None:
    mine = sender("webhook", {"H": "s"}, url=f"http://127.0.0.1:{hook.port}/", secret_env="H")
    hook.answers = [(status, headers, 0.0)]
    sent = mine.send(message("text"))
    assert (sent.is_sent, sent.is_final, sent.retry_after_s) == (False, is_final, retry)
    assert len(hook.got) == 1


def test_nobody_listening_and_a_half_open_connection_are_tried_again() -> None:
    from stepscope.act.notify.post import post

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        slow = post(f"http://127.0.0.1:{port}/", b"{}", {}, timeout_s=0.3)
    gone = post(f"http://127.0.0.1:{port}/", b"{}", {}, timeout_s=5)
    for answer in (slow, gone):
        sent = answer.sent()
        assert (sent.is_sent, sent.is_final) == (False, False)
        assert sent.why


# ── Alertmanager ──


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def alertmanager(tmp_path: Path, hook: Hook) -> Iterator[str]:
    program = shutil.which("prometheus-alertmanager")
    if program is None:
        pytest.skip("no Alertmanager here; Debian: prometheus-alertmanager")
    config = tmp_path / "alertmanager.yml"
    config.write_text(
        "route: {receiver: hook, group_by: [job_name], group_wait: 0s, group_interval: 1s, "
        "repeat_interval: 1h}\n"
        f"receivers: [{{name: hook, webhook_configs: [{{url: 'http://127.0.0.1:{hook.port}/am'}}]}}]\n"
    )
    port = free_port()
    process = subprocess.Popen(
        [program, f"--config.file={config}", f"--storage.path={tmp_path / 'data'}",
         f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        until = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"{url}/-/ready", timeout=5):
                    break
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.service
def test_alertmanager_takes_the_alert_groups_it_and_ends_it_when_we_say(
    alertmanager: str, hook: Hook
) -> None:
    mine = sender("alertmanager", {}, url=alertmanager)
    for name in ("i-1", "i-2"):
        sent = mine.send(message("text", incident=name))
        assert sent.is_sent, sent.why
    with urllib.request.urlopen(f"{alertmanager}/api/v2/alerts", timeout=10) as answer:
        alerts = json.loads(answer.read())
    assert {a["labels"]["incident"] for a in alerts} == {"i-1", "i-2"}
    mine_ = next(a for a in alerts if a["labels"]["incident"] == "i-1")
    assert mine_["labels"]["alertname"] == "input-starvation"
    assert mine_["annotations"]["ranks"] == "0,1,2,3,7"
    assert mine_["startsAt"].startswith("2025-06-15T15:06:40")
    # Told again, worse: the same alert, not another.
    worse = message("text", state="ended", ended_ns=time.time_ns() - 1_000_000_000)
    assert mine.send(worse).is_sent
    until = time.monotonic() + 60
    resolved: set[str] = set()
    while "i-1" not in resolved and time.monotonic() < until:
        time.sleep(0.1)
        for _, _, body in hook.got:
            for alert in json.loads(body)["alerts"]:
                if alert["status"] == "resolved":
                    resolved.add(alert["labels"]["incident"])
    assert resolved == {"i-1"}
    assert max(len(json.loads(body)["alerts"]) for _, _, body in hook.got) == 2  # one group of both


# ── mail ──


class Mailbox(socketserver.ThreadingTCPServer):
    """An SMTP server that keeps mails."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        self.mails: list[bytes] = []
        super().__init__(("127.0.0.1", 0), _Smtp)


class _Smtp(socketserver.StreamRequestHandler):
    server: Mailbox

    def handle(self) -> None:
        def say(text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

        say("220 here")
        while line := self.rfile.readline():
            verb = line[:4].upper()
            if verb == b"DATA":
                say("354 go on")
                lines = []
                while (row := self.rfile.readline()) != b".\r\n":
                    lines.append(row.removeprefix(b"."))
                self.server.mails.append(b"".join(lines))
            if verb == b"QUIT":
                say("221 bye")
                return
            say("250 ok")


def test_a_mail_arrives_with_its_html_and_both_languages_are_whole() -> None:
    with Mailbox() as box:
        thread = threading.Thread(target=box.serve_forever, daemon=True)
        thread.start()
        url = f"mailto://localhost:{box.server_address[1]}?from=a@example.com&to=ops@example.com"
        mine = sender("apprise", {"MAIL": url}, url_env="MAIL")
        assert mine.markup == "html"
        sent = mine.send(message("html", lang="zh"))
        box.shutdown()
        thread.join()
    assert sent.is_sent, sent.why
    mail = message_from_bytes(box.mails[0], policy=policy.default)
    assert mail["To"] == "ops@example.com"
    assert "llm" in mail["Subject"]
    html = mail.get_body(("html",)).get_content().replace("\r", "")  # type: ignore[union-attr]
    assert "<pre>- DataLoader(d)\n+ DataLoader(d, num_workers=8)</pre>" in html
    assert "按此顺序检查" in html


# ── chat services, whose addresses are their own ──

CHATS = {
    "feishu": ("feishu://abcdefgh-1234-abcd-1234-abcdefghijkl", 20_480),
    "teams": ("workflows://example.com:443/a1b2c3/sig0nature", 28_000),
    "discord": ("discord://123456789012345678/abcdefghijklmnop", 6_000),
}
"""An address of each, and bytes that the service takes."""


@pytest.mark.parametrize("name", sorted(CHATS))
def test_chat_services_get_our_markup_as_it_is_and_no_more_than_they_take(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = pytest.importorskip("requests")
    url, most = CHATS[name]
    mine = sender("apprise", {"CHAT": url}, url_env="CHAT")
    got: list[Any] = []

    def sends(self: object, request: Any, **_: object) -> Any:
        got.append(request)
        answer = requests.Response()
        answer.status_code, answer._content, answer.request = 200, b'{"ok":true,"code":0}', request
        return answer

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", sends)
    what = message(mine.markup, evidence=tuple(f"feature_{n} {n} %" for n in range(400)))
    sent = mine.send(what)
    assert sent.is_sent, sent.why
    body = got[0].body if isinstance(got[0].body, bytes) else got[0].body.encode()
    assert len(body) <= most
    first = what.body.splitlines()[0]
    assert json.dumps(first)[1:-1] in body.decode() or first in body.decode()
    assert "num_workers=8" in body.decode() or name == "discord"
    assert "Apprise" not in body.decode()


def test_a_refusal_that_comes_with_200_is_told_and_not_taken_for_success() -> None:
    asked: list[tuple[str, dict[str, Any]]] = []
    answers = [
        b'{"errcode":310000,"errmsg":"keywords not in content"}',
        b'{"errcode":130101,"errmsg":"send too fast"}',
        b'{"errcode":0,"errmsg":"ok"}',
        b"<html>",
    ]

    def ask(url: str, body: bytes, headers: dict[str, str]) -> Answered:
        asked.append((url, json.loads(body)))
        return Answered(200, answers.pop(0))

    mine = BotSender(f"dingtalk://SECabc@{'a' * 64}", "ding", ask=ask)
    first, second, third, fourth = (mine.send(message("dingtalk", lang="zh")) for _ in range(4))
    assert (first.is_sent, first.is_final) == (False, True)
    assert (second.is_sent, second.is_final) == (False, False)
    assert third.is_sent
    assert not fourth.is_sent
    url, body = asked[0]
    assert url.startswith("https://oapi.dingtalk.com/robot/send?access_token=aaaa")
    assert "&sign=" in url
    assert body["msgtype"] == "markdown"
    assert "> + DataLoader(d, num_workers=8)" in body["markdown"]["text"]


def test_wecom_gets_markdown_within_its_4096_bytes() -> None:
    asked: list[bytes] = []

    def ask(url: str, body: bytes, headers: dict[str, str]) -> Answered:
        asked.append(body)
        return Answered(200, b'{"errcode":0}')

    mine = BotSender("wecombot://abcdefgh-1234-1234-1234-abcdefghijkl", "wecom", ask=ask)
    long = message("wecom", lang="zh", evidence=tuple(f"证据第 {n} 条" * 60 for n in range(99)))
    assert mine.send(long).is_sent
    content = json.loads(asked[0])["markdown"]["content"]
    assert len(content.encode()) <= 4096
    assert "卡片上还有" in content


def test_slack_gets_its_own_markup_and_nothing_escaped_twice() -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    def ask(url: str, body: bytes, headers: dict[str, str]) -> Answered:
        asked.append((url, json.loads(body)))
        return Answered(200, b"ok")

    mine = BotSender("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#ops", "slack", ask=ask)
    assert mine.send(message(mine.markup, job="<!channel>")).is_sent
    ((url, body),) = asked
    assert url == "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
    text = body["blocks"][1]["text"]["text"]
    assert len(text) <= 3000
    assert "*Waiting for data, 34 % of the step.*" in text
    assert "(&gt;= 10 %)" in text
    assert "<!channel>" not in text
