"""Prometheus remote write 1.0: samples, with the times they were taken, to any store that takes it.

What cannot be written waits in memory, the newest `most_samples` of it: the spool is for the server, a
metrics store is a copy. Names and labels are those of `/metrics`.
"""

from __future__ import annotations

import math
import random
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from struct import pack

from stepscope.act.post import Answer, Poster
from stepscope.agent.name import Key, Named, Namer
from stepscope.agent.outage import Outage, Tell
from stepscope.agent.turn import Turns
from stepscope.model.batch import Batch, Samples

HEADERS = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
MOST_PER_REQUEST = 10_000
"""Samples of one request: receivers take 32 MB and more, these are about 2 MB."""
MOST_WAIT_S = 60.0
MOST_SERIES = 100_000


@dataclass(frozen=True, slots=True)
class Column:
    """Samples of one series, ascending in time."""

    named: Named
    at_ms: tuple[int, ...]
    value: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class WriteState:
    """How writing goes: `num_dropped` samples were given up, `why` the last request failed or `None`."""

    num_samples: int = 0
    num_dropped: int = 0
    why: str | None = None


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def write_request(columns: Iterable[Column], packed: dict[Key, bytes] | None = None) -> bytes:
    """A `prometheus.WriteRequest`: TimeSeries (1) of Label (1: name, value) and Sample (2: double,
    int64 milliseconds). `packed` remembers labels from one request to the next."""
    packed = {} if packed is None else packed
    if len(packed) > MOST_SERIES:
        packed.clear()
    out = bytearray()
    for each in columns:
        labels = packed.get(each.named.key)
        if labels is None:
            # Receivers want labels in order, the name among them.
            pairs = sorted((("__name__", each.named.name), *each.named.labels))
            texts = (_field(1, name.encode()) + _field(2, value.encode()) for name, value in pairs)
            labels = packed[each.named.key] = b"".join(_field(1, pair) for pair in texts)
        body = bytearray(labels)
        for at, number in zip(each.at_ms, each.value, strict=True):
            sample = b"\x09" + pack("<d", number) + b"\x10" + _varint(at)
            body += b"\x12" + bytes((len(sample),)) + sample
        out += b"\x0a" + _varint(len(body)) + body
    return bytes(out)


def snappy(data: bytes) -> bytes:
    """Snappy's block format of literals alone: every reader takes it, no library is needed, and it is as
    large as it was. On the node's own network that is no matter."""
    out = bytearray(_varint(len(data)))
    for at in range(0, len(data), 1 << 16):
        piece = data[at : at + (1 << 16)]
        out += bytes((61 << 2,)) + pack("<H", len(piece) - 1) + piece
    return bytes(out)


