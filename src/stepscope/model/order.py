"""Orders: what a server asks of an agent. An agent waits for them with a long request of its own, so that
they come at once and do not depend on what it ships. Wire format: `docs/reference/ingest.md`.

Answers need no way of their own: what a rank answers to a command is in its marks.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Command(msgspec.Struct, frozen=True, omit_defaults=True, tag="command", tag_field="kind"):
    """Write this into a ring's control file. `ring` is the file's name, as in the agent's own batches; the
    rest as `act.capture.control.ControlWriter.write` takes it."""

    seq: int
    ring: str
    command: Literal["propose", "commit", "cancel"]
    capture: int
    first_step: int
    num_steps: int
    mode: Literal["full", "light"] = "full"
    flags: tuple[str, ...] = ()


class Upload(msgspec.Struct, frozen=True, omit_defaults=True, tag="upload", tag_field="kind"):
    """Send the trace that this ring's rank wrote for this capture: `PUT /api/v1/captures/N/traces/RING`."""

    seq: int
    ring: str
    capture: int


class Stacks(msgspec.Struct, frozen=True, omit_defaults=True, tag="stacks", tag_field="kind"):
    """Read the Python stacks of these rings' processes (py-spy): they come as `Lines` of the log `stacks`."""

    seq: int
    rings: tuple[str, ...]


Order = Command | Upload | Stacks


class Orders(msgspec.Struct, frozen=True):
    """The answer to `GET /api/v1/agents/AGENT/orders?after=SEQ&wait_s=S`: what is newer than SEQ, ascending;
    empty where nothing came in time. `seq` counts on over restarts of the server; an agent begins with
    `after=-1`, which gives nothing old: only `next`, to go on with."""

    orders: list[Order]
    next: int
