"""A real Prometheus behind something that lets in by token, forbids, warns, or goes away half-way."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepscope.model.error import InputError, ServiceError, StepscopeError
from stepscope.model.sample import Telemetry
from stepscope.sources.prometheus import Limits, read_prometheus
from tests.prometheus import DCGM, Server, gpu_node, running
from tests.sources.prometheus.stub import Change, proxy

pytestmark = pytest.mark.service

MS = 1_000_000
SECONDS = 120
TOKEN = "tok-Zq9-secret"
QUICK = Limits(again_after_seconds=0.01)


@pytest.fixture(scope="module")
def begin_ms() -> int:
    return int(time.time()) // 60 * 60_000 - 600_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, begin_ms: int) -> Iterator[Server]:
    with running("prometheus", tmp_path_factory.mktemp("prometheus")) as server:
        server.write(gpu_node(begin_ms + 123, SECONDS, devices=2, interval=5))
        yield server


def read(url: str, begin_ms: int, **more: object) -> Telemetry:
    end_ms = begin_ms + SECONDS * 1000
    given = {"start_ns": begin_ms * MS, "end_ns": end_ms * MS, "margin_ns": 0, "limits": QUICK, **more}
    return read_prometheus(url, **given)  # type: ignore[arg-type]


def through(server: Server, begin_ms: int, change: Change) -> Telemetry:
    with proxy(server.port, change=change) as front:
        return read(front.url, begin_ms)


def refusal(text: str) -> tuple[int, bytes]:
    return 422, json.dumps({"status": "error", "errorType": "execution", "error": text}).encode()


def codes(telemetry: Telemetry) -> dict[str, str]:
    return {code: detail for code, _, detail in telemetry.notes}


def test_a_bearer_token_of_the_environment_lets_in(server: Server, begin_ms: int) -> None:
    with proxy(server.port, token=TOKEN) as front:
        telemetry = read(front.url + "?token_env=PROM_TOKEN", begin_ms, environment={"PROM_TOKEN": TOKEN})
        assert len(telemetry.of("power_watts")) == 2
        assert {each["authorization"] for each in front.headers} == {f"Bearer {TOKEN}"}
        assert not any(TOKEN in each for each in front.asked)
        assert TOKEN not in repr(telemetry)
        with pytest.raises(ServiceError, match="does not take this token") as caught:
            read(front.url + "?token_env=PROM_TOKEN", begin_ms, environment={"PROM_TOKEN": "another-Zq9"})
        assert "another-Zq9" not in str(caught.value)
        with pytest.raises(ServiceError, match="it wants credentials"):
            read(front.url, begin_ms)


def test_only_names_that_are_read_are_asked_for(server: Server, begin_ms: int) -> None:
    with proxy(server.port) as front:
        read(front.url, begin_ms)
    # time(), names, up; a count and the samples of each metric.
    assert len(front.asked) == 3 + 2 * (len(DCGM) + 5 + 1)
    assert all(len(each) < 4096 for each in front.asked)
    assert {each.partition("?")[0] for each in front.asked} == {
        "/api/v1/query",
        "/api/v1/label/__name__/values",
    }


def test_a_partial_answer_is_noted(server: Server, begin_ms: int) -> None:
    def warned(target: str, body: bytes) -> tuple[int, bytes] | None:
        answer = json.loads(body)
        if "POWER" in target:
            answer["warnings"] = ["store at 10.0.0.9:10901 did not answer, token=hunter2hunter2hunter2"]
        if "SM_CLOCK" in target:
            answer["isPartial"] = True
        return 200, json.dumps(answer).encode()

    telemetry = through(server, begin_ms, warned)
    partial = [note for note in telemetry.notes if note[0] == "partial_answer"]
    ((_, count, detail),) = partial
    assert count == 2
    assert detail.startswith("the server says that its answer may lack some: ")
    assert "hunter2hunter2" not in detail


def test_a_server_without_range_selectors_is_asked_at_steps(server: Server, begin_ms: int) -> None:
    refused = []

    def no_ranges(target: str, body: bytes) -> tuple[int, bytes] | None:
        is_range = "/query?" in target and "ms]&" in target and "count_over_time" not in target
        if is_range and "query=up" not in target:
            refused.append(target)
        return refusal("matrix results are not supported") if is_range else None

    telemetry = through(server, begin_ms, no_ranges)
    direct = read(server.url, begin_ms)
    assert len(refused) == 1  # it is asked so once, not for every metric
    note = codes(telemetry)["resampled"]
    assert note.startswith("read at steps of ")
    assert "times are those of the steps" not in note
    for signal in ("power_watts", "sm_active_ratio"):
        mine, theirs = telemetry.of(signal), direct.of(signal)
        assert [s.at_ns.tolist() for s in mine] == [s.at_ns.tolist() for s in theirs]
        assert [s.value.tolist() for s in mine] == [s.value.tolist() for s in theirs]


def test_times_of_steps_are_said_to_be_so(server: Server, begin_ms: int) -> None:
    def selectors_alone(target: str, body: bytes) -> tuple[int, bytes] | None:
        if "timestamp(" in target or ("/query?" in target and "ms]&" in target and "count_" not in target):
            return refusal("not supported")
        return None

    telemetry = through(server, begin_ms, selectors_alone)
    assert "times are those of the steps" in codes(telemetry)["resampled"]
    assert telemetry.time == "given"
    assert len(telemetry.of("power_watts")) == 2


def test_one_metric_that_cannot_be_read_costs_no_other(server: Server, begin_ms: int) -> None:
    def no_power(target: str, body: bytes) -> tuple[int, bytes] | None:
        return refusal("no chunk for you") if "POWER" in target and "count_over_time" not in target else None

    telemetry = through(server, begin_ms, no_power)
    assert telemetry.of("power_watts") == ()
    assert len(telemetry.of("sm_active_ratio")) == 2
    assert codes(telemetry)["partial_answer"] == "not read: DCGM_FI_DEV_POWER_USAGE (no chunk for you)"


def test_a_server_that_goes_away_half_way_leaves_what_was_read_whole(server: Server, begin_ms: int) -> None:
    asked = []

    def dies(target: str, body: bytes) -> tuple[int, bytes] | None:
        if "count_over_time" not in target and "ms]&" in target:
            asked.append(target)
        return (500, b"") if len(asked) > 6 else None

    telemetry = through(server, begin_ms, dies)
    assert "not read: " in codes(telemetry)["partial_answer"]
    assert "answers 500" in codes(telemetry)["partial_answer"]
    assert len(asked) == 7  # it is not asked for each of the rest
    assert {len(s) for s in telemetry.series if s.owner.kind == "device"} == {SECONDS // 5}


@pytest.mark.parametrize(
    "junk",
    [
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"x"]]}]}}',
        b'{"status":"success","data":' + b'{"a":' * 20_000,
        b'{"status":"error","error":"half of it"}',
        b'{"nothing": "of ours"}',
    ],
)
def test_rubbish_in_place_of_samples_is_an_error_and_no_telemetry(
    server: Server, begin_ms: int, junk: bytes
) -> None:
    def rubbish(target: str, body: bytes) -> tuple[int, bytes] | None:
        return (200, junk) if "ms]&" in target and "count_" not in target else None

    with pytest.raises(InputError, match="is this a Prometheus"):
        through(server, begin_ms, rubbish)


def test_samples_that_were_not_asked_for_are_dropped(server: Server, begin_ms: int) -> None:
    def more(target: str, body: bytes) -> tuple[int, bytes] | None:
        answer = json.loads(body)
        if "ms]&" not in target or "count_over_time" in target:
            return None
        for row in answer["data"]["result"]:
            row["values"] = [[1, "9e9"], *row["values"], [7e9, "9e9"]]
        answer["data"]["result"].append(
            {"metric": {"instance": "stranger:1"}, "values": [[begin_ms / 1e3, "1"]]}
        )
        return 200, json.dumps(answer).encode()

    telemetry = through(server, begin_ms, more)
    direct = read(server.url, begin_ms)
    assert [(s.signal, s.at_ns.tolist()) for s in telemetry.series] == [
        (s.signal, s.at_ns.tolist()) for s in direct.series
    ]


def test_a_server_that_counts_little_and_sends_much_is_stopped(server: Server, begin_ms: int) -> None:
    def lies(target: str, body: bytes) -> tuple[int, bytes] | None:
        answer = json.loads(body)
        if "count_over_time" in target:
            for row in answer["data"]["result"]:
                row["value"][1] = "1"
        return 200, json.dumps(answer).encode()

    with proxy(server.port, change=lies) as front, pytest.raises(StepscopeError) as caught:
        read(front.url, begin_ms, limits=Limits(max_samples=60))
    assert caught.value.exit_code == 5


def test_a_proxy_that_forbids_arithmetic_is_no_hindrance(server: Server, begin_ms: int) -> None:
    def no_clock(target: str, body: bytes) -> tuple[int, bytes] | None:
        return refusal("only selectors are allowed") if "time()" in target else None

    assert len(through(server, begin_ms, no_clock).of("power_watts")) == 2


def test_a_server_without_up_says_nothing_of_gaps(server: Server, begin_ms: int) -> None:
    def no_up(target: str, body: bytes) -> tuple[int, bytes] | None:
        return refusal("not this one") if "query=up{" in target else None

    assert "telemetry_gap" not in codes(through(server, begin_ms, no_up))


def test_a_server_that_ends_while_it_is_asked_is_a_service_that_cannot_be_reached(
    tmp_path: Path, begin_ms: int
) -> None:
    with running("prometheus", tmp_path) as server:
        url = server.url
    with pytest.raises(ServiceError, match="nothing listens there"):
        read(url, begin_ms)
