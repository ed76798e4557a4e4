"""Calls back after a module has been imported. Needs nothing of the package, so that a Python that never
imports torch pays for this file alone."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Then = Callable[[ModuleType], object]
_waiting: dict[str, list[Then]] = {}


class _Finder:
    """Stands first in `sys.meta_path`, finds by the others, and adds to what the loader does."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec that the other finders give, for a module that is waited for."""
        if name not in _waiting:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is _Finder or find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                with suppress(Exception):  # a loader that takes no attribute: then without marks
                    _follow(name, spec)
                return spec
        return None


def _follow(name: str, spec: ModuleSpec) -> None:
    loader: Any = spec.loader
    before = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        with suppress(AttributeError):
            del loader.exec_module  # the loader is the user's: it stays as it was
        before(module)
        for then in _waiting.pop(name, ()):
            call(then, module)

    loader.exec_module = exec_module


def call(then: Then, module: ModuleType) -> None:
    """Call, and let nothing come out of it."""
    try:
        then(module)
    except Exception:  # noqa: BLE001  the import has succeeded: the script goes on, without marks
        return


def watch(name: str, then: Then) -> None:
    """Call `then(module)` once the module has been imported; at once where it is already."""
    module = sys.modules.get(name)
    if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
        call(then, module)
        return
    _waiting.setdefault(name, []).append(then)
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


def starter(package: str) -> Then:
    """What starts attach mode from the SDK in this folder, without a place on `sys.path`."""

    def start(torch: ModuleType) -> None:
        name = "stepscope_sdk"
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(
                name, f"{package}/__init__.py", submodule_search_locations=[package]
            )
            if spec is None or spec.loader is None:
                return
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
        importlib.import_module(f"{name}.attach").start(torch)

    return start
