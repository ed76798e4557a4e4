"""Traces on their way to the disk: who they are of, trimmed where asked, compressed, renamed into place."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stepscope_sdk import ring_abi as abi
from stepscope_sdk.profile_folder import remove_file

if TYPE_CHECKING:
    from stepscope_sdk.capture_job import Job

LIGHT = 200
"""A light trace keeps so many of the last device activities (ops where there is no device)."""
DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
LAUNCH = frozenset({"cuda_runtime", "cuda_driver", "xpu_runtime"})
_STEP = re.compile(rb'"ProfilerStep#(\d+)"')
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d+)')
_CHUNK = 1 << 20
_LEVEL = 3  # a quarter of the time of the default level for a tenth more bytes


TOLD = ("job", "run", "restart", "host", "task", "scheduler_job", "local_rank")
"""Fields of the ring's identity that go into a trace."""


def members(identity: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """What goes to the head of a trace: whose it is, as PyTorch says it in a distributed job, and `told`."""

    def known(names: Sequence[str]) -> dict[str, Any]:
        return {name: identity[name] for name in names if identity.get(name) not in (None, "", abi.ABSENT)}

    place = known(("rank", "world_size"))
    head: dict[str, Any] = {"distributedInfo": place} if "rank" in place else {}
    return head | {"stepscope": {**told, **known(TOLD)}}


def about(job: Job) -> dict[str, Any]:
    """What a trace says of its capture under `stepscope`."""
    told: dict[str, Any] = {
        "capture": job.capture,
        "first_step": job.first_step,
        "num_steps": job.num_steps,
        "mode": job.mode,
    }
    return told if job.dropped is None else told | {"dropped_step": job.dropped}


def write(
    raw: str,
    path: str,
    head: Mapping[str, Any],
    steps: Sequence[tuple[int, int, int]] = (),
    phases: Sequence[tuple[str, int, int]] = (),
    thread: int | None = None,
    *,
    most: int | None = None,
    shift: int = 0,
) -> int:
    """Write the trace `raw` to `path` (`.json.gz`), atomically: its bytes.

    `head` goes in front of what the file says itself; `steps` are (number, start, end) in Unix nanoseconds,
    given to a trace that has no annotations of its own; `phases` are (name, start, end) alike, of the thread
    with this number, and come on top; `shift` is added to the numbers of those that it has;
    `most` trims. A trace that cannot be read is written as it is.
    """
    part = path + ".new"
    head = dict(head)
    try:
        with open(part, "wb", opener=_private) as file, gzip.GzipFile("", "wb", _LEVEL, file) as packed:
            text = None if most is None else trimmed(raw, head, steps, most, phases, thread)
            if text is None:
                with open(raw, "rb") as source:
                    _copy(source, packed, head, shift, phases, thread)
            else:
                for each in text:
                    packed.write(each.encode("utf-8", "surrogatepass"))
        size = os.path.getsize(part)
        os.replace(part, path)
    finally:
        remove_file(part)
    return size


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o640)


def _copy(
    source: Any,
    packed: gzip.GzipFile,
    head: Mapping[str, Any],
    shift: int,
    phases: Sequence[tuple[str, int, int]],
    thread: int | None,
) -> None:
    """The file as it is, with `head` in front. Cut at line ends: no number of a step is cut in two."""
    first = source.read(_CHUNK) + source.readline()
    at = first.find(b"{") + 1
    head = {name: value for name, value in head.items() if f'"{name}"'.encode() not in first}
    told = json.dumps(head)[1:-1].encode()
    packed.write(first[:at] + told + (b"," if told else b""))
    chunk = first[at:]
    events = _EVENTS.search(chunk)
    if phases and events is not None:
        base = _BASE.search(chunk, 0, events.start())
        base_ns = int(base[1]) if base is not None else 0
        own = [_mark(name, start - base_ns, end - base_ns, thread) for name, start, end in phases]
        text = ",\n".join(map(json.dumps, own))
        comma = "" if chunk[events.end() :].lstrip().startswith(b"]") else ","
        packed.write(chunk[: events.end()] + f"\n{text}{comma}".encode("utf-8", "replace"))
        chunk = chunk[events.end() :]
    while chunk:
        if shift:
            chunk = _STEP.sub(lambda found: b'"ProfilerStep#%d"' % (int(found[1]) + shift), chunk)
        packed.write(chunk)
        chunk = source.read(_CHUNK) + source.readline()


