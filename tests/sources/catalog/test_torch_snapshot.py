"""PyTorch's memory snapshot: the format by its description, its older forms, and what is none."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from stepscope.model.error import InputError, RefusedError
from stepscope.model.snapshot import Action, State
from stepscope.model.trace import ABSENT_I64
from stepscope.sources import file
from stepscope.sources.catalog import torch_snapshot
from stepscope.sources.catalog.torch_snapshot import is_snapshot, parse
from tests.sources.allocator import MB, Allocator

FRAMES = [
    {"filename": "??", "line": 0, "name": "c10::cuda::malloc"},
    {"filename": "/home/ada/job/train.py", "line": 42, "name": "forward"},
]


def snapshot(**more: Any) -> dict[str, Any]:
    block = {"size": 512, "requested_size": 500, "state": "active_allocated", "frames": FRAMES}
    return {
        "segments": [
            {
                "device": 1,
                "address": 4096,
                "total_size": 2048,
                "is_expandable": True,
                "blocks": [
                    {"address": 4096, **block},
                    {"address": 4608, **block, "state": "active_awaiting_free"},
                    {"address": 5120, "size": 1024, "requested_size": 0, "state": "inactive", "frames": []},
                ],
            }
        ],
        "device_traces": [
            [],
            [
                {"action": "segment_map", "addr": 4096, "size": 2048, "time_us": 7, "frames": FRAMES},
                {"action": "alloc", "addr": 4096, "size": 500, "time_us": 8, "frames": FRAMES},
                {"action": "free_requested", "addr": 4096, "size": 500, "time_us": 9, "frames": []},
                {"action": "free_completed", "addr": 4096, "size": 500, "time_us": 10, "frames": []},
                {"action": "snapshot", "addr": 0, "size": 0, "time_us": 11, "frames": []},
                {"action": "oom", "device_free": 99, "size": 4096, "time_us": 12, "frames": FRAMES},
            ],
        ],
        "allocator_settings": {"expandable_segments": True, "roundup_power2_divisions": {"1": 2}},
        **more,
    }


def read(value: Any, protocol: int = 4) -> Any:
    return parse(pickle.dumps(value, protocol), "s.pickle")


@pytest.mark.parametrize("protocol", range(6))
def test_a_snapshot_becomes_columns(protocol: int) -> None:
    s = read(snapshot(), protocol)
    assert (s.segments.address.tolist(), s.segments.bytes.tolist()) == ([4096], [2048])
    assert (s.segments.device.tolist(), s.segments.is_expandable.tolist()) == ([1], [True])
    assert s.blocks.address.tolist() == [4096, 4608, 5120]
    assert s.blocks.bytes.tolist() == [512, 512, 1024]
    assert s.blocks.requested_bytes.tolist() == [500, 500, 0]
    assert s.blocks.state.tolist() == [State.ACTIVE, State.PENDING, State.FREE]
    assert s.blocks.stack.tolist() == [0, 0, -1]
    assert s.stacks == (("c10::cuda::malloc", "/home/ada/job/train.py:42 forward"),)
    assert s.history.action.tolist() == [Action.SEGMENT_MAP, Action.ALLOC, Action.FREE, Action.OOM]
    assert s.history.ts_ns.tolist() == [7000, 8000, 10000, 12000]
    assert s.history.device_free_bytes.tolist() == [ABSENT_I64, ABSENT_I64, ABSENT_I64, 99]
    assert s.settings == {"expandable_segments": "True"}
    assert s.num_odd == 0


def test_the_older_form_with_a_history_in_each_block_is_read() -> None:
    """PyTorch 2.0: no addresses of blocks, the stack and the size asked for within."""
    past = [{"addr": 4096, "real_size": 300, "frames": FRAMES}]
    old = {
        "segments": [
            {
                "device": 0,
                "address": 4096,
                "total_size": 1536,
                "blocks": [
                    {"size": 512, "state": "active_allocated", "history": past},
                    {"size": 1024, "state": "inactive"},
                ],
            }
        ]
    }
    for value in (old, old["segments"]):
        s = read(value)
        assert s.blocks.address.tolist() == [4096, 4608]
        assert s.blocks.requested_bytes.tolist() == [300, 1024]
        assert s.blocks.stack.tolist() == [0, -1]


def test_entries_that_do_not_fit_are_left_out_and_counted() -> None:
    value = snapshot()
    value["segments"] += [7, {"address": -1, "total_size": 2}, {"address": 1 << 70, "total_size": 2}]
    value["segments"][0]["blocks"] += [
        {"size": "big", "state": "inactive"},
        {"size": 1, "state": "new"},
        None,
    ]
    value["device_traces"][1] += [{"action": "worker", "size": 1, "addr": 1}, {"action": "alloc"}]
    s = read(value)
    assert s.num_odd == 8
    assert (len(s.segments.address), len(s.blocks.address), len(s.history.action)) == (1, 3, 4)


def test_a_time_beyond_any_clock_is_none() -> None:
    value = snapshot()
    value["device_traces"][1][1]["time_us"] = 1 << 61
    del value["device_traces"][1][0]["time_us"]
    assert read(value).history.ts_ns.tolist()[:2] == [ABSENT_I64, ABSENT_I64]


NO_SNAPSHOTS = {
    "a list of numbers": ([1, 2], "holds no segment"),
    "nothing": (None, "holds no memory snapshot"),
    "another dictionary": ({"weights": 1, "step": 2}, r"its keys: 'weights', 'step'"),
    "segments that are none": ({"segments": 3}, "holds no memory snapshot"),
    "an empty one": ({"segments": [], "device_traces": [[]]}, "no segment and no history"),
}


@pytest.mark.parametrize("name", NO_SNAPSHOTS)
def test_what_is_no_snapshot_is_said_in_one_line(name: str) -> None:
    value, said = NO_SNAPSHOTS[name]
    with pytest.raises(InputError, match=said) as caught:
        read(value)
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)


class Calls:
    def __reduce__(self) -> Any:
        return os.system, ("true",)


def test_a_hostile_pickle_is_refused_and_a_broken_one_is_unreadable() -> None:
    with pytest.raises(
        RefusedError, match=r"^s.pickle at byte \d+: the pickle asks to look up a name"
    ) as hit:
        read({"segments": [Calls()]})
    assert hit.value.exit_code == 5
    with pytest.raises(InputError, match="the pickle breaks off") as caught:
        parse(pickle.dumps(snapshot())[:-9], "s.pickle")
    assert caught.value.exit_code == 3


def test_a_list_that_is_named_over_and_over_is_not_walked_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand segments share one list of a thousand blocks: a million blocks from a few kilobytes."""
    monkeypatch.setattr(torch_snapshot, "MAX_ROWS", 50_000)
    blocks = [{"size": 512, "state": "inactive"}] * 1000
    value = {"segments": [{"address": 0, "total_size": 512, "device": 0, "blocks": blocks}] * 1000}
    with pytest.raises(RefusedError, match="more than 50,000 blocks"):
        read(value)


