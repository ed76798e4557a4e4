"""A report that a notebook shows as its page: everything else about it is the report's own."""

from __future__ import annotations

from html import escape

from stepscope.model.report import Report

HEIGHT_PIXELS = 760


class ShownReport(Report, frozen=True, kw_only=True):
    """A `Report`, equal to the one it shows, that a notebook draws instead of printing its fields."""

    def __eq__(self, other: object) -> bool:
        # Structs of two classes are never equal, and a decoded report is a plain one.
        if not isinstance(other, Report):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in Report.__struct_fields__)

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in Report.__struct_fields__))

    def _repr_html_(self) -> str:
        """The page in a frame of its own: no style, name or script of it touches the notebook."""
        from stepscope.views.html import render

        page = escape(render(self))
        return (
            f'<iframe srcdoc="{page}" sandbox="" title="stepscope" '
            f'style="width: 100%; height: {HEIGHT_PIXELS}px; border: 0"></iframe>'
        )


def shown(report: Report) -> ShownReport:
    """The same report, for a notebook too."""
    return ShownReport(**{name: getattr(report, name) for name in Report.__struct_fields__})
