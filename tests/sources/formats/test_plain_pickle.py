"""The reader of plain pickles: it reads what Python writes, and runs nothing that anybody writes."""

from __future__ import annotations

import builtins
import os
import pickle
import pickletools
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.sources.formats.plain_pickle import (
    OPCODES,
    REFUSED,
    BrokenPickle,
    HostilePickle,
    Limits,
    is_pickle,
    loads,
)

PROTOCOLS = range(6)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 100), 1 << 100)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=("Cs",)))
)
PLAIN = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=40,
)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=60, deadline=None)
@given(value=PLAIN)
def test_plain_data_are_read_as_python_wrote_them(protocol: int, value: Any) -> None:
    read = loads(pickle.dumps(value, protocol))
    assert read == value
    assert repr(read) == repr(value)  # 1, 1.0 and True are equal


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_sharing_and_cycles_stay(protocol: int) -> None:
    shared = [1, "a" * 300]
    value: dict[str, Any] = {"a": shared, "b": shared, "bytes": b"\x00\xff" if protocol >= 3 else "x"}
    value["self"] = value
    read = loads(pickle.dumps(value, protocol))
    assert read["a"] is read["b"]
    assert read["self"] is read
    assert read["bytes"] == value["bytes"]


class Calls:
    """Writes a pickle that calls a function when Python reads it."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.reduced = function, arguments

    def __reduce__(self) -> Any:
        return self.reduced


class Plain:
    """An object with a state."""

    def __init__(self) -> None:
        self.x = 1


def hostile(proof: Path) -> dict[str, bytes]:
    """Pickles that do harm, or ask for more than anybody needs; each would leave `proof` behind if it ran."""
    touch = f"touch {proof}"
    made: dict[str, bytes] = {}
    for protocol in PROTOCOLS:
        made[f"os.system, protocol {protocol}"] = pickle.dumps(Calls(os.system, touch), protocol)
        made[f"eval, protocol {protocol}"] = pickle.dumps(
            Calls(builtins.eval, f"open({str(proof)!r}, 'w')"), protocol
        )
        made[f"an array, protocol {protocol}"] = pickle.dumps({"segments": np.arange(9)}, protocol)
        made[f"an object, protocol {protocol}"] = pickle.dumps([Plain()], protocol)
        made[f"in a snapshot, protocol {protocol}"] = pickle.dumps(
            {"segments": [], "device_traces": [[{"action": Calls(os.system, touch)}]]}, protocol
        )
    name = f"cos\nsystem\n(S'{touch}'\ntR."
    made |= {
        "a global by hand": name.encode(),
        "a call by INST": f"(S'{touch}'\nios\nsystem\n.".encode(),
        "a call by OBJ": b"(cos\nsystem\nX\x04\x00\x00\x00trueo.",
        "a name from the stack": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        "a registered extension": b"\x80\x02\x82\x01.",
        "a large registered extension": b"\x80\x02\x84\x01\x00\x00\x00.",
        "a persistent object": b"\x80\x02K\x01Q.",
        "a persistent object by name": b"Pevil\n.",
        "a state": b"\x80\x02}K\x01b.",
        "a set": pickle.dumps({1, 2}, 4),
        "a bytearray": pickle.dumps(bytearray(9), 5),
        "a buffer from outside": b"\x80\x05\x97.",
        "numbers for keys": pickle.dumps({1: 2}, 4),
        "deep nesting": b"(" * 100_000 + b"l" * 100_000 + b".",
        "deep nesting in protocol 4": pickle.dumps(nested(300), 4),
        "a whole number without end": b"\x80\x02\x8b" + struct.pack("<i", 1 << 30) + b"\1" * 64,
        "digits without end": b"I" + b"9" * 100_000 + b"\n.",
        "digits without end, long": b"L" + b"9" * 100_000 + b"L\n.",
    }
    return made


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value, 0]
    return value


HOSTILE_NAMES = [name for name in hostile(Path("/proof")) if name != "deep nesting in protocol 4"]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_nothing_hostile_is_run(name: str, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    with pytest.raises(HostilePickle) as caught:
        loads(hostile(proof)[name])
    assert not proof.exists()
    assert "\n" not in str(caught.value)


def test_the_proof_would_be_there_if_it_were_run(tmp_path: Path) -> None:
    """Python's own reader runs them: what is proved above could fail."""
    proof = tmp_path / "proof"
    data = hostile(proof)["os.system, protocol 4"]
    code = "import pickle, sys; pickle.loads(sys.stdin.buffer.read())"
    subprocess.run([sys.executable, "-c", code], input=data, check=True)
    assert proof.exists()