def test_a_snapshot_that_holds_itself_is_read_once() -> None:
    value = snapshot()
    value["segments"][0]["blocks"][0]["frames"] = value["segments"]
    value["device_traces"].append(value["device_traces"])
    assert len(read(value).blocks.address) == 3


def test_a_snapshot_is_known_by_its_bytes_or_its_name(tmp_path: Path) -> None:
    data = pickle.dumps(snapshot(), 4)
    for name, content, wanted in (
        ("a.bin", data, True),
        ("b.bin.gz", gzip.compress(data), True),
        ("c.pkl", pickle.dumps(snapshot(), 0), True),
        ("d.json", b'{"traceEvents": []}', False),
        ("e.pickle", b'{"traceEvents": []}', False),
    ):
        (tmp_path / name).write_bytes(content)
        path = str(tmp_path / name)
        assert is_snapshot(path, file.head(path)) is wanted, name
    assert not is_snapshot(str(tmp_path / "missing"), file.head(str(tmp_path / "missing")))


def test_a_file_is_read_whole_plain_or_packed_with_the_digest_of_what_lies_on_disk(tmp_path: Path) -> None:
    data = pickle.dumps(snapshot(), 4) * 50
    plain, packed = tmp_path / "a", tmp_path / "b"
    plain.write_bytes(data)
    packed.write_bytes(gzip.compress(data[:999]) + gzip.compress(data[999:]))
    one, two = file.read(str(plain)), file.read(str(packed))
    assert one.data == two.data == data
    assert one.num_bytes == len(data)
    assert two.num_bytes == packed.stat().st_size
    assert one.sha256 != two.sha256


def test_a_bomb_and_a_file_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.pickle.gz"
    bomb.write_bytes(gzip.compress(bytes(40 * MB)))
    with pytest.raises(RefusedError, match="more than 250 to 1"):
        file.read(str(bomb), file.FileLimits(ratio_from=MB))
    with pytest.raises(RefusedError, match="more than 2 MB come out of it"):
        file.read(str(bomb), file.FileLimits(max_bytes=2 * MB))


def test_damaged_gzip_empty_and_missing_files_are_unreadable(tmp_path: Path) -> None:
    bad = tmp_path / "bad.gz"
    bad.write_bytes(gzip.compress(b"x" * 9999)[:12] + b"\xff" * 50)
    (tmp_path / "empty").write_bytes(b"")
    for name, said in (("bad.gz", "gzip stream is damaged"), ("empty", "is empty"), ("no", "no such file")):
        with pytest.raises(InputError, match=said):
            file.read(str(tmp_path / name))


def test_the_small_allocator_writes_what_is_read_here() -> None:
    a = Allocator(9 * MB)
    a.alloc(3 * MB)
    assert read(a.snapshot()).num_odd == 0
