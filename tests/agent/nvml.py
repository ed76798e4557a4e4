"""The real binding over a driver's library of our own."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parent / "fake_nvml.c"


@functools.cache
def _built() -> bytes:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: the driver's stand-in cannot be built")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "libnvidia-ml.so.1")
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-w", "-O1", "-o", str(out), str(SOURCE)], check=True, timeout=60
        )
        return out.read_bytes()


def fresh_binding() -> Any:
    """`pynvml` as a module of its own: the library that one has is no other's."""
    spec = importlib.util.find_spec("pynvml")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get("pynvml")
    sys.modules["pynvml"] = module  # it looks itself up while it is made
    try:
        spec.loader.exec_module(module)
    finally:
        if before is not None:
            sys.modules["pynvml"] = before
        else:
            del sys.modules["pynvml"]
    return module


class Fake:
    """`binding` is `pynvml`, a module of its own; `set` turns the driver's knobs."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.binding = fresh_binding()
        self.binding.nvmlLib = self.library

    def set(self, key: str, value: int, device: int = 0) -> None:
        self.library.fake_set(key.encode(), device, ctypes.c_longlong(value))

    def get(self, key: str) -> int:
        return int(self.library.fake_get(key.encode()))


@contextmanager
def fake_driver() -> Iterator[Fake]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "libnvidia-ml.so.1")  # a copy each: a library's state is its file's
        path.write_bytes(_built())
        yield Fake(path)
