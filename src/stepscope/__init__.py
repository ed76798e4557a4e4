"""stepscope says why a GPU training step is slow, and what to do about it.

    import stepscope

    report = stepscope.diagnose(["trace.json.gz"])   # a stepscope.model.report.Report
    trace = stepscope.load("trace.json.gz")          # a stepscope.model.trace.Trace, in columns

Both are imported on first use: `import stepscope` alone costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.version import VERSION as __version__

if TYPE_CHECKING:
    from stepscope.offline import diagnose, load

__all__ = ["__version__", "diagnose", "load"]


def __getattr__(name: str) -> Any:
    if name in ("diagnose", "load"):
        from stepscope import offline

        return getattr(offline, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
