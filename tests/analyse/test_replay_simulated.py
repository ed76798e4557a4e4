"""Simulated jobs with a fault: what the replay predicts without it, against the same job simulated
without."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from stepscope.analyse.linked import link_trace
from stepscope.analyse.rank import analyse_rank
from stepscope.analyse.replay.job import replay
from stepscope.model import report
from stepscope.model.trace import ABSENT_I64, I64, Trace
from stepscope.simulate import Config, parse, simulate, truth
from stepscope.trace.link import COMMUNICATION
from stepscope.trace.load import load_bytes

Place = tuple[Any, ...]


def collectives(trace: Trace) -> tuple[list[Place], I64, I64]:
    """What was recorded of each collective that its peers know too, by start; and its start and end."""
    found = link_trace(trace).activities
    mine = np.flatnonzero(found.part == COMMUNICATION)
    mine = mine[np.argsort(found.start_ns[mine], kind="stable")]
    comms = trace.comms
    places: list[Place] = []
    sent: Counter[Place] = Counter()
    for row in np.searchsorted(comms.row, found.row[mine]).tolist():
        group = trace.texts[comms.group_id[row]]
        if comms.src_rank[row] == ABSENT_I64:
            places.append((group, int(comms.sequence[row])))
        else:  # each rank counts for itself, but messages of one pair come in order
            pair = (group, int(comms.src_rank[row]), int(comms.dst_rank[row]))
            sent[pair] += 1
            places.append((*pair, sent[pair]))
    return places, found.start_ns[mine], found.end_ns[mine]


def played(config: Config, known: dict[str, Any]) -> report.Replay:
    """The replay of all ranks, matched by what was recorded, on the true clock."""
    programs, places, spans = [], [], []
    number: dict[Place, int] = {}
    for rank, data in simulate(config):
        trace = load_bytes(data, f"rank{rank}.json")
        (analysis,) = analyse_rank(trace, rank=rank, world_size=config.ranks)
        programs.append(analysis.devices[0].program)
        mine, start, end = collectives(trace)
        clock = known["ranks"][rank]
        drift = [((t - known["start_ns"]) * clock["drift_ppm"] * 1e-6).astype(np.int64) for t in (start, end)]
        offset = clock["offset_ns"]
        spans.append((start - offset - drift[0], end - offset - drift[1]))
        places.append(np.array([number.setdefault(each, len(number)) for each in mine], dtype=np.int64))
    found = replay(programs, places, [start for start, _ in spans], [end for _, end in spans])
    assert found is not None
    return found


CASES = [
    # loop, fault, what is removed, whose it is
    ({"ranks": 1}, "loader-stall:severe", "input", ()),
    ({"ranks": 2, "model": "resnet"}, "loader-stall", "input", ()),
    ({"ranks": 4}, "loader-stall#2", "input", ()),
    ({"ranks": 4}, "straggler#1", "straggler", (1,)),
    ({"ranks": 4, "clock_offset_ms": 5.0, "clock_drift_ppm": 20.0}, "straggler#2:severe", "straggler", (2,)),
    ({"ranks": 4}, "straggler-python#3", "straggler", (3,)),
    ({"ranks": 4}, "moving-straggler", "straggler", (0, 1, 2, 3)),
]


@pytest.mark.parametrize(("shape", "fault", "remove", "ranks"), CASES)
def test_the_step_without_the_fault_is_predicted_within_two_percent(
    shape: dict[str, Any], fault: str, remove: str, ranks: tuple[int, ...]
) -> None:
    size = {} if "model" in shape else {"step_ms": 60.0, "layers": 4}
    config = Config(steps=6, faults=(parse(fault),), **shape, **size)
    known = truth(config)
    found = played(config, known)
    assert (found.status, found.num_steps) == ("ok", 6)
    assert found.error_share < 0.005
    assert found.what_if[0].step_ns == pytest.approx(known["step_ns"], rel=0.01)
    without = next(each for each in found.what_if if each.remove == remove)
    assert without.predicted_ns == pytest.approx(known["step_ns_without"], rel=0.02)
    assert without.ranks == ranks
    # The loader is hidden where it is not the fault.
    loader = next(each for each in found.what_if if each.remove == "input")
    assert remove == "input" or loader.gain_share < 0.005


def test_a_pipeline_is_reproduced() -> None:
    config = Config(steps=4, ranks=4, pipeline_stages=2, step_ms=40.0, layers=4)
    found = played(config, truth(config))
    assert found.status == "ok"
    assert found.error_share < 0.005
    shares = Counter[str]()
    for part in found.critical_path:
        shares[part.part] += part.share
    assert shares["compute.gemm"] > 0.5


def test_a_job_without_a_fault_has_nobody_to_speed_up() -> None:
    config = Config(steps=4, ranks=4, step_ms=40.0, layers=4)
    found = played(config, truth(config))
    assert all(each.gain_share < 0.01 for each in found.what_if if each.remove == "straggler")
