"""The native parser: one shared library with a plain C interface, called by ctypes (which lets other
threads run)."""

from __future__ import annotations

import ctypes
import importlib.util
import weakref
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.trace.kineto_table import KEYS, META_SLOT, SLOTS, TABLES, Type
from stepscope.trace.parsed import CORE, DTYPES, Parsed, State

LIBRARY = "_kineto"
STRINGS = ("names", "cats", "texts", "raws", "tracks")
NUM_STATE = 15


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """The library beside this file's `native` folder, `None` where it was not built or does not load."""
    spec = importlib.util.find_spec("stepscope.trace")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        for path in sorted(Path(folder, "native").glob(f"{LIBRARY}*")):
            if path.suffix not in (".so", ".pyd", ".dylib"):
                continue
            try:
                return _declared(ctypes.CDLL(str(path)))
            except (OSError, AttributeError):
                # Built for another machine, or by an older version: the fallback serves.
                continue
    return None


def _declared(lib: ctypes.CDLL) -> ctypes.CDLL:
    """The library with its functions' types."""
    pointer, i64 = ctypes.c_void_p, ctypes.c_int64
    lib.stepscope_kineto_new.restype = pointer
    lib.stepscope_kineto_new.argtypes = [ctypes.c_char_p, i64, i64, ctypes.c_int]
    lib.stepscope_kineto_feed.restype = i64
    lib.stepscope_kineto_feed.argtypes = [pointer, pointer, i64, ctypes.c_int, ctypes.c_int]
    lib.stepscope_kineto_state.restype = None
    lib.stepscope_kineto_state.argtypes = [pointer, ctypes.POINTER(i64)]
    lib.stepscope_kineto_size.restype = i64
    lib.stepscope_kineto_size.argtypes = [pointer, ctypes.c_int, ctypes.c_int]
    lib.stepscope_kineto_take.restype = pointer
    lib.stepscope_kineto_take.argtypes = [pointer, ctypes.c_int, ctypes.c_int]
    lib.stepscope_kineto_drop.restype = None
    lib.stepscope_kineto_drop.argtypes = [pointer]
    lib.stepscope_kineto_free.restype = None
    lib.stepscope_kineto_free.argtypes = [pointer]
    return lib


def spec_bytes() -> bytes:
    """The key and column table as the library reads it (see the comment at stepscope_kineto_new)."""
    out = bytearray()
    for key, (read, slot) in KEYS.items():
        text = key.encode()
        out += bytes([read, slot, len(text)]) + text
    out += bytes(3)
    for table in TABLES:
        out += bytes([ord(table.phase), len(table.columns)])
        for slot_name, kind in table.columns:
            out += bytes([SLOTS[slot_name], kind])
        out += bytes([len(table.triggers), *(SLOTS[name] for name in table.triggers)])
    return bytes(out + bytes(1))


class NativeParser:
    """See `stepscope.trace.parsed.Parser`. Raises MemoryError where memory runs out."""

    def __init__(self, max_string: int, max_nesting: int) -> None:
        lib = library()
        if lib is None:
            raise RuntimeError("the native parser is not built")
        self._lib = lib
        self._parser = lib.stepscope_kineto_new(spec_bytes(), max_string, max_nesting, META_SLOT)
        if not self._parser:
            raise MemoryError

    def __del__(self) -> None:
        if getattr(self, "_parser", None):
            self._lib.stepscope_kineto_free(self._parser)
            self._parser = None

    def feed(self, text: memoryview, is_final: bool, is_forced: bool) -> int:
        """Bytes it is done with."""
        buffer = np.frombuffer(text, dtype=np.uint8)
        done = self._lib.stepscope_kineto_feed(
            self._parser, buffer.ctypes.data, len(buffer), int(is_final), int(is_forced)
        )
        if done < 0:
            raise MemoryError
        return int(done)

    def state(self) -> State:
        """Counts so far."""
        n = (ctypes.c_int64 * NUM_STATE)()
        self._lib.stepscope_kineto_state(self._parser, n)
        return State(*n[:8], bool(n[8]), bool(n[9]), *n[10:15])  # type: ignore[call-arg, arg-type]

    def finish(self) -> Parsed:
        """The columns, handed over without a copy."""
        core = {name: self._take(-1, i, dtype) for i, (name, dtype) in enumerate(CORE)}
        strings = {name: self._strings(len(CORE) + 2 * i) for i, name in enumerate(STRINGS)}
        tables = {}
        for t, table in enumerate(TABLES):
            columns = {"row": self._take(t, 0, "i4")}
            for c, (name, kind) in enumerate(table.columns, 1):
                columns[name] = self._take(t, c, DTYPES[Type(kind)])
            tables[table.name] = columns
        return Parsed(core=core, tables=tables, **strings)

    def _take(self, table: int, column: int, dtype: str) -> npt.NDArray[Any]:
        """A column in the memory where it was written: the array gives it back when it goes."""
        size = int(self._lib.stepscope_kineto_size(self._parser, table, column))
        data = self._lib.stepscope_kineto_take(self._parser, table, column)
        if not data:
            return np.empty(0, dtype=dtype)
        memory = (ctypes.c_ubyte * size).from_address(data)
        weakref.finalize(memory, self._lib.stepscope_kineto_drop, data).atexit = False
        return np.frombuffer(memory, dtype=dtype)  # type: ignore[call-overload, no-any-return]

    def _strings(self, column: int) -> list[bytes]:
        text = self._take(-1, column, "u1").tobytes()
        ends = self._take(-1, column + 1, "i8").tolist()
        return [text[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)] if ends else []
