"""Changes that several rules propose."""

from __future__ import annotations

from stepscope.model.report import Patch
from stepscope.rules.capture import NODES

PINNED = Patch(
    kind="code",
    before='batch = batch.to("cuda")',
    after='loader = DataLoader(dataset, pin_memory=True)\nbatch = batch.to("cuda", non_blocking=True)',
)

NO_SYNC = Patch(
    kind="code",
    before="for micro in micro_batches:\n    loss(model(micro)).backward()",
    after="with model.no_sync():  # around forward and backward\n"
    "    for micro in micro_batches[:-1]:\n"
    "        loss(model(micro)).backward()\n"
    "loss(model(micro_batches[-1])).backward()",
)

GRAPH_NODES = Patch(kind="command", after=NODES.command)

QUERY_REASONS = Patch(
    kind="command",
    after="nvidia-smi --query-gpu=index,clocks.sm,clocks.max.sm,temperature.gpu,power.draw,"
    "enforced.power.limit,clocks_event_reasons.active --format=csv -l 1",
)

RESET_DEVICE = Patch(kind="command", after="nvidia-smi --gpu-reset -i INDEX  # with no process on it")

STACKS_OF_RANKS = Patch(kind="command", after="py-spy dump --pid PID  # of every rank; group equal stacks")

FLIGHT_RECORDER = Patch(
    kind="env",
    after="TORCH_FR_BUFFER_SIZE=20000 TORCH_NCCL_TRACE_BUFFER_SIZE=20000 TORCH_NCCL_DUMP_ON_TIMEOUT=1",
)

LIST_PROCESSES = Patch(
    kind="command", after="nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv"
)
