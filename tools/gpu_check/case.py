"""What is trained, and with which fault: a table. Standard library only, for both sides read it.

Each case trains twice in one process: as it should be, then with its fault. What the fault costs is so
measured and not assumed: a fault that costs nothing on this machine is due no finding.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Model = Literal["transformer", "convnet"]
HEALTHY = "healthy"
LEAST_COST = 0.05
"""Share of a step below which no finding above a note is due (the catalogue's line for a warning)."""


@dataclass(frozen=True, slots=True)
class Setup:
    """How a loop trains. `decode_steps`: what decoding one batch takes, in healthy steps; `is_tiny`: a narrow
    and deep model on a small batch, `batch_times` as large; `off_by`: added to the width of hidden layers."""

    model: Model = "transformer"
    is_tiny: bool = False
    batch_times: int = 1
    is_half: bool = True
    """bf16 by autocast; else fp32."""
    workers: int = 2
    decode_steps: float = 0.0
    is_pinned: bool = True
    reads_each_step: bool = False
    is_tf32: bool = True
    off_by: int = 0
    is_fused: bool = True
    is_fragmented: bool = False
    has_neighbour: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """One fault. `rules` are those that stand for its cause on a GPU, `host_rules` on a CPU: where there are
    none, silence is right. `tolerated`: findings that are true of the loop without its fault as well."""

    name: str
    healthy: Setup
    faulty: Setup
    rules: tuple[str, ...] = ()
    host_rules: tuple[str, ...] | None = ()
    """`None`: the fault needs a GPU."""
    tolerated: tuple[str, ...] = ()
    has_stacks: bool = False

    def right(self, device: str) -> tuple[str, ...]:
        """The rules that stand for the cause on this kind of device."""
        return self.rules if device == "cuda" else self.host_rules or ()


EAGER = ("unfused-elementwise",)
"""What PyTorch pays for running op by op is no fault of ours, and is there all the same."""
_T, _C = Setup(), Setup(model="convnet")
# The same small model with more to do at a time: what it saves a sample is what small kernels cost.
_SMALL, _FILLED = Setup(is_tiny=True), Setup(is_tiny=True, batch_times=16)
_FP32 = Setup(is_half=False)

CASES: tuple[Case, ...] = (
    Case("healthy-transformer", _T, _T, tolerated=EAGER),
    Case("healthy-convnet", _C, _C, tolerated=EAGER),
    Case(
        "no-workers", _C, Setup(model="convnet", workers=0, decode_steps=1.0),
        ("input-starvation", "host-preprocessing"), ("input-starvation", "host-preprocessing"),
    ),
    Case(
        "slow-decode", _C, Setup(model="convnet", workers=1, decode_steps=2.0),
        ("input-starvation",), ("input-starvation",),
    ),
    Case("pageable-copies", _C, Setup(model="convnet", is_pinned=False), ("pageable-copies",), None, EAGER),
    # Reading a number back waits for the device; on a CPU there is nothing to wait for.
    Case("item-each-step", _T, Setup(reads_each_step=True), ("hidden-sync",), (), EAGER),
    # On a CPU an op is run where it is issued: no queue runs empty, and no rule judges it.
    Case("tiny-kernels", _FILLED, _SMALL, ("launch-bound", "small-kernels"), (), EAGER),
    Case("tf32-off", _FP32, Setup(is_half=False, is_tf32=False), ("tf32-off",), None, EAGER),
    Case("misaligned-shapes", _T, Setup(off_by=3), ("misaligned-shapes",), None, EAGER),
    Case("unfused-optimizer", _T, Setup(is_fused=False), ("unfused-optimizer",), (), EAGER),
    Case(
        "fragmentation", _T, Setup(is_fragmented=True),
        ("allocator-thrash", "memory-fragmentation", "fragmented-out-of-memory"), None, EAGER,
    ),
    Case("co-tenant", _T, Setup(has_neighbour=True), ("foreign-process",), None, EAGER),
)  # fmt: skip
BY_NAME = {each.name: each for each in CASES}


def cases_for(device: str, names: tuple[str, ...] = ()) -> tuple[Case, ...]:
    """Those that a kind of device can show, in the table's order; `names` picks some."""
    unknown = sorted(set(names) - set(BY_NAME))
    if unknown:
        raise ValueError(f"no case {', '.join(unknown)}; there are: {', '.join(BY_NAME)}")
    return tuple(
        each
        for each in CASES
        if (not names or each.name in names) and (device == "cuda" or each.host_rules is not None)
    )


@dataclass(frozen=True, slots=True)
class Order:
    """What a child is asked to do: JSON on its standard input, a line each. `kind` is `probe`, `kernels`,
    `bursts` or `case`; `seconds` is for each of a case's two measured loops; `folder` takes what it writes.
    """

    kind: str
    folder: str
    device: str = "cuda"
    case: str = ""
    seconds: float = 2.0
    seed: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
