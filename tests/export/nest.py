"""What the speedscope viewer checks of a file before it shows it, and what it needs for a right picture."""

from __future__ import annotations

from typing import Any

from stepscope.views.speedscope import SCHEMA


def check(file: dict[str, Any]) -> int:
    """Assert that a file is sound; how many slices it holds."""
    assert file["$schema"] == SCHEMA
    frames = file["shared"]["frames"]
    assert all(isinstance(frame["name"], str) for frame in frames)
    assert 0 <= file["activeProfileIndex"] < max(len(file["profiles"]), 1)
    count = 0
    for profile in file["profiles"]:
        assert profile["type"] == "evented"
        assert profile["unit"] == "nanoseconds"
        now, stack = profile["startValue"], []
        for event in profile["events"]:
            at = event["at"]
            assert isinstance(at, int)
            assert now <= at <= profile["endValue"] < 2**53
            now = at
            if event["type"] == "O":
                assert 0 <= event["frame"] < len(frames)
                stack.append(event["frame"])
                count += 1
            else:
                assert event["type"] == "C"
                assert stack.pop() == event["frame"]
        assert not stack
    return count
