"""The address of a Prometheus as it stands on the command line.

    prometheus+http://HOST[:PORT][/PREFIX][?OPTION&OPTION…]
    prometheus+https://USER:PASSWORD@HOST/PREFIX

PREFIX is what stands before `/api/v1`: nothing, `/prometheus`, or `/select/0/prometheus` of a cluster of
VictoriaMetrics. Options, each a row of `OPTIONS`, are of ours and never sent. Secrets may come from the
environment by name, so that no command line holds them, and are never shown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from urllib.parse import quote, unquote, urlsplit

from stepscope.model.error import UsageError
from stepscope.model.redact import without_secrets

SCHEMES = ("prometheus+http", "prometheus+https")
OPTIONS: Mapping[str, str] = {
    "match": "label matchers that every series must meet, as match={cluster=\"a\"}; may be given again",
    "host": "a host whose exporters are wanted; may be given again",
    "start": "begin of the window, in place of the trace's: Unix seconds or 2026-01-31T12:00:00Z",
    "end": "end of the window",
    "step": "one sample each step, as step=30s, in place of every sample",
    "query_timeout": "the longest that one query may take, as query_timeout=60s",
    "token_env": "the environment variable that holds a bearer token",
    "password_env": "the environment variable that holds the user's password",
}  # fmt: skip
_MOST_CHARACTERS = 8192
_PORTS = {"http": 80, "https": 443}
_FORM = "prometheus+http://host:9090"
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}
_MATCHER = re.compile(
    r"""\s*([A-Za-z_][A-Za-z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')\s*(?:,|$)"""
)
_HOST = re.compile(r"[A-Za-z0-9_.\-]+|[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.\-]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where to ask, as whom and for what. `shown` is the address without secrets and options."""

    scheme: str
    host: str
    port: int
    prefix: str
    shown: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    match: tuple[str, ...] = ()
    """Matchers, each `label op "value"`: all must hold."""
    hosts: tuple[str, ...] = ()
    start_ns: int | None = None
    end_ns: int | None = None
    step_ns: int | None = None
    query_seconds: float | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be shown, even where the server sends it back."""
        return tuple(each for each in (self.password, self.token) if each)


def is_prometheus_url(text: str) -> bool:
    """Whether an argument of `--telemetry` asks a Prometheus."""
    return text.lower().startswith(tuple(f"{scheme}:" for scheme in SCHEMES))


def endpoint_of(text: str, environment: Mapping[str, str] | None = None) -> Endpoint:
    """The parts of an address. UsageError where it is none; the line never holds a secret.

    `environment` is where `token_env` and `password_env` are looked up.
    """
    if len(text) > _MOST_CHARACTERS or not text.isprintable() or " " in text.partition("?")[0]:
        raise UsageError(f"the address of a Prometheus is unreadable: write {_FORM}, blanks as %20")
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname or ""
    except ValueError:  # its message may hold the password: not passed on
        raise UsageError(
            f"the address of a Prometheus is unreadable: write {_FORM}, with / @ : # ? of a user or password "
            "as %2F %40 %3A %23 %3F"
        ) from None
    scheme = parts.scheme.lower().removeprefix("prometheus+")
    if scheme not in _PORTS or not is_prometheus_url(text):
        raise UsageError(f"not the address of a Prometheus: write {_FORM}")
    if not _HOST.fullmatch(host) or port == 0:
        raise UsageError(f"the address of a Prometheus names no host: write {_FORM}")
    if parts.fragment:
        raise UsageError("the address of a Prometheus has a fragment (#…): write # as %23 or leave it out")
    prefix = re.sub(r"/api/v1/?$", "", parts.path.rstrip("/"))
    shown_host = f"[{host}]" if ":" in host else host
    default = port is None or port == _PORTS[scheme]
    shown = f"prometheus+{scheme}://{shown_host}{'' if default else f':{port}'}{without_secrets(prefix)[0]}"
    given = _options(parts.query, shown)
    user = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password is not None else None
    token, password = _secrets(given, user, password, environment or {}, shown)
    start_ns, end_ns = (_moment(name, given.get(name), shown) for name in ("start", "end"))
    if start_ns is not None and end_ns is not None and start_ns >= end_ns:
        raise UsageError(f"{shown}: the window ends before it starts: let start be before end")
    step, query = (_duration(name, given.get(name), shown) for name in ("step", "query_timeout"))
    return Endpoint(
        scheme=scheme, host=host, port=port or _PORTS[scheme], shown=shown,
        prefix=quote(prefix, safe="/%:@!$&'()*+,;=~-._"), user=user, password=password, token=token,
        match=tuple(each for text in given.get("match", ()) for each in matchers(text, shown)),
        hosts=tuple(given.get("host", ())), start_ns=start_ns, end_ns=end_ns,
        step_ns=None if step is None else round(step * 1e9), query_seconds=query,
    )  # fmt: skip


def matchers(text: str, shown: str) -> tuple[str, ...]:
    """`{a="b",c=~"d"}` as its matchers, the braces being optional. UsageError where it is anything else."""
    inside = text.strip()
    if inside.startswith("{") and inside.endswith("}"):
        inside = inside[1:-1]
    found, at = [], 0
    while at < len(inside):
        hit = _MATCHER.match(inside, at)
        if hit is None:
            raise UsageError(
                f"{shown}: match={without_secrets(text)[0][:200]} is no list of label matchers: "
                'write match={label="value",other=~"pattern"}, without the name of a metric'
            )
        found.append(f"{hit[1]}{hit[2]}{hit[3]}")
        at = hit.end()
    return tuple(found)


def _options(query: str, shown: str) -> dict[str, list[str]]:
    given: dict[str, list[str]] = {}
    for pair in query.split("&") if query else ():
        name, has_value, value = pair.partition("=")
        if name not in OPTIONS or not has_value or not value:
            # The name alone: what stands behind it may be a secret put in the wrong place.
            raise UsageError(
                f"{shown}: {without_secrets(unquote(name))[0][:40]!r} is no option of a Prometheus address, "
                f"or has no value: there are {', '.join(OPTIONS)}"
            )
        if name in given and name not in ("match", "host"):
            raise UsageError(f"{shown}: {name} is given twice: leave one")
        given.setdefault(name, []).append(unquote(value))  # a + stays a +: patterns hold them
    return given


def _secrets(
    given: Mapping[str, list[str]],
    user: str | None,
    password: str | None,
    environment: Mapping[str, str],
    shown: str,
) -> tuple[str | None, str | None]:
    """Token and password."""
    found: dict[str, str] = {}
    for option in ("token_env", "password_env"):
        for name in given.get(option, ()):
            value = environment.get(name, "").strip()
            if not value:
                raise UsageError(
                    f"{shown}: {option} names the variable {without_secrets(name)[0][:80]}, which is not "
                    "set: export it"
                )
            if not value.isascii() or not value.isprintable():
                raise UsageError(
                    f"{shown}: the variable that {option} names holds characters that no header can carry"
                )
            found[option] = value
    if "token_env" in found and (user or password):
        raise UsageError(f"{shown}: a token and a user are given: leave one")
    if "password_env" in found:
        if user is None or password is not None:
            raise UsageError(
                f"{shown}: password_env goes with a user and no password: write USER@ before the host"
            )
        password = found["password_env"]
    return found.get("token_env"), password


def _duration(name: str, texts: list[str] | None, shown: str) -> float | None:
    """Seconds."""
    if texts is None:
        return None
    hit = _DURATION.fullmatch(texts[0])
    seconds = float(hit[1]) * _SECONDS[hit[2] or ""] if hit else 0.0
    if not 0.001 <= seconds <= 86400:
        raise UsageError(f"{shown}: {name} is no duration: write 500ms, 30s or 5m")
    return seconds


def _moment(name: str, texts: list[str] | None, shown: str) -> int | None:
    """Nanoseconds since the epoch."""
    if texts is None:
        return None
    try:
        seconds = float(texts[0])
    except ValueError:
        try:
            moment = datetime.fromisoformat(texts[0].replace("Z", "+00:00").replace("z", "+00:00"))
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:  # without a zone it would be a guess
            raise UsageError(
                f"{shown}: {name} is no time: write Unix seconds or 2026-01-31T12:00:00Z"
            ) from None
        seconds = moment.astimezone(timezone.utc).timestamp()
    if not math.isfinite(seconds) or not 0 < seconds < 8e9:
        raise UsageError(f"{shown}: {name} is no time of our age: write Unix seconds, not milliseconds")
    return round(seconds * 1e3) * 1_000_000