def columns_of(batch: Batch, namer: Namer | None = None) -> list[Column]:
    """The samples of a batch; none of a batch of another kind."""
    namer = namer or Namer()
    found = []
    for series in batch.series if isinstance(batch, Samples) else ():
        name = namer(series, batch.host)
        rows: dict[int, float] = {}
        for at, value in zip(series.at_ns, series.value, strict=False):
            if math.isfinite(value) and at > 0:
                rows[at // 1_000_000] = value * name.factor
        if rows:
            times = tuple(sorted(rows))
            found.append(Column(name, times, tuple(rows[at] for at in times)))
    return found


class RemoteWriter:
    """Takes batches in (`update`), writes them in a thread of its own, or by `step` for who has a clock.

    `url` is the whole address of the receiver (`http://HOST:9090/api/v1/write`). UsageError for an address
    that is none.
    """

    def __init__(
        self,
        url: str,
        token: Callable[[], str | None] | None = None,
        *,
        most_samples: int = 500_000,
        every_s: float = 2.0,
        timeout_s: float = 30.0,
        context: ssl.SSLContext | None = None,
        random_: random.Random | None = None,
        post: Callable[[bytes, Mapping[str, str]], Answer] | None = None,
    ) -> None:
        self._poster = Poster(url, token, context=context, timeout_s=timeout_s)
        self._post = post or self._poster
        self._most, self._every_s = most_samples, every_s
        self._random = random_ or random.Random()
        self._named, self._packed = Namer(), dict[Key, bytes]()
        self._lock = threading.Lock()
        self._waiting: deque[Column] = deque()
        self._num_waiting = 0
        self._num_failed = 0
        self.state = WriteState()
        self._outage = Outage("remote_write")
        self._turns = Turns("remote-write", self.step, self._fault, self._poster.cut)

    def update(self, batch: Batch) -> None:
        """Its samples are written soon."""
        columns = columns_of(batch, self._named)
        with self._lock:
            self._waiting += columns
            self._num_waiting += sum(len(each.value) for each in columns)
            num = 0
            while self._num_waiting > self._most and self._waiting:
                num += len(self._waiting[0].value)
                self._num_waiting -= len(self._waiting.popleft().value)
            if num:
                self.state = replace(self.state, num_dropped=self.state.num_dropped + num)

    def step(self) -> float:
        """Write once, if there is something: seconds until the next step."""
        with self._lock:
            taken: list[Column] = []
            num = 0
            while self._waiting and (not taken or num + len(self._waiting[0].value) <= MOST_PER_REQUEST):
                taken.append(self._waiting.popleft())
                num += len(taken[-1].value)
            self._num_waiting -= num
            is_more = bool(self._waiting)
        if not taken:
            return self._every_s
        try:
            answer = self._post(snappy(write_request(_joined(taken), self._packed)), HEADERS)
        except (OSError, UnicodeError) as error:
            return self._again(taken, num, getattr(error, "strerror", None) or str(error))
        except Exception as error:  # noqa: BLE001  a fault of ours: nothing that was taken is lost by it
            return self._again(taken, num, f"a fault of stepscope ({type(error).__name__}: {error})")
        if answer.status // 100 == 2:
            self._num_failed = 0
            self.state = replace(self.state, num_samples=self.state.num_samples + num, why=None)
            self._outage.worked()
            return 0.0 if is_more else self._every_s
        why = f"the store answers {answer.status}"
        # What it will not take now it will not take later, but for a token that is wrong today.
        if answer.status // 100 == 4 and answer.status not in (401, 403, 404, 408, 429):
            dropped = self.state.num_dropped + num
            self.state = replace(self.state, num_dropped=dropped, why=why)
            self._outage.failed(f"{self._poster.shown}: {why}")
            return self._every_s
        return self._again(taken, num, why)

    def _again(self, taken: list[Column], num: int, why: str) -> float:
        with self._lock:
            self._waiting.extendleft(reversed(taken))
            self._num_waiting += num
        self._num_failed += 1
        self.state = replace(self.state, why=f"{self._poster.shown}: {why.lower()}")
        self._outage.failed(f"{self._poster.shown}: {why.lower()}")
        most = min(0.5 * 2.0 ** min(self._num_failed, 16), MOST_WAIT_S)
        return self._random.uniform(most / 2, most)

    def start(self, tell: Tell | None = None) -> None:
        """Write until `stop`; `tell` hears when it begins to fail and when it works again."""
        self._outage.tell = tell
        self._turns.start()

    def _fault(self, error: Exception) -> float:
        self._outage.failed(f"{self._poster.shown}: a fault of stepscope ({type(error).__name__}: {error})")
        return MOST_WAIT_S

    def stop(self, flush_s: float = 2.0) -> None:
        """No more; what is under way is cut after `flush_s`."""
        self._turns.stop(flush_s)


def _joined(columns: list[Column]) -> list[Column]:
    """One column a series: a request may not name a series twice."""
    together: dict[Key, list[Column]] = {}
    for each in columns:
        together.setdefault(each.named.key, []).append(each)
    return [parts[0] if len(parts) == 1 else _one(parts) for parts in together.values()]


def _one(parts: list[Column]) -> Column:
    rows: dict[int, float] = {}
    for each in parts:
        rows.update(zip(each.at_ms, each.value, strict=True))
    times = tuple(sorted(rows))
    return Column(parts[0].named, times, tuple(rows[at] for at in times))