def trimmed(
    raw: str,
    head: dict[str, Any],
    steps: Sequence[tuple[int, int, int]],
    most: int,
    phases: Sequence[tuple[str, int, int]] = (),
    thread: int | None = None,
) -> Iterable[str] | None:
    """The text of the trace with its last `most` activities and what belongs to them: their launches, the
    names of processes and threads, and the steps they lie in, cut where the first of them begins.

    `None` where it is not JSON. The decoder is called for one event at a time, so that the thread that
    trains gets its turns.
    """
    with open(raw, encoding="utf-8", errors="surrogateescape") as file:
        text = file.read()
    try:
        before, events, behind = _events(text)
    except ValueError:
        return None
    kept, told = keep_last(events, most)
    base_ns = int(before.get("baseTimeNanoseconds", 0))
    marks = [_mark(name, start - base_ns, end - base_ns, thread) for name, start, end in phases]
    cut_us = told["cut_us"] if told["num_left_out"] else float("-inf")
    kept += [part for each in marks if (part := _cut(each, cut_us)) is not None]
    if not any(_is_step(each) for each in events) and kept:
        own = [_annotation(number, start - base_ns, end - base_ns) for number, start, end in steps]
        kept += [part for each in own if (part := _cut(each, cut_us)) is not None]
    if told["num_left_out"]:
        said = {**head.get("stepscope", {}), "trimmed": told}
        for each in kept:
            if _is_step(each) and float(each["ts"]) == told["cut_us"]:
                said["cut_step"] = int(str(each["name"]).partition("#")[2])
        head["stepscope"] = said
    whole = {**head, **before, **behind}
    return _joined(json.dumps(whole)[:-1], kept)


def _joined(opening: str, events: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    yield f'{opening}, "traceEvents": [\n'
    comma = ""
    for each in events:
        yield comma + json.dumps(each)
        comma = ",\n"
    yield "\n]}"


def _events(text: str) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]:
    """What stands before the events, the events, what stands behind. ValueError where it is not JSON."""
    decode = json.JSONDecoder(strict=False).raw_decode
    opening = re.search(r'"traceEvents"\s*:\s*\[', text)
    if opening is None:
        raise ValueError("no events")
    before = json.loads(text[: opening.start()].rstrip().rstrip(",") + "}", strict=False)
    space = re.compile(r"[\s,]*")
    events = []
    at = space.match(text, opening.end()).end()  # type: ignore[union-attr]
    while text[at : at + 1] != "]":
        event, at = decode(text, at)
        events.append(event)
        at = space.match(text, at).end()  # type: ignore[union-attr]
    behind = json.loads("{" + text[at + 1 :].lstrip().lstrip(","), strict=False)
    return before, events, behind


def keep_last(
    events: Sequence[Mapping[str, Any]], most: int
) -> tuple[list[Mapping[str, Any]], dict[str, Any]]:
    """(events that stay, what was left out: `num_left_out`, `num_kept`, `cut_us` where the rest begins)."""
    work = [each for each in events if each.get("cat") in DEVICE]
    work = work or [each for each in events if each.get("cat") == "cpu_op"]
    work.sort(key=lambda each: float(each["ts"]))
    last = work[-most:]
    cut = float(last[0]["ts"]) if last else 0.0
    if len(last) == len(work):
        return list(events), {"num_left_out": 0, "num_kept": len(last), "cut_us": cut}
    ids = {id(each) for each in last}
    numbers = {each.get("args", {}).get("correlation") for each in last} - {None}
    has_device = last[0].get("cat") in DEVICE
    kept: list[Mapping[str, Any]] = []
    for each in events:
        cat = each.get("cat")
        if each.get("ph") == "M" or id(each) in ids:
            kept.append(each)
        elif cat in LAUNCH and has_device:
            if each.get("args", {}).get("correlation") in numbers:
                kept.append(each)
        elif each.get("ph") in ("s", "f", "t"):
            if has_device and each.get("id") in numbers:
                kept.append(each)
        elif cat in ("user_annotation", "gpu_user_annotation"):
            if (part := _cut(each, cut)) is not None:
                kept.append(part)
        elif cat not in DEVICE and cat not in ("cpu_op", "python_function", "fwdbwd", "cpu_instant_event"):
            kept.append(each)
    return kept, {"num_left_out": len(work) - len(last), "num_kept": len(last), "cut_us": cut}


def _cut(event: Mapping[str, Any], at_us: float) -> Mapping[str, Any] | None:
    """The part of it behind this moment."""
    start, end = float(event["ts"]), float(event["ts"]) + float(event.get("dur", 0.0))
    if end <= at_us:
        return None
    return event if start >= at_us else {**event, "ts": at_us, "dur": end - at_us}


def _is_step(event: Mapping[str, Any]) -> bool:
    return str(event.get("name", "")).startswith("ProfilerStep#")


def _annotation(number: int, start_ns: int, end_ns: int) -> dict[str, Any]:
    """The annotation of a step, in the trace's own time."""
    return _mark(f"ProfilerStep#{number}", start_ns, end_ns)


def _mark(name: str, start_ns: int, end_ns: int, thread: int | None = None) -> dict[str, Any]:
    """An annotation on a thread, by default the main one, in the trace's own time."""
    pid = os.getpid()  # the main thread's number is the process's
    tid = pid if thread is None else thread
    ts, dur = start_ns / 1000, (end_ns - start_ns) / 1000
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur}
