"""The agreement of all ranks on one step: a pure machine, without clock or files.

A step T beyond all ranks is proposed; only where all answer `armed`, and none has reached T − 1 yet, is it
committed, else cancelled and tried again with twice the margin. What goes wrong behind the commit (a rank
that saw it too late, died, failed) cancels too: ranks that recorded remove their traces, so that in the end
all ranks hold the same steps or none holds any.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from stepscope.act.capture.request import Limits, Order, Outcome, RankOutcome, Request, Seen

FINAL = frozenset({"too_late", "busy", "refused", "cancelled", "done", "failed"})
"""Answers behind which nothing more comes of this capture in that rank."""
AGAIN = frozenset({"too_late", "cancelled"})
"""Answers that a larger margin may change."""


class Agreement:
    """One request, from the first proposal to its end. `advance` is called again and again."""

    def __init__(
        self,
        rings: Sequence[str],
        request: Request,
        *,
        capture: int,
        delay_ns: int,
        limits: Limits,
    ) -> None:
        """`capture`: the first id to use, above all that the ranks know; `delay_ns`: how long a command and
        its answer are thought to take beyond the rank's own step."""
        self._rings, self._request, self._limits = tuple(rings), request, limits
        self._capture, self._delay_ns = capture, delay_ns
        self._factor = 1
        self._attempts = 0
        self._phase: Literal["propose", "answers", "work", "acknowledge", "over"] = "propose"
        self._first_step = 0
        self._asked_ns = self._deadline_ns = 0
        self._why: str | None = None
        self._may_retry = False
        self.outcome: Outcome | None = None

    def advance(self, now_ns: int, seen: Mapping[str, Seen]) -> list[Order]:
        """Orders to write now. `outcome` is set when nothing more is to come."""
        if self._phase == "propose":
            return self._propose(now_ns, seen)
        if self._phase == "answers":
            return self._collect(now_ns, seen)
        if self._phase == "work":
            return self._wait(now_ns, seen)
        if self._phase == "acknowledge":
            return self._acknowledge(now_ns, seen)
        return []

    def stop(self, now_ns: int, seen: Mapping[str, Seen]) -> list[Order]:
        """Orders to end it early: what was asked is cancelled, nothing is tried again."""
        if self._phase == "propose":
            self._why = "stopped"
            return self._over(seen)
        self._may_retry = False
        if self._phase in ("answers", "work"):
            return self._cancel(now_ns, "stopped", seen)
        return self.advance(now_ns, seen)

    def _propose(self, now_ns: int, seen: Mapping[str, Seen]) -> list[Order]:
        gone = [ring for ring in self._rings if not seen[ring].is_alive]
        newest = [step for ring in self._rings if (step := seen[ring].newest_step) is not None]
        if gone or len(newest) < len(self._rings):
            self._why = _gone(gone, seen) if gone else "a rank has not marked a step yet"
            return self._over(seen)
        self._attempts += 1
        self._first_step = max(newest) + self.margin_steps(seen)
        self._asked_ns = now_ns
        self._deadline_ns = now_ns + self._time_to(self._first_step, seen)
        self._phase = "answers"
        return self._to_all("propose")

    def margin_steps(self, seen: Mapping[str, Seen]) -> int:
        """How far ahead of the foremost rank T lies: a step to see the proposal, one to see the commit, the
        warm-up, and what the control takes twice, in steps of the fastest rank."""
        fastest = min((each.step_ns for each in seen.values() if each.step_ns), default=None)
        way = 2 * math.ceil(self._delay_ns / fastest) if fastest else 0
        margin = (self._limits.least_margin_steps + way) * self._factor
        return min(margin, self._limits.most_margin_steps)

    def _time_to(self, step: int, seen: Mapping[str, Seen]) -> int:
        """A deadline for all ranks to reach this step, however slow the slowest."""
        wait = [
            (step - (each.newest_step or 0)) * each.step_ns * self._limits.usual_steps
            for each in seen.values()
            if each.step_ns
        ]
        return max([self._limits.answer_ns, *wait])

    def _collect(self, now_ns: int, seen: Mapping[str, Seen]) -> list[Order]:
        answers = {ring: seen[ring].answers.get(self._capture) for ring in self._rings}
        no = {ring: said for ring, said in answers.items() if said in FINAL}
        gone = [ring for ring in self._rings if not seen[ring].is_alive]
        if gone:
            return self._cancel(now_ns, _gone(gone, seen), seen)
        if no:
            worst = next((said for said in no.values() if said not in AGAIN), None)
            self._may_retry = worst is None
            said = worst or next(iter(no.values()))
            return self._cancel(now_ns, f"{_names([r for r in no if no[r] == said])}: {said}", seen)
        is_passed = any((seen[ring].newest_step or 0) >= self._first_step - 1 for ring in self._rings)
        if is_passed or now_ns > self._deadline_ns:
            silent = _names([ring for ring, said in answers.items() if said is None])
            self._may_retry = is_passed
            return self._cancel(now_ns, f"{silent or 'all'}: no commit in time", seen)
        if all(said == "armed" for said in answers.values()):
            self._delay_ns = max(self._delay_ns, now_ns - self._asked_ns)
            last = self._first_step + self._request.num_steps
            self._deadline_ns = now_ns + self._time_to(last, seen) + self._limits.export_ns
            self._phase = "work"
            return self._to_all("commit")
        return []

    def _wait(self, now_ns: int, seen: Mapping[str, Seen]) -> list[Order]:
        answers = {ring: seen[ring].answers.get(self._capture) for ring in self._rings}
        if all(said == "done" for said in answers.values()):
            self._why = None
            return self._over(seen, is_done=True)
        for ring, said in answers.items():
            if said in FINAL and said != "done":
                self._may_retry = said in AGAIN
                return self._cancel(now_ns, f"{_names([ring])}: {said}", seen)
            if said != "done" and not seen[ring].is_alive:
                return self._cancel(now_ns, _gone([ring], seen), seen)
        if now_ns > self._deadline_ns:
            late = _names([ring for ring, said in answers.items() if said != "done"])
            return self._cancel(now_ns, f"{late}: no trace in time", seen)
        return []

    def _cancel(self, now_ns: int, why: str, seen: Mapping[str, Seen]) -> list[Order]:
        self._why = why
        self._phase = "acknowledge"
        self._deadline_ns = now_ns + self._time_to(self._first_step, seen)
        return self._to_all("cancel")

    def _acknowledge(self, now_ns: int, seen: Mapping[str, Seen]) -> list[Order]:
        """A new proposal would overwrite a cancel that was not seen: each living rank says first that it has
        let go."""
        held = [
            ring
            for ring in self._rings
            if seen[ring].is_alive and seen[ring].answers.get(self._capture) in (None, "armed", "done")
        ]
        if held and now_ns <= self._deadline_ns:
            return []
        if held or not self._may_retry or self._attempts >= self._limits.attempts:
            return self._over(seen)
        self._may_retry = False
        self._capture += 1
        self._factor *= 2
        return self._propose(now_ns, seen)

    def _over(self, seen: Mapping[str, Seen], *, is_done: bool = False) -> list[Order]:
        self._phase = "over"
        capture = self._capture
        self.outcome = Outcome(
            is_done=is_done,
            why=self._why,
            capture=capture,
            first_step=self._first_step if is_done else None,
            num_steps=self._request.num_steps,
            attempts=self._attempts,
            ranks=tuple(
                RankOutcome(
                    ring,
                    answer=seen[ring].answers.get(capture),
                    stall_ns=seen[ring].stall_ns.get(capture),
                    num_bytes=seen[ring].num_bytes.get(capture),
                )
                for ring in self._rings
            ),
        )
        return []

    def _to_all(self, command: Literal["propose", "commit", "cancel"]) -> list[Order]:
        return [Order(ring, command, self._capture, self._first_step) for ring in self._rings]


def _gone(rings: Sequence[str], seen: Mapping[str, Seen]) -> str:
    return f"{_names(rings)} {seen[rings[0]].gone}"


def _names(rings: Sequence[str]) -> str:
    return ", ".join(ring.rsplit("/", 1)[-1].removesuffix(".ring") for ring in rings)
