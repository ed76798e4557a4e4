"""The text of `/metrics`: names, labels, what is gone, and what promtool says of it."""

from __future__ import annotations

import gzip
import http.client
import shutil
import subprocess
from pathlib import Path

import pytest

from stepscope.agent.metrics import Exposition, serve
from stepscope.agent.ship import Shipper
from stepscope.agent.spool import Spool
from stepscope.model.batch import BatchOwner, Marks
from stepscope.model.error import UsageError
from stepscope.sources.formats.exposition import read_exposition
from stepscope.sources.telemetry import telemetry_of
from tests.agent.made import HOST, device, event, job, node_second, samples, series


def _lines(text: str, name: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith((name + "{", name + " "))]


def test_a_field_of_dcgm_keeps_its_name_labels_and_unit() -> None:
    shown = Exposition()
    rows = [
        series("sm_clock_hertz", 1.98e9, labels={"dcgm": "DCGM_FI_DEV_SM_CLOCK", "pod": "train-0"}),
        series("compute_busy_ratio", 0.97, labels={"dcgm": "DCGM_FI_DEV_GPU_UTIL_RATIO"}),
        series("energy_joules_total", 1234.567, labels={"dcgm": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"}),
    ]
    shown.update(samples(*rows, source="dcgm-exporter"))
    text = shown.text()
    assert _lines(text, "DCGM_FI_DEV_SM_CLOCK") == [
        'DCGM_FI_DEV_SM_CLOCK{Hostname="gpu-node-1",UUID="GPU-00000000-0000-4000-8000-000000000000",'
        'device="nvidia0",gpu="0",modelName="NVIDIA H100 80GB HBM3",pci_bus_id="00000000:53:00.0",'
        'pod="train-0"} 1980'
    ]
    assert _lines(text, "DCGM_FI_DEV_GPU_UTIL_RATIO")[0].endswith(" 97")
    assert _lines(text, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")[0].endswith(" 1234567")
    assert "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter" in text
    assert "dcgm=" not in text


def test_what_nvml_read_has_the_name_that_dcgm_would_give_it() -> None:
    shown = Exposition()
    shown.update(samples(series("power_watts", 612.5), series("sm_active_ratio", 0.82)))
    text = shown.text()
    assert _lines(text, "DCGM_FI_DEV_POWER_USAGE")[0].endswith(" 612.5")
    assert _lines(text, "DCGM_FI_PROF_SM_ACTIVE")[0].endswith(" 0.82")


def test_another_vendors_device_and_the_host_get_names_of_ours_in_base_units() -> None:
    shown = Exposition()
    other = BatchOwner(uuid="a7ff740c-0000-1000-80d6-000000000000", index=3, model="MI300X", host=HOST)
    host = BatchOwner(kind="host", host=HOST)
    shown.update(samples(series("power_watts", 700, other), series("cpu_iowait_ratio", 0.25, host)))
    text = shown.text()
    assert "DCGM" not in text
    assert _lines(text, "stepscope_cpu_iowait_ratio") == [
        'stepscope_cpu_iowait_ratio{host="gpu-node-1"} 0.25'
    ]
    assert _lines(text, "stepscope_power_watts") == [
        'stepscope_power_watts{gpu="3",host="gpu-node-1",model="MI300X",'
        'uuid="a7ff740c-0000-1000-80d6-000000000000"} 700'
    ]


def test_our_own_reader_gets_back_the_samples_that_went_in() -> None:
    shown = Exposition()
    rows = [
        series("sm_clock_hertz", 1.98e9, device(0), labels=job(0)),
        series("memory_used_bytes", 61_008 * 2**20, device(1), labels=job(1)),
        series("sm_active_ratio", 0.5, device(1), labels=job(1)),
    ]
    shown.update(samples(*rows))
    back = telemetry_of(read_exposition(shown.text()).metrics, name="x", time="scrape")
    found = {(each.signal, each.owner.uuid): float(each.value[-1]) for part in back for each in part.series}
    for row in rows:
        assert found[row.signal, row.owner.uuid] == row.value[-1]
    ranks = {owner.uuid: told["rank"] for owner, told in back[0].labels.items()}
    assert ranks == {device(0).uuid: "0", device(1).uuid: "1"}


def test_the_step_is_a_value_and_no_label() -> None:
    shown = Exposition()
    shown.update(samples(series("power_watts", 600.0, labels=job(0), steps=(17, 18))))
    marks = Marks(
        agent="", seq=0, host=HOST, ring="a.ring", identity={"job": "llama", "run": "r1", "rank": 0},
        names=[],
        number=[0, 1, 2], record_kind=[1, 2, 6], flags=[0] * 3, step=[-1, 18, 18], mono_ns=[1, 2, 3],
        real_ns=[1, 2, 3], a=[0] * 3, b=[0.0] * 3, c=[0.0] * 3,
    )  # fmt: skip
    shown.update(marks)
    text = shown.text()
    line = 'stepscope_step{host="gpu-node-1",job="llama",rank="0",run="r1"} 18'
    assert _lines(text, "stepscope_step") == [line]
    assert 'step="' not in text


def test_a_series_that_nobody_measures_any_more_is_gone_after_a_minute() -> None:
    now_s = [0.0]
    shown = Exposition(stale_s=60, monotonic_s=lambda: now_s[0])
    shown.update(samples(series("power_watts", 1.0, device(0)), series("power_watts", 2.0, device(1))))
    now_s[0] = 50
    shown.update(samples(series("power_watts", 3.0, device(1))))
    assert len(_lines(shown.text(), "DCGM_FI_DEV_POWER_USAGE")) == 2
    now_s[0] = 70
    (left,) = _lines(shown.text(), "DCGM_FI_DEV_POWER_USAGE")
    assert 'gpu="1"' in left
    assert left.endswith(" 3")


def test_the_agents_own_cost_and_its_spool_are_told(tmp_path: Path) -> None:
    shown = Exposition()
    spool = Spool(tmp_path, is_threaded=False)
    shown.watch(spool, Shipper(spool, "http://127.0.0.1:9"))
    for second in range(3):
        batch = samples(series("power_watts", [1, 2, 3], second=3 * second))
        spool.append(batch)
        shown.update(batch)
    spool.acknowledge(2)
    text = shown.text()
    assert "stepscope_agent_samples_total 9" in text
    assert "stepscope_agent_acknowledged_seq 2" in text
    assert "stepscope_agent_last_seq 3" in text
    assert "stepscope_agent_dropped_total 0" in text
    assert float(_lines(text, "stepscope_agent_resident_bytes")[0].split()[1]) > 5e6
    assert float(_lines(text, "stepscope_agent_cpu_seconds_total")[0].split()[1]) > 0
    spool.close()


HOSTILE = 'a"b\\c\nd\u2028é{}'


def test_no_label_breaks_the_text() -> None:
    shown = Exposition()
    labels = {"pod": HOSTILE, "bad-name": "x", "__name__": "y", "empty": ""}
    shown.update(samples(series("power_watts", 1.0, labels=labels)))
    text = shown.text()
    (metric,) = [each for each in read_exposition(text).metrics if each.name == "DCGM_FI_DEV_POWER_USAGE"]
    assert metric.labels["pod"] == HOSTILE
    assert not {"bad-name", "__name__", "empty"} & set(metric.labels)


def _promtool(text: str) -> list[str]:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool: the Debian package prometheus brings it")
    found = subprocess.run(
        [program, "check", "metrics"], input=text.encode(), capture_output=True, timeout=60
    )
    return found.stderr.decode().splitlines() + found.stdout.decode().splitlines()


def test_promtool_finds_nothing_wrong_with_names_of_ours(tmp_path: Path) -> None:
    shown = Exposition()
    spool = Spool(tmp_path, is_threaded=False)
    shown.watch(spool, Shipper(spool, "http://127.0.0.1:9"))
    host = BatchOwner(kind="host", host=HOST)
    other = BatchOwner(uuid="x", index=0, host=HOST)
    signals = ["cpu_iowait_ratio", "cpu_run_queue", "disk_read_bytes_per_second", "filesystem_size_bytes"]
    rows = [series(each, 1.0, host) for each in signals]
    rows += [series(each.signal, 1.0, other) for each in node_second(0, 1).series]
    shown.update(samples(*rows))
    spool.close()
    assert _promtool(shown.text()) == []


def test_of_dcgms_names_promtool_dislikes_only_what_dcgm_exporter_has_too() -> None:
    shown = Exposition()
    shown.update(node_second(1))
    said = _promtool(shown.text())
    assert said
    for line in said:
        assert line.startswith("DCGM_")
        assert "camelCase" in line or '"_total" suffix' in line


def _get(port: int, path: str, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_the_page_is_served_on_loopback_and_says_when_it_is_ready() -> None:
    shown = Exposition()
    server = serve("127.0.0.1", 0, shown)
    try:
        assert _get(server.port, "/-/ready")[0] == 503
        shown.update(event("something"))
        shown.update(node_second(1))
        assert _get(server.port, "/-/ready")[0] == 200
        assert _get(server.port, "/-/healthy") == (200, b"healthy\n")
        packed = _get(server.port, "/metrics", **{"Accept-Encoding": "gzip"})[1]
        assert len(_lines(gzip.decompress(packed).decode(), "DCGM_FI_DEV_POWER_USAGE")) == 8
        assert _get(server.port, "/secret")[0] == 404
        with pytest.raises(UsageError, match="cannot listen"):
            serve("127.0.0.1", server.port, shown)
    finally:
        server.stop()
