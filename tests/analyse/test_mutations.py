"""The comparison with the reference must notice when the product is wrong.

Each mutation below breaks one row of a table or one branch of the product, and is caught when some trace of
the fixed seeds then differs (or the product fails its own check of sums). Tried:

* each cause's rows left out of the table of host causes (checkpoint, eval, profiler, compile, gc, input,
  allocator, copy_wait, host_sync, logging, peer), and pageable copies that no longer block;
* ops and calls that count as python, frames that count as unknown, a silent thread that counts as python;
* the order of causes turned round; rows of the profiler that are open on no thread;
* queued gaps called unknown; work that was issued late called queued;
* no run-ahead charged; run-ahead counted from the start of the trace, or charged with all of the wait;
* no marked phases after the launch; blocking copies that launch like others;
* no preprocessing, on devices and without; preprocessing at any length;
* always host windows, always device windows; host tiles that end with their annotation; work before the trace
  without an owner; owners by the corrected launch; launches after their work;
* no waiting rows; thread starts that say something; no other thread that answers; no autograd thread by its
  share of launches, or by its rows; the main thread always answers;
* communication that computes, copies that compute; no collectives on the host, ops in loaders that compute;
* an activity of no length that divides no gap; of activities that start together, any.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.analyse.compare import compare
from tests.analyse.generate import generate

SEEDS = 600

Mutation = Callable[[pytest.MonkeyPatch], None]
NEVER = re.compile(r"(?!)")


def _setting(module: str, name: str, value: Any) -> Mutation:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(f"stepscope.{module}.{name}", value)

    return mutate


def _wrapping(module: str, name: str, wrap: Callable[[Any], Any]) -> Mutation:
    """Replaces a function by what `wrap` makes of it."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        owner: Any = importlib.import_module(f"stepscope.{module}")
        *classes, attribute = name.split(".")
        for part in classes:
            owner = getattr(owner, part)
        patch.setattr(owner, attribute, wrap(getattr(owner, attribute)))

    return mutate


def _without(cause: str) -> Mutation:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        from stepscope.trace import host_cause

        kept = tuple(row for row in host_cause.TABLE if row.cause != cause)
        assert len(kept) < len(host_cause.TABLE)
        patch.setattr(host_cause, "TABLE", kept)

    return mutate


def _rank(cause: str) -> int:
    from stepscope.trace.host_cause import RANK

    return RANK[cause]


def _default(name: str, cause: str) -> Mutation:
    return lambda patch: patch.setattr(f"stepscope.trace.nesting.{name}", _rank(cause))


def _cause(name: str, cause: str) -> Mutation:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        from stepscope.analyse import idle

        patch.setattr(idle, name, idle.CAUSE[cause])

    return mutate


def _linked(**change: Callable[[Any], Any]) -> Mutation:
    """Columns of the linked activities, each a function of them."""

    def wrap(link: Any) -> Any:
        def linked(*args: Any) -> Any:
            found = link(*args)
            return replace(found, **{name: column(found) for name, column in change.items()})

        return linked

    return _wrapping("analyse.linked", "link", wrap)


def _no_run_ahead(_: Any) -> Any:
    return lambda walked, blocked: walked


def _from_the_start(_: Any) -> Any:
    return lambda activities, gaps: np.full(len(gaps), activities.start_ns.min() if len(activities) else 0)


def _all_of_the_wait(_: Any) -> Any:
    """Blocked at all: then all of the gap is the wait's."""

    def charge(walked: Any, blocked: Any) -> Any:
        from stepscope.analyse.idle import LAUNCH, PYTHON, UNKNOWN

        hit = np.isin(walked.gap, blocked.gap) & np.isin(walked.cause, (LAUNCH, PYTHON, UNKNOWN))
        if not hit.any():
            return walked
        return walked.named(np.where(hit, blocked.cause[0], walked.cause))

    return charge


def _strongest_last(cause_pieces: Any) -> Any:
    """The causes of a thread, the last in the order first."""

    def turned(rows: Any, everywhere: Any, start: int, end: int) -> Any:
        from stepscope.trace import nesting

        patch = pytest.MonkeyPatch()
        with patch.context() as inner:
            inner.setattr(nesting, "range", lambda n: reversed(range(n)), raising=False)
            return cause_pieces(rows, everywhere, start, end)

    return turned


def _tiles_of_annotations(find_steps: Any) -> Any:
    def found(*args: Any) -> Any:
        steps = find_steps(*args)
        return replace(steps, end_ns=steps.own_end_ns)

    return found


def _only_itself(_: Any) -> Any:
    def responsible(self: Any, thread: int) -> Any:
        from stepscope.model.interval import NOTHING, gaps

        return {thread: gaps(NOTHING, self.start_ns, self.end_ns)}

    return responsible


def _only_main(_: Any) -> Any:
    def responsible(self: Any, thread: int) -> Any:
        from stepscope.model.interval import NOTHING, gaps

        return {self.main: gaps(NOTHING, self.start_ns, self.end_ns)}

    return responsible


