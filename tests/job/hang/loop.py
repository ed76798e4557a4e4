"""Training loops of three processes over gloo that stop in one of several ways. Run as a process by tests.

python loop.py FOLDER KIND:PORT…

KIND: sleep, killed, mismatch, loader, checkpoint or evaluation. Rank 1 is the one that fails. Torch is
imported once; every rank is a child: `KIND RANK PID` is printed first and `KIND RANK PID STATUS` at its end.
A rank writes PyTorch's flight recorder into FOLDER/KIND (`trace_rank_N`) once it stands, as a watchdog would.
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

GUILTY, BAD_STEP = 1, 20
STEP_S = 0.03
at = [-1]
"""The step."""
enqueuing = threading.Lock()
"""Recording takes the recorder's lock and then Python's; dumping from Python the other way round."""


def main() -> None:
    folder, kinds = sys.argv[1], [each.split(":") for each in sys.argv[2:]]
    children = {}
    for kind, port in kinds:
        for rank in range(3):
            pid = os.fork()
            if not pid:
                return train(kind, rank, port, f"{folder}/{kind}")
            children[pid] = f"{kind} {rank} {pid}"
            print(children[pid], flush=True)
    while children:
        pid, status = os.wait()
        print(children.pop(pid), os.waitstatus_to_exitcode(status), flush=True)
    return None


def train(kind: str, rank: int, port: str, folder: str) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "3"}
    os.environ |= {"STEPSCOPE_JOB": kind, "STEPSCOPE_RUN_DIR": f"{folder}/run"}
    sys.stdout.close()
    import stepscope_sdk

    torch.set_num_threads(1)
    mon = stepscope_sdk.monitor()
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=3,
        timeout=timedelta(seconds=120),
    )  # fmt: skip
    if kind != "evaluation":
        path = f"{folder}/trace_rank_{rank}"
        threading.Thread(target=dump_once_still, args=(path,), daemon=True).start()
    gradient = torch.ones(1000)
    batches: queue.Queue[int] = queue.Queue(2)
    threading.Thread(target=load, args=(batches, kind, rank), daemon=True).start()
    for step in range(40 if kind == "evaluation" else 1_000_000):
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
                    share_weights(gradient)
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
    with enqueuing:
        work = dist.all_reduce(gradient, async_op=True)
    work.wait()


def share_weights(weight: torch.Tensor) -> None:
    """What the others do not call."""
    with enqueuing:
        work = dist.broadcast(weight, src=GUILTY, async_op=True)
    work.wait()
    with enqueuing:
        work = dist.barrier(async_op=True)
    work.wait()


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
    with open(path, "wb") as file:
        torch.save({"weight": torch.ones(4)}, file)


def evaluate() -> None:
    """Long, and legitimate: no mark within it."""
    time.sleep(6.0)


def dump_once_still(path: str) -> None:
    """What a watchdog does on a timeout."""
    seen = -1
    while seen != at[0] or at[0] < BAD_STEP:
        seen = at[0]
        time.sleep(2.0)
    with enqueuing:
        dump = _dump_fr_trace()
    with open(f"{path}.part", "wb") as file:
        file.write(dump)
    os.replace(f"{path}.part", path)


if __name__ == "__main__":
    main()
