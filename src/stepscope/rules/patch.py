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
