"""From parsed columns to a `Trace`: strings decoded, tracks told apart, times placed. Shared by both
parsers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import (
    Comms,
    Correlations,
    Flows,
    Gpu,
    Instants,
    Loss,
    Memory,
    Ops,
    Python,
    Spans,
    Syncs,
    Trace,
    Track,
)
from stepscope.trace.kineto_table import KEYS, SLOTS, Read
from stepscope.trace.parsed import Parsed, State

RAW_COLUMNS = frozenset(name for name, slot in SLOTS.items() if (Read.RAW, slot) in KEYS.values())
EPOCH_NS = 10**17
"""Times beyond 1973 in nanoseconds are wall time: no machine has run for three years since its clock's
zero."""
ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_OUTSIDE = re.compile(r'("(?:[^"\\]|\\.)*")|\s+', re.DOTALL)


def decode(raw: bytes) -> tuple[str, bool]:
    """The string that JSON text between quotes means, and whether it had to be mended.

    An escape that JSON does not know stays as written (a Windows path), bytes that are no UTF-8 and raw
    control characters become U+FFFD.
    """
    try:
        text, is_mended = raw.decode("utf-8"), False
    except UnicodeDecodeError:
        text, is_mended = raw.decode("utf-8", "replace"), True
    if _CONTROL.search(text):
        text, is_mended = _CONTROL.sub("\ufffd", text), True
    if "\\" not in text:
        return text, is_mended
    found = False

    def unescape(match: re.Match[str]) -> str:
        nonlocal found
        code = match[1]
        if len(code) == 5:
            return chr(int(code[1:], 16))
        if code in ESCAPES:
            return ESCAPES[code]
        found = True
        return match[0]

    text = _ESCAPE.sub(unescape, text)
    # Two halves of a surrogate pair are one character; a half alone is none.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text, is_mended or found


def _unique(strings: list[str]) -> tuple[list[str], npt.NDArray[np.int32] | None]:
    """Without repetitions, and the new id of each old one; `None` where nothing repeats."""
    if len(set(strings)) == len(strings):
        return strings, None
    seen: dict[str, int] = {}
    ids = np.array([seen.setdefault(s, len(seen)) for s in strings], dtype=np.int32)
    return list(seen), ids


def _decoded(raws: list[bytes]) -> tuple[list[str], npt.NDArray[np.int32] | None, int, int]:
    """Strings, the new id of each raw one where that changed, how many had to be mended, and how many bytes
    the longest of those has."""
    strings, num_mended, longest = [], 0, 0
    for raw in raws:
        text, is_mended = decode(raw)
        if is_mended:
            num_mended, longest = num_mended + 1, max(longest, len(raw))
        strings.append(text)
    unique, ids = _unique(strings)
    return unique, ids, num_mended, longest


def _compact(raw: bytes) -> str:
    """JSON as written, without white space outside its strings."""
    return _OUTSIDE.sub(lambda m: m[1] or "", raw.decode("utf-8", "replace"))


Column = npt.NDArray[Any]
_NUMBER = re.compile(rb"-?[0-9]{1,30}")


def identity(raw: bytes, is_string: bool) -> int | str:
    """A pid or tid: a number where it is one and fits 64 bits, else text."""
    if _NUMBER.fullmatch(raw) and -(2**63) <= int(raw) < 2**63:
        return int(raw)
    return decode(raw)[0] if is_string else raw.decode("utf-8", "replace")


def _renumber(column: Column, ids: npt.NDArray[np.int32] | None) -> npt.NDArray[np.int32]:
    """Ids after repetitions were joined; -1 stays."""
    old = _i32(column)
    if ids is None or not len(old) or not len(ids):
        return old
    return np.where(old >= 0, ids[np.maximum(old, 0)], -1).astype(np.int32)


def assemble(
    parsed: Parsed,
    state: State,
    *,
    name: str,
    metadata: Mapping[str, Any],
    losses: list[Loss],
    events_at: int,
    num_bytes: int,
    sha256: str | None,
    is_native: bool,
) -> Trace:
    """One trace. `events_at` is the offset of the event array's content in the text; `losses` were seen
    before."""
    core, tables = parsed.core, parsed.tables
    names, name_ids, mended_names, longest_name = _decoded(parsed.names)
    cats, cat_ids, mended_cats, longest_cat = _decoded(parsed.cats)
    strings, string_ids, mended_texts, longest_text = _decoded(parsed.texts)
    # One table of texts: strings first, JSON behind them.
    texts, all_ids = _unique([*strings, *map(_compact, parsed.raws)])
    text_ids = string_ids
    raw_ids = np.arange(len(strings), len(strings) + len(parsed.raws), dtype=np.int32)
    if all_ids is not None:
        raw_ids = all_ids[raw_ids]
    tracks, track_ids = _tracks(parsed, core, names, name_ids, texts, text_ids)
    num_mended = mended_names + mended_cats + mended_texts
    longest_mended = max(longest_name, longest_cat, longest_text)

    base_ns = _base(metadata)
    shift = np.int64(base_ns)
    anchor = "base"
    written = core["ts"].astype(np.int64, copy=False)
    if not base_ns:
        is_epoch = len(written) > 0 and int(np.median(written)) > EPOCH_NS
        anchor = "epoch" if is_epoch else "none"
        if not is_epoch and len(written):
            losses = [*losses, Loss("no_anchor", 0, "no base time: times are the trace's own, not wall time")]

    def name_of(column: str) -> npt.NDArray[np.int32]:
        return _renumber(core[column], name_ids)

    def cat_of(column: str) -> npt.NDArray[np.int32]:
        return _renumber(core[column], cat_ids)

    def track_of(column: str) -> npt.NDArray[np.int32]:
        return _renumber(core[column], track_ids)

    def times(column: str) -> npt.NDArray[np.int64]:
        # In place: the parser's columns are ours, and a second copy of them would be the peak of memory.
        placed = _i64(core[column])
        if base_ns and len(placed):
            placed += shift
        return placed

    def text_of(table: str, column: str) -> npt.NDArray[np.int32]:
        return _renumber(tables[table][column], raw_ids if column in RAW_COLUMNS else text_ids)

    spans = Spans(
        times("ts"), _i64(core["dur"]), name_of("name"), cat_of("cat"), track_of("track"), _i32(core["index"])
    )
    extra, num_unpaired = _paired(
        core, times("pair_ts"), name_of("pair_name"), cat_of("pair_cat"), track_of("pair_track")
    )
    if extra is not None:
        spans, tables = _in_file_order(spans, extra, tables)
    gpu, memory = tables["gpu"], tables["memory"]
    is_memory = np.zeros(len(core["mark_ts"]), dtype=bool)
    is_memory[memory["row"].astype(np.int64)] = True
    mark_row = memory["row"].astype(np.int64)
    mark_ns = times("mark_ts")
    return Trace(
        name=name,
        spans=spans,
        correlations=Correlations(
            _i32(tables["correlations"]["row"]), _i64(tables["correlations"]["correlation"])
        ),
        ops=Ops(
            _i32(tables["ops"]["row"]),
            _i64(tables["ops"]["external_id"]),
            _i64(tables["ops"]["sequence"]),
            _i64(tables["ops"]["fwd_thread"]),
            *(text_of("ops", c) for c in ("dims", "types", "concrete", "strides", "stack", "module")),
        ),
        python=Python(
            _i32(tables["python"]["row"]),
            *(_i64(tables["python"][c]) for c in ("python_id", "python_parent", "python_module")),
        ),
        gpu=Gpu(
            _i32(gpu["row"]),
            _i32(gpu["device"]),
            _i64(gpu["stream"]),
            _i64(gpu["bytes"]),
            np.stack([_i32(gpu["grid_x"]), _i32(gpu["grid_y"]), _i32(gpu["grid_z"])], axis=1),
            np.stack([_i32(gpu["block_x"]), _i32(gpu["block_y"]), _i32(gpu["block_z"])], axis=1),
            _i32(gpu["registers"]),
            _i64(gpu["shared_bytes"]),
            gpu["occupancy"].astype(np.float32, copy=False),
            gpu["warps_per_sm"].astype(np.float32, copy=False),
            gpu["blocks_per_sm"].astype(np.float32, copy=False),
            _i64(gpu["graph_id"]),
            _i64(gpu["graph_node_id"]),
        ),
        comms=Comms(
            _i32(tables["comms"]["row"]),
            text_of("comms", "collective"),
            text_of("comms", "dtype"),
            text_of("comms", "group"),
            text_of("comms", "group_desc"),
            text_of("comms", "ranks"),
            *(
                _i64(tables["comms"][c])
                for c in ("in_nelems", "out_nelems", "group_size", "comm_sequence", "src_rank", "dst_rank")
            ),
        ),
        syncs=Syncs(
            _i32(tables["syncs"]["row"]),
            *(_i64(tables["syncs"][c]) for c in ("wait_stream", "wait_correlation", "wait_event")),
        ),
        instants=Instants(
            mark_ns[~is_memory],
            name_of("mark_name")[~is_memory],
            cat_of("mark_cat")[~is_memory],
            track_of("mark_track")[~is_memory],
            _i32(core["mark_index"])[~is_memory],
        ),
        memory=Memory(
            mark_ns[mark_row],
            track_of("mark_track")[mark_row],
            _i32(core["mark_index"])[mark_row],
            _i64(memory["memory_bytes"]),
            _i64(memory["address"]),
            _i32(memory["device_type"]),
            _i32(memory["memory_device"]),
            _i64(memory["total_allocated"]),
            _i64(memory["total_reserved"]),
        ),
        flows=Flows(
            times("flow_ts"),
            _i64(core["flow_id"]),
            track_of("flow_track"),
            cat_of("flow_cat"),
            core["flow_phase"].astype(np.uint8, copy=False),
        ),
        names=names,
        cats=cats,
        texts=texts,
        tracks=tracks,
        metadata=metadata,
        anchor=anchor,
        losses=(*losses, *_losses(state, events_at, num_mended, longest_mended, num_unpaired)),
        num_events=state.num_kept,
        num_bytes=num_bytes,
        sha256=sha256,
        native=is_native,
    )


def _i64(column: Column) -> npt.NDArray[np.int64]:
    return column.astype(np.int64, copy=False)


def _i32(column: Column) -> npt.NDArray[np.int32]:
    return column.astype(np.int32, copy=False)


def _base(metadata: Mapping[str, Any]) -> int:
    base = metadata.get("baseTimeNanoseconds", 0)
    try:
        number = int(base)
    except (TypeError, ValueError, OverflowError):
        return 0
    return number if 0 <= number < 2**62 else 0


def _tracks(
    parsed: Parsed,
    core: Mapping[str, Column],
    names: list[str],
    name_ids: npt.NDArray[np.int32] | None,
    texts: list[str],
    text_ids: npt.NDArray[np.int32] | None,
) -> tuple[list[Track], npt.NDArray[np.int32]]:
    """Tracks with the names that M events gave them, and the new id of each raw one: "7" and 7 are one
    track."""
    seen: dict[tuple[int | str, int | str], int] = {}
    ids = np.empty(len(parsed.tracks), dtype=np.int32)
    for i, key in enumerate(parsed.tracks):
        flags = key[0] - ord("0")
        end = 5 + int.from_bytes(key[1:5], "little")
        pid, tid = key[5:end], key[end:]
        pair = (identity(pid, bool(flags & 2)), identity(tid, bool(flags & 1)))
        ids[i] = seen.setdefault(pair, len(seen))
    labels: dict[str, dict[Any, str]] = {"process_name": {}, "thread_name": {}, "process_labels": {}}
    if len(core["meta_name"]):
        # The last of each (kind, track) counts; hundreds of thousands of M events name a few hundred tracks.
        meta_name, meta_text = _renumber(core["meta_name"], name_ids), _renumber(core["meta_text"], text_ids)
        meta_track = ids[core["meta_track"].astype(np.int64)]
        wanted = np.isin(meta_name, [i for i, n in enumerate(names) if n in labels]) & (meta_text >= 0)
        of = meta_name[wanted].astype(np.int64) * (len(seen) + 1) + meta_track[wanted]
        _, last = np.unique(of[::-1], return_index=True)
        at = np.flatnonzero(wanted)[len(of) - 1 - last]
        pairs = list(seen)
        for i in at.tolist():
            kind, pair, text = names[meta_name[i]], pairs[meta_track[i]], texts[meta_text[i]]
            labels[kind][pair if kind == "thread_name" else pair[0]] = text
    tracks = [
        Track(
            pid,
            tid,
            labels["process_name"].get(pid),
            labels["thread_name"].get((pid, tid)),
            labels["process_labels"].get(pid),
        )
        for pid, tid in seen
    ]
    return tracks, ids


def _in_file_order(
    spans: Spans, extra: Spans, tables: Mapping[str, Mapping[str, Column]]
) -> tuple[Spans, dict[str, dict[str, Column]]]:
    """Both sets of spans by their place in the file, and side tables that point to the new rows."""
    both = [np.concatenate([getattr(spans, f), getattr(extra, f)]) for f in Spans.__slots__]
    order = np.argsort(both[Spans.__slots__.index("index")], kind="stable")
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    moved = {
        name: {c: place[_i64(v)] if c == "row" and name != "memory" else v for c, v in table.items()}
        for name, table in tables.items()
    }
    return Spans(*(column[order] for column in both)), moved


def _paired(
    core: Mapping[str, Column],
    ts: npt.NDArray[np.int64],
    name: npt.NDArray[np.int32],
    cat: npt.NDArray[np.int32],
    track: npt.NDArray[np.int32],
) -> tuple[Spans | None, int]:
    """B and E events joined by track, innermost first; and how many stayed alone."""
    if not len(ts):
        return None, 0
    stacks: dict[int, list[int]] = {}
    rows: list[tuple[int, int, int, int, int, int]] = []
    index, phase = core["pair_index"].tolist(), core["pair_phase"].tolist()
    alone = 0
    order = np.argsort(ts, kind="stable").tolist()
    for i in order:
        stack = stacks.setdefault(int(track[i]), [])
        if phase[i] == ord("B"):
            stack.append(i)
        elif stack:
            b = stack.pop()
            rows.append((int(ts[b]), int(ts[i] - ts[b]), int(name[b]), int(cat[b]), int(track[b]), index[b]))
        else:
            alone += 1
    alone += sum(len(s) for s in stacks.values())
    if not rows:
        return None, alone
    rows.sort(key=lambda r: r[5])
    columns = list(zip(*rows, strict=True))
    return Spans(
        np.array(columns[0], dtype=np.int64),
        np.array(columns[1], dtype=np.int64),
        *(np.array(c, dtype=np.int32) for c in columns[2:]),
    ), alone


HOLE_BYTES = 64 << 10
"""A stretch without a readable event as long as some two hundred of them is a hole, whatever tore it."""


def _losses(
    state: State, events_at: int, num_mended: int, longest_mended: int, num_unpaired: int
) -> list[Loss]:
    """What the parser gave up or mended, as health issues in the making."""

    def at(offset: int) -> int | None:
        return events_at + offset if offset >= 0 else None

    found = []
    if state.mixed_at >= 0:
        byte = events_at + state.mixed_at
        detail = (
            f"another file's text begins at byte {byte}: two ranks wrote one file; "
            "events before it are kept; device work of any step may be among the others: its accounting is "
            "withheld; put the rank in the file name"
        )
        found.append(Loss("mixed_writers", 1, detail, byte, is_cut=True))
    what = []
    if state.num_lost:
        what.append(f"{state.num_lost} events could not be read and were left out")
    if state.num_repaired:
        what.append(f"{state.num_repaired} events with stray commas or words for numbers were mended")
    if num_mended:
        what.append(
            f"{num_mended} texts with bad escapes, control characters or bytes that are no UTF-8 were mended"
        )
    if state.num_no_duration:
        what.append(f"{state.num_no_duration} complete events have no duration that can be read (taken as 0)")
    if num_unpaired:
        what.append(f"{num_unpaired} begin or end events lack their other half and were left out")
    if what:
        first = at(min((b for b in (state.first_lost, state.first_repair) if b >= 0), default=-1))
        where = f", the first at byte {first}" if first is not None else ""
        count = state.num_lost + state.num_repaired + num_mended + state.num_no_duration + num_unpaired
        # A hole that begins inside a string is a part of that string.
        lost = max(state.lost_bytes, longest_mended)
        if lost >= HOLE_BYTES:
            what.append(
                f"{lost} bytes of it hold no event that can be read: device work of any step may be among "
                "the others: its accounting is withheld"
            )
        text = "; ".join(what) + where
        found.append(
            Loss("malformed_events", count, text, first, state.lost_bytes, is_cut=lost >= HOLE_BYTES)
        )
    if state.num_bad_time:
        detail = (
            f"{state.num_bad_time} events have a time that is no number or beyond 64 bits and were left out"
        )
        found.append(Loss("bad_timestamp", state.num_bad_time, detail, at(state.first_bad_time)))
    return found
