"""Ships a spool to a server: at least once, in order, never faster than the server wants.

What a server may answer, and what follows, is the table `ANSWERS`; the protocol is
`docs/reference/ingest.md`.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from stepscope.act.post import Answer, Poster, parts_of
from stepscope.agent.outage import Outage, Tell, where
from stepscope.agent.shipment import Shipment
from stepscope.agent.turn import Turns
from stepscope.model.batch import Ack
from stepscope.model.error import UsageError
from stepscope.sources.formats.frame import CONTENT_TYPE, HEADER_BYTES

PATH = "/api/v1/ingest"
TOKEN_VARIABLE = "STEPSCOPE_TOKEN"
LEAST_WAIT_S, MOST_WAIT_S = 0.5, 60.0
MOST_ASKED_WAIT_S = 600.0
"""The longest that a server may make us wait at a time: it may have meant milliseconds."""
LEAST_BYTES = 1 << 16
MOST_REFUSALS = 3
"""Times that one batch alone may be called wrong before it is given up: it would hold up all others."""

Action = Literal["again", "smaller", "refused", "token"]
ANSWERS: Mapping[int, tuple[Action, str]] = {
    400: ("refused", "the server does not understand a batch"),
    401: ("token", "the server wants a token, or another one"),
    403: ("token", "the token may not write"),
    404: ("again", "there is no ingest at that address"),
    413: ("smaller", "the body is too large for the server"),
    415: ("again", "the server takes no spool"),
    422: ("refused", "the server does not understand a batch"),
    429: ("again", "the server asks to wait"),
    503: ("again", "the server is not ready"),
}
"""By status; of others, 3xx is a redirect, which is never followed, and the rest is tried again."""


class Ships(Protocol):
    """What is shipped: a spool."""

    def pending(self, most_bytes: int = ...) -> Shipment | None: ...
    def acknowledge(self, seq: int) -> bool: ...
    def give_up(self, seq: int, why: str) -> None: ...


@dataclass(frozen=True, slots=True)
class ShipState:
    """How shipping goes. `why` the last try failed, `None` where it did not; `status` of the last answer,
    `None` where none came."""

    num_requests: int = 0
    num_batches: int = 0
    num_bytes: int = 0
    num_failures: int = 0
    num_refused: int = 0
    why: str | None = None
    status: int | None = None


def token_from(environment: Mapping[str, str], path: str | None = None) -> Callable[[], str | None]:
    """Where the token is looked up before each request: a file, read anew, or the environment. Never an
    argument: command lines are seen by everybody. UsageError where the file cannot be read now."""
    if path is None:
        return lambda: (environment.get(TOKEN_VARIABLE) or "").strip() or None

    def read() -> str:
        return Path(path).read_text(encoding="utf-8").strip()

    try:
        read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: the token cannot be read; check the path and its permissions") from error
    return read


class Shipper:
    """Ships in a thread of its own, or one step at a time (`step`) for who has a clock of his own.

    `url` is the server's address, with or without `/api/v1/ingest`. Raises UsageError for an address that is
    none. A step never raises for what a network or a server does. `tell` hears when shipping begins to fail,
    and when it works again.
    """

    def __init__(
        self,
        spool: Ships,
        url: str,
        token: Callable[[], str | None] | None = None,
        *,
        most_bytes: int = 1 << 20,
        every_s: float = 2.0,
        timeout_s: float = 30.0,
        context: ssl.SSLContext | None = None,
        random_: random.Random | None = None,
        post: Callable[[bytes, Mapping[str, str]], Answer] | None = None,
        tell: Tell | None = None,
    ) -> None:
        path = parts_of(url).path.rstrip("/")
        whole = url.rstrip("/") if path.endswith(PATH) else url.rstrip("/") + PATH
        self._poster = Poster(whole, token, context=context, timeout_s=timeout_s)
        self._post = post or self._poster
        self._spool, self._every_s = spool, every_s
        self._most_bytes = self._now_bytes = max(most_bytes, 1)
        self._random = random_ or random.Random()
        self._num_failed = self._num_refusals = 0
        # Whether it waits for more only, whether more has come meanwhile, whether the server asked to wait.
        self._is_idle = self._is_wanted = self._is_asked = False
        self.state = ShipState()
        self._outage = Outage("ship", tell)
        self._turns = Turns("ship", self.step, self._fault, self._poster.cut)

    # ── one step ──

    def step(self) -> float:
        """Ship once, if there is something: seconds until the next step, 0 where there is more."""
        self._is_idle = self._is_wanted = self._is_asked = False
        wait_s = self._step()
        self._is_idle = not self._num_failed and not self._is_asked
        return 0.0 if self._is_idle and self._is_wanted else wait_s

    def _step(self) -> float:
        shipment = self._spool.pending(self._now_bytes)
        if shipment is None:
            return self._every_s
        headers = {"Content-Type": CONTENT_TYPE, "Accept": "application/json"}
        try:
            answer = self._post(shipment.body, headers)
        except (OSError, UnicodeError) as error:
            self.state = replace(self.state, status=None)
            return self._failed(f"{self._poster.shown}: {_word(error)}")
        self.state = replace(
            self.state,
            num_requests=self.state.num_requests + 1,
            num_bytes=self.state.num_bytes + len(shipment.body),
            status=answer.status,
        )
        if answer.status == 200:
            return self._acknowledged(shipment, answer)
        if 200 < answer.status < 300:
            return self._failed(f"{self._poster.shown}: an answer that is no acknowledgement")
        if 300 <= answer.status < 400:
            why = f"the server points to {where(answer.location)} ({answer.status})"
            return self._failed(
                f"{self._poster.shown}: {why}; give the right address: no redirect is followed"
            )
        action, why = ANSWERS.get(answer.status, ("again", "the server fails"))
        line = f"{self._poster.shown}: {why} ({answer.status})"
        if action == "smaller":
            return self._smaller(shipment, line)
        if action == "refused":
            return self._refused(shipment, line)
        asked = _seconds(answer.retry_after) if answer.status in (429, 503) else None
        if action == "token":
            asked = MOST_WAIT_S
        return self._failed(line, asked, is_wait=answer.status == 429)

    def _acknowledged(self, shipment: Shipment, answer: Answer) -> float:
        try:
            ack = msgspec.json.decode(answer.body, type=Ack)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self._failed(f"{self._poster.shown}: an answer that is no acknowledgement")
        # Of another agent, or of numbers that were never sent: not this server's word on these batches.
        if ack.agent != shipment.agent or not 0 <= ack.seq <= shipment.last_seq:
            return self._failed(f"{self._poster.shown}: an acknowledgement of something else")
        if not self._spool.acknowledge(ack.seq):
            return self._failed(f"{self._poster.shown}: the server keeps nothing of what it is sent")
        self._num_failed = self._num_refusals = 0
        self._now_bytes = min(self._most_bytes, 2 * self._now_bytes)
        self.state = replace(self.state, num_batches=self.state.num_batches + shipment.num_frames, why=None)
        self._outage.worked()
        wait_s = min(ack.wait_s, MOST_ASKED_WAIT_S) if ack.wait_s > 0 else 0.0
        self._is_asked = wait_s > 0
        return wait_s or (0.0 if len(shipment.body) >= self._now_bytes // 2 else self._every_s)

    def _smaller(self, shipment: Shipment, why: str) -> float:
        if shipment.num_frames == 1:
            return self._give_up(shipment, why)
        self._now_bytes = max((len(shipment.body) - HEADER_BYTES) // 2, 1)
        return self._failed(why, 0.0, is_wait=True)

    def _refused(self, shipment: Shipment, why: str) -> float:
        if shipment.num_frames > 1:
            self._now_bytes = max((len(shipment.body) - HEADER_BYTES) // 2, 1)
        else:
            self._num_refusals += 1
            if self._num_refusals >= MOST_REFUSALS:
                return self._give_up(shipment, why)
        return self._failed(why)

    def _give_up(self, shipment: Shipment, why: str) -> float:
        self._spool.give_up(shipment.last_seq, why)
        self._num_refusals = 0
        self.state = replace(self.state, num_refused=self.state.num_refused + 1)
        return self._failed(why, LEAST_WAIT_S)

    def _failed(self, why: str, asked_s: float | None = None, *, is_wait: bool = False) -> float:
        """Seconds to wait: what was asked for, else twice as long each time, with chance, so that agents of a
        whole cluster do not come back as one."""
        self._num_failed += 1
        self.state = replace(self.state, num_failures=self.state.num_failures + 1, why=why)
        self._outage.failed(why, is_wait=is_wait)
        if asked_s is not None:
            return min(max(asked_s, 0.0), MOST_ASKED_WAIT_S) * self._random.uniform(1.0, 1.25)
        most = min(LEAST_WAIT_S * 2.0 ** min(self._num_failed, 16), MOST_WAIT_S)
        return self._random.uniform(most / 2, most)

    # ── the thread ──

    def start(self, tell: Tell | None = None) -> None:
        """Ship until `stop`; `tell` in place of the one from the beginning."""
        self._outage.tell = tell or self._outage.tell
        self._turns.start()

    def hasten(self) -> None:
        """Something has come that is not to wait; a server that asked to wait, or failed, is left alone."""
        self._is_wanted = True
        if self._is_idle:
            self._turns.hasten()

    def _fault(self, error: Exception) -> float:
        return self._failed(f"{self._poster.shown}: a fault of stepscope ({_word(error)})")

    def stop(self, flush_s: float = 2.0) -> None:
        """No more steps; the one that is under way is cut after `flush_s`. The rest stays in the spool."""
        self._turns.stop(flush_s)


def _seconds(text: str | None) -> float | None:
    """Of `Retry-After`; `None` of a date or of nothing: the usual wait is used."""
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e9 else None


def _word(error: BaseException) -> str:
    """Why there was no answer, in a few words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, OSError):
        return (error.strerror or str(error) or type(error).__name__).lower()
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
