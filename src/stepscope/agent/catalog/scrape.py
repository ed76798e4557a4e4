"""Exporters: any page of Prometheus text that `sources/` knows (dcgm-exporter, AMD, Ascend, Intel, the node
exporter, …), each in its own thread.

The times are ours: when the page was fetched. What lag its values have is not known from it; how often the
exporter itself looks is inferred from values that stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.agent.context import Context
from stepscope.agent.exporter import Exporter
from stepscope.agent.fetch import Page, Refused
from stepscope.agent.source import Kind, NotHere, Reading, Source
from stepscope.model.error import InputError

DEFAULT = "http://127.0.0.1:9400/metrics"
HOLD_NS = 5_000_000_000
_LOOPBACK = ("127.", "localhost", "::1")


class ScrapeSource:
    """One exporter by its URL. `is_wanted` is false of the default one, which nobody asked for."""

    def __init__(self, context: Context, url: str, *, is_wanted: bool) -> None:
        self._context, self._is_wanted = context, is_wanted
        self._page = Page(url, context.timeout_seconds)
        host = context.host if self._page.host.startswith(_LOOPBACK) else self._page.host
        self._exporter = Exporter(shown=self._page.shown, host=host, hold_ns=HOLD_NS)
        self.name = self._page.shown

    def read(self) -> Sequence[Reading]:
        try:
            text = self._page.get()
        except Refused as error:
            if self._is_wanted:
                raise
            raise NotHere(str(error)) from error
        readings = self._exporter.page(text, self._context.clock.real_ns())
        if not self._exporter.is_known:
            raise InputError(
                self._page.shown, "no series of an exporter that is known", "give the page of an exporter"
            )
        return readings

    def close(self) -> None:
        self._page.close()


def _make(context: Context) -> Sequence[Source]:
    wanted = [ScrapeSource(context, url, is_wanted=True) for url in context.exporters]
    if context.has_default_exporter:
        return [*wanted, ScrapeSource(context, DEFAULT, is_wanted=False)]
    return wanted


SOURCE = Kind(
    name="scrape",
    title="Exporters (Prometheus text)",
    gives="what a known exporter tells of devices, host or containers, with its pods and namespaces",
    make=_make,
    least_ns=1_000_000_000,
)
