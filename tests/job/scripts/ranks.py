"""Two ranks of DistributedDataParallel over gloo; one sleeps for 50 ms in each step.

`before`: after the optimizer of the step before; `start`: where the step begins; `after`: after its forward
pass; `moving`: after forward, now one rank and now the other; `none`: nobody. Under torchrun, or by itself
(it forks then).
"""

import os
import random
import socket
import sys
import time

import small
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel

STEPS, SLEEP_SECONDS = 30, 0.05


def train(where):
    """One rank."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    net = DistributedDataParallel(small.model())
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    inputs, labels = small.batch()
    turns = random.Random(3)
    for _ in range(STEPS):
        late = turns.randrange(2) if where == "moving" else 1
        is_late = rank == late and where != "none"
        if is_late and where == "start":
            time.sleep(SLEEP_SECONDS)
        loss = nn.functional.cross_entropy(net(inputs), labels)
        if is_late and where in ("after", "moving"):
            time.sleep(SLEEP_SECONDS)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if is_late and where == "before":
            time.sleep(SLEEP_SECONDS)
    dist.destroy_process_group()


def fork(where):
    """Both ranks, from this process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    ranks = []
    for rank in (0, 1):
        child = os.fork()
        if child == 0:
            os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            train(where)
            os._exit(0)
        ranks.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in ranks)


if __name__ == "__main__":
    sys.exit(train(sys.argv[1]) if "RANK" in os.environ else fork(sys.argv[1]))
