"""Servers that fail, lie, or never come to an end: one line each, within bounds, and no secret in it."""

from __future__ import annotations

import contextlib
import gzip
import os
import socket
import ssl
import time
import tracemalloc
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from stepscope.model.error import InputError, RefusedError, ServiceError, StepscopeError
from stepscope.sources.prometheus.http import Limits, QueryRefused, Service
from stepscope.sources.prometheus.url import endpoint_of
from tests.prometheus import free_port
from tests.sources.prometheus.stub import Handler, answer, proxy, sends, serving

OK = b'{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}'
QUICK = Limits(again_after_seconds=0.01, query_seconds=0.5, connect_seconds=0.5, max_answer_bytes=100_000)
SECRET = "hunter2-Zq9"


def ask(url: str, limits: Limits = QUICK) -> bytes:
    service = Service(endpoint_of(url, {"T": SECRET}), limits)
    try:
        return service.get("query", [("query", "time()")])
    finally:
        service.close()


def failure(handler: Handler, options: str = "", limits: Limits = QUICK) -> StepscopeError:
    with serving(handler) as stub, pytest.raises(StepscopeError) as caught:
        ask(stub.url + options, limits)
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)
    assert str(caught.value).startswith(stub.url)
    return caught.value


# ── status ──


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (401, b"", ServiceError, "answers 401: it wants credentials; write USER@"),
        (403, b"no", ServiceError, "answers 403: it wants credentials"),
        (404, b"404 page not found", InputError, "no Prometheus API is there"),
        (400, b"unsupported path", InputError, "no Prometheus API is there"),
        (400, b"Client sent an HTTP request to an HTTPS server.", InputError, "write prometheus+https://"),
        (500, b'{"status":"error","error":"out of disk"}', ServiceError, "answers 500 (out of disk)"),
        (503, b"<h1>no</h1>", ServiceError, "answers 503; wait"),
        (429, b"", ServiceError, "too many questions"),
        (200, b"<!DOCTYPE html><html>Grafana", InputError, "a web page, not with JSON"),
        (200, b"up 1\n", InputError, "something that is no JSON"),
        (200, b"", InputError, "something that is no JSON"),
        (204, b"", InputError, "answers 204"),
        (418, b"", InputError, "no Prometheus API is there"),
    ],
)
def test_each_answer_that_is_none_says_what_it_is(
    status: int, body: bytes, kind: type[StepscopeError], words: str
) -> None:
    error = failure(sends(answer(status, body)))
    assert type(error) is kind
    assert words in str(error)


def test_what_a_server_refuses_comes_with_its_own_word() -> None:
    for status in (400, 422):
        body = b'{"status":"error","errorType":"x","error":"query processing would load too many samples"}'
        with serving(sends(answer(status, body))) as stub, pytest.raises(QueryRefused) as caught:
            ask(stub.url)
        assert caught.value.why == "query processing would load too many samples"


def test_one_failure_is_asked_again_and_two_are_one_too_many() -> None:
    for status in (429, 502, 503, 504):
        with serving(sends(answer(status, b""), answer(200, OK))) as stub:
            assert ask(stub.url) == OK
        assert len(stub.asked) == 2
        with serving(sends(answer(status, b""), answer(status, b""), answer(200, OK))) as stub:
            with pytest.raises(ServiceError):
                ask(stub.url)
            assert len(stub.asked) == 2
    with serving(sends(answer(500, b""), answer(200, OK))) as stub, pytest.raises(ServiceError):
        ask(stub.url)
    assert len(stub.asked) == 1


# ── credentials ──


