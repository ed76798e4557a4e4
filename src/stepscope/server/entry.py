"""What comes in as batches: taken out of a body, checked, and without secrets. Pure, but for a cache."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from stepscope.model.batch import Batch, BatchOwner, BatchSeries, Happened, Lines, Marks, Samples
from stepscope.model.error import InputError
from stepscope.model.redact import tree_without_secrets, without_secrets
from stepscope.server.limit import Limits
from stepscope.sources.formats.frame import Fault, Frame, batch_of, frames_of, header_of, unpacked

NAME = "the body"
_MEND = "send it again as it lies in the spool"
_KINDS = frozenset(("samples", "marks", "event", "lines"))
_LAST_NS = 1 << 62
_COLUMNS = ("number", "record_kind", "flags", "step", "mono_ns", "real_ns", "a", "b", "c")


@dataclass(slots=True)
class Entered:
    """A body's batches. `last_seq` of all of them, those of unknown kinds included."""

    agent: str
    batches: list[Batch] = field(default_factory=list)
    last_seq: int = 0
    num_unknown: int = 0
    num_secrets: int = 0


class _Head(msgspec.Struct):
    kind: str
    agent: str
    seq: int


_head = msgspec.msgpack.Decoder(_Head)


class TooLarge(InputError):
    """More bytes, unpacked, than a body may have."""


def gunzipped(body: bytes, most_bytes: int) -> bytes:
    """A gzip body, unpacked. TooLarge beyond that, InputError where it is none."""
    unpacker = zlib.decompressobj(31)
    try:
        data = unpacker.decompress(body, most_bytes + 1)
    except zlib.error as error:
        raise InputError(NAME, "no gzip data, though it says so", "leave Content-Encoding out") from error
    if len(data) > most_bytes:
        raise TooLarge(NAME, f"more than {most_bytes:,} bytes when unpacked", "send fewer batches at a time")
    if not unpacker.eof:
        raise InputError(NAME, "gzip data that end too early", "send it again")
    return data


def entered(body: bytes, limits: Limits) -> Entered:
    """The batches of an ingest body, in ascending order. InputError where any of it is damaged or cannot be:
    nothing of it is kept then."""
    header = header_of(body, NAME)
    faults: list[Fault] = []
    found = Entered(header.agent)
    left = limits.unpacked_bytes
    for frame in frames_of(body, header, faults):
        if faults:
            break
        data = _unpacked(frame, left)
        left -= len(data)
        found.last_seq = frame.seq
        try:
            batch = batch_of(frame, header, NAME, data)
        except InputError:
            if not _is_unknown(data, header.agent, frame.seq):
                raise
            found.num_unknown += 1
            continue
        why = _fault(batch)
        if why is not None:
            raise InputError(NAME, f"batch {frame.seq}: {why}", _MEND, f"byte {frame.start}")
        batch, num = clean(batch)
        found.num_secrets += num
        found.batches.append(batch)
    if faults:
        what = "ends in the middle of a batch" if faults[0].is_cut else "a damaged frame, or one out of order"
        raise InputError(NAME, what, _MEND, f"byte {faults[0].start}")
    if not found.last_seq:
        raise InputError(NAME, "no batch in it", _MEND)
    return found


def _unpacked(frame: Frame, left: int) -> bytes:
    try:
        return unpacked(frame, NAME, left)
    except InputError as error:
        if error.what.startswith("a batch of more than"):
            raise TooLarge(
                NAME, "more bytes when unpacked than are taken at a time", "send fewer batches"
            ) from error
        raise


def _is_unknown(data: bytes, agent: str, seq: int) -> bool:
    """Whether it is a whole batch of a newer agent, of a kind that is not known here."""
    try:
        head = _head.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return head.kind not in _KINDS and head.agent == agent and head.seq == seq


# ── what cannot be ──


def _fault(batch: Batch) -> str | None:
    """Why a batch cannot be what an agent read; `None` where it can."""
    if isinstance(batch, Samples):
        for series in batch.series:
            if len(series.at_ns) != len(series.value):
                return "columns of different length"
            if series.at_ns and not 0 <= min(series.at_ns) <= max(series.at_ns) < _LAST_NS:
                return "a time that none can be"
        return None
    if isinstance(batch, Marks):
        if len({len(getattr(batch, name)) for name in _COLUMNS}) > 1:
            return "columns of different length"
        if any(not _is_int64(getattr(batch, name)) for name in ("number", "step", "mono_ns", "real_ns", "a")):
            return "a number beyond 64 bits"
        return None
    if isinstance(batch, Lines):
        if len(batch.at_ns) != len(batch.text):
            return "columns of different length"
        return None if _are_times(batch.at_ns) else "a time that none can be"
    return None if _are_times([batch.at_ns]) else "a time that none can be"


