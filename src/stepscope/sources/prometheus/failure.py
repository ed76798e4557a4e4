"""What it means that a service did not answer, and what would help: two tables, of the network and of HTTP.

Pure. `{why}` is the network's or the server's own word, `{who}` what we showed it.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import zlib
from dataclasses import dataclass
from typing import Literal

Kind = Literal["service", "input", "again", "refused"]
"""`service`: it cannot be reached, lets us not in or fails. `input`: what answers is no Prometheus. `again`:
as `service`, but the same question may be answered when it is asked once more. `refused`: it will not answer
this question."""

PREFIXES = "/prometheus, or /select/0/prometheus of a cluster of VictoriaMetrics"
OTHER = f"is this a Prometheus, and is there a prefix, as {PREFIXES}?"
_LOG = "see the server's log"


@dataclass(frozen=True, slots=True)
class Failure:
    kind: Kind
    what: str
    mend: str


_CUT = Failure("again", "the connection was cut", f"ask again; if it stays, {_LOG}")
TRUNCATED = Failure("again", "the answer was cut off", f"ask again; if it stays, {_LOG}")

OF_NETWORK: tuple[tuple[tuple[type[BaseException], ...], Failure], ...] = (
    (
        (ssl.SSLCertVerificationError,),
        Failure(
            "service",
            "its certificate is not trusted ({why})",
            "name its authority's file in SSL_CERT_FILE, or write the host as the certificate has it",
        ),
    ),
    ((ssl.SSLEOFError, ssl.SSLZeroReturnError), _CUT),
    (
        (ssl.SSLError,),
        Failure(
            "service", "TLS fails ({why})", "does it speak https on this port? if not: prometheus+http://"
        ),
    ),
    (
        (socket.gaierror, UnicodeError),
        Failure("service", "no such host is known", "check the name: a cluster's own resolve only inside it"),
    ),
    (
        (ConnectionRefusedError,),
        Failure("service", "nothing listens there", "is it running, and is the port right?"),
    ),
    ((http.client.RemoteDisconnected, ConnectionError, http.client.IncompleteRead), _CUT),
    (
        (http.client.BadStatusLine, http.client.UnknownProtocol),
        Failure("input", "what answers is no HTTP", "does it speak https? then write prometheus+https://"),
    ),
    ((zlib.error,), Failure("input", "an answer that cannot be unpacked", OTHER)),
    (
        (OSError,),
        Failure("service", "cannot be reached ({why})", "is the address right, the network up?"),
    ),
    ((Exception,), Failure("input", "an answer that is no HTTP ({why})", OTHER)),
)
"""The first that fits, from the special to the general."""

_ASKS = "write USER@ before the host and password_env=NAME behind a ?, or token_env=NAME"
OF_STATUS: tuple[tuple[range, bool | None, Failure], ...] = (
    (
        range(300, 400),
        None,
        Failure(
            "input",
            "sends us on to {why}",
            "give that address: no redirect is followed, credentials might go with it",
        ),
    ),
    (range(401, 402), False, Failure("service", "answers 401: it wants credentials", _ASKS)),
    (range(403, 404), False, Failure("service", "answers 403: it wants credentials{said}", _ASKS)),
    (range(401, 402), True, Failure("service", "answers 401: it does not take this {who}{said}", "check it")),
    (
        range(403, 404),
        True,
        Failure("service", "answers 403: this {who} may not read{said}", "have it allowed to read"),
    ),
    (range(407, 408), None, Failure("service", "a proxy wants credentials", "ask without the proxy")),
    (range(429, 430), None, Failure("again", "answers 429: too many questions{said}", "wait a while")),
    (range(400, 500), None, Failure("input", "answers {status}: no Prometheus API is there{said}", OTHER)),
    (range(502, 505), None, Failure("again", "answers {status}{said}", f"wait, or {_LOG}")),
    (range(500, 600), None, Failure("service", "answers {status}{said}", _LOG)),
    (range(1000), None, Failure("input", "answers {status}{said}", OTHER)),
)
"""By status, and whether we showed credentials (`None`: either); the first that fits."""

SPEAKS_TLS = Failure("input", "speaks https on this port", "write prometheus+https://")
WEB_PAGE = Failure("input", "answers with a web page, not with JSON", OTHER)
NO_JSON = Failure("input", "answers with something that is no JSON", OTHER)
REFUSES = Failure("refused", "{said}", "")


def of_network(error: BaseException) -> Failure:
    """The row of an exception of the network."""
    return next(row for kinds, row in OF_NETWORK if isinstance(error, kinds))


def of_answer(status: int, body: bytes, has_credentials: bool) -> Failure | None:
    """The row of an answer; `None` where it is one that can be read."""
    text = body[:1000].lstrip()
    is_json = text[:1] == b"{"
    if status == 200:
        return None if is_json else WEB_PAGE if text[:1] == b"<" else NO_JSON
    if status in (400, 422) and is_json:
        return REFUSES
    if status == 400 and b"https" in text.lower():  # as Go's and nginx' servers put it
        return SPEAKS_TLS
    return next(
        row
        for statuses, with_credentials, row in OF_STATUS
        if status in statuses and with_credentials in (None, has_credentials)
    )


def word(error: BaseException) -> str:
    """What an exception says, without numbers and places in OpenSSL."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return (error.reason or "no reason given").lower().replace("_", " ")
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error) or type(error).__name__
