"""A rank of a small real job that marks its steps: `python train.py STEPS PAUSE [PORT]`, over gloo if
WORLD_SIZE is more than one. A file `stop` in the run directory ends it.

Environment: RANK, WORLD_SIZE, STEPSCOPE_RUN_DIR and what the SDK reads; `TRAIN_PROFILER=waiting`: with a
profiler of the user's own whose schedule waits, until a file `unprofiled` lies in the run directory.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack


def main(steps: int, pause_s: float, port: str | None) -> None:
    """Train."""
    import torch
    import torch.distributed as dist
    from torch import nn

    import stepscope_sdk

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    folder = os.environ["STEPSCOPE_RUN_DIR"]
    torch.set_num_threads(1)
    model: nn.Module = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    if world > 1:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port or ""}
        dist.init_process_group("gloo", rank=rank, world_size=world)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    mon = stepscope_sdk.monitor()
    halt = torch.zeros(1)
    with ExitStack() as own:
        if os.environ.get("TRAIN_PROFILER") == "waiting":
            schedule = torch.profiler.schedule(wait=1_000_000, warmup=1, active=1)
            own.enter_context(
                torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule)
            )
        for number in range(steps):
            time.sleep(pause_s)
            with mon.step(number):
                with mon.phase("forward"):
                    loss = model(torch.rand(16, 64)).sum()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            if os.path.exists(os.path.join(folder, "unprofiled")):
                own.close()
            halt[0] = float(os.path.exists(os.path.join(folder, "stop")))
            if world > 1:
                dist.all_reduce(halt)
            if halt[0]:
                break
    if world > 1:
        dist.destroy_process_group()
    print("trained", number + 1, rank, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
