"""What a cause looks like on a timeline: a small picture, as data.

A lane is a line of letters, each of them one unit of time: equal letters in a row are one block, a dot is
empty, a bar a boundary between steps (it takes no time). What a letter stands for is in `MARKS`; a letter
that is not there is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from stepscope.model.text import Text

EMPTY, STEP = ".", "|"
MARKS: Mapping[str, Text] = MappingProxyType(
    {
        "c": Text(en="compute", zh="计算"),
        "n": Text(en="communication", zh="通信"),
        "m": Text(en="copy", zh="拷贝"),
        "d": Text(en="data loader", zh="数据加载"),
        "p": Text(en="host preparation", zh="主机预处理"),
        "l": Text(en="launches", zh="下发"),
        "s": Text(en="synchronisation", zh="同步"),
        "a": Text(en="allocator", zh="分配器"),
        "k": Text(en="compilation", zh="编译"),
        "g": Text(en="garbage collection", zh="垃圾回收"),
        "w": Text(en="checkpoint", zh="检查点"),
        "e": Text(en="evaluation", zh="评估"),
        "o": Text(en="logging", zh="日志"),
        "r": Text(en="recomputation", zh="重计算"),
        "x": Text(en="what this rule is about", zh="本规则所指"),
        "q": Text(en="profiler", zh="性能分析器"),
        "b": Text(en="memory in use", zh="显存占用"),
        "y": Text(en="Python code", zh="Python 代码"),
    }
)
HOST, DEVICE = Text(en="host", zh="主机"), Text(en="device", zh="设备")
"""The usual names of lanes."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One line of the picture."""

    name: Text
    blocks: str

    def __post_init__(self) -> None:
        strange = sorted(set(self.blocks) - set(MARKS) - {EMPTY, STEP})
        if strange or not self.blocks:
            raise ValueError(f"lane {self.name.en}: {strange or 'nothing'} in {self.blocks!r} has no mark")


@dataclass(frozen=True, slots=True)
class Signature:
    """The lanes, top to bottom, all equally long; `caption` says what to look at."""

    caption: Text
    lanes: tuple[Lane, ...]

    def __post_init__(self) -> None:
        if not self.lanes:
            raise ValueError("a picture without a lane")
        lengths = {len(lane.blocks.replace(STEP, "")) for lane in self.lanes}
        if len(lengths) != 1:
            raise ValueError(f"lanes of {sorted(lengths)} units: all are equally long")
