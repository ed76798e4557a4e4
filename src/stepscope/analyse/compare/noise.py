"""How far two series of step times may differ by chance: a band around their difference.

Steps of one run resemble their neighbours, so that a hundred of them know less than a hundred independent
ones. Blocks of neighbours are drawn again in place of single steps, and the band is as wide as Student's t
says for so many blocks' worth of steps. What differs from one run to the next (another node, another day) is
in neither series: it comes from earlier windows of the same job, where they are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from stepscope.analyse.compare.student import student
from stepscope.model.sample import F64

Measure = Literal["median", "mean"]
Source = Literal["both", "base", "new", "history"]

NUM_DRAWS, FEWER_DRAWS, LONG = 1_000, 200, 5_000
"""How often a series is drawn again; of one with more steps than `LONG` less often."""
_CELLS = 2_000_000
WRONG_SHARE = 0.025
"""How often the band of one measure may leave out nothing, by chance. Two measures are looked at (the median
step and the mean one), so that together they are wrong in one of twenty at most."""
LEAST_STEPS = 3
"""Of fewer steps a series shows no noise of its own."""
LEAST_HISTORY = 4
"""Of fewer earlier windows nobody knows how far runs of the job differ."""
UNSURE = 0.5
LEAST_TO_TELL, ALIKE = 12, 0.5
"""Of fewer steps nobody knows how far neighbours resemble: so far as in ordinary runs."""
LEAST_FREEDOM = 3.0
MOST_HALF = math.log(11)
"""A band wider than ten times up and down says nothing more."""
_OF: dict[Measure, Callable[..., F64]] = {"median": np.median, "mean": np.mean}


@dataclass(frozen=True, slots=True)
class Band:
    """The new series against the base: `share` = new / base - 1, and the 95 % interval of it (both measures
    together). `num_independent` is what the steps of both sides are worth; `source` whose noise it is:
    `both` sides', of one side where the other has too few steps, or the job's `history`, where windows of it
    differ by more than steps do."""

    share: float
    low: float
    high: float
    source: Source
    num_independent: tuple[float, float]

    @property
    def noise(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2


def band(
    base_ns: F64,
    new_ns: F64,
    *,
    measure: Measure = "median",
    history_ns: Sequence[float] = (),
    seed: int = 0,
) -> Band | None:
    """The band of new against base; `None` where neither has steps enough to show noise, or one has none.

    `history_ns` are the same measure of earlier healthy windows of the job. The same series and seed give the
    same band.
    """
    if not len(base_ns) or not len(new_ns):
        return None
    centre = _OF[measure]
    base, new = float(centre(base_ns)), float(centre(new_ns))
    if base <= 0 or new <= 0:
        return None
    noise = [_noise(each, measure, seed + place) for place, each in enumerate((base_ns, new_ns))]
    known = [each for each in noise if each is not None]
    if not known:
        return None
    source: Source = "both" if len(known) == 2 else "base" if noise[0] is not None else "new"
    # A side of one or two steps is taken to scatter as the other does: as wide as so few of its steps are.
    one = known[0]
    filled = [
        each if each is not None else one.for_steps(num)
        for each, num in zip(noise, (len(base_ns), len(new_ns)), strict=True)
    ]
    if measure == "mean":
        filled = _as_one_run(filled)
    error = math.hypot(filled[0].error, filled[1].error)
    half = student(_welch(filled), 1 - WRONG_SHARE / 2) * error
    if source == "both" and (spread := _between(history_ns)) is not None and spread > half:
        half, source = spread, "history"
    ratio, half = math.log(new / base), min(half, MOST_HALF)
    return Band(
        share=new / base - 1,
        low=math.expm1(ratio - half),
        high=math.expm1(ratio + half),
        source=source,
        num_independent=(filled[0].num_independent, filled[1].num_independent),
    )


def _as_one_run(sides: Sequence[_Noise]) -> list[_Noise]:
    """Both sides with no less scatter than steps of both together have: a side of few steps that met no pause
    may have had none by chance."""
    num = sum(each.num_steps for each in sides)
    scatter = math.sqrt(sum(each.error**2 * each.num_independent * each.num_steps for each in sides) / num)
    return [replace(each, error=max(each.error, scatter / math.sqrt(each.num_independent))) for each in sides]


@dataclass(frozen=True, slots=True)
class _Noise:
    """Standard error of a series' measure, as a share of it, and how many independent steps it is worth."""

    error: float
    num_independent: float
    num_steps: int

    @property
    def freedom(self) -> float:
        """Degrees of freedom of `error`. Of a short series the correlation is assumed and not measured: its
        steps say what they say of the scatter. Of a long one it is measured from above, which is in `error`
        already."""
        assumed = (self.num_steps - 1) / 2 if self.num_steps < LEAST_TO_TELL else LEAST_FREEDOM
        return max(self.num_independent - 1, assumed)

    def for_steps(self, num: int) -> _Noise:
        """Of so many steps of a series like this one; how far they may differ is known no better."""
        worth = max(1.0, num * self.num_independent / self.num_steps)
        return replace(self, error=self.error * math.sqrt(self.num_independent / worth))


