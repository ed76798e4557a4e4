"""Where the server of a folder can be asked: a second process cannot open the store, but may ask the one
that has it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

NAME = "server.json"


class Place(msgspec.Struct, frozen=True):
    """The address of the server that has the folder, and its process."""

    address: str
    pid: int


def write_address(folder: str, address: str) -> None:
    """Say it, whole or not at all."""
    half = Path(folder) / f"{NAME}.half"
    half.write_bytes(msgspec.json.encode(Place(address, os.getpid())))
    half.replace(Path(folder) / NAME)


def forget_address(folder: str) -> None:
    """The server ends."""
    with contextlib.suppress(OSError):
        (Path(folder) / NAME).unlink()


def read_address(folder: str) -> str | None:
    """The address; `None` where no server runs there, as far as the folder tells."""
    try:
        place = msgspec.json.decode((Path(folder) / NAME).read_bytes(), type=Place)
        os.kill(place.pid, 0)
    except PermissionError:  # of somebody else, and alive
        return place.address
    except (OSError, msgspec.MsgspecError):
        return None
    return place.address
