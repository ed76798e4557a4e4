"""A joint diagnosis as the server makes it: 8 ranks, 10 minutes of marks and counters at 1 Hz, and a capture
of 4 steps, in the process that diagnoses. Budget: 3 s of CPU.

    python -m bench.judge
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from msgspec.structs import replace

from stepscope.model.batch import Batch, Happened, Lines, Marks, Samples
from stepscope.offline.stored import Asked
from stepscope.server.judge import Worker
from stepscope.server.judge.look import Range, window_for
from tests.server.judge_store import JudgeStore
from tests.server.simulated import NS, Watched

RANKS, PLAYED_S, TIMES = 8, 60, 10
BUDGET_S = 3.0


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        watched = Watched(Path(folder) / "job", ranks=RANKS, layers=2, step_ms=500.0)
        watched.until(PLAYED_S - 20)
        watched.job.service.switch("straggler#5:severe on")
        onset_ns = watched.now_ns
        watched.until(PLAYED_S - 5)
        paths, _ = watched.capture()
        store = JudgeStore(Path(folder))
        store.keep(_longer(watched.batches))
        row = store.runs()[0]
        worker = Worker()
        worker.start()
        print(f"{'look':28} {'marks':>8} {'samples':>9} {'gather s':>9} {'answer s':>9} {'CPU s':>7}  card")
        for name, traces, is_speed, before_s in (
            ("from the onset", [], True, 60),
            ("from the onset, traces", paths, True, 60),
            ("10 min, traces", paths, False, 600),
        ):
            begun = time.perf_counter()
            window, _ = window_for(
                store, row.job, row.run, onset_ns, watched.now_ns,
                is_speed=is_speed, traces=traces, range_=Range(before_ns=before_s * NS),
            )  # fmt: skip
            gathered = time.perf_counter()
            cpu = _cpu_s(worker)
            report = worker.diagnose(window, Asked())
            answered = time.perf_counter()
            cpu = _cpu_s(worker) - cpu
            samples = sum(part.num_samples for part in window.telemetry)
            marks = sum(len(each.steps) + len(each.phases) for each in window.marks)
            card = report.cards[0].id if report.cards else "-"
            print(
                f"{name:28} {marks:8,} {samples:9,} {gathered - begun:9.2f} {answered - gathered:9.2f} "
                f"{cpu:7.2f}  {card}{'' if cpu <= BUDGET_S else '  OVER BUDGET'}"
            )
        worker.close()


def _cpu_s(worker: Worker) -> float:
    """CPU seconds of the process so far."""
    fields = Path(f"/proc/{worker.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _longer(batches: list[Batch]) -> list[Batch]:
    """The same minute again and again before it, so that the last one is as it was but for numbers."""
    mine = [each for each in batches if isinstance(each, Marks)]
    num_records = max(max(each.number, default=0) for each in mine) + 1
    num_steps = max(max(each.step, default=0) for each in mine) + 1
    length_ns = (PLAYED_S + 20) * NS
    found: list[Batch] = []
    for turn in range(TIMES):
        back, on = (TIMES - 1 - turn) * length_ns, turn
        for each in batches:
            if isinstance(each, Marks):
                found.append(
                    replace(
                        each,
                        number=[n + on * num_records for n in each.number],
                        step=[n + on * num_steps if n >= 0 else n for n in each.step],
                        mono_ns=[at - back for at in each.mono_ns],
                        real_ns=[at - back for at in each.real_ns],
                    )
                )
            elif isinstance(each, Samples):
                series = [replace(s, at_ns=[at - back for at in s.at_ns], steps=None) for s in each.series]
                found.append(replace(each, series=series))
            elif turn == TIMES - 1 and isinstance(each, (Happened, Lines)):
                found.append(each)
    return found


if __name__ == "__main__":
    main()
