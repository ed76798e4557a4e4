"""The whole check: what is there, known kernels, the lag of the counters, the cases, and what to keep.

Clock, date, the driver's module and what prints are arguments.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from stepscope.model.error import StepscopeError
from stepscope.sources.ring import RingReader
from stepscope_sdk import ring_abi as abi
from tools.gpu_check import need, threshold
from tools.gpu_check.budget import Budget
from tools.gpu_check.case import Case, Order
from tools.gpu_check.judge import Judged, judged, lag_line
from tools.gpu_check.judge import table as verdict_table
from tools.gpu_check.record import Recorder, write
from tools.gpu_check.sample import Device
from tools.gpu_check.talk import Worker

OVERHEAD_SECONDS = {"cuda": 14.0, "cpu": 1.0}
"""What a case takes beside its loops: context, model, workers, export of the trace, diagnosis."""
LOOP_SECONDS = {"cuda": (1.0, 3.0), "cpu": (0.2, 0.4)}
"""The least and the most for each of a case's two measured loops."""
NUM_LOOPS = 3
TIME_OF_ONE = {"cuda": 120.0, "cpu": 60.0}
"""A case that has had so long and has not ended hangs: that is a failure, and not want of time."""
KERNEL_SECONDS, LEAST_KERNEL_SECONDS, BURST_SECONDS = 2.0, 25.0, 35.0


@dataclass(slots=True)
class Check:
    """What was asked for, and what was found so far."""

    device: str
    python: str
    cases: Sequence[Case]
    out: Path
    budget: Budget
    say: Callable[[str], None]
    load_nvml: Callable[[], Any]
    date: str
    is_busy_ok: bool = False
    seed: int = 0
    machine: dict[str, Any] = field(default_factory=dict)
    rows: list[Judged] = field(default_factory=list)
    thresholds: list[threshold.Check] = field(default_factory=list)
    lag: str | None = None


def run(check: Check) -> int:
    """0 where every verdict and every threshold is as it should be, else 1. Wants are `StepscopeError`s."""
    check.out.mkdir(parents=True, exist_ok=True)
    with Worker(check.python, check.device, check.out / "child.log") as worker:
        need.check_torch(worker.greeting(), check.python)
        check.machine = worker.do(_order(check, "probe", check.out), 60.0)
        need.check_probe(check.machine)
        with _recorder(check) as recorder:
            if recorder is not None:
                _kernels(check, worker, recorder)
                _bursts(check, worker, recorder)
            for place, case in enumerate(check.cases):
                _case(check, worker, recorder, case, len(check.cases) - place)
            if recorder is not None and recorder.fault:
                check.budget.skipped.append(f"counters: {recorder.fault}")
    return _told(check)


@contextlib.contextmanager
def _recorder(check: Check) -> Iterator[Recorder | None]:
    """The counters of torch's device while this lasts; `None` on a CPU."""
    if check.device == "cpu":
        yield None
        return
    nvml = need.open_nvml(check.load_nvml)
    try:
        handle = need.find_device(nvml, check.machine.get("uuid"))
        device = Device(nvml, handle, time.time_ns, time.monotonic_ns)
        check.machine |= {"device": device.name(), "driver": device.driver(), "gpm": device.reads_gpm}
        check.say(f"{device.name()}, driver {device.driver()}, torch {check.machine.get('torch')}")
        check.say(need.counter_note(device))
        with Recorder(device) as recorder:
            time.sleep(need.LOOK_SECONDS)
            note = need.check_free(list(recorder.readings), check.is_busy_ok)
            if note:
                check.say(note)
            yield recorder
    finally:
        nvml.nvmlShutdown()


def _kernels(check: Check, worker: Worker, recorder: Recorder) -> None:
    if not check.budget.has("known kernels", LEAST_KERNEL_SECONDS):
        return
    folder = check.out / "kernels"
    found = worker.do(_order(check, "kernels", folder, seconds=KERNEL_SECONDS), 2 * LEAST_KERNEL_SECONDS)
    if "error" in found:
        check.budget.skipped.append(f"known kernels: {found['error']}")
        return
    name = check.machine.get("device")
    rows = threshold.known(found["kernels"], list(recorder.readings), name)
    check.thresholds = threshold.checks(rows)
    _save(check, recorder, folder, found["kernels"][0]["start_ns"], found["kernels"][-1]["end_ns"])
    (folder / "kernels.json").write_text(json.dumps([asdict(each) for each in rows], indent=1) + "\n")
    check.say("\n" + threshold.table(rows, check.thresholds))


