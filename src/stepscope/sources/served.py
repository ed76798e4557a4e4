"""A window out of a server of stepscope's own: `http://HOST:9500[?OPTION&OPTION…]`, asked for as a spool.

No redirect is followed and no proxy asked: the token goes to nobody else.
"""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec

from stepscope.model.error import InputError, RefusedError, ServiceError, UsageError
from stepscope.model.redact import without_secrets
from stepscope.sources.formats.frame import CONTENT_TYPE
from stepscope.version import VERSION

OPTIONS: Mapping[str, str] = {
    "run": "the run of --job that is wanted",
    "start": "begin of the window: nanoseconds since 1970, 2026-01-31T12:00:00Z, or now-1h",
    "end": "end of the window",
    "token_env": "the environment variable that holds the token, in place of STEPSCOPE_TOKEN",
}  # fmt: skip
TOKEN = "STEPSCOPE_TOKEN"
MOST_BYTES = 256 << 20
CONNECT_S, TOTAL_S = 10.0, 120.0
_CHUNK = 1 << 18
_PATH = "/api/v1/window"
_FORM = "write http://host:9500, or prometheus+http://host:9090 of a Prometheus"
_NARROW = "ask for a shorter window: ?start=…&end=…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Where to ask, and for what. `shown` is the address without options."""

    scheme: str
    host: str
    port: int
    prefix: str
    shown: str
    asked: tuple[tuple[str, str], ...] = ()
    token: str | None = field(default=None, repr=False)


class _Said(msgspec.Struct):
    error: str
    mend: str = ""


def is_served_url(text: str) -> bool:
    """Whether an argument of `--telemetry` asks a server of stepscope's own."""
    return text.lower().startswith(("http://", "https://"))


def served_of(text: str, environment: Mapping[str, str], job: str | None = None) -> Served:
    """The parts of an address. UsageError where it is none; the line holds no secret."""
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        raise UsageError(f"the address of a server is unreadable: {_FORM}") from None
    if not host or port == 0 or parts.fragment or not text.isprintable() or " " in text:
        raise UsageError(f"the address of a server is unreadable: {_FORM}")
    shown_host = f"[{host}]" if ":" in host else host
    prefix = parts.path.rstrip("/").removesuffix("/api/v1")
    shown = f"{parts.scheme}://{shown_host}{f':{port}' if port else ''}{without_secrets(prefix)[0]}"
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            f"{shown}: no credentials in the address; the token comes from {TOKEN} "
            f"(a Prometheus is asked as prometheus+{shown})"
        )
    given: dict[str, str] = {}
    for pair in parts.query.split("&") if parts.query else ():
        name, _, value = pair.partition("=")
        if name not in OPTIONS or not value or name in given:
            raise UsageError(f"{shown}: an option that is none, or twice; there are {', '.join(OPTIONS)}")
        given[name] = unquote(value)
    named = given.pop("token_env", None)
    token = environment.get(named or TOKEN, "").strip() or None
    if named and token is None:
        raise UsageError(f"{shown}: token_env names a variable that is not set; export it")
    if token is not None and not (token.isascii() and token.isprintable()):
        raise UsageError(f"{shown}: the token holds characters that no header can carry; export it again")
    asked = tuple((name, value) for name, value in (("job", job), *given.items()) if value)
    return Served(
        scheme=parts.scheme.lower(), host=host, port=port or (443 if parts.scheme.lower() == "https" else 80),
        prefix=quote(prefix, safe="/%:@!$&'()*+,;=~-._"), shown=shown, asked=asked, token=token,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fetched:
    """A window. Where no job was named: which one the server took, how many others it has, and the names of
    the newest of those."""

    body: bytes
    job: str | None = None
    num_others: int = 0
    others: tuple[str, ...] = ()


def fetch_window(served: Served, more: tuple[tuple[str, str], ...] = ()) -> Fetched:
    """The window as a segment of a spool. `more` is asked too where the address does not say it.

    ServiceError where it cannot be reached, lets us not in or fails; InputError where it is no server of
    stepscope's, or has nothing of that window; RefusedError where that is too large.
    """
    told = {name for name, _ in served.asked}
    pairs = [*served.asked, *(pair for pair in more if pair[0] not in told)]
    target = f"{served.prefix}{_PATH}{f'?{urlencode(pairs, quote_via=quote)}' if pairs else ''}"
    headers = {"Accept": CONTENT_TYPE, "User-Agent": f"stepscope/{VERSION}"}
    if served.token:
        headers["Authorization"] = f"Bearer {served.token}"
    connection: http.client.HTTPConnection
    if served.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(served.host, served.port, timeout=CONNECT_S, context=context)
    else:
        connection = http.client.HTTPConnection(served.host, served.port, timeout=CONNECT_S)
    try:
        connection.connect()
        connection.sock.settimeout(TOTAL_S / 2)
        connection.request("GET", target, headers=headers)
        answer = connection.getresponse()
        body = _body(answer, served)
    except (OSError, http.client.HTTPException) as error:
        why = (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
        mend = "is it running, is the port right, and may this machine reach it?"
        raise ServiceError(served.shown, f"cannot be reached ({without_secrets(why)[0]})", mend) from error
    finally:
        connection.close()
    if answer.status == 200 and (answer.getheader("Content-Type") or "").startswith(CONTENT_TYPE):
        return _fetched(body, answer)
    raise _wrong(served, answer.status, body)


def _fetched(body: bytes, answer: http.client.HTTPResponse) -> Fetched:
    job, num = answer.getheader("Stepscope-Job"), answer.getheader("Stepscope-Num-Other-Jobs") or ""
    names = (answer.getheader("Stepscope-Other-Jobs") or "").split(",")
    shown = [without_secrets("".join(filter(str.isprintable, unquote(each))))[0] for each in names if each]
    if job is None or not (num.isascii() and num.isdigit() and len(num) < 7):
        return Fetched(body)
    return Fetched(body, unquote(job), int(num), tuple(shown[:5]))


def _body(answer: http.client.HTTPResponse, served: Served) -> bytes:
    until_s = time.monotonic() + TOTAL_S
    body = bytearray()
    while data := answer.read1(_CHUNK):
        body += data
        if len(body) > MOST_BYTES:
            raise RefusedError(f"{served.shown}: more than {MOST_BYTES >> 20} MB; {_NARROW}")
        if time.monotonic() > until_s:
            raise ServiceError(served.shown, f"no whole answer within {TOTAL_S:g} s", _NARROW)
    if answer.length:
        raise ServiceError(served.shown, "the answer was cut off", "ask again")
    return bytes(body)


def _wrong(served: Served, status: int, body: bytes) -> ServiceError | InputError | RefusedError:
    try:
        said = msgspec.json.decode(body, type=_Said)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return InputError(served.shown, f"answers {status}: no server of stepscope's is there", _FORM)
    what, mend = (without_secrets(" ".join(each.split())[:300])[0] for each in (said.error, said.mend))
    if status in (401, 403):
        return ServiceError(served.shown, what, f"give an operator's token as {TOKEN}")
    if status == 413:
        return RefusedError(f"{served.shown}: {what}; {_NARROW}")
    if status in (400, 404):
        return InputError(served.shown, what, mend or "check the job and the times")
    return ServiceError(served.shown, what, mend or "ask again later")
