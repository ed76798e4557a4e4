"""Peers over a stream: which ranks left the others, step by step; which GPUs are unlike their kind.

Ranks: each rank's step is a ratio of the others' median in that step, and the ratio is a series with a normal
of its own (a stage that is always 8 % longer is no straggler), judged by the gate of any series: 10 % in 6 of
8 steps. Where more than half of the ranks leave, nobody is a straggler: a change of all that hit
some first, or a normal that was learned wrongly; then all learn anew. `peer.by_ratio` over a window of steps
says more (small differences, lateness that moves), but remembers nothing.

GPUs of one model and one role show the same counters: a score by median and MAD among them at one moment, and
only what lasts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.detect.gate import EFFECTS, Flags
from stepscope.detect.kind import SLOWER
from stepscope.detect.peer import against_peers
from stepscope.detect.stream import Gates
from stepscope.model.sample import F64
from stepscope.model.trace import ABSENT_I64, I64

LEAST_EFFECT = EFFECTS[1]
ALWAYS = 0.10
"""A rank whose normal is so much above its peers was slow before anybody looked."""


@dataclass(frozen=True, slots=True)
class PeerVerdicts:
    """Columns over ranks. `is_straggler`: it left its peers now; `excess` how much longer than the others'
    median beyond what it always was, as a share (median of 8 steps; NaN before its normal is known).
    `is_always`: `normal` (its ratio to the others in the first 100 steps) is 1.10 or more. `onset` as in
    `Verdicts`. `is_vetoed`: most ranks left at once, and all learn anew."""

    is_straggler: Flags
    excess: F64
    normal: F64
    is_always: Flags
    onset: I64
    onset_ns: I64
    is_vetoed: bool


class Peers:
    """The ranks of one run that do the same work, by place."""

    def __init__(self, num_ranks: int) -> None:
        self._gates = Gates()
        self._rows = self._gates.add([SLOWER] * num_ranks)

    def reset(self) -> None:
        """After a resume or a re-shard."""
        self._gates.reset(self._rows)

    def push(self, durations: F64, is_clean: Flags, at_ns: int) -> PeerVerdicts:
        """One step of all ranks; NaN where a rank's is not known."""
        x = np.asarray(durations, dtype=np.float64)
        x = np.where(np.isfinite(x) & (x > 0), x, np.nan)
        ratio = x / against_peers(x[:, None])[:, 0]
        told = self._gates.push(self._rows, ratio, is_clean, at_ns)
        left = (told.severity > 0) & (np.nan_to_num(told.effect) >= LEAST_EFFECT)
        is_vetoed = bool(2 * int(left.sum()) > len(x))
        if is_vetoed:
            self._gates.reset(self._rows)
            left = np.zeros(len(x), dtype=bool)
        with np.errstate(invalid="ignore"):
            is_always = told.normal >= 1 + ALWAYS
        return PeerVerdicts(left, told.effect, told.normal, is_always, told.onset, told.onset_ns, is_vetoed)


SIGMAS = 4.0
"""Of the spread among peers: one in 30,000."""
LEAST_PEERS = 4
"""Of fewer the spread is not known."""
LASTS_NS = 30 * 10**9


def peer_scores(values: F64, group: I64, is_ratio: bool) -> tuple[F64, F64]:
    """Of devices at one moment: distance from the median of the others of the same group in their sigmas, and
    its effect (a share of that median, of ratios in points). NaN where it is missing or has too few peers.

    Sigma is the largest of 1.4826 MAD of the group and 1 % of its median (half a point of ratios).
    """
    score, effect = np.full(len(values), np.nan), np.full(len(values), np.nan)
    for each in np.unique(group).tolist():
        some = np.flatnonzero((group == each) & np.isfinite(values))
        if len(some) < LEAST_PEERS:
            continue
        x = values[some]
        centre = against_peers(x[:, None])[:, 0]
        spread = 1.4826 * float(np.median(np.abs(x - np.median(x))))
        floor = np.maximum(0.01 * np.abs(centre), 0.005 if is_ratio else 0.0)
        sigma = np.maximum(spread, floor)
        scale = np.ones(len(x)) if is_ratio else np.abs(centre)
        with np.errstate(divide="ignore", invalid="ignore"):
            score[some] = np.where(sigma > 0, (x - centre) / sigma, np.nan)
            effect[some] = np.where(scale > 0, (x - centre) / scale, np.nan)
    return score, effect


class PeerWatch:
    """Devices of one signal that stay unlike their peers. `group` numbers model and role of each device."""

    def __init__(self, group: I64, is_ratio: bool, lasts_ns: int = LASTS_NS) -> None:
        self._group, self._is_ratio, self._lasts_ns = np.asarray(group), is_ratio, lasts_ns
        self._side = np.zeros(len(self._group), dtype=np.int8)
        self._since_ns: I64 = np.full(len(self._group), ABSENT_I64, dtype=np.int64)

    def push(self, values: F64, at_ns: int) -> tuple[Flags, F64, I64]:
        """One moment of all devices, NaN where missing (which changes nothing for that device): who has been
        beyond 4 sigma and 10 % on one side for 30 s, its effect, and since when it is (`ABSENT_I64`: is
        not)."""
        score, effect = peer_scores(values, self._group, self._is_ratio)
        is_there = np.isfinite(score) & np.isfinite(effect)
        with np.errstate(invalid="ignore"):
            is_far = is_there & (np.abs(score) > SIGMAS) & (np.abs(effect) >= LEAST_EFFECT)
        side = np.where(is_far, np.sign(np.where(is_there, score, 0.0)), 0).astype(np.int8)
        is_new = is_there & (side != self._side)
        self._since_ns = np.where(is_new, np.where(side != 0, at_ns, ABSENT_I64), self._since_ns)
        self._side = np.where(is_there, side, self._side)
        holds: Flags = (self._side != 0) & (at_ns - self._since_ns >= self._lasts_ns)
        return holds, effect, self._since_ns.copy()
