"""NVML and GPM by the real binding, over a driver's library that the test commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from stepscope.agent.catalog.gpm import GpmSource
from stepscope.agent.catalog.nvml import NvmlSource
from stepscope.agent.catalog.nvml_pcie import PcieSource
from stepscope.agent.catalog.nvml_xid import XidSource
from stepscope.agent.clock import HandClock
from stepscope.agent.context import Context
from stepscope.agent.nvml import LOOK_AGAIN_NS, RESTART_NS, SUSPECT_NS, Driver
from stepscope.agent.source import NotHere, Reading
from stepscope.model.error import ServiceError
from tests.agent.nvml import Fake, fake_driver, fresh_binding

S = 1_000_000_000


@pytest.fixture
def fake() -> Iterator[Fake]:
    with fake_driver() as found:
        yield found


@pytest.fixture
def context(fake: Fake) -> Context:
    return Context(host="n1", clock=HandClock(), load_nvml=lambda: fake.binding)


def driver(context: Context) -> Driver:
    found = context.driver()
    assert found is not None
    return found


def turn(context: Context, by_ns: int) -> None:
    assert isinstance(context.clock, HandClock)
    context.clock.turn(by_ns)


def values(readings: Sequence[Reading], index: int = 0, mig: str | None = None) -> dict[str, float]:
    return {
        each.signal: each.value
        for reading in readings
        for each in reading.samples
        if each.owner.kind == "device" and (each.owner.index, each.owner.mig) == (index, mig)
    }


def whats(readings: Sequence[Reading]) -> list[tuple[str, int | None]]:
    return [
        (each.what, each.owner.index if each.owner else None)
        for reading in readings
        for each in reading.events
    ]


def test_basics_come_in_our_units(context: Context) -> None:
    found = values(NvmlSource(context, driver(context)).read(), 1)
    assert found["compute_busy_ratio"] == pytest.approx(0.9)
    assert found["power_watts"] == pytest.approx(351.0)
    assert found["memory_used_bytes"] == 20 << 30
    assert found["sm_clock_hertz"] == 1.755e9
    assert found["memory_clock_max_hertz"] == 2.619e9
    assert found["throttle_power_seconds_total"] == pytest.approx(2.5)
    assert found["energy_joules_total"] == pytest.approx(1000.0)
    assert (found["slowdown_temperature_celsius"], found["shutdown_temperature_celsius"]) == (87.0, 92.0)
    assert "nvlink_tx_bytes_per_second" not in found  # of a counter the first look tells no rate


def test_a_device_is_known_by_uuid_and_bus_and_never_by_its_number_alone(context: Context) -> None:
    (reading,) = NvmlSource(context, driver(context)).read()
    owner = reading.samples[0].owner
    assert owner.uuid == "GPU-00000000-0000-0000-0000-000000000000"
    assert (owner.pci_bus_id, owner.host, owner.index) == ("0000:3b:00.0", "n1", 0)


def test_links_are_a_rate_from_the_second_look_on_and_a_fall_tells_nothing(
    fake: Fake, context: Context
) -> None:
    source = NvmlSource(context, driver(context))
    seen = []
    for kib in (1000, 3000, 500, 1500):
        fake.set("nvlink", kib)
        seen.append(values(source.read()).get("nvlink_tx_bytes_per_second"))
        turn(context, 2 * S)
    assert seen == [None, 2000 * 1024 / 2, None, 1000 * 1024 / 2]


def test_limits_are_asked_once_a_minute(context: Context) -> None:
    source = NvmlSource(context, driver(context))
    seen = []
    for _ in range(3):
        seen.append("power_limit_default_watts" in values(source.read()))
        turn(context, 30 * S)
    assert seen == [True, False, True]


def test_what_a_device_does_not_support_is_missing_and_is_asked_once(fake: Fake, context: Context) -> None:
    fake.set("violation", 0)
    source = NvmlSource(context, driver(context))
    (first,) = source.read()
    assert first.missing["nvmlDeviceGetViolationStatus.power", "not_supported"] == 1
    assert "throttle_power_seconds_total" not in values([first])
    assert "throttle_power_seconds_total" in values([first], 1)
    before = fake.get("calls")
    source.read()
    of_second = fake.get("calls") - before
    fake.set("violation", 1)  # nobody asks it again
    (third,) = source.read()
    assert "throttle_power_seconds_total" not in values([third])
    assert fake.get("calls") - before == 2 * of_second


def test_no_driver_is_not_here_and_never_healthy(context: Context) -> None:
    context.load_nvml = _no_library
    with pytest.raises(NotHere, match="no driver"):
        NvmlSource(context, driver(context)).read()


def _no_library() -> object:
    binding = fresh_binding()
    binding.CDLL = _raises
    return binding


def _raises(name: str) -> object:
    raise OSError(name)


def test_a_lost_device_is_told_once_and_the_others_go_on(fake: Fake, context: Context) -> None:
    source = NvmlSource(context, driver(context))
    source.read()
    fake.set("lost", 1)
    readings = source.read()
    assert whats(readings) == [("device_vanished", 0)]
    assert values(readings) == {}
    assert values(readings, 1)["power_watts"] == pytest.approx(351.0)
    turn(context, LOOK_AGAIN_NS)
    assert whats(source.read()) == []


def test_a_lost_device_that_answers_again_is_found_by_a_new_start(fake: Fake, context: Context) -> None:
    source = NvmlSource(context, driver(context))
    source.read()
    fake.set("lost", 1)
    source.read()
    fake.set("lost", 0)
    turn(context, LOOK_AGAIN_NS)
    assert values(source.read()) == {}  # not asked again with the old handle
    turn(context, RESTART_NS)
    readings = source.read()
    assert ("device_found", 0) in whats(readings)
    assert "power_watts" in values(readings)
    assert fake.get("inits") == 2


def test_a_device_that_is_taken_away_is_told(fake: Fake, context: Context) -> None:
    source = NvmlSource(context, driver(context))
    source.read()
    fake.set("count", 1)
    turn(context, LOOK_AGAIN_NS)
    assert whats(source.read()) == [("device_vanished", 1)]
    fake.set("count", 2)
    turn(context, LOOK_AGAIN_NS)
    assert whats(source.read()) == [("device_found", 1)]


def test_a_driver_that_is_loaded_again_is_told_and_read_again(fake: Fake, context: Context) -> None:
    source = NvmlSource(context, driver(context))
    source.read()
    fake.set("driver", 9)
    with pytest.raises(ServiceError):
        source.read()
    with pytest.raises(ServiceError):
        source.read()
    fake.set("driver", 0)
    fake.set("energy", 5000)
    readings = source.read()
    assert [what for what, _ in whats(readings)] == ["driver_lost", "driver_back"]
    assert values(readings)["energy_joules_total"] == pytest.approx(5.0)


def test_instances_come_and_go_and_have_only_what_is_their_own(fake: Fake, context: Context) -> None:
    source = NvmlSource(context, driver(context))
    source.read()
    fake.set("mig", 2)
    turn(context, LOOK_AGAIN_NS)
    readings = source.read()
    assert whats(readings) == [("device_found", 0)] * 2
    of_instance = values(readings, 0, "3")
    assert of_instance["memory_used_bytes"] == 20 << 30
    assert "power_watts" not in of_instance
    alias = "MIG-00000000-0000-0000-0000-000000000003"
    assert context.devices.key_of(alias) == ("GPU-00000000-0000-0000-0000-000000000000", "3")
    fake.set("mig", 0)
    turn(context, LOOK_AGAIN_NS)
    assert whats(source.read()) == [("device_vanished", 0)] * 2


def test_processes_are_told_with_their_memory(fake: Fake, context: Context) -> None:
    fake.set("pid", 4711, 1)
    (reading,) = NvmlSource(context, driver(context)).read()
    found = [each for each in reading.samples if each.owner.kind == "process"]
    assert [(each.owner.pid, each.owner.index, each.value) for each in found] == [(4711, 1, 5 << 30)]
    assert context.devices.of_pids(frozenset((4711,))) == (
        ("GPU-00000001-0000-0000-0000-000000000000", None),
    )


# ── GPM ──


def test_gpm_is_over_exactly_the_time_between_two_looks(context: Context) -> None:
    source = GpmSource(context, driver(context))
    assert source.read() == []
    turn(context, S)
    (reading,) = source.read()
    assert (reading.window_ns, reading.lag_ns) == (S, 0)
    assert values([reading])["sm_active_ratio"] == pytest.approx(0.1)
    assert values([reading], 1)["sm_active_ratio"] == pytest.approx(0.2)
    assert values([reading])["pcie_tx_bytes_per_second"] == 1 << 20
    turn(context, 3 * S)
    assert [each.window_ns for each in source.read()] == [3 * S]


def test_looks_closer_than_the_driver_refreshes_are_left_out(context: Context) -> None:
    source = GpmSource(context, driver(context))
    source.read()
    turn(context, 50_000_000)
    assert source.read() == []
    turn(context, 50_000_000)
    assert [each.window_ns for each in source.read()] == [100_000_000]


def test_each_metric_has_an_answer_of_its_own(context: Context) -> None:
    source = GpmSource(context, driver(context))
    source.read()
    turn(context, S)
    (reading,) = source.read()
    assert reading.missing["HMMA_TENSOR_UTIL", "not_supported"] == 2
    assert reading.missing["IMMA_TENSOR_UTIL", "out_of_range"] == 2  # NaN
    assert not {"tensor_fp16_active_ratio", "tensor_int8_active_ratio"} & values([reading]).keys()


def test_gpm_of_an_instance_is_asked_of_its_parent_and_has_no_links(fake: Fake, context: Context) -> None:
    fake.set("mig", 1)
    source = GpmSource(context, driver(context))
    source.read()
    turn(context, S)
    found = values(source.read(), 0, "3")
    assert found["sm_active_ratio"] == pytest.approx(0.11)
    assert "pcie_tx_bytes_per_second" not in found


def test_older_devices_have_no_gpm_and_pcie_of_nvml(fake: Fake, context: Context) -> None:
    fake.set("gpm", 0, 0)
    source = PcieSource(context, driver(context))
    (reading,) = source.read()
    assert values([reading]) == {"pcie_tx_bytes_per_second": 1e6, "pcie_rx_bytes_per_second": 2e6}
    assert values([reading], 1) == {}
    fake.set("gpm", 0, 1)
    turn(context, LOOK_AGAIN_NS)
    with pytest.raises(NotHere):
        GpmSource(context, driver(context)).read()


def test_gpm_goes_on_after_the_driver_was_loaded_again(fake: Fake, context: Context) -> None:
    source = GpmSource(context, driver(context))
    source.read()
    fake.set("driver", 9)
    turn(context, S)
    with pytest.raises(ServiceError):
        source.read()
    fake.set("driver", 0)
    found = []
    for _ in range(3):
        turn(context, S)
        found += source.read()
    assert values(found)["sm_active_ratio"] == pytest.approx(0.1)


# ── Xid ──


def test_each_xid_is_told_once_with_its_device_and_meaning(fake: Fake, context: Context) -> None:
    source = XidSource(context, driver(context))
    source.read()
    fake.set("xid", 79, 1)
    fake.set("xid", 45, 1)
    (reading,) = source.read()
    assert [(each.code, each.owner.index if each.owner else None) for each in reading.events] == [
        (79, 1),
        (45, 1),
    ]
    assert "79" in reading.events[0].text
    assert source.read()[0].events == []


def test_an_answer_that_nobody_knows_makes_the_devices_be_counted_soon(fake: Fake, context: Context) -> None:
    source = NvmlSource(context, driver(context))
    source.read()
    fake.set("unknown", 1)
    (reading,) = source.read()
    assert reading.missing["nvmlDeviceGetPowerUsage", "blank"] == 1
    fake.set("unknown", 0)
    fake.set("count", 1)
    turn(context, SUSPECT_NS)
    readings = source.read()
    assert whats(readings) == [("device_vanished", 1)]
    assert "power_watts" in values(readings)
