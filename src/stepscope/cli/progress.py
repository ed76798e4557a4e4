"""A progress bar on stderr for large files, shown only where stderr is a terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich.progress

SHOWN_FROM_BYTES = 50_000_000


class Progress:
    """Draws nothing before the first large file; never where stderr is no terminal."""

    def __init__(self) -> None:
        self.is_shown = sys.stderr is not None and sys.stderr.isatty()
        self._bar: rich.progress.Progress | None = None
        self._tasks: dict[str, rich.progress.TaskID] = {}

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, name: str, done_bytes: int, total_bytes: int) -> None:
        """`done_bytes` of `total_bytes` of the file on disk have been read."""
        if total_bytes < SHOWN_FROM_BYTES:
            return
        if self._bar is None:
            import rich.progress
            from rich.console import Console

            self._bar = rich.progress.Progress(
                "{task.description}",
                rich.progress.BarColumn(),
                rich.progress.DownloadColumn(),
                rich.progress.TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
        if name not in self._tasks:
            from rich.markup import escape

            from stepscope.model.redact import without_secrets

            shown = without_secrets(name)[0][-40:]
            self._tasks[name] = self._bar.add_task(escape(shown), total=total_bytes)
        self._bar.update(self._tasks[name], completed=done_bytes)
