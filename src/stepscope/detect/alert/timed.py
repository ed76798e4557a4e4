"""For how long something held that is looked at now and then, such as of a job: the machine of one value."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from stepscope.detect.alert.condition import Condition

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _State:
    since_ns: int
    is_alarm: bool = False
    back_ns: int | None = None


class Timed(Generic[K]):
    """States by key. `look` says whether it is an alarm now; `since_ns` since when it held."""

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self._states: dict[K, _State] = {}

    def look(self, key: K, holds: bool | None, at_ns: int) -> tuple[bool, int] | None:
        """(is an alarm, since when it holds, or no longer does) where that is so now or has just ended;
        `None` for nothing to say. `holds` is `None` where it is not known: then nothing changes."""
        state = self._states.get(key)
        if holds is None:
            return None
        if holds:
            if state is None:
                state = self._states[key] = _State(at_ns)
            state.back_ns = None
            state.is_alarm = state.is_alarm or at_ns - state.since_ns >= self.condition.for_ns
            return (True, state.since_ns) if state.is_alarm else None
        if state is None:
            return None
        if not state.is_alarm:
            del self._states[key]
            return None
        state.back_ns = at_ns if state.back_ns is None else state.back_ns
        if at_ns - state.back_ns < self.condition.clear_for_ns:
            return None
        del self._states[key]
        return False, state.back_ns

    def alarms(self) -> list[K]:
        """What is an alarm now."""
        return [key for key, state in self._states.items() if state.is_alarm]

    def forget(self, keys: list[K]) -> None:
        for key in keys:
            self._states.pop(key, None)

    def all(self) -> list[K]:
        """Whatever has a state."""
        return list(self._states)
