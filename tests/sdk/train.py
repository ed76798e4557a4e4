"""A rank of a small real job that marks its steps: `python train.py STEPS PAUSE [PORT]`, over gloo if
WORLD_SIZE is more than one.

Environment: RANK, WORLD_SIZE, STEPSCOPE_RUN_DIR and what the SDK reads. `TRAIN_PROFILER`: `waiting` or
`running`, one of the user's own; `TRAIN_OWN_TRACE`: one with our handler.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import nullcontext


def main(steps: int, pause_s: float, port: str | None) -> None:
    """Train until the steps are done or a file `stop` lies in the run directory."""
    import torch
    import torch.distributed as dist
    from torch import nn

    import stepscope_sdk

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    model: nn.Module = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    if world > 1:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port or ""}
        dist.init_process_group("gloo", rank=rank, world_size=world)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    mon = stepscope_sdk.monitor()
    stop = os.path.join(os.environ["STEPSCOPE_RUN_DIR"], "stop")
    halt = torch.zeros(1)
    with _own_profiler(torch):
        for number in range(steps):
            time.sleep(pause_s)
            with mon.step(number):
                with mon.phase("forward"):
                    loss = model(torch.rand(16, 64)).sum()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            halt[0] = float(os.path.exists(stop))
            if world > 1:
                dist.all_reduce(halt)
            if halt[0]:
                break
    if world > 1:
        dist.destroy_process_group()
    print("trained", number + 1, flush=True)


def _own_profiler(torch):
    kind = os.environ.get("TRAIN_PROFILER")
    if kind is None:
        return nullcontext()
    activities = [torch.profiler.ProfilerActivity.CPU]
    schedule = torch.profiler.schedule(wait=1_000_000, warmup=1, active=1) if kind == "waiting" else None
    return torch.profiler.profile(activities=activities, schedule=schedule)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
