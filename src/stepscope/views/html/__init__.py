"""A report as one HTML file that opens anywhere: no script, no network, light and dark, phone to paper."""

from __future__ import annotations

from stepscope.views.html.page import render

__all__ = ["render"]
