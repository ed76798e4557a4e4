"""A large trace from small real ones: their events again and again, with times and ids shifted.

    python -m bench.replicate OUT BYTES [SOURCE…]

Every repetition has its own correlations, external ids, Python ids, flow ids and steps, and follows the one
before in time, so that no link joins two repetitions. The text is in the profiler's own layout.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

SOURCES = (
    "traces/tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "traces/tracelens/h100/facebook_timesformer-base-finetuned-k400__1016002.json.gz",
    "traces/tracelens/b200/eager_trace.json.gz",
)
SHIFTED_ARGS = (
    "correlation", "External id", "Ev Idx", "Python id", "Python parent id", "Record function id",
    "wait_on_cuda_event_record_corr_id", "Sequence number",
)  # fmt: skip
BASE_NS = 1_751_410_836_000_000_000
MARK = "\ue000"  # stands where a number will be: in no trace's text
GAP_NS = 1_000_000
# Templates: literal text, and after each literal what number stands there.
Template = tuple[tuple[str, ...], tuple[tuple[str, int], ...]]


HEAD = f"""{{
  "schemaVersion": 1,
  "deviceProperties": [
    {{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85018279936, "numSms": 132}}
  ],
  "record_shapes": 1,
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": {BASE_NS},
  "traceEvents": ["""


def replicate(data: Path, out: Path, num_bytes: int, sources: Sequence[Path] = ()) -> None:
    """Write a trace of at least `num_bytes` to `out`."""
    templates: list[list[Template]] = []
    spans: list[tuple[int, int]] = []
    for source in sources or [data / name for name in SOURCES if (data / name).exists()]:
        events = _events(source)
        times = [_ns(e["ts"]) for e in events if e.get("ph") != "M"]
        ends = [_ns(e["ts"]) + _ns(e["dur"]) for e in events if "dur" in e]
        first = min(times)
        spans.append((first, max(times + ends) - first + GAP_NS))
        templates.append([_template(event, first) for event in events])
    widest = 1 + max(
        number for group in templates for _, numbers in group for kind, number in numbers if kind == "id"
    )
    part = out.with_name(out.name + ".part")
    with part.open("w", encoding="utf-8", buffering=1 << 22) as file:
        written = file.write(HEAD)
        shift_ns, turn = 0, 0
        glue = "\n"
        while written < num_bytes:
            group = turn % len(templates)
            text = ",\n".join(_filled(templates[group], shift_ns, turn * widest, turn))
            written += file.write(glue + text)
            glue = ",\n"
            shift_ns += spans[group][1]
            turn += 1
        file.write(f'\n  ],\n  "traceName": "{out.name}"\n}}\n')
    part.replace(out)


def _events(source: Path) -> list[dict[str, Any]]:
    raw = source.read_bytes()
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    events = json.loads(text, parse_float=Decimal)["traceEvents"]
    return [
        event for event in events if isinstance(event, dict) and ("ts" in event or event.get("ph") == "M")
    ]


def _ns(value: Any) -> int:
    return int(Decimal(value) * 1000)


def _template(event: dict[str, Any], first_ns: int) -> Template:
    numbers: list[tuple[str, int]] = []

    def number(kind: str, value: Any) -> str:
        numbers.append((kind, value))
        return MARK

    def value_of(value: Any) -> str:
        return str(value) if isinstance(value, Decimal) else json.dumps(value, default=str)

    head, tail = [], []
    for name, value in event.items():
        if name == "args":
            continue
        if name == "ts":
            tail.append(
                f'"ts": {number("ts", _ns(value) - first_ns) if event.get("ph") != "M" else value_of(value)}'
            )
        elif name == "dur":
            tail.append(f'"dur": {value_of(value)}')
        elif name == "id" and isinstance(value, int):
            head.append(f'"id": {number("id", value)}')
        elif name == "name" and (step := re.fullmatch(r"ProfilerStep#(\d+)", str(value))):
            head.append(f'"name": "ProfilerStep#{number("step", int(step[1]))}"')
        else:
            head.append(f"{json.dumps(name)}: {value_of(value)}")
    # ids come before times in the text, so their order here must be the order of the marks
    in_head = [each for each in numbers if each[0] in ("id", "step")]
    in_tail = [each for each in numbers if each[0] == "ts"]
    numbers[:] = in_head + in_tail
    args = []
    for name, value in (event.get("args") or {}).items():
        is_id = name in SHIFTED_ARGS and isinstance(value, int) and value > 0
        args.append(f"{json.dumps(name)}: {number('id', value) if is_id else value_of(value)}")
    text = f"  {{\n    {', '.join(head)}"
    text += f",\n    {', '.join(tail)}" if tail else ""
    text += f',\n    "args": {{\n      {", ".join(args)}\n    }}' if args else ""
    return tuple((text + "\n  }").split(MARK)), tuple(numbers)


def _filled(group: Sequence[Template], shift_ns: int, shift_id: int, turn: int) -> Iterator[str]:
    for literals, numbers in group:
        pieces = [literals[0]]
        for literal, (kind, value) in zip(literals[1:], numbers, strict=True):
            if kind == "ts":
                ns = value + shift_ns
                pieces.append(f"{ns // 1000}.{ns % 1000:03d}")
            else:
                pieces.append(str(value + (turn * 100 if kind == "step" else shift_id)))
            pieces.append(literal)
        yield "".join(pieces)


if __name__ == "__main__":
    replicate(Path("."), Path(sys.argv[1]), int(sys.argv[2]), [Path(each) for each in sys.argv[3:]])
