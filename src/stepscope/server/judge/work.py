"""The process that diagnoses for the server: windows come in by its standard input, reports go out as JSON.

Run as `python -m stepscope.server.judge.work BYTES`; it ends when its input does. It knows no token and no
store, and reads no other files than the traces that it is given.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import struct
import sys
from typing import BinaryIO

import msgspec

HEAD = struct.Struct("<cQ")
"""`=` a report, `!` an error in one line; and how many bytes follow."""
NICE = 10


def read_exactly(file: BinaryIO, count: int) -> bytes:
    """So many bytes; EOFError where the other end is gone."""
    data = file.read(count)
    if len(data) < count:
        raise EOFError
    return data


def main(most_bytes: int) -> None:
    """Answer windows until nobody asks any more."""
    resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        os.nice(NICE)
    given, told = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints is not an answer
    from stepscope.model.error import StepscopeError
    from stepscope.offline.stored import diagnose_window
    from stepscope.rules import load_catalog

    load_catalog()  # while nobody waits
    while True:
        try:
            (size,) = struct.unpack("<Q", read_exactly(given, 8))
            window, asked = pickle.loads(read_exactly(given, size))  # of the server that started us
        except EOFError:
            return
        try:
            answer, kind = msgspec.json.encode(diagnose_window(window, asked).report), b"="
        except (StepscopeError, OSError) as error:
            answer, kind = " ".join(str(error).split()).encode(), b"!"
        except MemoryError:
            answer, kind = b"the diagnosis needs more memory than it may have", b"!"
        except Exception as error:  # noqa: BLE001  a fault of ours in one window must not end the next one's
            answer, kind = f"a fault of stepscope: {type(error).__name__}: {error}".encode(), b"!"
        told.write(HEAD.pack(kind, len(answer)) + answer)
        told.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
