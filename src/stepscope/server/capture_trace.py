"""A trace that an agent sends: taken within caps, freed of secrets once more, looked at before it counts."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator

from stepscope.model.error import InputError, RefusedError
from stepscope.trace.limits import Limits
from stepscope.trace.load import load
from stepscope.trace.packed import packed, unpacked
from stepscope.trace.secret import SecretsRemoved

LIMITS = Limits(max_output=16 << 30)


class NotWanted(RefusedError):
    """Nobody asked for it, or it is here already. HTTP: 409."""


class TooLarge(RefusedError):
    """It is larger than may be sent. HTTP: 413."""


def received(
    chunks: Iterable[bytes], name: str, capture: int, rank: int | None, folder: str | None, most_bytes: int
) -> str:
    """The path of the trace, gzip JSON without secrets, in `folder` (the system's, where that is `None`).

    TooLarge, and InputError for what is no trace of this capture and rank: then nothing is left of it.
    """
    file, path = tempfile.mkstemp(".json.gz", "capture-", folder)
    try:
        with os.fdopen(file, "wb") as out:
            text = SecretsRemoved(unpacked(_bounded(chunks, name, most_bytes), name, LIMITS))
            for piece in packed(text):
                out.write(piece)
        _check(path, name, capture, rank)
    except BaseException:
        os.unlink(path)
        raise
    return path


def _bounded(chunks: Iterable[bytes], name: str, most: int) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > most:
            raise TooLarge(f"{name}: more than {most >> 20} MB; record fewer steps")
        yield chunk


def _check(path: str, name: str, capture: int, rank: int | None) -> None:
    try:
        trace = load(path, limits=LIMITS)
    except InputError as error:
        raise InputError(name, error.what, error.mend, error.place) from error
    told = trace.metadata.get("stepscope")
    if not isinstance(told, dict) or told.get("capture") != capture:
        raise InputError(name, f"is no trace of capture {capture}", "send what was recorded for it")
    whose = trace.metadata.get("distributedInfo")
    said = whose.get("rank") if isinstance(whose, dict) else None
    if rank is not None and said is not None and said != rank:
        raise InputError(name, f"is of rank {said}, not of rank {rank}", "send each rank's own trace")
