"""A loader whose waits are marked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from stepscope_sdk.monitor import Monitor

Batch = TypeVar("Batch")


class Data(Generic[Batch]):
    """Stands for a loader, epoch after epoch: its length and everything else of it are the loader's own."""

    def __init__(self, monitor: Monitor, loader: Iterable[Batch]) -> None:
        self._monitor = monitor
        self._loader = loader
        self._batches: Iterator[Batch] | None = None

    def __iter__(self) -> Iterator[Batch]:
        # Making an iterator may be the longest wait: workers start in it.
        batches: Iterator[Batch] = self._waited(iter, self._loader)
        try:
            while True:
                try:
                    batch = self._waited(next, batches)
                except StopIteration:
                    return
                yield batch
        finally:
            # What was made here ends here; an iterator that was given may be used further.
            if batches is not self._loader:
                close = getattr(batches, "close", None)
                if callable(close):
                    with suppress(Exception):
                        close()

    def __next__(self) -> Batch:
        if self._batches is None:
            self._batches = self._waited(iter, self._loader)
        return self._waited(next, self._batches)  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._loader, name)

    def _waited(self, call: Callable[[Any], Any], argument: Any) -> Any:
        self._monitor.begin_phase("data")
        try:
            return call(argument)
        finally:
            self._monitor.end_phase("data")