def _undivided(find_gaps: Any) -> Any:
    """Activities of no length are not seen, but where they are the last."""

    def found(activities: Any, launch_thread: Any, main: Any, start: int, end: int) -> Any:
        from stepscope.analyse import idle

        gaps = find_gaps(activities, launch_thread, main, start, end)
        has_length = activities.end_ns > activities.start_ns
        is_end = np.isin(gaps.end, activities.start_ns[has_length]) | (gaps.end == gaps.end[-1:])
        group = np.append(0, np.cumsum(is_end)[:-1]) if len(gaps) else np.zeros(0, int)
        first = np.append(True, group[1:] != group[:-1]) if len(gaps) else np.zeros(0, bool)
        if not len(gaps) or is_end.all():
            return gaps
        low = gaps.start[first][group[is_end]]
        return idle.Gaps(
            low,
            gaps.end[is_end],
            gaps.next[is_end],
            gaps.launch_ns[is_end],
            gaps.thread[is_end],
            gaps.can_walk[is_end],
        )

    return found


def _any_at_the_end(find_gaps: Any) -> Any:
    """Of activities that start together, the first by index, whatever is known of it."""

    def found(activities: Any, launch_thread: Any, *rest: Any) -> Any:
        gaps = find_gaps(activities, launch_thread, *rest)
        has_next = gaps.next >= 0
        first = np.minimum(np.searchsorted(activities.start_ns, gaps.end), len(activities) - 1)
        is_known = activities.launch_row[first] >= 0
        return replace(
            gaps,
            next=np.where(has_next, first, -1),
            launch_ns=np.where(has_next, activities.launch_ns[first], gaps.launch_ns),
            thread=np.where(has_next, launch_thread[first], gaps.thread),
            can_walk=np.where(has_next, is_known, gaps.can_walk),
        )

    return found


MUTATIONS: dict[str, Mutation] = {
    **{
        f"no rows of {cause}": _without(cause)
        for cause in (
            "checkpoint",
            "eval",
            "profiler",
            "compile",
            "gc",
            "input",
            "allocator",
            "copy_wait",
            "host_sync",
            "logging",
            "peer",
        )
    },
    "pageable copies do not block": _linked(is_pageable=lambda a: np.zeros(len(a), dtype=bool)),
    "ops and calls are python": _default("LAUNCH", "python"),
    "python is unknown": _default("PYTHON", "unknown"),
    "a silent thread is python": _default("UNKNOWN", "python"),
    "causes in the opposite order": _wrapping("trace.nesting", "cause_pieces", _strongest_last),
    "the profiler is open nowhere": _setting("trace.thread", "_everywhere", lambda *_: {}),
    "queued is unknown": _cause("QUEUED", "unknown"),
    "late is queued": _linked(launch_ns=lambda a: np.where(a.launch_row >= 0, a.start_ns.min(), a.launch_ns)),
    "no run-ahead": _wrapping("analyse.idle", "charge_run_ahead", _no_run_ahead),
    "run-ahead from the start": _wrapping("analyse.idle", "_last_issued", _from_the_start),
    "run-ahead without a budget": _wrapping("analyse.idle", "charge_run_ahead", _all_of_the_wait),
    "no phases after the launch": _setting("analyse.idle", "PHASES", ()),
    "blocking copies launch": _cause("COPY_WAIT", "launch"),
    "no preprocessing": _setting("analyse.idle", "PREPROCESS_SHARE", 9.0),
    "no preprocessing without devices": _setting("analyse.host", "PREPROCESS_SHARE", 9.0),
    "preprocessing at any length": _setting("analyse.idle", "PREPROCESS_SHARE", 0.0),
    "preprocessing past the first issue": _setting(
        "analyse.rank", "prepared_ns", lambda *_: np.full(_[-1], np.iinfo(np.int64).max)
    ),
    "always host windows": _setting("analyse.window", "HOST_WINDOW_SHARE", 9.0),
    "always device windows": _setting("analyse.window", "HOST_WINDOW_SHARE", 0.0),
    "tiles end with their annotation": _wrapping("analyse.rank", "find_steps", _tiles_of_annotations),
    "nothing before the trace": _linked(is_before_trace=lambda a: np.zeros(len(a), dtype=bool)),
    "owner by the corrected launch": _linked(called_ns=lambda a: a.launch_ns),
    "launch after its work": _linked(launch_ns=lambda a: a.called_ns),
    "nothing waits": _setting("trace.host_cause", "WAITING", ()),
    "thread starts speak": _setting("trace.host_cause", "THREAD_START", NEVER),
    "nobody else answers": _wrapping("trace.nesting", "HostTimeline.responsible", _only_itself),
    "main always answers": _wrapping("trace.nesting", "HostTimeline.responsible", _only_main),
    "no autograd thread by launches": _setting("trace.thread", "AUTOGRAD_LAUNCH_SHARE", 9.0),
    "no autograd thread": _setting("trace.thread", "_autograd", lambda *_: ()),
    "communication computes": _setting("trace.link", "COMMUNICATION", 0),
    "copies compute": _setting("trace.link", "COPY", 0),
    "no collectives on the host": _setting("trace.host_cause", "COLLECTIVE", NEVER),
    "ops of a loader compute": _setting("analyse.host", "NOT_COMPUTE", ()),
    "no length divides nothing": _wrapping("analyse.idle", "find_gaps", _undivided),
    "any of those that start together": _wrapping("analyse.idle", "find_gaps", _any_at_the_end),
}


def caught(patch: pytest.MonkeyPatch, mutation: Mutation) -> int | None:
    """The first seed whose comparison fails under the mutation."""
    mutation(patch)
    for seed in range(SEEDS):
        try:
            if compare(generate(seed)).differences:
                return seed
        except AssertionError:  # the product's own check of its sums
            return seed
    return None


@pytest.mark.parametrize("name", list(MUTATIONS))
def test_the_comparison_catches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert caught(monkeypatch, MUTATIONS[name]) is not None
