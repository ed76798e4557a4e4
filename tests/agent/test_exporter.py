"""Pages of exporters: what is worked out once says the same as the readers of files."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.agent.exporter import Exporter
from stepscope.agent.source import Reading
from stepscope.sources.dcgm_field import BY_NAME
from stepscope.sources.formats.exposition import read_exposition
from stepscope.sources.telemetry import telemetry_of

S = 1_000_000_000
T0 = 1_700_000_000 * S


def line(name: str, value: object, gpu: int = 0, **labels: object) -> str:
    whole = {"gpu": gpu, "UUID": f"GPU-{gpu}", "Hostname": "n1", "modelName": "NVIDIA A100", **labels}
    pairs = ",".join(f'{key}="{each}"' for key, each in whole.items() if each != "")
    return f"{name}{{{pairs}}} {value}"


def page(*lines: str) -> str:
    return "# HELP x y\n# TYPE x gauge\n" + "\n".join(lines) + "\n"


def exporter(hold_seconds: int = 5) -> Exporter:
    return Exporter(shown="http://127.0.0.1:9400/metrics", host="n1", hold_ns=hold_seconds * S)


def told(readings: Sequence[Reading]) -> dict[tuple[object, ...], float]:
    return {
        (each.owner.uuid, each.owner.mig, each.signal): each.value
        for reading in readings
        for each in reading.samples
    }


NAMES = sorted({name for row in BY_NAME.values() for name in row.names if row.field.signal != "xid"})
rows = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from((0, 1)),
    st.sampled_from(("", "1", "2")),
    st.sampled_from(("0", "0.5", "1", "7", "95", "350.5", "1e3", "NaN", "-1", "2147483632", "140737488355328",
                     "9223372036854775792", "4294967295", "1.05", "7407936")),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(rows, min_size=1, max_size=12, unique_by=lambda row: row[:3]))
def test_the_short_way_says_what_the_long_way_says(lines: list[tuple[str, int, str, str]]) -> None:
    text = page(*(line(name, value, gpu, GPU_I_ID=mig) for name, gpu, mig, value in lines))
    parts = telemetry_of(read_exposition(text, given_ns=T0).metrics, name="x", time="scrape")
    expected = {
        (each.owner.uuid, each.owner.mig, each.signal): float(each.value[-1])
        for part in parts
        for each in part.series
    }
    found = told(exporter().page(text, T0))
    assert found.keys() == expected.keys()
    for key, value in found.items():
        assert value == pytest.approx(expected[key], rel=1e-12), key


def test_pods_and_the_vendors_name_are_taken_along() -> None:
    text = page(
        line(
            "DCGM_FI_DEV_POWER_USAGE",
            300,
            exported_pod="train-0",
            exported_namespace="ml",
            pod="dcgm-exporter",
        )
    )
    (reading,) = exporter().page(text, T0)
    (sample,) = reading.samples
    assert dict(sample.labels) == {"pod": "train-0", "namespace": "ml", "dcgm": "DCGM_FI_DEV_POWER_USAGE"}
    assert (reading.source, reading.at_ns, reading.lag_ns) == ("dcgm-exporter", T0, None)


def test_a_device_shared_in_time_is_told_once_with_both_pods() -> None:
    text = page(*(line("DCGM_FI_DEV_POWER_USAGE", 300, exported_pod=pod) for pod in ("a", "b")))
    (reading,) = exporter().page(text, T0)
    assert [dict(each.labels)["pod"] for each in reading.samples] == ["a,b"]


def test_an_xid_is_told_when_it_comes_and_an_old_one_never() -> None:
    made = exporter(hold_seconds=0)
    codes = (43, 43, 79, 79)
    events = []
    for second, code in enumerate(codes):
        text = page(line("DCGM_FI_DEV_XID_ERRORS", code), line("DCGM_FI_DEV_POWER_USAGE", 300))
        events += [each for reading in made.page(text, T0 + second * S) for each in reading.events]
    assert [(each.what, each.code, (each.at_ns - T0) // S) for each in events] == [("xid", 79, 2)]


def test_an_exporter_that_starts_anew_shows_no_device_for_a_while_and_loses_none() -> None:
    made = exporter()
    both = page(*(line("DCGM_FI_DEV_POWER_USAGE", 300, gpu) for gpu in (0, 1)))
    one = page(line("DCGM_FI_DEV_POWER_USAGE", 300))

    def told(pages: list[str], second: int) -> list[str]:
        readings = [r for n, text in enumerate(pages) for r in made.page(text, T0 + (second + n) * S)]
        return [each.what for r in readings for each in r.events]

    assert told([both, *[""] * 12, one, one, both], 0) == []
    assert told([""] * 60, 20) == ["device_vanished"] * 2  # that is no start any more
    assert told([both], 90) == ["device_found"] * 2


def test_a_device_that_leaves_the_page_and_comes_back_is_told() -> None:
    made = exporter()
    both = page(*(line("DCGM_FI_DEV_POWER_USAGE", 300, gpu) for gpu in (0, 1)))
    one = page(line("DCGM_FI_DEV_POWER_USAGE", 300))
    seen = []
    for second, text in enumerate((both, one, one, one, one, both)):
        events = [each for r in made.page(text, T0 + second * S) for each in r.events]
        seen.append([(each.what, (each.at_ns - T0) // S) for each in events])
    # Gone it is from the first page on that lacks it, and so told from the third.
    assert seen == [[], [], [], [("device_vanished", 1)], [], [("device_found", 5)]]


def test_a_device_that_one_page_or_two_lack_is_not_gone() -> None:
    made = exporter()
    both = page(*(line("DCGM_FI_DEV_POWER_USAGE", 300, gpu) for gpu in (0, 1)))
    lacking, empty = page(line("DCGM_FI_DEV_POWER_USAGE", 300)), page()
    pages = (both, lacking, both, empty, lacking, both)
    readings = [each for n, text in enumerate(pages) for each in made.page(text, T0 + n * S)]
    assert [event.what for each in readings for event in each.events] == []


@pytest.mark.parametrize("at_ns", [1_796_032_323_840_260_527, 1_796_032_323_840_260_999])
def test_devices_of_the_first_page_are_there(at_ns: int) -> None:
    # As a float either time is a later one, and everything had ended before the page did.
    told = exporter().page(page(line("DCGM_FI_DEV_XID_ERRORS", 0)), at_ns)
    assert [event for each in told for event in each.events] == []


def test_a_driver_that_was_loaded_again_is_seen_by_its_energy() -> None:
    made = exporter()
    seen = []
    for second, energy in enumerate((5000, 9000, 100)):
        text = page(line("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", energy))
        seen += [each.what for r in made.page(text, T0 + second * S) for each in r.events]
    assert seen == ["driver_back"]


def collect_of(every: int, pages: int, apart: int = 1) -> int | None:
    """What is inferred of an exporter that looks every so many seconds, asked `apart` seconds apart."""
    made = exporter()
    found = None
    for number in range(pages):
        second = number * apart
        value = 300 + (second // every * 7919) % 101
        (reading,) = made.page(page(line("DCGM_FI_DEV_POWER_USAGE", value)), T0 + second * S)
        found = reading.collect_ns
    return None if found is None else found // S


def test_how_often_an_exporter_looks_is_seen_from_values_that_stay() -> None:
    assert collect_of(30, 300) == 30
    assert collect_of(10, 100) == 10
    assert collect_of(30, 100, apart=7) in (29, 30, 31)


def test_an_exporter_that_has_new_values_each_time_tells_no_interval() -> None:
    assert collect_of(1, 60) is None
    assert collect_of(30, 20) is None  # not seen long enough


def node(second: int, idle: float, user: float, faults: int) -> str:
    cpu = "\n".join(
        f'node_cpu_seconds_total{{cpu="0",mode="{mode}"}} {value}'
        for mode, value in (("idle", idle), ("user", user), ("system", 0), ("iowait", 0))
    )
    return page(cpu, f"node_vmstat_pgmajfault {faults}", f"node_procs_running {second}")


def test_rates_of_other_exporters_run_over_the_edges_of_what_is_read_together() -> None:
    made = exporter(hold_seconds=3)
    found = []
    for second in range(12):
        readings = made.page(
            node(second, idle=0.75 * second, user=0.25 * second, faults=10 * second), T0 + second * S
        )
        found += [sample for reading in readings for sample in reading.samples]
    faults = [
        (each.at_ns or 0, each.value) for each in found if each.signal == "major_page_faults_per_second"
    ]
    assert [((at - T0) // S, value) for at, value in faults] == [(second, 10.0) for second in range(1, 10)]
    assert {each.value for each in found if each.signal == "cpu_user_ratio"} == {0.25}
    queue = [(each.at_ns or 0) for each in found if each.signal == "cpu_run_queue"]
    assert [(at - T0) // S for at in queue] == list(range(10))  # each once
    assert {each.owner.host for each in found} == {"n1"}


def test_labels_that_change_with_every_pod_fill_no_memory_and_are_told_no_longer() -> None:
    made = exporter()
    for number in range(100):
        text = page(line("DCGM_FI_DEV_POWER_USAGE", 300, exported_pod=f"p{number}"))
        (reading,) = made.page(text, T0 + number * S)
        assert dict(reading.samples[0].labels)["pod"] == f"p{number}"
    assert len(made._rows) == 1


def test_a_pod_that_shared_the_device_and_ended_is_told_no_longer() -> None:
    made = exporter()
    lines = [line("DCGM_FI_DEV_POWER_USAGE", 300, exported_pod=pod) for pod in ("a", "b")]
    made.page(page(*lines), T0)
    for second in (1, 2):
        (reading,) = made.page(page(lines[1]), T0 + second * S)
    assert dict(reading.samples[0].labels)["pod"] == "b"


def test_a_page_of_nothing_known_is_not_known() -> None:
    made = exporter()
    assert made.page("<html>hello</html>", T0) == []
    assert not made.is_known
