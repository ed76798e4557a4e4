"""PyTorch's flight recorder: the dump of collectives that each rank writes, as pickle or JSON.

Versions 1.x to 2.10 of the dump. Where they differ: `seq_id` became `collective_seq_id` and `p2p_seq_id`;
types, `is_p2p` and `timeout_ms` came later, as did `pg_status`; `nccl_version` became `comm_lib_version`.
JSON has no frames, text for the numbers of the status, and 0 for a time that is not known. What is not there
is absent. Compared with dumps that PyTorch 2.13 wrote with gloo; with NCCL by its source.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from stepscope.model.error import InputError, RefusedError
from stepscope.model.redact import without_secrets
from stepscope.model.stuck import Call, CallState, Flight, Frame, Group
from stepscope.sources.formats.plain_pickle import BrokenPickle, HostilePickle, Limits, is_pickle, loads
from stepscope.sources.formats.py_spy import short

FORMAT = "flight-recorder"
_GIVE = "give what PyTorch wrote: TORCH_FR_DUMP_TEMP_FILE (before 2.9 TORCH_NCCL_DEBUG_INFO_TEMP_FILE)"
_RANK = re.compile(r"(\d{1,6})(?:\.(?:pickle|pkl|json|bin))?$")
_OF_TRACES = (b'"traceEvents"', b'"schemaVersion"', b'"distributedInfo"', b'"deviceProperties"')
MAX_BYTES = 1 << 30
MAX_CALLS = 1_000_000
MAX_FRAMES = 32
MAX_DIMENSIONS = 64
_LIBRARY = re.compile(r"^(?:nccl|ncclx|gloo|rccl|rcclx|xccl|hccl|mccl|ucc|mpi):")


def is_flight(head: bytes) -> bool:
    """Whether a file that begins so is a dump: a pickle or a JSON object with its keys in the first 4 KB."""
    start = head[:4096]
    if is_pickle(start):
        return b"version" in start[:64] and (b"pg_config" in start or b"entries" in start)
    text = start.lstrip()
    if not text.startswith(b"{") or any(key in start for key in _OF_TRACES):
        return False
    is_call = b'"process_group"' in start and b'"record_id"' in start
    return is_call or (b'"pg_config"' in start and (b'"version"' in head or b'"entries"' in start))


def parse(data: bytes, name: str, limits: Limits | None = None) -> Flight:
    """One rank's dump. InputError for what is none or breaks off, RefusedError for a pickle that asks for
    more than plain data: nothing that it names is looked up or run."""
    if len(data) > MAX_BYTES:
        raise RefusedError(f"{name}: a dump of more than {MAX_BYTES >> 20} MB: refused; {_GIVE}")
    try:
        plain = loads(data, limits) if is_pickle(data) else json.loads(data)
    except HostilePickle as error:
        what = f"the pickle {error.what}: refused, and nothing of it was run"
        raise RefusedError(f"{name} at byte {error.place}: {what}; {_GIVE}") from error
    except BrokenPickle as error:
        raise InputError(name, f"the pickle {error.what}", _GIVE, f"byte {error.place}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(name, f"is no whole JSON: {error}", _GIVE) from error
    if not isinstance(plain, dict) or not any(key in plain for key in ("entries", "pg_status", "pg_config")):
        raise InputError(name, "holds no dump of collectives", _GIVE)
    return _flight(plain, name)


def rank_in_name(name: str) -> int | None:
    """The rank that ends a dump's name (`nccl_trace_rank_3`), `None` where no number does."""
    found = _RANK.search(os.path.basename(name))
    return int(found[1]) if found else None


def _flight(top: Mapping[str, Any], name: str) -> Flight:
    groups = _groups(top.get("pg_config"))
    calls: list[Call] = []
    ids: dict[str, str] = {}
    num_odd = 0
    for entry in _list(top.get("entries"))[-MAX_CALLS:]:
        call = _call(entry)
        if call is None:
            num_odd += 1
            continue
        calls.append(call)
        group = _group(entry)
        groups.setdefault(call.group, group)
        if not groups[call.group].description and group.description:
            groups[call.group] = Group(call.group, group.description, groups[call.group].ranks)
        if (number := entry.get("pg_id")) is not None:
            ids[str(number)] = call.group
    enqueued: dict[str, int] = {}
    completed: dict[str, int] = {}
    status = top.get("pg_status")
    for number, told in status.items() if isinstance(status, dict) else ():
        # The status counts groups by their place; which group that is its entries tell, or its name does.
        group_name = ids.get(str(number), str(number) if str(number) in groups else None)
        if group_name is None or not isinstance(told, dict):
            continue
        for where, key in ((enqueued, "last_enqueued_collective"), (completed, "last_completed_collective")):
            value = _whole(told.get(key))
            if value is not None and value >= 0:
                where[group_name] = value
    return Flight(
        rank=rank_in_name(name),
        version=str(top.get("version", ""))[:20],
        calls=tuple(calls),
        groups=groups,
        enqueued=enqueued,
        completed=completed,
        name=name,
        num_odd=num_odd,
    )


