"""A process with profilers of its own beside ours; what came of each goes to stdout as JSON.

Run by a Python that has torch, with STEPSCOPE_RUN_DIR and RANK set.
"""

from __future__ import annotations

import json
import os
import time

import torch

import stepscope_sdk
from stepscope_sdk.capture_job import Job
from stepscope_sdk.profile_folder import Folder
from stepscope_sdk.profile_torch import Torch, other_profiler


def work():
    """A little to record."""
    return torch.rand(32, 32) @ torch.rand(32, 32)


def taken_over(folder, how):
    """The user begins a profile while ours is warming up or recording."""
    bench = Torch(Folder(folder), os.path.join(folder, "rank0-1-a.ring"), {"rank": 0})
    ours = bench.recorder(Job(1, 5, 2, "full", 0))
    ours.prepare()
    if how == "recording":
        ours.start(5)
        work()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
        work()
    events = len(theirs.events())
    try:
        if how != "recording":
            ours.start(5)
        ours.stop()
        end = "stopped"
    except RuntimeError as error:
        end = str(error)
        ours.discard()
    return {"theirs": events, "ours": end, "free": other_profiler(torch, {})}


def main():
    """Each case."""
    folder = os.environ["STEPSCOPE_RUN_DIR"]
    told = {how: taken_over(folder, how) for how in ("warming up", "recording")}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        told["running"] = other_profiler(torch, {})
    told["nsys"] = other_profiler(torch, {"NSYS_PROFILING_SESSION_ID": "1"})
    mon = stepscope_sdk.monitor(sample_every=20)
    for _ in range(45):
        with mon.step():
            work()
            time.sleep(0.002)
    handler = stepscope_sdk.on_trace_ready(os.path.join(folder, "own"))
    plan = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], schedule=plan, on_trace_ready=handler
    ) as own:
        for _ in range(6):
            with mon.step():
                work()
            own.step()
    handler.wait()
    print(json.dumps(told))


main()