def test_no_module_is_imported_for_a_name() -> None:
    """Looking a name up is itself a deed: importing runs the module."""
    assert "antigravity" not in sys.modules
    with pytest.raises(HostilePickle, match="asks to look up a name"):
        loads(b"cantigravity\nfly\n.")
    assert "antigravity" not in sys.modules


def test_deep_nesting_is_refused_or_harmless() -> None:
    with pytest.raises(HostilePickle, match="nested more than 64 deep"):
        loads(hostile(Path("/x"))["deep nesting in protocol 4"])
    # Without marks nothing is open for longer: it is read, and taken apart again without recursion.
    deep = loads(b")" + b"\x85" * 200_000 + b".")
    assert isinstance(deep, tuple)
    del deep


def test_a_memo_grows_by_what_is_put_in_and_not_by_its_index() -> None:
    """Python's reader reserves memory for every index below: 64 GB for these few bytes."""
    index = struct.pack("<I", 0xFFFF_FFFF)
    assert loads(b"\x80\x02]r" + index + b"j" + index + b"0.") == []
    assert loads(b"]p4294967295\ng4294967295\n0.") == []


def test_a_length_is_believed_only_as_far_as_there_are_bytes() -> None:
    for code in (b"\x8e", b"\x8d"):  # BINBYTES8, BINUNICODE8
        with pytest.raises(BrokenPickle, match="breaks off"):
            loads(b"\x80\x04" + code + struct.pack("<Q", 1 << 62) + b"abc.")


def test_values_and_containers_have_their_limits() -> None:
    with pytest.raises(HostilePickle, match="more than 100 opcodes"):
        loads(b"N0" * 100 + b"N.", Limits(max_opcodes=100))
    with pytest.raises(HostilePickle, match="more than 10 containers"):
        loads(pickle.dumps([[] for _ in range(20)]), Limits(max_containers=10))


def test_a_bomb_of_references_stays_as_small_as_it_is_written() -> None:
    """Ten lists of ten references each, a level upon a level: 10^12 leaves in a few hundred bytes."""
    value: Any = ["x"]
    for _ in range(12):
        value = [value] * 10
    read = loads(pickle.dumps(value, 4))
    assert read[0] is read[9]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pickle_cut_anywhere_breaks_off(protocol: int) -> None:
    whole = pickle.dumps({"segments": [{"address": 1 << 40, "name": "é" * 9, "f": 0.5}] * 3}, protocol)
    for end in range(len(whole)):
        with pytest.raises(BrokenPickle) as caught:
            loads(whole[:end])
        assert not isinstance(caught.value, HostilePickle)


@pytest.mark.parametrize("data", [b"(.", b"(N.", b"NN.", b".", b"]("])
def test_what_ends_without_one_value_is_broken(data: bytes) -> None:
    with pytest.raises(BrokenPickle):
        loads(data)


def test_a_frame_cut_short_breaks_off() -> None:
    whole = pickle.dumps(["a" * 500], 5)
    with pytest.raises(BrokenPickle, match="breaks off within a frame"):
        loads(whole[:200])


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=60) | st.lists(st.sampled_from(sorted(OPCODES)), max_size=40).map(bytes))
def test_any_bytes_are_a_value_or_one_of_two_errors(data: bytes) -> None:
    raised: BrokenPickle | None = None
    try:
        loads(data + b".")
    except BrokenPickle as error:
        raised = error
    if raised is not None:
        assert "\n" not in str(raised)
        assert 0 <= raised.place <= len(data) + 1


def test_every_opcode_of_python_is_known_or_refused() -> None:
    """A new protocol's opcodes are neither: this says so."""
    codes = {ord(each.code): each.name for each in pickletools.opcodes}
    left = {name for code, name in codes.items() if code not in OPCODES and code not in REFUSED}
    assert left == {"STOP"}
    assert not set(OPCODES) & set(REFUSED)


def test_a_pickle_is_known_by_its_first_bytes() -> None:
    assert [is_pickle(pickle.dumps([], protocol)) for protocol in PROTOCOLS] == [False, False, *[True] * 4]
    assert not is_pickle(b"\x80\x09")
    assert not is_pickle(b"")
