"""stepscope says why a GPU training step is slow, and what to do about it.

    import stepscope

    report = stepscope.diagnose(["trace.json.gz"])   # a stepscope.model.report.Report
    trace = stepscope.load("trace.json.gz")          # a stepscope.model.trace.Trace, in columns

Both are imported on first use: `import stepscope` alone costs next to nothing.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from stepscope.version import VERSION as __version__

if TYPE_CHECKING:
    from stepscope.offline import diagnose, load

__all__ = ["__version__", "diagnose", "load"]


def __getattr__(name: str) -> Any:
    if name == "load":
        from stepscope.offline import load

        return load
    if name == "diagnose":
        import importlib

        return importlib.import_module("stepscope.diagnose")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# The folder `diagnose/` and the function `stepscope.diagnose()` have one name, and an imported folder goes
# into the function's place: so the folder can be called (docs/decisions/0003-diagnose-is-both.md).
class _Callable(ModuleType):
    def __call__(self, paths: Any, **options: Any) -> Any:
        """The report of one or more traces: `stepscope.offline.diagnose`."""
        from stepscope.offline import diagnose

        return diagnose(paths, **options)

    # What `help()` and `inspect` show is the function, not the folder. As properties they come before what
    # the folder's own file sets.
    @property
    def __signature__(self) -> Any:
        import inspect

        from stepscope.offline import diagnose

        return inspect.signature(diagnose)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        from stepscope.offline import diagnose

        first, _, rest = (diagnose.__doc__ or "").partition("\n\n")
        return f"{first}\n\n    stepscope.diagnose{self.__signature__}\n\n{rest}"

    @property
    def __all__(self) -> tuple[str, ...]:
        return ()


class _Package(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        if name == "diagnose" and type(value) is ModuleType:
            value.__class__ = _Callable
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
