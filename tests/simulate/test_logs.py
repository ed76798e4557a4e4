"""Logs: five styles, each step at its time, by the clock of the host that writes."""

from __future__ import annotations

import re
from datetime import datetime, timezone

import numpy as np
import pytest

from stepscope.simulate import Config, Recording
from stepscope.simulate.clock import clock_of
from stepscope.simulate.config import LOG_STYLES
from stepscope.simulate.logs.train import style_of
from tests.simulate.conftest import Run, record

# The step and the seconds of it, as each framework writes them.
LINES = {
    "plain": r"^(?P<at>\S+ \S+) INFO step=(?P<step>\d+)/\d+ loss=.* step_time=(?P<s>[\d.]+)s",
    "megatron": r"^ \[(?P<at>[^\]]+)\] iteration +(?P<step>\d+)/ +\d+ .* iteration \(ms\): (?P<ms>[\d.]+) \|",
    "hugging-face": r"^ *\d+%\|.*\| (?P<step>\d+)/\d+ \[[\d:]+<[\d:]+, (?P<rate>[\d.]+)it/s\]",
    "torchtitan": r"^\[titan\] (?P<at>\S+ \S+) - root - INFO - step: +(?P<step>\d+) .* tps: (?P<tps>[\d,]+) ",
    "deepspeed": r"^\[(?P<at>[^\]]+)\] \[INFO\] \[timer.*global_step=(?P<step>\d+),.* CurrSamplesPerSec="
    r"(?P<sps>[\d.]+)",
}


def styled(style: str) -> Run:
    return record("loader-stall:mild", recording=(("log_style", style),), clock_offset_ms=400.0)


@pytest.mark.parametrize("style", list(LINES))
def test_every_step_has_a_line_that_says_how_long_it_took(style: str) -> None:
    run = styled(style)
    found = list(re.finditer(LINES[style], run.files["logs/train.log"], re.M))
    assert [int(m["step"]) for m in found] == list(range(1, 51))
    ends = np.array(run.cluster.step_end_ns[0])
    seconds = np.diff(ends) / 1e9
    size = run.cluster.config.sized[0]
    given = found[1].groupdict()
    if "s" in given:
        said = [float(m["s"]) for m in found]
    elif "ms" in given:
        said = [float(m["ms"]) / 1000 for m in found]
    elif "rate" in given:
        said = [1 / float(m["rate"]) for m in found]
    elif "tps" in given:
        said = [2 * size.batch * size.length / float(m["tps"].replace(",", "")) for m in found]
    else:
        said = [2 * size.batch / float(m["sps"]) for m in found]
    assert said[1:] == pytest.approx(seconds, rel=0.005)
    if "at" in given:
        clock = clock_of(run.cluster.config, 0)
        shown = [m["at"].replace(",", ".") for m in found]
        at = [datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp() for text in shown]
        local = clock.local_ns(ends) / 1e9
        assert abs(clock.offset_ns) > 1e7
        assert max(abs(np.array(at) - local)) < (1.0 if style == "megatron" else 0.002)


def test_a_seed_chooses_a_style_of_its_own() -> None:
    told = {style_of(Config(seed=seed, telemetry=Recording())) for seed in range(20)}
    assert told == set(LOG_STYLES) - {"auto"}


def test_nccls_log_tells_which_device_each_rank_has() -> None:
    run = record(ranks=8, steps=2, layers=1, seed=1)
    text = run.files["logs/nccl.log"]
    found = re.findall(
        r":(\d+):\d+ \[\d\] .* rank (\d+) nranks 8 cudaDev (\d) nvmlDev (\d) busId (\w+) .*COMPLETE", text
    )
    assert [(int(r), int(c), int(n)) for _, r, c, n, _ in found] == [
        (place.rank, place.local_rank, place.index) for place in run.places
    ]
    assert [int(pid) for pid, *_ in found] == [place.pid for place in run.places]
    assert [bus for *_, bus in found] == [f"{place.pci_bus_id[9:11].lower()}000" for place in run.places]
    assert "logs/nccl.log" not in record(ranks=1, steps=2, layers=1).files


def test_a_channel_between_hosts_is_over_their_network() -> None:
    text = record(ranks=16, steps=12, layers=1).files["logs/nccl.log"]
    assert re.findall(r"00/0 : (7\[7\].*)", text) == ["7[7] -> 8[0] [send] via NET/IB/0/GDRDMA"]
    assert "nNodes 2 localRanks 8 localRank 3" in text


def test_processes_are_listed_by_the_hosts_clock_with_what_they_use() -> None:
    run = record(seed=6)
    header, *rows = run.files["telemetry/node0.apps.csv"].splitlines()
    assert header == "timestamp, gpu_name, gpu_bus_id, gpu_uuid, pid, process_name, used_gpu_memory [MiB]"
    assert all(re.fullmatch(r"2026/09/21 \d\d:\d\d:\d\d\.\d{3}, .*, \d+ MiB", row) for row in rows)
    last = float(rows[-1].rpartition(", ")[2].removesuffix(" MiB"))
    assert last == pytest.approx(run.mean("DEV_FB_USED", 0), rel=0.01)