def _noise(series: F64, measure: Measure, seed: int) -> _Noise | None:
    num = len(series)
    if num < LEAST_STEPS:
        return None
    length = block_length(series)
    worth = num / correlation_time(series)
    values = _drawn(series, length, measure, np.random.default_rng(seed))
    centre = float(_OF[measure](series))
    # Draws of k blocks scatter less than new runs would, by (k - 1) / k of the variance.
    num_blocks = max(num / length, 1.5)
    error = float(np.std(values)) / centre * math.sqrt(num_blocks / (num_blocks - 1))
    # Drawn medians agree by chance where values are few (clocks of coarse ticks, or five steps), and blocks
    # of a short series cannot hold all of its correlation: no less than the plain error of so many steps.
    plain = 1.2533 * _robust_sigma(series) if measure == "median" else float(np.std(series, ddof=1))
    error = max(error, plain / centre / math.sqrt(worth))
    return _Noise(error, max(worth, 1.5), num)


def _drawn(series: F64, length: int, measure: Measure, random: np.random.Generator) -> F64:
    """The measure of the series made again, many times over, of blocks of neighbours (its end is joined to
    its beginning)."""
    num = len(series)
    num_draws = NUM_DRAWS if num <= LONG else FEWER_DRAWS
    at_once = max(1, _CELLS // num)
    values = []
    for done in range(0, num_draws, at_once):
        first = random.integers(0, num, size=(min(at_once, num_draws - done), -(-num // length)))
        place = (first[:, :, None] + np.arange(length)).reshape(len(first), -1)[:, :num] % num
        values.append(_OF[measure](series[place], axis=1))
    return np.concatenate(values)


def correlation_time(series: F64) -> float:
    """How many steps of the series are worth one independent one: 1 where neighbours do not resemble.

    1 + 2 * the sum of correlations up to the first that is not above zero (Geyer's positive pairs), of values
    clipped to 5 robust deviations, and corrected for what a short series hides.
    """
    num = len(series)
    sigma = _robust_sigma(series) or float(np.std(series))
    if sigma <= 0:
        return 1.0
    middle = float(np.median(series))
    values = np.clip(series, middle - 5 * sigma, middle + 5 * sigma)
    values = values - values.mean()
    power = np.abs(np.fft.rfft(values, 2 * num)) ** 2
    correlation = np.fft.irfft(power)[: max(num // 2, 2)]
    if correlation[0] <= 0:
        return 1.0
    correlation = correlation / correlation[0]
    # The mean is the series' own: correlations come out too low, by about (1 + 3r) / n, and so few steps show
    # them only to about 1 / sqrt(n), of which most is added: a band too wide is the smaller fault.
    first = ALIKE
    if num >= LEAST_TO_TELL:
        first = (num * float(correlation[1]) + 1) / (num - 3) + UNSURE / math.sqrt(num)
        first = min(first, 0.97)
    pairs = correlation[: len(correlation) // 2 * 2].reshape(-1, 2).sum(axis=1)
    stop = np.flatnonzero(pairs <= 0)
    total = float(pairs[: stop[0] if len(stop) else len(pairs)].sum())
    by_first = (1 + first) / (1 - first) if first > 0 else 1.0
    by_sum = 2 * total - 1 if num >= LEAST_TO_TELL else 1.0
    return float(np.clip(max(by_sum, by_first), 1.0, num / 1.5))


def block_length(series: F64) -> int:
    """Steps in a block: several correlation times, and no more than a third of the series."""
    num = len(series)
    wanted = max(math.ceil(num ** (1 / 3)), math.ceil(2 * correlation_time(series)))
    return int(max(1, min(wanted, num // 3)))


def _robust_sigma(series: F64) -> float:
    return 1.4826 * float(np.median(np.abs(series - np.median(series))))


def _welch(sides: Sequence[_Noise]) -> float:
    """Degrees of freedom of a difference whose sides scatter differently (Welch, Satterthwaite)."""
    below = sum(each.error**4 / each.freedom for each in sides)
    return (sides[0].error ** 2 + sides[1].error ** 2) ** 2 / below if below > 0 else math.inf


def _between(history_ns: Sequence[float]) -> float | None:
    """How far the logarithms of two windows of the job differ in 95 of 100 pairs; `None` of too few."""
    known = [each for each in history_ns if each > 0]
    if len(known) < LEAST_HISTORY:
        return None
    sigma = float(np.std(np.log(known), ddof=1))
    return student(len(known) - 1, 1 - WRONG_SHARE / 2) * math.sqrt(2) * sigma


def difference_noise(base: F64, new: F64) -> float | None:
    """Half the 95 % interval of the difference of two means, in the series' unit; `None` of fewer than
    `LEAST_STEPS` values on a side. As `band`, for series that may be zero."""
    if min(len(base), len(new)) < LEAST_STEPS:
        return None
    sides = []
    for series in (base, new):
        worth = max(len(series) / correlation_time(series), 1.5)
        sides.append(_Noise(float(np.std(series, ddof=1)) / math.sqrt(worth), worth, len(series)))
    error = math.hypot(sides[0].error, sides[1].error)
    return student(_welch(sides), 0.975) * error if error > 0 else 0.0
