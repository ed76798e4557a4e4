"""Series with known faults: kinds of noise that step times and counters have, from a seed. Nothing is read
but, where they are, the public step times of one cluster.

`REAL` holds columns `worker` and `batch_time_norm`, one row a measured mini-batch (Alibaba, straggler study).
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stepscope.detect.kind import SLOWER, SeriesKind

F64 = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Draw = np.random.Generator

NUM_STEPS = 1600
FAULT = 1100
PERIOD = 200
REAL = Path(__file__).resolve().parent.parent.parent / "shared/data/labelled/alibaba-step-times"
STRAGGLERS = {"job_1_norm.csv": (6,), "job_3_norm.csv": (6, 7, 8, 9)}
"""Workers that the study names: their series hold real faults, and are no healthy noise."""
BLOCK = 25
PERCENT = SeriesKind(direction="down", is_ratio=True, quantum=0.01)


@dataclass(frozen=True, slots=True)
class Series:
    """(runs, steps) without a fault. `is_plateau` marks steps of an evaluation or a checkpoint."""

    values: F64
    is_clean: Flags
    is_plateau: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """A kind of noise: how it is drawn, and how much of +10 % must be found with how few false alarms by the
    robust gate (`None`: no target)."""

    name: str
    draw: Callable[[Draw, int], Series]
    kind: SeriesKind = SLOWER
    most_false: float | None = 1.0
    least_found: float | None = 0.92
    is_real: bool = False

    def faulty(self, series: Series, effect: float) -> Series:
        """The same runs with a fault from step `FAULT` on."""
        values = series.values.copy()
        if self.kind.is_ratio:
            values[:, FAULT:] = np.round(np.clip(values[:, FAULT:] - effect, 0, 1), 2)
        else:
            values[:, FAULT:] *= 1 + effect
        return Series(values, series.is_clean, series.is_plateau)


def _plain(values: F64) -> Series:
    return Series(values, np.ones(values.shape, dtype=bool), np.zeros(values.shape, dtype=bool))


def _gauss(draw: Draw, runs: int) -> F64:
    return 1 + 0.02 * draw.standard_normal((runs, NUM_STEPS))


def _correlated(draw: Draw, runs: int, sigma: float, rho: float) -> F64:
    noise = draw.standard_normal((runs, NUM_STEPS))
    for step in range(1, NUM_STEPS):
        noise[:, step] = rho * noise[:, step - 1] + np.sqrt(1 - rho**2) * noise[:, step]
    return sigma * noise


def gaussian(draw: Draw, runs: int) -> Series:
    return _plain(_gauss(draw, runs))


def correlated(draw: Draw, runs: int) -> Series:
    return _plain(1 + _correlated(draw, runs, 0.02, 0.6))


def like_job_1(draw: Draw, runs: int) -> Series:
    """Scatter 3 %, correlation 0.6, and slow spells of a few steps: as job 1 of the public set is."""
    values = np.exp(_correlated(draw, runs, 0.03, 0.6))
    spell = draw.random((runs, NUM_STEPS)) < 0.004
    for step in range(1, NUM_STEPS):
        spell[:, step] |= spell[:, step - 1] & (draw.random(runs) < 0.7)
    return _plain(values * np.where(spell, 1.08, 1.0))


def heavy_tail(draw: Draw, runs: int) -> Series:
    """Student's t of 2 degrees of freedom, scale 3 %: of 10,000 steps 100 are off by 30 %, some by more than
    themselves."""
    return _plain(np.maximum(1 + 0.03 * draw.standard_t(2, (runs, NUM_STEPS)), 0.3))


def gc_spikes(draw: Draw, runs: int) -> Series:
    values = _gauss(draw, runs)
    return _plain(values * np.where(draw.random(values.shape) < 1 / 50, 1.5, 1.0))


def _periodic(draw: Draw, runs: int, length: int, is_marked: bool, jitter: int = 0) -> Series:
    """An evaluation of so many steps every 200: 20 to 100 % longer steps, any phase."""
    values = _gauss(draw, runs)
    plateau = np.zeros(values.shape, dtype=bool)
    for run in range(runs):
        for begin in range(int(draw.integers(PERIOD)), NUM_STEPS, PERIOD):
            first = max(begin + int(draw.integers(-jitter, jitter + 1)), 0)
            plateau[run, first : first + length] = True
    values *= np.where(plateau, 1 + draw.uniform(0.2, 1.0, (runs, 1)), 1.0)
    return Series(values, ~plateau if is_marked else np.ones(values.shape, dtype=bool), plateau)


def short_evaluation(draw: Draw, runs: int) -> Series:
    return _periodic(draw, runs, 4, is_marked=False)


def slow_warm_up(draw: Draw, runs: int) -> Series:
    values = _gauss(draw, runs)
    values[:, :5] *= np.array([8.0, 4.0, 3.0, 2.0, 1.5])
    return _plain(values)


def marked_plateau(draw: Draw, runs: int) -> Series:
    return _periodic(draw, runs, 20, is_marked=True)


def unmarked_plateau(draw: Draw, runs: int) -> Series:
    return _periodic(draw, runs, 20, is_marked=False)


def drifting_plateau(draw: Draw, runs: int) -> Series:
    """Each time up to 8 steps early or late."""
    return _periodic(draw, runs, 20, is_marked=False, jitter=8)


def integer_percent(sigma_points: float) -> Callable[[Draw, int], Series]:
    def draw_it(draw: Draw, runs: int) -> Series:
        level = draw.uniform(0.6, 0.9, (runs, 1))
        noise = sigma_points / 100 * draw.standard_normal((runs, NUM_STEPS))
        return _plain(np.round(np.clip(level + noise, 0, 1), 2))

    return draw_it


def real_steps(is_healthy: bool) -> Callable[[Draw, int], Series]:
    """Public step times, the slow trend taken out (running median of 25), put together from blocks of 25
    steps of one worker."""

    def draw_it(draw: Draw, runs: int) -> Series:
        series = _real_series(is_healthy)
        num = NUM_STEPS // BLOCK
        values = np.empty((runs, NUM_STEPS))
        for run in range(runs):
            one = series[int(draw.integers(len(series)))]
            begin = draw.integers(len(one) - BLOCK + 1, size=num)
            values[run] = one[(begin[:, None] + np.arange(BLOCK)).ravel()]
        return _plain(values)

    return draw_it


def _real_series(is_healthy: bool) -> list[F64]:
    found: list[F64] = []
    for path in sorted(REAL.glob("job_*_norm.csv")):
        by_worker: dict[int, list[float]] = {}
        with path.open() as file:
            for row in csv.DictReader(file):
                by_worker.setdefault(int(float(row["worker"])), []).append(float(row["batch_time_norm"]))
        for worker, times in sorted(by_worker.items()):
            if is_healthy and worker in STRAGGLERS.get(path.name, ()):
                continue
            x = np.array(times)
            half = BLOCK // 2
            trend = [np.median(x[max(0, n - half) : n + half + 1]) for n in range(len(x))]
            found.append(x / np.array(trend))
    return found


NOISES = (
    Noise(name="gaussian 2 %", draw=gaussian),
    Noise(name="autocorrelated (0.6) 2 %", draw=correlated),
    Noise(name="like a real job: 3 %, slow spells", draw=like_job_1, most_false=None, least_found=None),
    Noise(name="heavy tail (t, 2 degrees, 3 %)", draw=heavy_tail, most_false=None, least_found=0.60),
    Noise(name="spikes of 50 % in 1 of 50", draw=gc_spikes),
    Noise(name="4 slow steps every 200", draw=short_evaluation),
    Noise(name="5 slow first steps", draw=slow_warm_up),
    Noise(name="marked plateau, 20 of 200", draw=marked_plateau),
    Noise(name="unmarked plateau, 20 of 200", draw=unmarked_plateau, most_false=None, least_found=0.92),
    Noise(name="the same, up to 8 steps off", draw=drifting_plateau, most_false=None, least_found=None),
    Noise(name="integer percent, 1 point", draw=integer_percent(1.0), kind=PERCENT),
    Noise(name="integer percent, 2.5 points", draw=integer_percent(2.5), kind=PERCENT),
    Noise(
        name="Alibaba, healthy workers",
        draw=real_steps(True),
        is_real=True,
        most_false=4.0,
        least_found=0.85,
    ),
    Noise(
        name="Alibaba, stragglers too",
        draw=real_steps(False),
        is_real=True,
        most_false=4.0,
        least_found=0.85,
    ),
)


def noises() -> tuple[Noise, ...]:
    """Those that can be drawn here."""
    has_real = any(REAL.glob("job_*_norm.csv"))
    return tuple(each for each in NOISES if has_real or not each.is_real)
