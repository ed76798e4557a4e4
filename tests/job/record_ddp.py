"""Two real processes of DistributedDataParallel on the CPU over gloo; one of them sleeps in some steps.

Run by a Python that has torch: `python record_ddp.py FOLDER RANK WORLD PORT`. Writes FOLDER/rank<RANK>.json.
The sleep lies between the forward and the backward pass of rank 1, in the steps of `SLEEPS`.
"""

from __future__ import annotations

import os
import sys
import time

SLEEPS = (4, 7, 8, 11)
"""Steps in which rank 1 sleeps, as the profiler numbers them."""
STEPS = 14
SLEEP_SECONDS = 0.05


def sleep_a_little() -> None:
    """What the trace is to name."""
    time.sleep(SLEEP_SECONDS)


def main(folder: str, rank: int, world: int, port: int) -> None:
    """Train a small model for a few profiled steps."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.profiler import ProfilerActivity, profile, schedule

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    layers = [part for _ in range(3) for part in (nn.Linear(512, 512), nn.ReLU())]
    model = DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):  # buckets are rebuilt after the first pass
        model(torch.rand(256, 512)).sum().backward()
        optimizer.step()
    dist.barrier()
    with profile(
        activities=[ProfilerActivity.CPU],
        with_stack=True,
        schedule=schedule(wait=0, warmup=0, active=STEPS, repeat=1),
        on_trace_ready=lambda done: done.export_chrome_trace(os.path.join(folder, f"rank{rank}.json")),
    ) as profiler:
        for step in range(STEPS):
            optimizer.zero_grad()
            loss = model(torch.rand(256, 512)).sum()
            if rank == 1 and step in SLEEPS:
                sleep_a_little()
            loss.backward()
            optimizer.step()
            profiler.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