def test_credentials_go_to_the_server_that_was_named_and_to_no_other() -> None:
    with serving(sends(answer(200, OK))) as other:
        to = f"http://127.0.0.1:{other.port}/steal?token={SECRET}"
        for status in (301, 302, 303, 307, 308):
            with serving(sends(answer(status, b"", f"Location: {to}"))) as stub:
                with pytest.raises(InputError) as caught:
                    ask(stub.url + "?token_env=T")
                assert stub.headers[0]["authorization"] == f"Bearer {SECRET}"
            assert f"sends us on to http://127.0.0.1:{other.port}/steal;" in str(caught.value)
            assert SECRET not in str(caught.value)
    assert other.asked == []


def test_an_answer_that_sends_our_secret_back_is_not_shown_with_it() -> None:
    for status in (401, 403, 500):
        error = failure(sends(answer(status, b'{"error":"bad Bearer %s"}' % SECRET.encode())), "?token_env=T")
        assert "redacted" in str(error)
    basic = b"bWU6aHVudGVyMi1acTk="  # me:hunter2-Zq9
    with serving(sends(answer(403, b'{"error":"odd header %s"}' % basic))) as stub:
        with pytest.raises(ServiceError) as caught:
            ask(stub.url.replace("//", f"//me:{SECRET}@"))
        assert stub.headers[0]["authorization"] == f"Basic {basic.decode()}"
    assert basic.decode() not in str(caught.value)


def test_a_control_character_of_a_server_reaches_no_terminal() -> None:
    error = failure(sends(answer(500, b'{"error":"\\u001b[2J\\u202eevil\\n\\nnext"}')))
    assert str(error).isprintable()
    error = failure(sends(answer(302, b"", "Location: http://h/\x1b[2J")))
    assert str(error).isprintable()


def test_an_error_as_long_as_a_book_is_one_short_line() -> None:
    error = failure(sends(answer(500, b'{"error":"' + b"long " * 20_000 + b'"}')))
    assert len(str(error)) < 600


# ── time ──


def silent(connection: socket.socket, target: str, headers: dict[str, str]) -> None:
    with contextlib.suppress(OSError):
        connection.recv(1)  # until the client hangs up


def dripping(before: bytes, drop: bytes) -> Handler:
    def handler(connection: socket.socket, target: str, headers: dict[str, str]) -> None:
        with contextlib.suppress(OSError):
            connection.sendall(before)
            for _ in range(400):
                connection.sendall(drop)
                time.sleep(0.05)

    return handler


