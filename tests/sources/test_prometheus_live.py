"""Telemetry out of a real Prometheus and a real VictoriaMetrics, seeded by remote write.

Ten minutes of a node of eight H100 under dcgm-exporter and node-exporter, and of a second node whose name
begins as the first one's.
"""

from __future__ import annotations

import contextlib
import socket
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from stepscope.model.error import InputError, RefusedError, ServiceError, UsageError
from stepscope.model.sample import Telemetry
from stepscope.sources.prometheus import Limits, read_parts_of_prometheus, read_prometheus
from stepscope.sources.prometheus.label import UNAME
from tests.prometheus import (
    DCGM,
    NODE,
    PASSWORD,
    USER,
    Server,
    Written,
    exporting,
    gpu_labels,
    gpu_node,
    running,
)

pytestmark = pytest.mark.service

SECONDS = 600
DOWN = range(300, 340)
"""The exporter of devices could not be scraped."""
PHASE_MS = 123
"""Scrapes are not on the second."""
MS = 1_000_000


@pytest.fixture(scope="module")
def begin_ms() -> int:
    """A quarter of an hour ago: VictoriaMetrics keeps a month, and nobody keeps the future."""
    return int(time.time()) // 60 * 60_000 - 900_000


@pytest.fixture(scope="module", params=["prometheus", "victoria-metrics"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, begin_ms: int
) -> Iterator[Server]:
    kind: str = request.param
    with running(kind, tmp_path_factory.mktemp(kind)) as server:
        server.write(gpu_node(begin_ms + PHASE_MS, SECONDS, without=DOWN))
        server.write(gpu_node(begin_ms + PHASE_MS + 400, SECONDS, host="gpu-node-10", devices=2, interval=15))
        server.write(noise(begin_ms))
        yield server


def noise(begin_ms: int) -> list[Written]:
    """What else is in a Prometheus: no question may ask for it."""
    labels = {"instance": "gpu-node-1:9100", "job": "node-exporter"}
    names = ["go_goroutines", "node_netstat_Tcp_InSegs", "DCGM_FI_DEV_UNHEARD_OF"]
    return [Written({"__name__": name, **labels}, [begin_ms], [1.0]) for name in names]


def read(server: Server, begin_ms: int, options: str = "", **more: object) -> Telemetry:
    """The whole window, as one source."""
    given = {"start_ns": begin_ms * MS, "end_ns": (begin_ms + SECONDS * 1000) * MS, "margin_ns": 0, **more}
    return read_prometheus(server.url + options, **given)  # type: ignore[arg-type]


def test_every_sample_comes_with_the_time_of_its_scrape(server: Server, begin_ms: int) -> None:
    telemetry = read(server, begin_ms)
    (first,) = [
        s for s in telemetry.of("sm_active_ratio") if s.owner.index == 3 and s.owner.host == "gpu-node-1"
    ]
    kept = [t for t in range(SECONDS) if t not in DOWN]
    assert first.at_ns.tolist() == [(begin_ms + PHASE_MS + 1000 * t) * MS for t in kept]
    assert first.value.tolist() == [DCGM["DCGM_FI_PROF_SM_ACTIVE"](t, 3) for t in kept]
    assert first.owner.uuid == gpu_labels(3)["UUID"]
    assert first.owner.pci_bus_id == "0000:86:00.0"
    assert telemetry.time == "scrape"
    assert telemetry.collect_ns is None  # nothing says how often dcgm-exporter itself reads


def test_units_are_ours(server: Server, begin_ms: int) -> None:
    telemetry = read(server, begin_ms, "?host=gpu-node-1")
    by = {s.signal: s for s in telemetry.series if s.owner.index in (0, None)}
    assert by["compute_busy_ratio"].value.max() == 1.0
    assert by["memory_used_bytes"].value[0] == 61_008 * 2**20
    assert by["sm_clock_hertz"].value[0] == 1.98e9
    assert by["major_page_faults_per_second"].value == pytest.approx(3.0)
    assert by["disk_read_bytes_per_second"].value == pytest.approx(2e8)
    assert by["cpu_user_ratio"].value == pytest.approx(0.6)


def test_devices_and_hosts_are_two_sources_of_one_service(server: Server, begin_ms: int) -> None:
    parts = read_parts_of_prometheus(
        server.url, start_ns=begin_ms * MS, end_ns=(begin_ms + SECONDS * 1000) * MS, margin_ns=0
    )
    assert [part.format for part in parts] == ["dcgm-exporter", "node-exporter"]
    assert parts[0].num_samples == len(DCGM) * (8 * (SECONDS - len(DOWN)) + 2 * SECONDS // 15)
    assert parts[1].num_samples == (len(NODE) + 1) * (SECONDS + SECONDS // 15)  # UNAME too
    assert {part.name for part in parts} == {server.url}


def test_a_host_is_told_from_one_whose_name_begins_as_its_own(server: Server, begin_ms: int) -> None:
    telemetry = read(server, begin_ms, "?host=gpu-node-1")
    assert {s.owner.host for s in telemetry.series} == {"gpu-node-1"}
    assert len(telemetry.of("power_watts")) == 8
    telemetry = read(server, begin_ms, hosts=["gpu-node-10"])
    assert {s.owner.host for s in telemetry.series} == {"gpu-node-10"}
    assert len(telemetry.of("power_watts")) == 2


def test_matchers_select(server: Server, begin_ms: int) -> None:
    telemetry = read(server, begin_ms, '?match={gpu=~"0|1",Hostname="gpu-node-1"}')
    assert {(s.owner.host, s.owner.index) for s in telemetry.series} == {("gpu-node-1", 0), ("gpu-node-1", 1)}
    assert telemetry.format == "dcgm-exporter"


def test_only_the_window_is_read(server: Server, begin_ms: int) -> None:
    telemetry = read(
        server, begin_ms, "?host=gpu-node-1",
        start_ns=(begin_ms + 100_000) * MS, end_ns=(begin_ms + 110_000) * MS, margin_ns=5_000 * MS,
    )  # fmt: skip
    at_ms = telemetry.of("power_watts")[0].at_ns // MS - begin_ms
    assert at_ms.tolist() == [PHASE_MS + 1000 * t for t in range(95, 115)]


def test_a_sample_on_either_edge_of_the_window_is_in_it(server: Server, begin_ms: int) -> None:
    edge = begin_ms + PHASE_MS + 50_000
    telemetry = read(server, begin_ms, start_ns=edge * MS, end_ns=(edge + 2000) * MS, hosts=["gpu-node-1"])
    assert (telemetry.of("power_watts")[0].at_ns // MS - edge).tolist() == [0, 1000, 2000]


def test_the_window_of_the_address_is_taken_as_it_is(server: Server, begin_ms: int) -> None:
    begin, end = begin_ms // 1000 + 20, begin_ms // 1000 + 30
    telemetry = read(
        server, begin_ms, f"?host=gpu-node-1&start={begin}&end={end}", start_ns=None, end_ns=None,
        margin_ns=10**12,
    )  # fmt: skip
    assert len(telemetry.of("power_watts")[0]) == 10


def test_a_target_that_was_down_is_a_gap_and_not_idle(server: Server, begin_ms: int) -> None:
    telemetry = read(server, begin_ms)
    gaps = [note for note in telemetry.notes if note[0] == "telemetry_gap" and "up = 0" in note[2]]
    ((_, count, detail),) = gaps
    assert count == len(DOWN)
    assert detail.startswith("gpu-node-1:9400 (job dcgm-exporter) could not be scraped (up = 0)")
    busy = next(s for s in telemetry.of("compute_busy_ratio") if s.owner.host == "gpu-node-1")
    assert len(busy) == SECONDS - len(DOWN)
    assert np.diff(busy.at_ns).max() == 41_000 * MS
    assert busy.value.min() == 0.4  # no 0 was made up


def test_small_questions_give_the_same_samples_as_large_ones(server: Server, begin_ms: int) -> None:
    whole = read(server, begin_ms)
    cut = read(server, begin_ms, limits=Limits(samples_per_query=700, max_address_characters=300))
    assert _samples(cut) == _samples(whole)


def test_samples_at_steps_have_the_times_of_scrapes(server: Server, begin_ms: int) -> None:
    telemetry = read(server, begin_ms, "?step=10s&host=gpu-node-1")
    power = telemetry.of("power_watts")[0]
    assert set((power.at_ns // MS - begin_ms) % 1000) == {PHASE_MS}
    assert len(power) == (SECONDS - len(DOWN)) // 10
    raw = read(server, begin_ms, "?host=gpu-node-1").of("power_watts")[0]
    where = np.searchsorted(raw.at_ns, power.at_ns)
    assert (raw.at_ns[where] == power.at_ns).all()
    assert (raw.value[where] == power.value).all()
    assert [note for note in telemetry.notes if note[0] == "resampled"] == [
        ("resampled", 1, "read at steps of 10 s, not sample by sample")
    ]


def test_a_step_of_the_scrape_interval_loses_nothing(server: Server, begin_ms: int) -> None:
    raw = read(server, begin_ms, "?host=gpu-node-10")
    stepped = read(server, begin_ms, "?host=gpu-node-10&step=5s")
    assert _samples(stepped) == _samples(raw)


def _samples(telemetry: Telemetry) -> dict[tuple[str, object], tuple[list[int], list[float]]]:
    return {(s.signal, s.owner.key): (s.at_ns.tolist(), s.value.tolist()) for s in telemetry.series}


def test_too_many_samples_are_refused_before_they_are_read(server: Server, begin_ms: int) -> None:
    with pytest.raises(RefusedError, match=r"\d\d,\d\d\d samples in .* more than 5,000; ask for fewer"):
        read(server, begin_ms, limits=Limits(max_samples=5000))


def test_a_window_without_samples_names_what_is_there_and_when_it_looked(
    server: Server, begin_ms: int
) -> None:
    at = (begin_ms - 3 * 3_600_000) * MS
    with pytest.raises(InputError) as caught:
        read(server, begin_ms, start_ns=at, end_ns=at + 60_000 * MS)
    assert "DCGM_FI_" in str(caught.value)
    assert "no sample in 20" in str(caught.value)
    assert caught.value.exit_code == 3


def test_a_window_ahead_of_the_servers_clock_says_so(server: Server, begin_ms: int) -> None:
    at = (begin_ms + 7 * 86_400_000) * MS
    with pytest.raises(InputError, match="after its clock: set the clocks"):
        read(server, begin_ms, start_ns=at, end_ns=at + 60_000 * MS)


def test_a_host_that_is_not_there_is_answered_with_those_that_are(server: Server, begin_ms: int) -> None:
    with pytest.raises(
        InputError, match="no target of host gpu-node-2 there; it has gpu-node-1, gpu-node-10"
    ):
        read(server, begin_ms, "?host=gpu-node-2")


def test_matchers_that_nothing_meets_are_said(server: Server, begin_ms: int) -> None:
    with pytest.raises(InputError, match="loosen match="):
        read(server, begin_ms, '?match=Hostname="nobody"')


def test_a_pattern_that_the_server_does_not_take_is_wrong_usage(server: Server, begin_ms: int) -> None:
    with pytest.raises(UsageError, match="refuses the matchers of match="):
        read(server, begin_ms, '?match=Hostname=~"("')


def test_a_wrong_prefix_is_told(server: Server, begin_ms: int) -> None:
    with pytest.raises(InputError, match=r"no Prometheus API is there.*is there a prefix"):
        read(server, begin_ms, "/nowhere")


def test_without_a_trace_and_without_a_window_it_is_wrong_usage(server: Server, begin_ms: int) -> None:
    with pytest.raises(UsageError, match=r"add \?start="):
        read(server, begin_ms, start_ns=None, end_ns=None)


@pytest.mark.parametrize("kind", ["prometheus", "victoria-metrics"])
def test_user_and_password_let_in_and_nothing_else_does(kind: str, tmp_path: Path, begin_ms: int) -> None:
    with running(kind, tmp_path, is_locked=True) as server:
        server.write(gpu_node(begin_ms, 60, devices=1))
        window = {"start_ns": begin_ms * MS, "end_ns": (begin_ms + 60_000) * MS}
        telemetry = read_prometheus(server.url_as(USER, PASSWORD), **window)
        assert len(telemetry.of("power_watts")[0]) == 60
        assert PASSWORD not in telemetry.name
        hidden = server.url_as(USER, "").replace(":@", "@") + "?password_env=PROM_PASSWORD"
        assert read_prometheus(hidden, environment={"PROM_PASSWORD": PASSWORD}, **window).series
        with pytest.raises(ServiceError, match="answers 401: it wants credentials") as caught:
            read_prometheus(server.url, **window)
        assert caught.value.exit_code == 4
        with pytest.raises(ServiceError, match="does not take this user and password") as caught:
            read_prometheus(server.url_as(USER, "wrong-Zq9"), **window)
        assert "wrong-Zq9" not in str(caught.value)


@pytest.mark.parametrize("kind", ["prometheus", "victoria-metrics"])
def test_a_server_may_lie_behind_a_prefix(kind: str, tmp_path: Path, begin_ms: int) -> None:
    # As a cluster of VictoriaMetrics has it; of a single one it stands for the same path.
    with running(kind, tmp_path, prefix="/select/0/prometheus") as server:
        server.write(gpu_node(begin_ms, 60, devices=1))
        window = {"start_ns": begin_ms * MS, "end_ns": (begin_ms + 60_000) * MS}
        assert len(read_prometheus(server.url, **window).of("power_watts")[0]) == 60


def test_a_question_too_large_for_prometheus_is_cut(tmp_path: Path, begin_ms: int) -> None:
    with running("prometheus", tmp_path, more=["--query.max-samples=1500"]) as server:
        server.write(gpu_node(begin_ms, SECONDS, devices=4))
        window = {"start_ns": begin_ms * MS, "end_ns": (begin_ms + SECONDS * 1000) * MS, "margin_ns": 0}
        telemetry = read_prometheus(server.url, **window)  # type: ignore[arg-type]
        assert len(telemetry.of("power_watts")) == 4
        assert {len(s) for s in telemetry.of("power_watts")} == {SECONDS}
        assert not [note for note in telemetry.notes if note[0] == "partial_answer"]


def test_a_limit_of_victoriametrics_is_passed_on_with_what_helps(tmp_path: Path, begin_ms: int) -> None:
    # It counts whole blocks of samples against its limit, so a shorter range does not help; fewer series do.
    with running("victoria-metrics", tmp_path, more=["-search.maxSamplesPerQuery=1500"]) as server:
        server.write([each for each in gpu_node(begin_ms, SECONDS, devices=4) if "UUID" in each.labels])
        window = {"start_ns": begin_ms * MS, "end_ns": (begin_ms + SECONDS * 1000) * MS, "margin_ns": 0}
        with pytest.raises(InputError, match=r"cannot select more than .*ask for fewer series \(match=\)"):
            read_prometheus(server.url, **window)  # type: ignore[arg-type]
        telemetry = read_prometheus(server.url + '?match=gpu=~"0|1"', **window)  # type: ignore[arg-type]
        assert {len(s) for s in telemetry.of("power_watts")} == {SECONDS}


def test_a_host_that_prometheus_itself_scrapes_is_read_and_its_exporters_end_is_a_gap(tmp_path: Path) -> None:
    config = (
        "scrape_configs:\n- job_name: node\n  scrape_interval: 250ms\n  scrape_timeout: 250ms\n"
        "  static_configs:\n  - targets: ['127.0.0.1:{}']\n"
    )
    begin_ns = time.time_ns()
    with contextlib.ExitStack() as exporter:
        port = exporter.enter_context(exporting(tmp_path))
        with running("prometheus", tmp_path, config=config.format(port)) as server:
            assert _comes_true(server, "count_over_time(node_load1[1m]) > 8")
            exporter.close()
            assert _comes_true(server, "count_over_time((up == 0)[1m:250ms]) > 3")
            telemetry = read_prometheus(server.url, start_ns=begin_ns, end_ns=time.time_ns(), margin_ns=0)
    assert telemetry.format == "node-exporter"
    steps = np.diff(telemetry.of("memory_available_bytes")[0].at_ns)
    assert np.median(steps) == pytest.approx(250 * MS, rel=0.2)
    assert {s.owner.host for s in telemetry.series} == {socket.gethostname()}  # by node_uname_info
    gaps = [detail for code, _, detail in telemetry.notes if code == "telemetry_gap" and "up = 0" in detail]
    assert [detail.partition(" could")[0] for detail in gaps] == [f"127.0.0.1:{port} (job node)"]


def _comes_true(server: Server, query: str) -> bool:
    """Whether a query has a result within twenty seconds."""
    for _ in range(200):
        if b'"value"' in server.ask("/api/v1/query?query=" + urllib.parse.quote(query)):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("kind", ["prometheus", "victoria-metrics"])
def test_a_host_of_another_cluster_with_the_same_name_is_not_taken_for_ours(
    kind: str, tmp_path: Path, begin_ms: int
) -> None:
    with running(kind, tmp_path) as server:
        server.write(gpu_node(begin_ms, 60, devices=1, more={"cluster": "a"}))
        server.write(gpu_node(begin_ms, 60, devices=1, more={"cluster": "b"}, without=range(20, 40)))
        window = {"start_ns": begin_ms * MS, "end_ns": (begin_ms + 60_000) * MS, "margin_ns": 0}

        def down_in(options: str) -> list[str]:
            telemetry = read_prometheus(server.url + options, **window)  # type: ignore[arg-type]
            return [detail for _, _, detail in telemetry.notes if "up = 0" in detail]

        assert down_in('?match=cluster="a"') == []
        assert len(down_in('?match=cluster="b"')) == 1
        assert len(down_in('?match=gpu="0",cluster="b"')) == 1  # `up` has no such label: asked without


@pytest.mark.parametrize("kind", ["prometheus", "victoria-metrics"])
def test_copies_of_two_scrapers_and_hosts_known_by_address_are_put_right(
    kind: str, tmp_path: Path, begin_ms: int
) -> None:
    def at(series: Written, **more: str) -> Written:
        address = series.labels["instance"].replace("gpu-node-1", "10.0.0.7")
        return Written({**series.labels, "instance": address, **more}, series.at_ms, series.value)

    with running(kind, tmp_path) as server:
        node = gpu_node(begin_ms, 120, devices=1, interval=15)
        late = gpu_node(begin_ms + 7000, 105, devices=1, interval=15)
        server.write([at(each, replica="a") for each in node if each.labels["__name__"] != "up"])
        server.write([at(each, replica="b") for each in late if each.labels["__name__"] != "up"])
        telemetry = read_prometheus(
            server.url, start_ns=begin_ms * MS, end_ns=(begin_ms + 120_000) * MS, margin_ns=0
        )
        of_host = read_prometheus(
            server.url + "?host=gpu-node-1",
            start_ns=begin_ms * MS,
            end_ns=(begin_ms + 120_000) * MS,
            margin_ns=0,
        )
    # Chosen by the name that one exporter gives, the other of the same address is of the host too.
    assert _samples(of_host) == _samples(telemetry)
    power = telemetry.of("power_watts")
    assert [s.at_ns.tolist() for s in power] == [[(begin_ms + 15_000 * k) * MS for k in range(8)]]
    # node-exporter's series say 10.0.0.7:9100 alone; dcgm-exporter's say who that is.
    assert {s.owner.host for s in telemetry.series} == {"gpu-node-1"}
    copies = len(DCGM) + len(NODE) + 1
    assert ("replica", copies, "series that several servers scraped are read once") in telemetry.notes
    assert UNAME not in {s.signal for s in telemetry.series}
