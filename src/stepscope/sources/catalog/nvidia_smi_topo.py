"""`nvidia-smi topo -m`: how devices and network cards are joined. No samples."""

from __future__ import annotations

import re

from stepscope.model.error import InputError
from stepscope.model.sample import Telemetry, Topology
from stepscope.sources.formats.line import plain_lines
from stepscope.sources.gather import Gathering
from stepscope.sources.source import FileSource

FORMAT = "nvidia-smi-topo"
_LINK = re.compile(r"X|NV\d+|SYS|NODE|PHB|PXB|PIX|PIX-\w+|N/A")
_AFFINITY = "CPU Affinity"
_NUMA = "NUMA Affinity"


def _cells(line: str) -> list[str]:
    """Columns are divided by tabs; a copy from a terminal has two blanks or more instead."""
    cells = line.rstrip().split("\t") if "\t" in line else re.split(r"\s{2,}", line.rstrip())
    return [cell.strip() for cell in cells]


def _header(lines: list[str]) -> tuple[int, list[str]] | None:
    """(place, names of the columns) of the line that ends in the affinities."""
    for place, line in enumerate(lines):
        cells = [cell for cell in _cells(line) if cell]
        if _AFFINITY in cells and re.fullmatch(r"GPU\d+", cells[0]):
            return place, cells
    return None


def topology(text: str) -> Topology | None:
    """`None` where the text is no such matrix, or none of its rows can be read."""
    lines = plain_lines(text)
    found = _header(lines)
    if found is None:
        return None
    place, header = found
    names = header[: header.index(_AFFINITY)]
    links: dict[tuple[str, str], str] = {}
    affinity: dict[str, str] = {}
    numa: dict[str, int] = {}
    for line in lines[place + 1 :]:
        cells = _cells(line)
        if len(cells) <= len(names) or cells[0] not in names:
            continue
        of_row = cells[1 : len(names) + 1]
        if not all(_LINK.fullmatch(cell) for cell in of_row):
            continue
        links |= {(cells[0], name): cell for name, cell in zip(names, of_row, strict=True)}
        rest = cells[len(names) + 1 :]
        if rest and re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", rest[0]):
            affinity[cells[0]] = rest[0]
        if len(rest) > 1 and _NUMA in header and re.fullmatch(r"\d{1,4}", rest[1]):
            numa[cells[0]] = int(rest[1])
    return Topology(tuple(names), links, affinity, numa) if links else None


def read(text: str, name: str) -> Telemetry:
    found = topology(text)
    if found is None:
        raise InputError(name, "nvidia-smi topo -m without a row that can be read", "run it again")
    return Gathering(FORMAT).telemetry(name, "none", topology=found)


def _claims(head: str) -> bool:
    return _header(plain_lines(head)[:40]) is not None


SOURCE = FileSource(format=FORMAT, title="nvidia-smi topo -m", claims=_claims, read=read)
