"""Jobs by hand: one builder a rank, written side by side and diagnosed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stepscope import offline
from stepscope.model.report import Report, decode, encode
from tests.analyse.build import Build, Micros

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
PYTHON_TID = 4242


def ranks(number: int, **kw: Any) -> list[Build]:
    """So many empty builders, one a rank."""
    return [Build(rank=rank, world_size=number, **kw) for rank in range(number)]


def collective(b: Build, start: Micros, end: Micros, name: str = ALL_REDUCE, **kw: Any) -> Build:
    """A communication kernel on its own stream, launched just before it starts."""
    launched = kw.pop("launched", (float(start) - 5, float(start) - 3))
    return b.kernel(name, start, end, stream=20, launched=launched, **kw)


def write(folder: Path, builders: Iterable[Build]) -> Path:
    """One file a rank."""
    folder.mkdir(exist_ok=True, parents=True)
    for b in builders:
        (folder / f"rank{b.rank}.json").write_text(b.write())
    return folder


def diagnose(folder: Path, builders: Iterable[Build], **kw: Any) -> Report:
    """The report of these ranks."""
    report = offline.diagnose(write(folder, builders), **kw)
    assert decode(encode(report)) == report  # plain numbers throughout
    return report
