"""What stacks of all ranks say: most wait in one place, and one is elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stepscope.analyse.stuck.word import frame_of, is_library, ranks_en
from stepscope.model.stuck import Accused, Frame, Stack

Doing = Literal["collective", "data", "checkpoint", "sleep", "import", "compile", "lock", "other"]
WORK: tuple[tuple[Doing, tuple[str, ...], tuple[str, ...]], ...] = (
    ("collective",
     ("all_reduce", "allreduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "broadcast",
      "barrier", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "gather", "scatter", "reduce",
      "recv", "send", "monitored_barrier", "wait_stream", "synchronize", "broadcast_object_list",
      "all_gather_object", "batch_isend_irecv", "_wait_for_computation_stream", "clip_grad_norm_"),
     ("torch/distributed/", "torch/cuda/", "torch/nn/parallel/", "deepspeed/comm", "horovod/")),
    ("checkpoint", ("save", "_save", "_legacy_save", "save_checkpoint", "dist_cp_save", "async_save"),
     ("torch/serialization.py", "torch/distributed/checkpoint", "safetensors",
      "deepspeed/runtime/checkpoint")),
    ("data", ("_next_data", "_get_data", "_try_get_data", "__next__"),
     ("torch/utils/data", "webdataset", "datasets/")),
    ("compile", ("compile", "_compile", "compile_fx"), ("torch/_dynamo", "torch/_inductor", "triton/")),
    ("import", ("_find_and_load", "exec_module"), ("importlib",)),
)  # fmt: skip
"""(what it is doing, names of functions, beginnings of their files), in the order in which they are tried.
Both must be met; of compiling and importing the file alone."""
DOING_EN: dict[Doing, str] = {
    "collective": "in a collective", "data": "in its data loader", "checkpoint": "writing a checkpoint",
    "sleep": "asleep", "import": "importing", "compile": "compiling", "lock": "waiting for a lock or a queue",
    "other": "in its own code",
}  # fmt: skip
DOING_ZH: dict[Doing, str] = {
    "collective": "在集合通信中", "data": "在数据加载器中", "checkpoint": "正在写检查点", "sleep": "在休眠",
    "import": "正在导入模块", "compile": "正在编译", "lock": "在等待锁或队列", "other": "在自身代码中",
}  # fmt: skip
_LOCKS = ("threading.py", "queue.py", "multiprocessing/")
_SLEEP = ("sleep", "nap", "pause")
MOST_DEEP = 40


@dataclass(frozen=True, slots=True)
class Seen:
    """Where the main thread of one rank is: `own` its innermost frame of the job's code."""

    rank: int
    doing: Doing
    own: Frame | None
    top: Frame | None
    place: tuple[str, ...]
    """Frames as functions of files, innermost first: ranks in which this is equal are in one place."""


def seen(stack: Stack) -> Seen | None:
    """What a rank is doing by its stack; `None` where it is not known whose it is, or it has no frames."""
    main = stack.main
    if main is None or stack.rank is None or not main.frames:
        return None
    frames = main.frames[:MOST_DEEP]
    # Of a wait the line counts; further out loops may be at another one, and library frames differ.
    own = [each for each in frames if not is_library(each)]
    place = (str(own[0]), *(f"{each.file}:{each.function}" for each in own[1:])) if own else ()
    return Seen(stack.rank, _doing(frames), frame_of(frames), frames[0], (_doing(frames), *place))


def _doing(frames: Sequence[Frame]) -> Doing:
    top = frames[0]
    if top.function.lower() in _SLEEP:
        return "sleep"
    for doing, functions, files in WORK:
        for each in frames[: 12 if doing == "collective" else MOST_DEEP]:
            name = each.function.rpartition(".")[2]
            in_file = each.file.startswith(files) or any(f"/{file}" in each.file for file in files)
            if in_file and (name in functions or doing not in ("collective", "checkpoint", "data")):
                return doing
            if doing == "data" and in_file and name.startswith("_"):
                return doing
    return "lock" if top.file.startswith(_LOCKS) else "other"


def witness(stacks: Sequence[Stack]) -> Accused | None:
    """Whom the stacks accuse: where at least one waits in a collective, those that do not; else those who are
    not where more than half are. Ranks that are all in collectives, though in different ones, accuse nobody.
    `None` where no stack is of a known rank."""
    latest: dict[int, Stack] = {}
    for each in stacks:
        if each.rank is not None and (each.at_ns or 0) >= (
            latest[each.rank].at_ns or 0 if each.rank in latest else 0
        ):
            latest[each.rank] = each
    known = [one for each in latest.values() if (one := seen(each)) is not None]
    if not known:
        return None
    waiting = [each for each in known if each.doing == "collective"]
    odd = [each for each in known if each.doing != "collective"] if waiting else _elsewhere(known)
    if len(known) < 2 or len(odd) == len(known):
        odd = []
    others = [each for each in known if each not in odd]
    groups = _groups(odd), _groups(others)
    en = ", ".join(_said(group) for half in groups for group in half)
    zh = "，".join(_said_zh(group) for half in groups for group in half)
    return Accused("stacks", tuple(sorted(each.rank for each in odd)), f"stacks: {en}", f"调用栈：{zh}")


def _elsewhere(known: Sequence[Seen]) -> list[Seen]:
    places: dict[tuple[str, ...], list[Seen]] = {}
    for each in known:
        places.setdefault(each.place, []).append(each)
    most = max(places.values(), key=len)
    return [each for each in known if each not in most] if 2 * len(most) > len(known) else []


def _groups(ranks: Sequence[Seen]) -> list[list[Seen]]:
    """Ranks by place, the largest group last; at most four."""
    places: dict[tuple[str, ...], list[Seen]] = {}
    for each in ranks:
        places.setdefault(each.place, []).append(each)
    return sorted(places.values(), key=len)[:4]


def _said(group: Sequence[Seen]) -> str:
    first, ranks = group[0], [each.rank for each in group]
    at = f" at {first.own}" if first.own is not None else ""
    return f"{ranks_en(ranks)} {'is' if len(ranks) == 1 else 'are'} {DOING_EN[first.doing]}{at}"


def _said_zh(group: Sequence[Seen]) -> str:
    first = group[0]
    at = f"（{first.own}）" if first.own is not None else ""
    return f"{ranks_en([each.rank for each in group])} {DOING_ZH[first.doing]}{at}"
