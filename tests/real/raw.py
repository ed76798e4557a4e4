"""Figures straight from a trace's JSON, event by event: slow, simple, and without the product's code."""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

Event = dict[str, Any]
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


def nanoseconds(text: Decimal | int) -> int:
    return round(Decimal(text) * 1000)


@cache
def complete(path: Path) -> tuple[Event, ...]:
    """Complete events, with times in nanoseconds."""
    events = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]
    found = []
    for event in events:
        if event.get("ph") == "X" and "dur" in event:
            start = nanoseconds(event["ts"])
            found.append({**event, "ts": start, "end": start + nanoseconds(event["dur"])})
    return tuple(found)


def activities(path: Path) -> Iterator[tuple[Event, Event | None, list[Event]]]:
    """Each device activity, the call that launched it, and the host rows open then, outermost first."""
    calls, host = {}, defaultdict(list)
    for event in complete(path):
        if event.get("cat") in ("cuda_runtime", "cuda_driver", "hip_runtime"):
            calls[event["args"].get("correlation")] = event
        if event.get("cat") in ("cpu_op", "user_annotation"):
            host[event["tid"]].append(event)
    for event in complete(path):
        if event.get("cat") in DEVICE:
            call = calls.get(event["args"].get("correlation"))
            at = call["ts"] if call else 0
            around = [h for h in host[call["tid"]] if h["ts"] <= at < h["end"]] if call else []
            yield event, call, sorted(around, key=lambda h: (h["ts"], -h["end"]))


def phases_ns(path: Path) -> Counter[str]:
    """Device time launched inside nodes, in numbered ops inside nodes, and in the optimizer."""
    found: Counter[str] = Counter()
    for event, call, around in activities(path):
        names = [h["name"] for h in around]
        is_back = any(name.startswith("autograd::engine::") for name in names)
        if call is None:
            part = "no launch"
        elif any(name.startswith("Optimizer.step") for name in names):
            part = "optimizer"
        elif is_back:
            part = "recompute" if any(map(is_recorded, around)) else "backward"
        else:
            part = "rest"
        found[part] += event["end"] - event["ts"]
    return found


def is_recorded(row: Event) -> bool:
    """An op that autograd would run backwards, and no node."""
    args = row["args"]
    return "Sequence number" in args and not args.get("Fwd thread id") and "::engine" not in row["name"]


def matrix_flops(path: Path) -> Counter[str]:
    """Operations of products, convolutions and attention that launched work; `again`: recomputed ones."""
    seen, found = set(), Counter[str]()
    for _, _, around in activities(path):
        if not around or id(around[-1]) in seen or (flops := flops_of(around[-1])) is None:
            continue
        seen.add(id(around[-1]))
        found["all"] += flops
        if any("::engine" in h["name"] for h in around) and any(map(is_recorded, around)):
            found["again"] += flops
    return found


def flops_of(op: Event) -> int | None:
    """By the definition of the op, a multiply-add as two; `None` for ops that are no matrix work."""
    name, args = op["name"].removeprefix("aten::"), op["args"]
    dims, values = args.get("Input Dims", []), args.get("Concrete Inputs", [])
    if name in ("mm", "bmm"):
        return 2 * math.prod(dims[0]) * dims[1][-1]
    if name == "addmm":
        return 2 * math.prod(dims[1]) * dims[2][-1]
    if name == "_flash_attention_forward":
        batch, length, heads, size = dims[0]
        assert values[8] == "True"  # causal
        return batch * heads * (length * (length + 1) // 2) * 4 * size
    if name == "miopen_convolution":
        (batch, _, *image), (out, inner, *kernel) = dims[0], dims[1]
        padding, stride, dilation = (json.loads(values[at]) for at in (3, 4, 5))
        sizes = [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, p, s, d in zip(image, kernel, padding, stride, dilation, strict=True)
        ]
        return 2 * batch * out * math.prod(sizes) * inner * math.prod(kernel)
    if name == "convolution_backward":
        asked = values[10].count("True", 0, values[10].rindex(","))
        return 2 * math.prod(dims[0]) * math.prod(dims[2][1:]) * asked
    return None
