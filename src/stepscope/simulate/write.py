"""A run into files: one compressed trace a rank, what was recorded beside them, and the truth beside their
folder."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

from stepscope.model.error import UsageError
from stepscope.simulate.cluster import Cluster
from stepscope.simulate.config import Config
from stepscope.simulate.counter.place import num_nodes
from stepscope.simulate.kineto import trace
from stepscope.simulate.record import names as recorded_names
from stepscope.simulate.record import recorded
from stepscope.simulate.truth import truth_of

LEVEL = 1
"""Of gzip: a trace repeats itself so much that more effort gains a third and costs three times the time."""


def truth_path(out: Path) -> Path:
    """Where the truth of a run in this folder lies: beside it, where `diagnose` does not look."""
    return out.with_name(f"{out.name}.truth.json")


def write(config: Config, out: str | os.PathLike[str], on_rank: Callable[[int], None] | None = None) -> Path:
    """Write `rank0.json.gz`, … into the folder, which is made where it is absent, and `telemetry/` and
    `logs/` where the run is recorded; returns the truth's path.

    `on_rank` is called when a rank has been written. Raises UsageError where something of another run lies in
    the folder: its ranks would be read with these.
    """
    folder = Path(os.path.abspath(out))
    names = [f"rank{rank}.json.gz" for rank in range(config.ranks)]
    beside = recorded_names(num_nodes(config), config.ranks == 1) if config.telemetry is not None else []
    if folder.is_dir():
        others = sorted(_files(folder) - {*names, *beside})
        if others:
            raise UsageError(
                f"{out}: holds {others[0]}, which is not of this run; give an empty folder to --out"
            )
    elif folder.exists():
        raise UsageError(f"{out}: is a file; give a folder to --out")
    cluster = Cluster(config)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        truth_path(folder).unlink(missing_ok=True)  # of an earlier run: it would not be true of this one
        for (rank, rows), name in zip(cluster.each(), names, strict=True):
            _put(folder / name, gzip.compress(trace(config, rank, rows), LEVEL, mtime=0))
            if on_rank is not None:
                on_rank(rank)
        for name, text in recorded(cluster):
            (folder / name).parent.mkdir(exist_ok=True)
            _put(folder / name, text.encode())
        _put(truth_path(folder), (json.dumps(truth_of(cluster)) + "\n").encode())
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(
            f"{error.filename or out}: cannot be written: {why}; give another folder to --out"
        ) from error
    return truth_path(folder)


def _files(folder: Path) -> set[str]:
    """What lies in a folder, hidden names left out, by path from it."""
    found = {path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}
    return {path.as_posix() for path in found if not any(part.startswith(".") for part in path.parts)}


def _put(path: Path, data: bytes) -> None:
    """A file that appears whole or not at all."""
    unfinished = path.with_name(f".{path.name}.part")
    try:
        unfinished.write_bytes(data)
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