def _groups(config: Any) -> dict[str, Group]:
    """Of `pg_config`: by name, of {name, desc, ranks as text}, or a plain list of ranks before 2.1."""
    found: dict[str, Group] = {}
    for key, told in config.items() if isinstance(config, dict) else ():
        if isinstance(told, dict):
            group = Group(
                str(told.get("name", key))[:200], str(told.get("desc", ""))[:200], _ranks(told.get("ranks"))
            )
        else:
            group = Group(str(key)[:200], "", _ranks(told))
        # Gloo leaves the default group's name empty, and writes 0 into its entries.
        found[group.name or "0"] = group if group.name else Group("0", group.description, group.ranks)
    return found


def _ranks(told: Any) -> tuple[int, ...]:
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError:
            return ()
    return tuple(
        sorted({each for value in _values(told) if (each := _whole(value)) is not None and each >= 0})
    )


def _group(entry: Mapping[str, Any]) -> Group:
    told = entry.get("process_group", entry.get("pg_name"))
    parts = [str(each)[:200] for each in _values(told)]
    if parts:
        return Group(parts[0], parts[1] if len(parts) > 1 else "")
    return Group(str(told if told is not None else entry.get("pg_id", ""))[:200])


def _call(entry: Any) -> Call | None:
    if not isinstance(entry, dict):
        return None
    is_p2p = entry.get("is_p2p") is True
    sequence = _whole(entry.get("p2p_seq_id" if is_p2p else "collective_seq_id", entry.get("seq_id")))
    full = str(entry.get("profiling_name", ""))[:200]
    if sequence is None or not full:
        return None
    op = _LIBRARY.sub("", full)
    return Call(
        group=_group(entry).name,
        sequence=sequence,
        op=op,
        state=_state(entry, full),
        created_ns=_whole(entry.get("time_created_ns")) or None,
        input_sizes=_sizes(entry.get("input_sizes")),
        output_sizes=_sizes(entry.get("output_sizes")),
        input_types=_types(entry.get("input_dtypes")),
        is_p2p=is_p2p or op.startswith(("send ", "recv ")),
        frames=_frames(entry.get("frames")),
    )


def _state(entry: Mapping[str, Any], full: str) -> CallState:
    """As written. Gloo follows no state: it takes a call off its list when it is over, which NCCL's watchdog
    does with one that timed out, too."""
    state = str(entry.get("state", ""))
    is_retired = entry.get("retired") is True
    if state == "completed":
        return "completed"
    if is_retired:
        return "completed" if full.startswith("gloo:") else "timed_out"
    return "started" if state == "started" else "scheduled"


def _frames(told: Any) -> tuple[Frame, ...]:
    found = []
    for each in _list(told)[:MAX_FRAMES]:
        if isinstance(each, dict):
            function, _ = without_secrets(str(each.get("name", ""))[:200])
            file, _ = without_secrets(short(str(each.get("filename", ""))[:500]))
            found.append(Frame(function, file, _whole(each.get("line"))))
    return tuple(found)


def _sizes(told: Any) -> tuple[tuple[int, ...], ...] | None:
    if not isinstance(told, list | tuple):
        return None
    return tuple(
        tuple(each for v in _values(row)[:MAX_DIMENSIONS] if (each := _whole(v)) is not None) for row in told
    )


def _types(told: Any) -> tuple[str, ...] | None:
    return tuple(str(each)[:40] for each in told) if isinstance(told, list | tuple) else None


def _list(told: Any) -> list[Any]:
    return told if isinstance(told, list) else []


def _values(told: Any) -> list[Any]:
    return list(told) if isinstance(told, list | tuple) else []


def _whole(told: Any) -> int | None:
    if isinstance(told, bool):
        return None
    if isinstance(told, int):
        return told
    text = told.strip() if isinstance(told, str) else ""
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None


def one_a_rank(flights: Iterable[Flight]) -> list[Flight]:
    """Of several dumps of one rank the one that came furthest."""
    best: dict[int, Flight] = {}
    for each in flights:
        if each.rank is None:
            continue
        known = best.get(each.rank)
        if known is None or _reached(each) > _reached(known):
            best[each.rank] = each
    return [best[rank] for rank in sorted(best)]


def _reached(flight: Flight) -> tuple[int, int]:
    return max((call.created_ns or 0 for call in flight.calls), default=0), len(flight.calls)