def _is_int64(column: Sequence[int]) -> bool:
    return not column or (min(column) >= -(1 << 63) and max(column) < 1 << 63)


def _are_times(column: Sequence[int]) -> bool:
    return not column or (min(column) >= 0 and max(column) < _LAST_NS)


# ── secrets ──


def clean(batch: Batch) -> tuple[Batch, int]:
    """The batch without secrets, and how many there were."""
    if isinstance(batch, Samples):
        return _clean_samples(batch)
    host, num = _text(batch.host)
    if isinstance(batch, Marks):
        identity, in_identity = tree_without_secrets(batch.identity)
        names, in_names = tree_without_secrets(batch.names)
        ring, in_ring = _text(batch.ring)
        num += in_identity + in_names + in_ring
        if not num:
            return batch, 0
        replaced: Batch = msgspec.structs.replace(batch, host=host, identity=identity, names=names, ring=ring)
        return replaced, num
    labels, in_labels = _labels(tuple(batch.labels.items()))
    num += in_labels
    if isinstance(batch, Lines):
        texts = [without_secrets(each) for each in batch.text]
        (log, in_log), (name, in_name) = _text(batch.log), _text(batch.name)
        num += sum(found for _, found in texts) + in_log + in_name
        if not num:
            return batch, 0
        text = [each for each, _ in texts]
        replaced = msgspec.structs.replace(
            batch, host=host, log=log, name=name, text=text, labels=dict(labels)
        )
        return replaced, num
    return _clean_event(batch, host, dict(labels), num)


def _clean_event(event: Happened, host: str, labels: dict[str, str], num: int) -> tuple[Batch, int]:
    (text, in_text), (what, in_what) = without_secrets(event.text), _text(event.what)
    owner, in_owner = _owner(event.owner) if event.owner is not None else (None, 0)
    num += in_text + in_what + in_owner
    if not num:
        return event, 0
    return (
        msgspec.structs.replace(event, host=host, text=text, what=what, owner=owner, labels=labels),
        num,
    )


def _clean_samples(batch: Samples) -> tuple[Samples, int]:
    (host, num), (source, in_source) = _text(batch.host), _text(batch.source)
    num += in_source
    series: list[BatchSeries] = []
    for each in batch.series:
        owner, in_owner = _owner(each.owner)
        labels, in_labels = _labels(tuple(each.labels.items()))
        signal, in_signal = _text(each.signal)
        found = in_owner + in_labels + in_signal
        num += found
        series.append(
            msgspec.structs.replace(each, owner=owner, labels=dict(labels), signal=signal) if found else each
        )
    missing = [(_text(name), _text(why), count) for name, why, count in batch.missing]
    num += sum(name[1] + why[1] for name, why, _ in missing)
    if not num:
        return batch, 0
    replaced = msgspec.structs.replace(
        batch,
        host=host,
        source=source,
        series=series,
        missing=[(name[0], why[0], count) for name, why, count in missing],
    )
    return replaced, num


# The same few names and labels stand on every series of every batch.
_SHORT = 1024
"""Characters beyond which nothing is remembered: nobody fills the memory with them."""


def _text(text: str) -> tuple[str, int]:
    return _short_text(text) if len(text) <= _SHORT else without_secrets(text)


def _labels(items: tuple[tuple[str, str], ...]) -> tuple[tuple[tuple[str, str], ...], int]:
    is_short = sum(len(name) + len(value) for name, value in items) <= _SHORT
    return _short_labels(items) if is_short else _cleaned(items)


@lru_cache(maxsize=8192)
def _short_text(text: str) -> tuple[str, int]:
    return without_secrets(text)


@lru_cache(maxsize=8192)
def _short_labels(items: tuple[tuple[str, str], ...]) -> tuple[tuple[tuple[str, str], ...], int]:
    return _cleaned(items)


def _cleaned(items: tuple[tuple[str, str], ...]) -> tuple[tuple[tuple[str, str], ...], int]:
    kept, num = tree_without_secrets(dict(items))
    return tuple(kept.items()), num


def _owner(owner: BatchOwner) -> tuple[BatchOwner, int]:
    is_short = len(owner.name or "") + len(owner.model or "") + len(owner.host or "") <= _SHORT
    return _short_owner(owner) if is_short else _cleaned_owner(owner)


@lru_cache(maxsize=8192)
def _short_owner(owner: BatchOwner) -> tuple[BatchOwner, int]:
    return _cleaned_owner(owner)


def _cleaned_owner(owner: BatchOwner) -> tuple[BatchOwner, int]:
    kept, num = tree_without_secrets(msgspec.to_builtins(owner))
    return (msgspec.convert(kept, BatchOwner), num) if num else (owner, 0)
