"""A training loop of three processes over gloo that stops in one of several ways. Run as a process by tests.

python loop.py KIND RANK PORT FOLDER

KIND: sleep, killed, mismatch, loader, checkpoint, evaluation or healthy. Rank 1 is the one that fails. Each
process writes PyTorch's flight recorder into FOLDER (`trace_rank_N`) once it stands, as a watchdog would.
Kinds end when they are killed; `evaluation` and `healthy` end by themselves.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from datetime import timedelta

os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "200")

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace

import stepscope_sdk

GUILTY, BAD_STEP = 1, 20
STEP_S = 0.03
at = [-1]
"""The step."""


def main() -> None:
    kind, rank, port, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    torch.set_num_threads(1)
    mon = stepscope_sdk.monitor()
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=3,
        timeout=timedelta(seconds=120),
    )  # fmt: skip
    threading.Thread(target=dump_once_still, args=(f"{folder}/trace_rank_{rank}",), daemon=True).start()
    gradient = torch.ones(1000)
    batches: queue.Queue[int] = queue.Queue(2)
    threading.Thread(target=load, args=(batches, kind, rank), daemon=True).start()
    for step in range(40 if kind in ("healthy", "evaluation") else 1_000_000):
        at[0] = step
        is_bad = rank == GUILTY and step == BAD_STEP
        with mon.phase("data"):
            next_batch(batches)
        with mon.step(step):
            with mon.phase("forward"):
                if is_bad and kind == "sleep":
                    look_for_the_device()
                time.sleep(STEP_S / 2)
            with mon.phase("backward", sync=True):
                if is_bad and kind == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                if is_bad and kind == "mismatch":
                    dist.broadcast(gradient, src=GUILTY)
                    dist.barrier()
                reduce_gradients(gradient)
            with mon.phase("optimizer"):
                time.sleep(STEP_S / 4)
            mon.log(loss=1.0 / (step + 1))
        if step % 10 == 5 and rank == GUILTY:
            with mon.phase("checkpoint"):
                save(f"{folder}/state", is_stuck=kind == "checkpoint" and step > BAD_STEP)
        if step == BAD_STEP and kind == "evaluation" and rank == 0:
            with mon.phase("eval"):
                evaluate()
    dist.destroy_process_group()


def look_for_the_device() -> None:
    time.sleep(3600)


def reduce_gradients(gradient: torch.Tensor) -> None:
    dist.all_reduce(gradient)


def load(batches: queue.Queue[int], kind: str, rank: int) -> None:
    """The loader: of the bad kind it ends without a word."""
    number = 0
    while not (kind == "loader" and rank == GUILTY and number >= BAD_STEP):
        batches.put(number)
        number += 1


def next_batch(batches: queue.Queue[int]) -> int:
    return batches.get()


def save(path: str, is_stuck: bool) -> None:
    """A checkpoint; where it is stuck its file is a pipe that nobody reads."""
    if is_stuck:
        path += ".pipe"
        os.mkfifo(path)
    torch.save({"weight": torch.ones(4)}, path)


def evaluate() -> None:
    """Long, and legitimate: no mark within it."""
    time.sleep(6.0)


def dump_once_still(path: str) -> None:
    """What a watchdog does on a timeout. Only of a loop that stands: recording a collective takes the
    recorder's lock and then Python's, dumping takes them the other way round."""
    seen = -1
    while seen != at[0] or at[0] < 0:
        seen = at[0]
        time.sleep(1.0)
    dump = _dump_fr_trace()
    with open(f"{path}.part", "wb") as file:
        file.write(dump)
    os.replace(f"{path}.part", path)


if __name__ == "__main__":
    main()
