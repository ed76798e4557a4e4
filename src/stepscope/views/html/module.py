"""The table of the model's modules: each under the one around it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stepscope.model import report
from stepscope.model.text import Lang, Text
from stepscope.views.html.column import RANK, Column, Table, as_share, as_time, column
from stepscope.views.html.markup import Markup, code, tag
from stepscope.views.label import WORD


class Place(NamedTuple):
    """A module where it stands in the model: how deep, and its name within the module around it."""

    module: report.Module
    depth: int
    name: str

    @property
    def rank(self) -> int | None:
        """Whose module it is."""
        return self.module.rank


def module_tree(modules: Iterable[report.Module]) -> list[Place]:
    """The modules depth first, each under the nearest one around it that was reported, hottest first.

    A path that comes again begins the model of another file.
    """
    models: list[dict[str, report.Module]] = []
    of_rank: dict[int | None, dict[str, report.Module]] = {}
    for module in modules:
        if module.rank not in of_rank or module.path in of_rank[module.rank]:
            of_rank[module.rank] = {}
            models.append(of_rank[module.rank])
        of_rank[module.rank][module.path] = module
    return [place for model in models for place in _placed(model)]


def _placed(model: dict[str, report.Module]) -> list[Place]:
    inside: dict[str, list[str]] = {}
    for path in model:
        inside.setdefault(_around(path, model), []).append(path)
    places: list[Place] = []
    # A stack and not a recursion: a path of a stranger's file may be as deep as it likes.
    open_ = [(path, 0, "") for path in reversed(inside.get("", []))]
    while open_:
        path, depth, outer = open_.pop()
        places.append(Place(model[path], depth, path[len(outer) + 1 :] if outer else path))
        within = sorted(inside.get(path, []) if path else [], key=lambda each: model[each].total_ns)
        open_ += [(each, depth + 1, path) for each in within]
    return places


def _around(path: str, model: dict[str, report.Module]) -> str:
    """The path of the nearest reported module around this one; empty where there is none."""
    end = path.rfind("/")
    while end > 0:
        if path[:end] in model:
            return path[:end]
        end = path.rfind("/", 0, end)
    return ""


_DEEPEST = 8
"""Deeper modules are indented no further: style.css has so many steps."""


def _indented(place: Place, lang: Lang) -> Markup:
    return tag(
        "span", code(place.name), class_=f"inner inner-{min(place.depth, _DEEPEST)}", title=place.module.path
    )


MODULES = Table(
    "modules",
    Text(en="Modules", zh="模块"),
    lambda r: module_tree(r.modules),
    (
        RANK,
        Column(Text(en="module", zh="模块"), _indented, is_number=False),
        column(Text(en="with inner modules", zh="含内部模块"), "module.total_ns", as_time),
        column(WORD["share"], "module.share", as_share),
        column(Text(en="its own", zh="自身"), "module.device_ns", as_time),
        column(WORD["forward"], "module.forward_ns", as_time),
        column(WORD["backward"], "module.backward_ns", as_time),
    ),
    Text(
        en="Device time of the work launched in a module; recomputed forward work counts as backward.",
        zh="模块内下发的任务的设备时间；重计算计入反向。",
    ),
)
