"""Any file of samples, known by its content; anything else refused in one line."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.model.error import InputError, RefusedError
from stepscope.model.signal import SIGNALS
from stepscope.sources.formats.exposition import read_exposition
from stepscope.sources.source import FileSource, MetricSource, sources
from stepscope.sources.telemetry import is_telemetry, read_parts, read_scrapes, read_telemetry, telemetry_of
from tests.sources.reading import note, read, values

S = 1_000_000_000
BODY = """DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"} 97
node_load1{Hostname="n1"} 3
process_resident_memory_bytes 7
"""


def test_a_file_is_read_plain_and_packed_with_the_time_in_its_name(tmp_path: Path) -> None:
    plain, packed = tmp_path / "n1_1700000000.prom", tmp_path / "n1_1700000001.prom.gz"
    plain.write_text(BODY)
    packed.write_bytes(gzip.compress(BODY.encode()))
    for path, second in ((plain, 1_700_000_000), (packed, 1_700_000_001)):
        telemetry = read_telemetry(str(path))
        assert telemetry.time == "given"
        assert telemetry.of("compute_busy_ratio")[0].at_ns.tolist() == [second * S]


def test_files_of_one_scrape_each_are_one_history() -> None:
    files = [
        (f"n1_{1_700_000_000 + 15 * n}.prom", f"node_vmstat_pgmajfault {n * 30}\n".encode())
        for n in (2, 0, 1)
    ]
    (telemetry,) = read_scrapes(files)
    assert (telemetry.time, telemetry.window_ns) == ("given", 15 * S)
    assert values(telemetry, "major_page_faults_per_second") == [2, 2]
    with pytest.raises(InputError, match="no time in the name"):
        read_scrapes([("scrape.prom", b"a 1\n")])


def test_a_body_of_two_exporters_is_two_parts_or_one_of_both() -> None:
    parts = read_parts("a", data=BODY.encode())
    assert {part.format: len(part.series) for part in parts} == {"dcgm-exporter": 1, "node-exporter": 1}
    both = read(BODY)
    assert both.format == parts[0].format
    assert (len(both.series), both.num_samples) == (2, 2)


def test_what_an_exporter_says_of_itself_is_nobodys_memory() -> None:
    assert read(BODY).of("process_resident_bytes") == ()


def test_text_and_api_and_live_answers_end_in_the_same_series() -> None:
    text = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"} 97 1700000000000\n'
    labels = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0", "Hostname": "n1"}
    api = {
        "status": "success",
        "data": {"resultType": "vector", "result": [{"metric": labels, "value": [1700000000, "97"]}]},
    }
    (live,) = telemetry_of(read_exposition(text).metrics, name="live", time="sample")
    for other in (read(text), read(json.dumps(api))):
        assert other.series[0].owner == live.series[0].owner
        assert other.series[0].at_ns.tolist() == live.series[0].at_ns.tolist() == [1_700_000_000 * S]
        assert other.series[0].value.tolist() == live.series[0].value.tolist() == [0.97]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"DCGM_FI_DEV_SM_CLOCK,  gauge, SM clock frequency (in MHz).\n", "a list of counters"),
        (b'{"__requires": [], "panels": []}', "a Grafana dashboard"),
        (b"GPU 0: NVIDIA H100 (UUID: GPU-1)\n", "a list of devices"),
        (b"GPU 0: NVIDIA H100 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n", "nvidia-smi nvlink"),
        (b"==============NVSMI LOG==============\n", "nvidia-smi -q"),
        (b"| NVIDIA-SMI 590.48.01    Driver Version: 590.48.01 |\n", "--query-gpu"),
        (b"SQLite format 3\0rest", "an SQLite file"),
        (b"PAR1\0", "Parquet"),
        (b"\0\1\2", "a binary file"),
        (b'{"a": 1}', "JSON that is no answer"),
        (b"hello\n", "no telemetry that is known"),
        (b"my_metric 1\nother_metric 2\n", r"no exporter that is known \(my_metric, other_metric\)"),
        (b"# HELP a b\n# TYPE a gauge\n", r"no exporter that is known \(a\)"),
        (b"# scraped_at_ns 1700000000000000000\n", "it holds no sample"),
        (b'{"status": "success", "data": {"resultType": "vector", "result": []}}', "it holds no sample"),
    ],
)
def test_what_is_no_telemetry_is_refused_by_what_it_is(data: bytes, what: str) -> None:
    with pytest.raises(InputError, match=what) as caught:
        read_telemetry("given", data=data)
    assert "\n" not in str(caught.value)


def test_a_missing_and_an_empty_file_are_input_errors(tmp_path: Path) -> None:
    (tmp_path / "empty.prom").touch()
    for name in ("missing.prom", "empty.prom"):
        with pytest.raises(InputError):
            read_telemetry(str(tmp_path / name))


@pytest.mark.parametrize(
    ("head", "is_one"),
    [
        (BODY.encode(), True),
        (b"index, utilization.gpu [%]\n0, 9 %\n", True),
        (b"# gpu    pwr\n# Idx      W\n    0    438\n", True),
        (b"# Entity  GRACT\n", True),
        (b"# Entity  GRACT  TENSO\n    Id\n", True),
        (b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"x', True),
        (b'{"schemaVersion": 1, "traceEvents": [', False),
        (b"loss 2.3\nlr 0.1\n", False),
        (b"step 1 loss 2.3\n", False),
        (b"rank,step,duration_ms\n0,1,5\n", False),
        (b"\x1f\x8b\0", False),
        (b"", False),
    ],
)
def test_a_folder_takes_a_file_for_telemetry_by_its_first_bytes(head: bytes, is_one: bool) -> None:
    assert is_telemetry("any", head) is is_one


SAMPLES = (
    BODY.encode(),
    b"index, utilization.gpu [%], power.draw [W]\n0, 98 %, 5 W\n",
    b"pid, gpu_uuid, process_name, used_gpu_memory [MiB]\n1, GPU-1, a, 5 MiB\n",
    b"# gpu    pwr  gtemp\n# Idx      W      C\n    0    438     55\n",
    b"# gpu   pid  type  sm  mem  command\n    0    12   C   5   1   x\n",
    b"\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-19\t0\n",
    b"# Entity  GRACT  TENSO\n   Id\n   GPU 0  0.5  0.4\n",
    b"timestamp,gpu,gfx_activity\n1786553852,0,97\n",
    b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"node_load1"},"value":[1.7e9,"1"]}]}}',
)


@given(st.binary(max_size=300))
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(InputError, RefusedError):
        read_telemetry("random", data=data)


@given(st.sampled_from(SAMPLES), st.integers(0, 200), st.binary(max_size=6), st.integers(0, 6))
def test_damaged_files_are_read_or_refused_and_make_no_value_that_cannot_be(
    whole: bytes, place: int, patch: bytes, gone: int
) -> None:
    data = whole[:place] + patch + whole[place + gone :]
    try:
        telemetry = read_telemetry("damaged", data=data)
    except (InputError, RefusedError):
        return
    for each in telemetry.series:
        signal = SIGNALS[each.signal]
        assert len(each) == len(each.value) > 0
        assert all(b > a for a, b in zip(each.at_ns, each.at_ns[1:], strict=False))
        assert all((signal.least is None or v >= signal.least) and abs(v) < 1e300 for v in each.value)


def test_a_cut_file_says_so() -> None:
    telemetry = read('DCGM_FI_DEV_GPU_UTIL{gpu="0"} 97\nDCGM_FI_DEV_GPU_UTIL{gpu="1"} 9')
    assert values(telemetry, "compute_busy_ratio") == [0.97]
    assert note(telemetry, "truncated") == 1


def test_every_source_is_one_of_two_families_and_no_two_have_one_format() -> None:
    found = sources()
    assert all(isinstance(each, FileSource | MetricSource) for each in found)
    assert len({each.format for each in found}) == len(found) == 15


def test_no_name_is_claimed_by_two_exporters() -> None:
    names = [
        "DCGM_FI_DEV_GPU_UTIL", "dcgm_gpu_temp", "nvidia_smi_index", "amd_gpu_clock", "gpu_gfx_activity",
        "npu_chip_info_power",
        "hw_power_watts", "accelerator_nvidia_x", "node_load1", "container_cpu_usage_seconds_total",
    ]  # fmt: skip
    exporters = [each for each in sources() if isinstance(each, MetricSource)]
    for name in names:
        assert sum(each.claims(name) for each in exporters) == 1, name
