"""Frames: what is written is read, and damage gives less, never something else."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.model.batch import Happened
from stepscope.model.error import InputError
from stepscope.sources.formats import frame
from stepscope.sources.formats.frame import (
    HEADER_BYTES,
    Fault,
    Header,
    batch_of,
    frames_of,
    header_of,
    pack_frame,
    pack_header,
)

AGENT = "0123456789abcdef"


def _event(seq: int, text: str = "", agent: str = AGENT) -> Happened:
    return Happened(agent, seq, "node-1", 1_700_000_000_000_000_000 + seq, "test", text or f"event {seq}")


def _segment(texts: list[str], first: int = 1, agent: str = AGENT) -> bytes:
    frames = [pack_frame(_event(first + n, text, agent)) for n, text in enumerate(texts)]
    return pack_header(Header(agent, first)) + b"".join(frames)


def _read(data: bytes) -> tuple[list[str], list[Fault]]:
    header = header_of(data, "x.spool")
    faults: list[Fault] = []
    batches = [batch_of(frame, header, "x.spool") for frame in frames_of(data, header, faults)]
    return [each.text for each in batches if isinstance(each, Happened)], faults


def test_a_segment_gives_back_its_batches_in_order() -> None:
    texts = ["a", "b" * 5000, "c"]
    data = _segment(texts)
    assert _read(data) == (texts, [])
    assert len(data) < 1000  # a long batch is packed


def test_a_cut_frame_is_told_with_its_place_and_the_frames_before_it_are_read() -> None:
    data = _segment(["one", "two", "three"])
    two = len(_segment(["one"]))
    three = len(_segment(["one", "two"]))
    for end in range(three + 1, len(data)):
        assert _read(data[:end]) == (["one", "two"], [Fault(three, end - three, True)])
    assert _read(data[:three]) == (["one", "two"], [])
    assert _read(data[: two + 1])[1] == [Fault(two, 1, True)]


def test_behind_a_damaged_frame_the_others_are_found_even_if_its_length_is_what_was_damaged() -> None:
    data = bytearray(_segment(["one", "two", "three"]))
    two, three = len(_segment(["one"])), len(_segment(["one", "two"]))
    for at in range(two, three):
        broken = bytearray(data)
        broken[at] ^= 0x55
        texts, faults = _read(bytes(broken))
        assert texts == ["one", "three"]
        assert faults == [Fault(two, three - two, False)]


def test_bytes_within_a_batch_that_look_like_a_frame_are_none() -> None:
    inner = pack_frame(_event(7, "smuggled", agent="another-agent"))
    own = pack_frame(_event(7, "smuggled"))
    head = pack_header(Header(AGENT, 1))
    # Behind damage a frame is looked for; of two that are whole, the one of another agent is not found.
    assert _read(head + b"\xff" * 40 + inner)[0] == []
    assert _read(head + b"\xff" * 40 + own)[0] == ["smuggled"]
    near = pack_frame(_event(2, "found"))
    assert _read(head + pack_frame(_event(1, "one")) + b"\xff" * 40 + near)[0] == ["one", "found"]


def test_a_header_that_is_damaged_or_of_another_version_is_refused_in_one_line() -> None:
    head = pack_header(Header(AGENT, 1))
    assert header_of(head, "x") == Header(AGENT, 1)
    for at in range(HEADER_BYTES):
        broken = bytearray(head)
        broken[at] ^= 1
        with pytest.raises(InputError):
            header_of(bytes(broken), "x")
    with pytest.raises(InputError, match=r"x at byte 8: a segment of version 258"):
        header_of(head[:8] + b"\x02\x01" + head[10:], "x")
    with pytest.raises(InputError, match="no segment"):
        header_of(head[:-1], "x")


def test_a_batch_of_a_kind_to_come_is_refused_by_its_place() -> None:
    body = msgspec.msgpack.encode({"kind": "of tomorrow", "agent": AGENT, "seq": 1})
    with pytest.raises(InputError, match="byte 64: a batch that is not known"):
        _read(pack_header(Header(AGENT, 1)) + _reframed(body))


def _reframed(body: bytes) -> bytes:
    payload = b"\0" + (1).to_bytes(8, "little") + body
    length = len(payload).to_bytes(4, "little")
    return length + frame._checksum(AGENT, length, payload).to_bytes(4, "little") + payload


_TEXTS = st.lists(st.text(min_size=0, max_size=250), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(texts=_TEXTS, data=st.data())
def test_no_damage_raises_or_makes_a_batch_that_was_not_written(
    texts: list[str], data: st.DataObject
) -> None:
    texts = [f"{place} {text}" for place, text in enumerate(texts)]
    first = data.draw(st.sampled_from([1, 255, 1 << 24, (1 << 40) - 3]))
    whole = _segment(texts, first)
    kind = data.draw(st.sampled_from(["flip", "cut", "cut out", "put in", "overwrite"]))
    at = data.draw(st.integers(0, len(whole) - 1))
    broken = bytearray(whole)
    if kind == "flip":
        for place in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=5)):
            broken[place] ^= data.draw(st.integers(1, 255))
    elif kind == "cut":
        del broken[at:]
    elif kind == "cut out":
        del broken[at : at + data.draw(st.integers(1, 300))]
    elif kind == "put in":
        broken[at:at] = data.draw(st.binary(min_size=1, max_size=300))
    else:
        noise = data.draw(st.binary(min_size=1, max_size=300))
        broken[at : at + len(noise)] = noise
    try:
        found, _ = _read(bytes(broken))
    except InputError:
        return  # of the header alone, which the next line makes sure of
    places = [texts.index(text) for text in found]
    assert places == sorted(set(places))
    # What lies before the damage is read whole.
    first_damage = next(
        (n for n, (a, b) in enumerate(zip(whole, broken, strict=False)) if a != b), len(broken)
    )
    num_whole = sum(len(_segment(texts[: n + 1], first)) <= first_damage for n in range(len(texts)))
    assert found[:num_whole] == texts[:num_whole]
