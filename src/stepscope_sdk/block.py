"""`with monitor.step(): …` and `with monitor.phase(name): …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope_sdk.monitor import Monitor


class Step:
    """One step, as a block. An exception that leaves it is marked and goes on."""

    __slots__ = ("_monitor", "_number", "_samples", "_seq_len", "_tokens")

    def __init__(
        self,
        monitor: Monitor,
        number: int | None,
        tokens: int | None,
        samples: float | None,
        seq_len: float | None,
    ) -> None:
        self._monitor, self._number = monitor, number
        self._tokens, self._samples, self._seq_len = tokens, samples, seq_len

    def __enter__(self) -> None:
        self._monitor.begin_step(
            self._number, tokens=self._tokens, samples=self._samples, seq_len=self._seq_len
        )

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._monitor.end_step(has_failed=kind is not None)


class Phase:
    """One phase, as a block."""

    __slots__ = ("_monitor", "_name", "_sync")

    def __init__(self, monitor: Monitor, name: str, sync: bool) -> None:
        self._monitor, self._name, self._sync = monitor, name, sync

    def __enter__(self) -> None:
        self._monitor.begin_phase(self._name, sync=self._sync)

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._monitor.end_phase(self._name, sync=self._sync, has_failed=kind is not None)
