"""Remote write against the real stores, and what happens when they fail."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.act.post import Answer
from stepscope.agent.remote_write import RemoteWriter, columns_of, snappy
from stepscope.sources.prometheus import read_parts_of_prometheus
from tests.agent.made import NS, device, event, job, samples, series
from tests.prometheus import running


@pytest.mark.service
@pytest.mark.parametrize("kind", ["prometheus", "victoria-metrics"])
def test_a_real_store_gives_back_every_sample_with_its_time(tmp_path: Path, kind: str) -> None:
    start_s = int(time.time()) - 100
    values = [600.0 + n for n in range(60)]
    batches = []
    for first in range(0, 60, 10):  # as the agent gives them: ten seconds at a time
        rows = [
            msgspec.structs.replace(
                series(
                    signal, [each * factor for each in values[first : first + 10]], device(g), labels=job(g)
                ),
                at_ns=[(start_s + first + n) * NS for n in range(10)],
            )
            for g in range(2)
            for signal, factor in (("power_watts", 1.0), ("sm_clock_hertz", 1e6))
        ]
        batches.append(samples(*rows))
    with running(kind, tmp_path / kind) as server:
        writer = RemoteWriter(f"http://127.0.0.1:{server.port}/api/v1/write")
        for batch in batches:
            writer.update(batch)
        writer.update(event("no samples"))
        while writer.step() == 0.0:
            pass
        writer.stop()
        assert writer.state.why is None
        assert (writer.state.num_samples, writer.state.num_dropped) == (240, 0)
        if kind == "victoria-metrics":
            server.ask("/internal/force_flush")
        asked = quote("DCGM_FI_DEV_SM_CLOCK[300s]")
        told = msgspec.json.decode(server.ask(f"/api/v1/query?query={asked}&time={start_s + 99}"))
        back = read_parts_of_prometheus(server.url, start_ns=start_s * NS, end_ns=(start_s + 90) * NS)
    (first_row, _) = sorted(told["data"]["result"], key=lambda row: row["metric"]["gpu"])
    assert first_row["metric"]["rank"] == "0"
    assert [(at, float(value)) for at, value in first_row["values"]] == [
        (start_s + n, values[n]) for n in range(60)
    ]
    power = [each for part in back for each in part.series if each.signal == "power_watts"]
    assert [each.value.tolist() for each in power] == [values, values]


@given(st.binary(max_size=200_000))
def test_what_is_packed_is_what_a_reader_of_snappy_unpacks(data: bytes) -> None:
    assert _unsnappy(snappy(data)) == data


def _unsnappy(packed: bytes) -> bytes:
    """By the format's description: a length, then literals (tag 61: two bytes of length less one)."""
    at = shift = size = 0
    while True:
        size |= (packed[at] & 0x7F) << shift
        shift += 7
        at += 1
        if packed[at - 1] < 0x80:
            break
    out = bytearray()
    while at < len(packed):
        assert packed[at] == 61 << 2
        length = int.from_bytes(packed[at + 1 : at + 3], "little") + 1
        out += packed[at + 3 : at + 3 + length]
        at += 3 + length
    assert len(out) == size
    return bytes(out)


def test_two_samples_of_one_millisecond_are_one_and_none_is_not_a_number() -> None:
    row = msgspec.structs.replace(
        series("power_watts", [1.0, 2.0, float("nan")]), at_ns=[5_000_000, 5_900_000, 7_000_000]
    )
    (column,) = columns_of(samples(row))
    assert (column.at_ms, column.value) == ((5,), (2.0,))


class _Store:
    """A store that answers as it is told."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.num = 0

    def __call__(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        self.num += 1
        status = self.answers.pop(0) if self.answers else 204
        if status == 0:
            raise ConnectionRefusedError(111, "Connection refused")
        return Answer(status, b"")


def test_a_store_that_is_away_gets_its_samples_later_and_a_refusal_is_not_repeated() -> None:
    store = _Store(0, 503, 429, 204, 400, 204)
    writer = RemoteWriter("http://127.0.0.1:9/w", post=store, random_=random.Random(1))
    writer.update(samples(series("power_watts", [1, 2, 3])))
    waits = [writer.step() for _ in range(3)]
    assert waits == sorted(waits)
    assert "answers 429" in str(writer.state.why)
    assert writer.state.num_samples == 0
    writer.step()
    assert (writer.state.num_samples, writer.state.num_dropped, writer.state.why) == (3, 0, None)
    writer.update(samples(series("power_watts", [4, 5])))
    writer.step()
    assert (writer.state.num_samples, writer.state.num_dropped) == (3, 2)
    writer.step()
    assert store.num == 5


def test_samples_that_wait_are_bounded_and_the_oldest_go() -> None:
    writer = RemoteWriter("http://127.0.0.1:9/w", post=_Store(), most_samples=100)
    for second in range(50):
        writer.update(samples(series("power_watts", [1.0] * 10, second=10 * second)))
    assert writer.state.num_dropped == 400
    writer.step()
    assert writer.state.num_samples == 100


def test_a_fault_of_our_own_loses_nothing_that_was_taken() -> None:
    def broken(_body: bytes, _headers: Mapping[str, str]) -> Answer:
        raise ZeroDivisionError("planted")

    writer = RemoteWriter("http://127.0.0.1:9/w", post=broken, random_=random.Random(1))
    writer.update(samples(series("power_watts", [1, 2, 3])))
    writer.step()
    assert "zerodivisionerror: planted" in str(writer.state.why)
    writer._post = _Store(204)
    writer.step()
    assert (writer.state.num_samples, writer.state.num_dropped) == (3, 0)