def _bursts(check: Check, worker: Worker, recorder: Recorder) -> None:
    if not check.budget.has("lag of the counters", BURST_SECONDS):
        return
    folder = check.out / "bursts"
    found = worker.do(_order(check, "bursts", folder, seconds=KERNEL_SECONDS), 2 * BURST_SECONDS)
    if "error" in found:
        check.budget.skipped.append(f"lag of the counters: {found['error']}")
        return
    files = _save(check, recorder, folder, found["start_ns"], found["end_ns"])
    try:
        check.lag = lag_line(found["trace"], files)
    except StepscopeError as error:
        check.lag = f"not measured: {error}"
    check.say(f"\nlag of the counters behind the trace: {check.lag}")


def _case(check: Check, worker: Worker, recorder: Recorder | None, case: Case, num_left: int) -> None:
    least, most = LOOP_SECONDS[check.device]
    overhead = OVERHEAD_SECONDS[check.device]
    if not check.budget.has(case.name, overhead + NUM_LOOPS * least):
        return
    share = check.budget.share(num_left, 0.0)
    seconds = min(max((share - overhead) / NUM_LOOPS, least), most)
    folder = check.out / case.name
    order = _order(check, "case", folder, case=case.name, seconds=seconds)
    patience = min(4 * share, check.budget.left())
    measured = worker.do(order, patience)
    if measured.get("is_late") and patience < TIME_OF_ONE[check.device]:
        # The machine is slow, or the time was short: it did not fit, and says nothing of stepscope.
        check.budget.skipped.append(f"{case.name}: {measured['error']}")
        return
    files: list[Path] = []
    if "error" not in measured:
        if recorder is not None:
            files = _save(check, recorder, folder, measured["start_ns"], measured["end_ns"])
            seen = recorder.between(measured["start_ns"], measured["end_ns"])
            pids = {pid for each in seen for pid, _ in each.processes or ()}
            measured["unseen"] = case.faulty.has_neighbour and measured["pid"] not in pids
        measured["num_marked"] = marked_steps(folder / "marks")
    row = judged(case, check.device, measured, files)
    check.rows.append(row)
    (folder / "measured.json").write_text(json.dumps({**measured, **asdict(row)}, indent=1) + "\n")


def marked_steps(folder: Path) -> int:
    """Steps that the SDK marked to their end, over all rings of a folder."""
    ends = abi.kind_number("step_end")
    parts = [RingReader(str(path)).poll() for path in folder.glob(f"*{abi.SUFFIX}")]
    return sum(int((part.records["kind"] == ends).sum()) for part in parts)


def _order(check: Check, kind: str, folder: Path, **more: Any) -> Order:
    folder.mkdir(parents=True, exist_ok=True)
    return Order(kind, str(folder.resolve()), check.device, seed=check.seed, **more)


def _save(check: Check, recorder: Recorder, folder: Path, start_ns: int, end_ns: int) -> list[Path]:
    name = str(check.machine["device"])
    return write(recorder.between(start_ns, end_ns), folder, recorder.device.uuid(), name)


def about(check: Check) -> dict[str, Any]:
    """What was measured on: no name, path or number of this machine in it."""
    kept = ("device", "driver", "gpm", "torch", "cuda", "python", "cores", "memory_bytes")
    return {"date": check.date, **{name: check.machine[name] for name in kept if name in check.machine}}


def _told(check: Check) -> int:
    what = check.machine.get("device", "the CPU")
    check.say("\n" + verdict_table(check.rows, f"{what}, {check.date}"))
    for line in check.budget.skipped:
        check.say(f"left out: {line}")
    check.say(f"{check.budget.spent():.0f} s of {check.budget.total_seconds:.0f} s")
    whole = {
        "about": about(check),
        "lag": check.lag,
        "cases": [asdict(each) for each in check.rows],
        "thresholds": [asdict(each) for each in check.thresholds],
        "left_out": check.budget.skipped,
    }
    (check.out / "check.json").write_text(json.dumps(whole, indent=1) + "\n")
    passed = all(each.passed for each in (*check.rows, *check.thresholds))
    return 0 if check.rows and passed else 1
