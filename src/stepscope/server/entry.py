"""What comes in as batches: taken out of a body and checked. Pure. Secrets are taken out by the store, which
believes no agent."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from stepscope.model.batch import Batch, BatchOwner, BatchSeries, Lines, Marks, Samples
from stepscope.model.error import InputError
from stepscope.model.signal import SIGNALS
from stepscope.server.limit import Limits
from stepscope.sources.formats.frame import Fault, Frame, batch_of, frames_of, header_of, unpacked

NAME = "the body"
_MEND = "send it again as it lies in the spool"
_KINDS = frozenset(("samples", "marks", "event", "lines"))
_LAST_NS = 1 << 62
_INT64 = 1 << 63
_COLUMNS = ("number", "record_kind", "flags", "step", "mono_ns", "real_ns", "a", "b", "c")


@dataclass(slots=True)
class Entered:
    """A body's batches. `last_seq` of all of them, those of unknown kinds included."""

    agent: str
    batches: list[Batch] = field(default_factory=list)
    last_seq: int = 0
    num_unknown: int = 0


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
        if frame.seq >= _LAST_NS:
            raise InputError(NAME, "a batch whose number none can be", _MEND, f"byte {frame.start}")
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
        found.batches.append(_possible(batch) if isinstance(batch, Samples) else batch)
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

MOST_CHARACTERS = 1024
"""Of the names by which things are asked for."""
_LONG = f"a name of more than {MOST_CHARACTERS:,} characters"
_NO_TIME = "a time that none can be"


def _fault(batch: Batch) -> str | None:
    """Why a batch cannot be what an agent read; `None` where it can."""
    if len(batch.host) > MOST_CHARACTERS:
        return _LONG
    if not batch.host or "/" in batch.host:
        return "a host whose name is none"
    if isinstance(batch, Samples):
        return _fault_of_samples(batch)
    if isinstance(batch, Marks):
        return _fault_of_marks(batch)
    if any(len(each) > MOST_CHARACTERS for each in batch.labels.values()):
        return _LONG
    if isinstance(batch, Lines):
        if len(batch.at_ns) != len(batch.text):
            return "columns of different length"
        return None if _are_times(batch.at_ns) else _NO_TIME
    if batch.owner is not None and not _is_owner(batch.owner):
        return "a number beyond 64 bits"
    return None if _are_times([batch.at_ns]) else _NO_TIME


def _fault_of_samples(batch: Samples) -> str | None:
    told = [each for each in (batch.window_ns, batch.collect_ns, batch.lag_ns) if each is not None]
    if not _are_small([*told, *(num for _, _, num in batch.missing)]):
        return "a number beyond 64 bits"
    labels: dict[str, str] = {}
    owner: BatchOwner | None = None
    for series in batch.series:
        if len(series.at_ns) != len(series.value):
            return "columns of different length"
        if series.at_ns and not 0 <= min(series.at_ns) <= max(series.at_ns) < _LAST_NS:
            return _NO_TIME
        if series.owner is not owner:  # neighbours share theirs
            owner = series.owner
            if not _is_owner(owner):
                return "a number beyond 64 bits"
        if series.labels is not labels:
            labels = series.labels
            if any(len(each) > MOST_CHARACTERS for each in labels.values()):
                return _LONG
    return None


def _fault_of_marks(batch: Marks) -> str | None:
    if len({len(getattr(batch, name)) for name in _COLUMNS}) > 1:
        return "columns of different length"
    if not _are_small(batch.step) or not _are_small((batch.num_lost,)):
        return "a number beyond 64 bits"
    if batch.a and not -_INT64 <= min(batch.a) <= max(batch.a) < _INT64:
        return "a number beyond 64 bits"
    if not all(_are_times(each) for each in (batch.number, batch.mono_ns, batch.real_ns)):
        return _NO_TIME
    if "/" in batch.ring:
        return "a ring whose name is no file's"
    for each in (batch.ring, *batch.identity.values()):
        if isinstance(each, str) and len(each) > MOST_CHARACTERS:
            return _LONG
        if isinstance(each, int) and not _are_small((each,)):
            return "a number beyond 64 bits"
    return None


def _is_owner(owner: BatchOwner) -> bool:
    return _are_small([each for each in (owner.index, owner.pid) if each is not None])


def _are_small(column: Sequence[int]) -> bool:
    return not column or (min(column) > -_LAST_NS and max(column) < _LAST_NS)


def _are_times(column: Sequence[int]) -> bool:
    return not column or (min(column) >= 0 and max(column) < _LAST_NS)


_LARGE = 1e30
"""No signal is larger."""
_BOUNDS = {
    name: (-_LARGE if each.least is None else each.least, _LARGE if each.most is None else each.most)
    for name, each in SIGNALS.items()
}
_ANY = (-_LARGE, _LARGE)


def _possible(batch: Samples) -> Samples:
    """The batch without values that its signals cannot have: they are told as missing."""
    changed: dict[int, BatchSeries] = {}
    missing: dict[str, int] = {}
    for place, each in enumerate(batch.series):
        least, most = _BOUNDS.get(each.signal, _ANY)
        if not each.value or (least <= min(each.value) and max(each.value) <= most):
            continue
        kept = [row for row in zip(each.at_ns, each.value, strict=True) if least <= row[1] <= most]
        if len(kept) == len(each.value):
            continue
        missing[each.signal] = missing.get(each.signal, 0) + len(each.value) - len(kept)
        changed[place] = msgspec.structs.replace(
            each, at_ns=[at_ns for at_ns, _ in kept], value=[value for _, value in kept]
        )
    if not changed:
        return batch
    told = [*batch.missing, *((name, "out_of_range", num) for name, num in missing.items())]
    series = [changed.get(place, each) for place, each in enumerate(batch.series)]
    return msgspec.structs.replace(batch, series=[each for each in series if each.value], missing=told)
