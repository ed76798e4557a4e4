"""That shipping fails is said once, and once that it works again: not for each try, nor for each blink."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from stepscope.model.redact import without_secrets

Tell = Callable[[str, str], object]
"""What happened, and the line to say."""
STEADY = 30
"""Successes after which a single failure is news again."""
LASTING = 3
"""Failures in a row that are told in any case, also of who is asked to wait or has only just come back."""
MOST_REASONS = 5
MOST_CHARACTERS = 200


class Outage:
    """Of one receiver. `name` begins the words of its events: `NAME_failing` and `NAME_back`."""

    def __init__(self, name: str, tell: Tell | None = None) -> None:
        self._name, self.tell = name, tell
        self._num_failed, self._num_good = 0, STEADY
        self._told: set[str] = set()

    def failed(self, why: str, *, is_wait: bool = False) -> None:
        """A try has failed. `is_wait`: the receiver is only asking to wait. Another reason while it lasts is
        told too: a server that is away may want another token when it comes back."""
        self._num_failed += 1
        is_news = self._num_failed >= LASTING or (self._num_good >= STEADY and not is_wait)
        if (is_news or self._told) and why not in self._told and len(self._told) < MOST_REASONS:
            self._told.add(why)
            self._say("failing", why)

    def worked(self) -> None:
        """A try has worked."""
        self._num_good = min(self._num_good + 1, STEADY)
        if self._told:
            self._num_good = 0
            self._told.clear()
            self._say("back", f"works again, after {self._num_failed} tries that failed")
        self._num_failed = 0

    def _say(self, what: str, text: str) -> None:
        if self.tell is not None:
            self.tell(f"{self._name}_{what}", text)


def where(location: str | None) -> str:
    """To where a redirect points, without credentials and query; the receiver's word, so it is bounded."""
    try:
        parts = urlsplit(location or "")
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        host, parts = "", urlsplit("")
    shown = f"{parts.scheme}://{host}{parts.path}" if host else parts.path
    plain = "".join(each for each in shown if each.isprintable())[:MOST_CHARACTERS]
    return without_secrets(plain)[0] or "an address that is none"
