"""How well the lag of telemetry is found: made telemetry with a known lag, many seeds a kind.

    python -m bench.lag [--seeds N]

Prints a table in Markdown, as in docs/reference/telemetry-time.md. `wrong` counts lags that were called found
and are off by more than 0.3 s (5 s where a reading is of 30 s); `missed` those whose true lag is in none of
the intervals.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from stepscope.align.lag import lag_of
from stepscope.model.sample import Owner, Telemetry
from tests.align.telemetry import SECOND, Source, Work, aperiodic, nearly_periodic, periodic, steady, traced


@dataclass
class Kind:
    """What is made: work by seed, how it is read, for how long."""

    name: str
    work: Callable[[int], Work]
    source: Source = field(default_factory=Source)
    seconds: float = 60.0
    around: float = 30.0
    shown: Callable[[int], Work] | None = None
    """What the readings are of, where that is not what the trace is of."""
    is_other: bool = False
    """That has nothing to do with the trace: any lag is wrong."""
    lags: tuple[float, float] = (-7.0, 7.0)


def uneven(seed: int) -> Work:
    return aperiodic(seed, 120.0)


def other(seed: int) -> Work:
    return aperiodic(seed + 100_000, 120.0)


def other_slow(seed: int) -> Work:
    return aperiodic(seed + 100_000, 120.0, 5.0, 3.0)


def partly(seed: int) -> Work:
    """Of each step another share, from its start on."""
    work, rng = uneven(seed), np.random.default_rng([seed, 13])
    share = rng.uniform(0.3, 1.0, len(work.start))
    return Work(work.start, work.start + (work.end - work.start) * share)


def slow(seed: int) -> Work:
    return aperiodic(seed, 1300.0, 20.0, 8.0)


POWER = Source(signal="power_watts", gain=500.0, offset=120.0, quantum=1.0)
KINDS = (
    Kind("uneven steps, means of 1 s", uneven),
    Kind("a tenth of readings lost", uneven, Source(lost=0.1)),
    Kind("readings up to 0.2 s late", uneven, Source(jitter=0.2)),
    Kind("window of 1/6 s", uneven, Source(window=1 / 6)),
    Kind("window of 1/2 s", uneven, Source(window=0.5)),
    Kind("noise of 10 points", uneven, Source(noise=0.1)),
    Kind("power", uneven, POWER),
    Kind("power that drifts", uneven, POWER.of(drift=0.1)),
    Kind(
        "a clock, sampled",
        uneven,
        Source(signal="sm_clock_hertz", window=0.02, gain=1e9, offset=9e8, quantum=1e6),
    ),
    Kind("collected each 1 s, read each 0.25 s", uneven, Source(collect=1.0, scrape=0.25)),
    Kind("telemetry no longer than the trace", uneven, around=0.0),
    Kind("25 windows", uneven, seconds=25.0),
    Kind("25 windows, noise of 10 points", uneven, Source(noise=0.1), seconds=25.0),
    Kind("steps of 0.1 s", lambda seed: aperiodic(seed, 120.0, 0.1, 0.05)),
    Kind("steps of 5 s", lambda seed: aperiodic(seed, 120.0, 5.0, 3.0)),
    *(
        Kind(
            f"period {period} s ± {jitter:.1%}", lambda s, p=period, j=jitter: nearly_periodic(s, 120.0, p, j)
        )
        for period in (0.7, 1.3, 4.0)
        for jitter in (0.003, 0.01, 0.03)
    ),
    Kind("period 1.3 s", lambda seed: periodic(1.3, 120.0)),
    Kind("period 4 s", lambda seed: periodic(4.0, 120.0)),
    Kind("busy throughout", lambda seed: steady(120.0)),
    Kind("readings of other work", uneven, shown=other, is_other=True),
    Kind(
        "readings of other work, steps of 5 s",
        lambda s: aperiodic(s, 120.0, 5.0, 3.0),
        shown=other_slow,
        is_other=True,
    ),
    Kind("readings of 0.3 to 1 of each step", uneven, shown=partly),
    *(
        Kind(
            f"period {period} s ± {jitter:.0%}, lag 12 to 40 s",
            lambda s, p=period, j=jitter: nearly_periodic(s, 180.0, p, j),
            around=60.0,
            lags=(12.0, 40.0),
        )
        for period, jitter in ((0.7, 0.03), (1.3, 0.03), (4.0, 0.03))
    ),
    Kind("40 windows of 30 s", slow, Source(window=30.0, scrape=30.0), 1200.0, 100.0),
    Kind("25 windows of 30 s", slow, Source(window=30.0, scrape=30.0), 750.0, 100.0),
    Kind(
        "40 windows of 30 s, read each 1 s",
        slow,
        Source(window=30.0, collect=30.0, scrape=1.0, quantum=None),
        1200.0,
        100.0,
    ),
    Kind("15 windows of 30 s", slow, Source(window=30.0, scrape=30.0), 450.0, 100.0),
)


def measure(kind: Kind, num_seeds: int) -> str:
    """One row: statuses in percent, errors of those found, wrong and missed, milliseconds each."""
    counts: Counter[str] = Counter()
    errors: list[float] = []
    wrong = missed = 0
    begun = time.process_time()
    for seed in range(num_seeds):
        true = float(np.random.default_rng([seed, 3]).uniform(*kind.lags))
        owner = Owner(uuid="GPU-0")
        work = kind.work(seed)
        shown = kind.shown(seed) if kind.shown else work
        source = kind.source.of(lag=true, owner=owner)
        series = source.read(shown, -kind.around, kind.seconds + kind.around, seed)
        said = lag_of(Telemetry("t", "made", (series,), "scrape"), {owner: traced(work, 0.0, kind.seconds)})
        counts[said.status] += 1
        if said.lag_ns is not None:
            error = abs(said.lag_ns / SECOND - true)
            errors.append(error)
            wrong += kind.is_other or error > (5.0 if kind.source.window > 2.0 else 0.3)
        elif said.sets and not kind.is_other:
            missed += not any(a <= true * SECOND <= b for a, b in said.sets)
    cost = (time.process_time() - begun) / num_seeds * 1e3
    shares = " | ".join(f"{counts[each] / num_seeds:.0%}" for each in ("found", "ambiguous", "unknown"))
    found = f"{np.median(errors):.3f} | {max(errors):.3f}" if errors else " | "
    return f"| {kind.name} | {shares} | {found} | {wrong} | {missed} | {cost:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=300)
    num_seeds = parser.parse_args().seeds
    print(
        "| kind | found | ambiguous | unknown | error, median s | error, most s | wrong | missed | CPU ms |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for kind in KINDS:
        print(measure(kind, num_seeds), flush=True)


if __name__ == "__main__":
    main()
