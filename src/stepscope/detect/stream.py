"""Gates over a stream: many series at once, at most one point each at a time (over arrays: `array`).

One row is one series: a signal of a device, step times of a rank. Points that are missing (NaN, or no point
at all) change nothing: they are neither low nor zero. Points that are not clean (marked steps: compilation,
evaluation, checkpoint, capture) are not judged and not learned from, and only prove that the series goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepscope.detect.baseline import AT_ONCE, SIGMAS, Baselines
from stepscope.detect.columns import Columns, Rows
from stepscope.detect.cusum import SLACK_RATIO, Sums
from stepscope.detect.gate import I8, Flags, Runs, Windows, severity
from stepscope.detect.kind import SeriesKind
from stepscope.detect.mask import LEAST_LENGTH, Spells
from stepscope.detect.regime import Regimes
from stepscope.detect.series import GAP_NS, Series, Verdicts
from stepscope.model.sample import F64
from stepscope.model.trace import ABSENT_I64, I64

__all__ = ["Gates", "Verdicts"]

GAP_POINTS = 8
"""Without a point for `GAP_NS`, and for so many of the usual intervals, nothing is in a row any more."""
_KIND = ("up", "down", "is_ratio", "quantum", "number", "last_ns")


class Gates:
    """The state of all rows. Not safe for several threads."""

    def __init__(self) -> None:
        self._num = 0
        self._free = np.empty(0, dtype=np.int64)
        self._series = Series()
        self._baselines = Baselines()
        self._windows = Windows()
        self._runs = Runs()
        self._sums = Sums()
        self._spells = Spells()
        self._regimes = Regimes()

    def __len__(self) -> int:
        return self._num

    @property
    def num_bytes(self) -> int:
        """Memory of all state."""
        return sum(each.num_bytes for each in self._all())

    def add(self, kinds: Sequence[SeriesKind]) -> I64:
        """New rows, one a kind: their numbers."""
        again, self._free = self._free[: len(kinds)], self._free[len(kinds) :]
        first = self._num
        self._num += len(kinds) - len(again)
        for each in self._all():
            each.grow(self._num)
        rows = np.concatenate((again, np.arange(first, self._num, dtype=np.int64)))
        series = self._series
        series.up[rows] = [kind.direction != "down" for kind in kinds]
        series.down[rows] = [kind.direction != "up" for kind in kinds]
        series.is_ratio[rows] = [kind.is_ratio for kind in kinds]
        series.quantum[rows] = [np.nan if kind.quantum is None else kind.quantum for kind in kinds]
        return rows

    def drop(self, rows: I64) -> None:
        """Forget these rows: their series have ended. Their numbers are given to others."""
        for each in self._all():
            each.clear(rows)
        self._free = np.concatenate((self._free, np.asarray(rows, dtype=np.int64)))

    def reset(self, rows: I64) -> None:
        """Learn these rows anew, from their next point on: after a resume, a re-shard, new shapes, or where
        somebody says that what is now is right. Their numbers of points go on."""
        kept = {name: getattr(self._series, name)[rows] for name in _KIND}
        for each in self._all():
            each.clear(rows)
        for name, values in kept.items():
            getattr(self._series, name)[rows] = values

    def mean_of(self, row: int) -> tuple[float, float]:
        """Mean and standard deviation that a row has learned; NaN of one that has not."""
        return float(self._baselines.mean[row]), float(self._baselines.deviation[row])

    def adopt(self, row: int, median: float, sigma: float, num: int, every_ns: int) -> None:
        """Take as this row's normal what follows from another's, which has `num` points behind it. Its own
        points come every `every_ns`."""
        rows, normal = np.array([row], dtype=np.int64), self._baselines
        normal.median[row] = normal.mean[row] = median
        normal.sigma[row] = normal.deviation[row] = sigma
        normal.num[row] = num
        self._settle(rows)
        self._series.gap_ns[row] = max(GAP_NS, GAP_POINTS * every_ns)

    def push(self, rows: I64, values: F64, is_clean: Flags, at_ns: I64 | int) -> Verdicts:
        """One point of each of these rows, none twice; `at_ns` one time for all, or one each."""
        rows, values = np.asarray(rows, dtype=np.int64), np.asarray(values, dtype=np.float64)
        at = np.broadcast_to(np.asarray(at_ns, dtype=np.int64), rows.shape)
        index = self._index(rows)
        series = self._series
        series.number[index] += 1
        is_there = np.isfinite(values)
        self._restart(rows, index, is_there, at)
        usable = is_there & np.asarray(is_clean, dtype=bool)
        is_learned = self._baselines.num[index] > 0
        judged, learning = usable & is_learned, usable & ~is_learned
        is_masked, is_new = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
        if judged.all():
            is_masked[:], is_new[:] = self._judge(rows, index, values, at)
        elif judged.any():
            some = rows[judged]
            is_masked[judged], is_new[judged] = self._judge(some, some, values[judged], at[judged])
        if learning.any():
            self._learn(rows[learning], values[learning], at[learning])
        num = self._baselines.num[index]
        return Verdicts(
            specified=series.specified[index].copy(),
            severity=series.severity[index].copy(),
            drift=series.drift[index].copy(),
            is_masked=is_masked,
            effect=series.effect[index].copy(),
            normal=self._baselines.median[index].copy(),
            num_baseline=num.copy(),
            is_learned=num > 0,
            onset=series.onset[index].copy(),
            onset_ns=series.onset_ns[index].copy(),
            is_new_normal=is_new,
        )

    def _all(self) -> tuple[Columns, ...]:
        return (
            self._series, self._baselines, self._windows, self._runs, self._sums, self._spells, self._regimes,
        )  # fmt: skip

    def _index(self, rows: I64) -> Rows:
        num = self._num
        is_all = len(rows) == num and num > 0 and bool((rows == np.arange(num)).all())
        return slice(0, num) if is_all else rows

    def _restart(self, rows: I64, index: Rows, is_there: Flags, at: I64) -> None:
        """After a gap in time nothing is in a row: windows, runs and spells begin again."""
        series = self._series
        last = series.last_ns[index]
        is_known = last != ABSENT_I64
        gap = is_there & is_known & (at - np.where(is_known, last, at) > series.gap_ns[index])
        if gap.any():
            self._windows.clear(rows[gap])
            self._runs.clear(rows[gap])
            self._spells.end(rows[gap])
        series.last_ns[index] = np.where(is_there, at, last)

    def _judge(self, rows: I64, index: Rows, values: F64, at: I64) -> tuple[Flags, Flags]:
        """Clean points of rows with a baseline: which are masked, and of which rows a new normal is due.
        `index` is `rows`, or the slice that it is."""
        series, normal = self._series, self._baselines
        number = series.number[index]
        sigma, median = normal.sigma[index], normal.median[index]
        distance = values - median
        side = self._side(index, distance, SIGMAS * sigma)
        series.specified[index] = self._runs.take(index, values, normal.mean[index], normal.deviation[index])
        masked = self._spells.take(rows, side, np.abs(distance), SIGMAS * sigma, number)
        away = _ratio_of(distance, sigma)
        is_new = np.zeros(len(rows), dtype=bool)
        if not masked.any():
            is_new[:] = self._decide(rows, index, values, side, away, number, at)
        elif not masked.all():
            free = ~masked
            is_new[free] = self._decide(
                rows[free], rows[free], values[free], side[free], away[free], number[free], at[free]
            )
        self._renew(rows[is_new])
        return masked, is_new

    def _decide(
        self, rows: I64, index: Rows, values: F64, side: I8, away: F64, number: I64, at: I64
    ) -> Flags:
        """Gate, drift and regime of points that are not masked: of which rows a new normal is due."""
        series, windows = self._series, self._windows
        windows.take(index, values, side, number, at)
        effect = _ratio_of(windows.median(index) - self._baselines.median[index], series.scale[index])
        side = windows.side(index)
        level = severity(side, effect)
        self._sums.take(index, away, series.slack[index], number, at)
        drifts = self._sums.side(index, series.up[index], series.down[index])
        self._begin(rows, index, level > 0, side, drifts)
        series.severity[index], series.drift[index], series.effect[index] = level, drifts != 0, effect
        up, down = series.up[index], series.down[index]
        better = np.where(up & down, np.nan, np.where(up, -effect, effect))
        return self._regimes.take(index, level > 0, better, at)

    def _begin(self, rows: I64, index: Rows, is_gate: Flags, side: I8, drifts: I8) -> None:
        """Keep with which point the deviation began: as the first of gate and drift says."""
        series, sums = self._series, self._sums
        holds = is_gate | (drifts != 0)
        onset = series.onset[index]
        over, begins = ~holds & (onset != ABSENT_I64), np.flatnonzero(holds & (onset == ABSENT_I64))
        if over.any():
            series.onset[rows[over]] = series.onset_ns[rows[over]] = ABSENT_I64
        if not len(begins):
            return
        some, by_gate, upwards = rows[begins], is_gate[begins], drifts[begins] > 0
        number, at_ns = self._windows.begin(some, side[begins])
        drift_number = np.where(upwards, sums.up_number[some], sums.down_number[some])
        drift_ns = np.where(upwards, sums.up_ns[some], sums.down_ns[some])
        series.onset[some] = np.where(by_gate, number, drift_number) - 1
        series.onset_ns[some] = np.where(by_gate, at_ns, drift_ns)

    def _learn(self, rows: I64, values: F64, at: I64) -> None:
        series, normal = self._series, self._baselines
        series.first_ns[rows] = np.where(series.first_ns[rows] == ABSENT_I64, at, series.first_ns[rows])
        new = normal.take(rows, values, series.is_ratio, series.quantum)
        if not len(new):
            return
        self._settle(new)
        usual = (series.last_ns[new] - series.first_ns[new]) // normal.num[new]
        series.gap_ns[new] = np.maximum(GAP_NS, GAP_POINTS * usual)
        self._look_back(new)

    def _settle(self, new: I64) -> None:
        """What follows from a normal that is new."""
        series, normal = self._series, self._baselines
        median, sigma = normal.median[new], normal.sigma[new]
        scale = np.where(series.is_ratio[new], 1.0, np.abs(median))
        series.scale[new] = np.where(scale > 0, scale, np.nan)  # of nothing there is no share
        with np.errstate(divide="ignore", invalid="ignore"):
            slack = SLACK_RATIO * scale / sigma
        series.slack[new] = np.maximum(np.where(np.isfinite(slack), slack, 1.0), 1.0)

    def _look_back(self, rows: I64) -> None:
        """Spells that lie within the baseline, or go on from it, belong to a rhythm as any."""
        for first in range(0, len(rows), AT_ONCE):
            some = rows[first : first + AT_ONCE]
            median = self._baselines.median[some, None].astype(np.float32)
            limit = SIGMAS * self._baselines.sigma[some, None].astype(np.float32)
            far = np.abs(self._baselines.held[some] - median) > limit
            self._replay(some[far.sum(axis=1) >= LEAST_LENGTH])

    def _replay(self, rows: I64) -> None:
        if not len(rows):
            return
        points = self._baselines.held[rows].astype(np.float64)
        limit, num = SIGMAS * self._baselines.sigma[rows], points.shape[1]
        for place in range(num):
            distance = points[:, place] - self._baselines.median[rows]
            number = self._series.number[rows] - (num - 1 - place)
            side = self._side(rows, distance, limit)
            self._spells.take(rows, side, np.abs(distance), limit, number)

    def _side(self, index: Rows, distance: F64, limit: F64) -> I8:
        """+1 or -1 where a point is beyond the limit on a side that counts."""
        above = (distance > limit) & self._series.up[index]
        below = (distance < -limit) & self._series.down[index]
        return above.astype(np.int8) - below.astype(np.int8)

    def _renew(self, rows: I64) -> None:
        """Learn a new normal, without another warm-up; the rhythm of spells goes on."""
        if not len(rows):
            return
        kept = {name: getattr(self._series, name)[rows] for name in _KIND}
        for each in (self._series, self._baselines, self._windows, self._runs, self._sums, self._regimes):
            each.clear(rows)
        for name, values in kept.items():
            getattr(self._series, name)[rows] = values
        self._baselines.num_left_out[rows] = np.iinfo(np.int16).max


def _ratio_of(part: F64, whole: F64) -> F64:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: F64 = part / whole
    return ratio