@pytest.mark.parametrize(
    "handler",
    [
        silent,
        dripping(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        dripping(b"", b"H"),
        dripping(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
        dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{", b" "),
        dripping(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n{\r\n"),
        dripping(b"HTTP/1.1 200 OK\r\n\r\n{", b" "),
    ],
    ids=["silent", "headers", "status line", "continues", "body", "chunks", "without length"],
)
def test_a_server_that_never_comes_to_an_end_is_given_up(handler: Handler) -> None:
    error = failure(handler)
    assert "no whole answer within 0.5 s" in str(error)
    assert type(error) is ServiceError


def test_time_for_all_questions_together_is_bounded() -> None:
    limits = Limits(query_seconds=0.2, total_seconds=0.4, again_after_seconds=0.01)
    with serving(sends(answer(200, OK))) as stub:
        service = Service(endpoint_of(stub.url), limits)
        ask_once = [("query", "1")]
        assert service.get("query", ask_once) == OK
        time.sleep(0.5)
        with pytest.raises(ServiceError, match=r"not done after 0\.4 s; ask for fewer hosts"):
            service.get("query", ask_once)
        service.close()


# ── bytes ──


def chunked(*parts: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + end


@pytest.mark.parametrize(
    "cut",
    [
        answer(200, OK[:20], length=len(OK)),
        chunked(OK[:20], end=b""),
        chunked(OK[:20], end=b"ff\r\n{"),
        answer(200, gzip.compress(OK)[:-9], "Content-Encoding: gzip"),
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"",
    ],
    ids=["length", "chunks", "in a chunk", "gzip", "headers", "nothing"],
)
def test_an_answer_that_is_cut_off_is_asked_again_and_then_told(cut: bytes) -> None:
    error = failure(sends(cut))
    assert type(error) is ServiceError
    assert "cut" in str(error)
    with serving(sends(cut, answer(200, OK))) as stub:
        assert ask(stub.url) == OK


def test_packed_and_chunked_answers_are_read() -> None:
    for whole in (
        answer(200, OK),
        chunked(OK[:5], OK[5:]),
        answer(200, gzip.compress(OK), "Content-Encoding: gzip"),
        b"HTTP/1.0 200 OK\r\n\r\n" + OK,
    ):
        with serving(sends(whole)) as stub:
            assert ask(stub.url) == OK


@pytest.mark.parametrize(
    "large",
    [
        answer(200, b"{" + b" " * 200_000),
        answer(200, gzip.compress(b"{" + b" " * 50_000_000), "Content-Encoding: gzip"),
        chunked(*[b"{" + b" " * 9_999] * 20),
    ],
    ids=["plain", "packed", "chunks"],
)
def test_an_answer_larger_than_its_bound_is_refused(large: bytes) -> None:
    error = failure(sends(large))
    assert type(error) is RefusedError
    assert "more than 100000 bytes; ask for fewer hosts" in str(error)


def test_an_answer_is_unpacked_no_further_than_its_bound() -> None:
    packed = answer(200, gzip.compress(b"{" + b" " * 50_000_000), "Content-Encoding: gzip")
    tracemalloc.start()
    try:
        failure(sends(packed))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


@pytest.mark.parametrize(
    "odd",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x00\x01\x02\x03" * 20 + b"\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n<",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        answer(200, OK, "Content-Encoding: gzip"),
        answer(200, OK, "Content-Encoding: br"),
    ],
    ids=["ssh", "binary", "status", "headers", "long line", "length", "chunk", "not gzip", "br"],
)
def test_what_is_no_http_is_told_in_one_line(odd: bytes) -> None:
    assert type(failure(sends(odd))) in (InputError, ServiceError)


# ── connection ──


def test_nothing_that_listens_is_a_service_that_cannot_be_reached() -> None:
    with pytest.raises(ServiceError, match="nothing listens there; is it running") as caught:
        ask(f"prometheus+http://127.0.0.1:{free_port()}")
    assert caught.value.exit_code == 4


def test_a_host_that_does_not_exist_is_said() -> None:
    with pytest.raises(ServiceError, match=r"no such host is known|cannot be reached"):
        ask("prometheus+http://no-such-host.invalid")


def test_https_spoken_to_a_plain_server_is_told() -> None:
    says = r"TLS fails .*does it speak https on this port"
    with proxy(1) as stub, pytest.raises(ServiceError, match=says):
        ask(stub.url.replace("+http:", "+https:"))


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(tmp_path))
    with serving(sends(answer(200, OK)), context) as stub, pytest.raises(ServiceError) as caught:
        ask(stub.url.replace("+http:", "+https:"))
    assert "its certificate is not trusted (self" in str(caught.value)
    assert stub.asked == []  # nothing was said to it, least of all a password


def test_a_certificate_of_a_trusted_authority_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made = certificate(tmp_path)
    context.load_cert_chain(*made)
    monkeypatch.setitem(os.environ, "SSL_CERT_FILE", made[0])
    with serving(sends(answer(200, OK)), context) as stub:
        assert ask(stub.url.replace("+http://127.0.0.1", "+https://localhost")) == OK
        with pytest.raises(ServiceError, match="certificate is not trusted"):  # it is of localhost
            ask(stub.url.replace("+http:", "+https:"))


def certificate(folder: Path) -> tuple[str, str]:
    """A certificate of `localhost` that signs itself, and its key: their files."""
    x509 = pytest.importorskip("cryptography.x509", reason="no cryptography: no certificate can be made")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))
    private = serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(pem, private, serialization.NoEncryption()))
    return str(folder / "cert.pem"), str(folder / "key.pem")
