"""Dumps of PyTorch's flight recorder, made as its source writes them: versions, pickle and JSON, damage."""

from __future__ import annotations

import json
import os
import pickle
from typing import Any

import pytest

from stepscope.model.error import InputError, RefusedError
from stepscope.model.stuck import Frame, Group
from stepscope.sources.catalog.flight_recorder import is_flight, one_a_rank, parse

AT = 1_796_040_736_053_131_013


def entry(
    sequence: int, state: str = "completed", name: str = "nccl:all_reduce", **more: Any
) -> dict[str, Any]:
    """One entry of version 2.10, in the order of its writer."""
    return {
        "frames": [{"name": "step", "filename": "/home/alice/job/train.py", "line": 12}],
        "record_id": sequence, "pg_id": 0, "process_group": ("0", "default_pg"), "thread_name": "python",
        "thread_id": "1403", "collective_seq_id": sequence, "p2p_seq_id": 0, "op_id": sequence,
        "profiling_name": name, "time_created_ns": AT + sequence, "input_sizes": [[1000]],
        "input_dtypes": ["Float"], "output_sizes": [[1000]], "output_dtypes": ["Float"], "state": state,
        "time_discovered_started_ns": None, "time_discovered_completed_ns": None, "retired": False,
        "timeout_ms": 600_000, "is_p2p": False,
    } | more  # fmt: skip


def dump(*entries: dict[str, Any], version: str = "2.10", **more: Any) -> dict[str, Any]:
    return {
        "version": version,
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
        "comm_lib_version": "2.27.5",
        "pg_status": {"0": {"last_enqueued_collective": 2, "last_completed_collective": 1}},
        "entries": list(entries),
    } | more  # fmt: skip


def pickled(what: Any) -> bytes:
    return pickle.dumps(what, protocol=2)


def test_a_pickle_gives_its_calls_groups_and_status() -> None:
    found = parse(pickled(dump(entry(1), entry(2, "started"))), "/tmp/nccl_trace_rank_3")
    assert (found.rank, found.version, found.num_odd) == (3, "2.10", 0)
    assert found.groups == {"0": Group("0", "default_pg", (0, 1, 2, 3))}
    assert (found.enqueued, found.completed) == ({"0": 2}, {"0": 1})
    assert [(c.sequence, c.op, c.state, c.input_sizes) for c in found.calls] == [
        (1, "all_reduce", "completed", ((1000,),)),
        (2, "all_reduce", "started", ((1000,),)),
    ]
    assert found.calls[0].frames == (Frame("step", "job/train.py", 12),)


def test_json_says_the_same_with_text_for_numbers_and_0_for_no_time() -> None:
    made = dump(entry(1), entry(2, "scheduled", time_created_ns=0))
    made["pg_status"]["0"] = {key: str(value) for key, value in made["pg_status"]["0"].items()}
    for each in made["entries"]:
        del each["frames"]
    found = parse(json.dumps(made, sort_keys=True).encode(), "rank_0.json")
    assert found.enqueued == {"0": 2}
    assert [each.created_ns for each in found.calls] == [AT + 1, None]
    assert found.calls[0].frames == ()


@pytest.mark.parametrize("version", ["1.5", "2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.7", "2.9"])
def test_older_versions_lack_fields_and_are_read(version: str) -> None:
    minor = float(version)
    made = entry(7, "started")
    if minor < 2.0:
        made["seq_id"] = made.pop("collective_seq_id")
        del made["p2p_seq_id"]
        made["process_group"] = "0"
    for key, since in (("is_p2p", 2.1), ("input_dtypes", 2.2), ("timeout_ms", 2.3), ("thread_name", 2.5)):
        if minor < since:
            made.pop(key, None)
    whole = dump(made, version=version)
    if minor < 2.4:
        del whole["pg_status"]
    if minor < 2.9:
        whole["nccl_version"] = whole.pop("comm_lib_version")
    found = parse(pickled(whole), "nccl_trace_rank_0")
    assert (found.version, found.last("0")) == (version, 7)
    assert found.calls[0].input_types == (None if minor < 2.2 else ("Float",))


def test_a_retired_call_is_over_with_gloo_and_timed_out_with_nccl() -> None:
    gloo, nccl = entry(1, "scheduled", "gloo:all_reduce", retired=True), entry(1, "started", retired=True)
    assert parse(pickled(dump(gloo)), "r0").calls[0].state == "completed"
    assert parse(pickled(dump(nccl)), "r0").calls[0].state == "timed_out"


def test_gloo_leaves_the_default_groups_name_empty() -> None:
    made = dump(entry(1), pg_config={"": {"name": "", "desc": "", "ranks": "[0, 1]"}})
    assert parse(pickled(made), "r0").groups == {"0": Group("0", "default_pg", (0, 1))}


def test_what_does_not_fit_is_left_out_and_counted() -> None:
    made = dump(entry(1), {"profiling_name": "nccl:all_reduce"}, entry(2))
    made["entries"].append("nonsense")
    found = parse(pickled(made), "r0")
    assert ([each.sequence for each in found.calls], found.num_odd) == ([1, 2], 2)


class Run:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch /tmp/should-not-be",)


def test_a_pickle_that_asks_to_run_something_is_refused() -> None:
    with pytest.raises(RefusedError, match="nothing of it was run"):
        parse(pickled(dump(entry(1), evil=Run())), "nccl_trace_rank_0")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (pickled(dump(entry(1)))[:60], "breaks off"),
        (b'{"version": "2.10", "entr', "no whole JSON"),
        (pickled({"other": 1}), "no dump of collectives"),
    ],
)
def test_damage_is_one_line_with_place_and_mend(data: bytes, what: str) -> None:
    with pytest.raises(InputError, match=what):
        parse(data, "nccl_trace_rank_0")


def test_dumps_are_told_from_traces_and_snapshots_by_their_first_bytes() -> None:
    assert is_flight(pickled(dump(entry(1))))
    assert is_flight(json.dumps(dump(entry(1)), sort_keys=True).encode())
    assert not is_flight(pickled({"segments": [], "device_traces": []}))
    assert not is_flight(b'{"schemaVersion": 1, "distributedInfo": {"pg_config": [], "version": 2}}')
    assert not is_flight(b"step 1 loss 2.0\n")


def test_of_two_dumps_of_one_rank_the_later_counts() -> None:
    early, late = (parse(pickled(dump(*calls)), "rank_1") for calls in ([entry(1)], [entry(1), entry(2)]))
    assert [len(each.calls) for each in one_a_rank([late, early])] == [2]
