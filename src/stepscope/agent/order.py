"""Takes a server's orders: a long request that waits there for them, again and again.

The same rules as shipping: the token is looked up before each request, no redirect is followed, an outage is
said once, waits grow and have chance in them. What is done with an order: `agent/obey.py`.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable
from urllib.parse import quote

import msgspec

from stepscope.act.post import Answer, Poster, parts_of
from stepscope.agent.outage import Outage, Tell, where
from stepscope.agent.ship import ANSWERS, LEAST_WAIT_S, MOST_WAIT_S, PATH
from stepscope.agent.turn import Turns
from stepscope.model.order import Order, Orders

WAIT_S = 20.0
"""How long the server is to wait for an order."""
NONE_S = 60.0
"""Until a server that knows of no orders is asked again."""
LEAST_S = 0.02
"""Between two requests: a server that answers at once is not asked without end."""


class OrderTaker:
    """Asks for orders in a thread of its own, or one request at a time (`step`); each goes to `obey`, which
    must not block. `url` is the server's address, as the shipper takes it: UsageError where it is none."""

    def __init__(
        self,
        agent: str,
        url: str,
        token: Callable[[], str | None] | None,
        obey: Callable[[Order], None],
        *,
        wait_s: float = WAIT_S,
        context: ssl.SSLContext | None = None,
        random_: random.Random | None = None,
    ) -> None:
        base = base_of(url)
        self._poster = Poster(base, token, context=context, timeout_s=wait_s + 15.0)
        self._target = f"{parts_of(base).path}/api/v1/agents/{quote(agent, safe='')}/orders"
        self._obey, self._wait_s = obey, wait_s
        self._random = random_ or random.Random()
        self._after = -1
        self._num_failed = 0
        self._is_over = False
        self._outage = Outage("orders")
        self._turns = Turns("orders", self.step, self._fault, self._poster.cut)

    def step(self) -> float:
        """One request: seconds until the next."""
        asked = f"{self._target}?after={self._after}&wait_s={self._wait_s:g}"
        try:
            answer = self._poster.ask("GET", asked, None, {"Accept": "application/json"})
        except (OSError, UnicodeError) as error:
            if self._is_over:
                return 0.0  # cut by us
            why = (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
            return self._failed(f"{self._poster.shown}: no orders ({why})")
        if answer.status != 200:
            return self._refused(answer)
        try:
            orders = msgspec.json.decode(answer.body, type=Orders)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self._failed(f"{self._poster.shown}: an answer that holds no orders")
        self._num_failed = 0
        self._outage.worked()
        self._after = orders.next
        for order in orders.orders:
            self._obey(order)
        return LEAST_S

    def _refused(self, answer: Answer) -> float:
        if answer.status in (404, 501):  # it only takes what is shipped: no fault of anybody's
            self._outage.worked()
            return self._random.uniform(NONE_S / 2, NONE_S)
        if 300 <= answer.status < 400:
            why = f"the server points to {where(answer.location)}; no redirect is followed"
        else:
            why = ANSWERS.get(answer.status, ("again", "the server fails"))[1]
        wait_s = self._failed(f"{self._poster.shown}: no orders: {why} ({answer.status})")
        return MOST_WAIT_S if answer.status in (401, 403) else wait_s

    def _failed(self, why: str) -> float:
        self._num_failed += 1
        self._outage.failed(why)
        most = min(LEAST_WAIT_S * 2.0 ** min(self._num_failed, 16), MOST_WAIT_S)
        return self._random.uniform(most / 2, most)

    def _fault(self, error: Exception) -> float:
        return self._failed(f"{self._poster.shown}: a fault of stepscope ({type(error).__name__}: {error})")

    def start(self, tell: Tell) -> None:
        """Ask until `stop`; `tell` hears when that begins to fail, and when it works again."""
        self._outage.tell = tell
        self._turns.start()

    def stop(self) -> None:
        """Ask no more; the request that waits is cut."""
        self._is_over = True
        self._turns.stop(0.1)


def base_of(url: str) -> str:
    """The server's address without the path of its ingest."""
    return url.rstrip("/").removesuffix(PATH)


__all__ = ["OrderTaker", "base_of"]
