"""Worked runs of every rule: features over windows in a row, and what the rule says of each window."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """`features` by name in the series notation, all as long as `says`."""

    name: str
    features: dict[str, str]
    says: str


RUNS: dict[str, tuple[Run, ...]] = {
    "input-starvation": (
        Run("a move to faster devices", {"idle_input_share": "0.02x5 0.31x4"}, "clearx5 findingx4"),
        Run("just under, and just met", {"idle_input_share": "0.0999 0.10"}, "clear finding"),
        Run("a trace without device activity", {"idle_input_share": "_x3"}, "undecidedx3"),
        Run(
            "a slow loader that hides behind queued work",
            {"idle_input_share": "0.01x3", "host_loader_share": "0.40x3"},
            "clearx3",
        ),
    ),
    "host-preprocessing": (
        Run(
            "masks that grow with length",
            {"idle_preprocess_share": "0.03 0.08 0.14 0.22"},
            "clearx2 findingx2",
        ),
        Run("just under, and just met", {"idle_preprocess_share": "0.0999 0.10"}, "clear finding"),
        Run("idle causes withheld", {"idle_preprocess_share": "_x2"}, "undecidedx2"),
    ),
    "exposed-communication": (
        Run(
            "transfers at half the link",
            {"exposed_communication_share": "0.04 0.12x3", "bus_bandwidth_link_share": "0.5x4"},
            "clear findingx3",
        ),
        Run(
            "a late peer looks the same from one rank",
            {"exposed_communication_share": "0.35x2", "bus_bandwidth_link_share": "0.01x2"},
            "findingx2",
        ),
        Run(
            "bandwidth unknown is still waiting",
            {"exposed_communication_share": "0.35x2", "bus_bandwidth_link_share": "_x2"},
            "findingx2",
        ),
        Run(
            "the last bucket has nothing to hide behind", {"exposed_communication_share": "0.07x3"}, "clearx3"
        ),
    ),
    "exposed-copy": (
        Run("pageable batches", {"copy_stall_share": "0.09x3", "pageable_copy_share": "1.0x3"}, "findingx3"),
        Run("copies beside kernels cost nothing", {"copy_stall_share": "0.00x3"}, "clearx3"),
        Run("just under, and just met", {"copy_stall_share": "0.0499 0.05 _"}, "clear finding undecided"),
    ),
    "hidden-sync": (
        Run("a loss read in every step", {"idle_host_sync_share": "0.18x4"}, "findingx4"),
        Run(
            "a sync behind a full queue costs nothing",
            {"idle_host_sync_share": "0.00x4", "host_sync_share": "0.60x4"},
            "clearx4",
        ),
        Run("just under, and just met", {"idle_host_sync_share": "0.0499 0.05 _"}, "clear finding undecided"),
    ),
    "allocator-thrash": (
        Run("warm-up allocates, later steps do not", {"idle_allocator_share": "0.01 0.00x5"}, "clearx6"),
        Run("memory in pieces", {"idle_allocator_share": "0.00x2 0.12x3"}, "clearx2 findingx3"),
        Run("just under, and just met", {"idle_allocator_share": "0.0499 0.05 _"}, "clear finding undecided"),
    ),
    "late-start": (
        Run("half a second before a graph replay", {"late_start_share": "0.97"}, "finding"),
        Run("launches that take microseconds", {"late_start_share": "0.00x3"}, "clearx3"),
        Run("just under, and just met", {"late_start_share": "0.1499 0.15 _"}, "clear finding undecided"),
    ),
    "launch-bound": (
        Run(
            "one launch that started half a second late",
            {"idle_launch_share": "0.97 0.45", "late_start_launch_share": "0.99 0.10"},
            "clear finding",
        ),
        Run(
            "eager, small batch", {"idle_launch_share": "0.45x3", "idle_compile_share": "0.00x3"}, "findingx3"
        ),
        Run("a window of compilation", {"idle_launch_share": "0.45", "idle_compile_share": "0.30"}, "clear"),
        Run(
            "an excuse that cannot be checked does not silence",
            {"idle_launch_share": "0.15 0.149", "idle_compile_share": "_x2"},
            "finding clear",
        ),
        Run(
            "large kernels keep the queue full",
            {"idle_launch_share": "0.01x2", "launches_per_step": "9000x2"},
            "clearx2",
        ),
    ),
    "periodic-stall": (
        Run("a checkpoint every ten steps", {"periodic_stall_share": "0.08x2"}, "findingx2"),
        Run("too few steps to see a period", {"periodic_stall_share": "_x3"}, "undecidedx3"),
        Run("just under, and just met", {"periodic_stall_share": "0.0499 0.05"}, "clear finding"),
    ),
    "unrecorded-work": (
        Run(
            "graph nodes not recorded",
            {"idle_share": "0.70x2", "queued_or_unlaunched_idle_share": "0.98x2"},
            "findingx2",
        ),
        Run(
            "a busy device whose little idle time is between kernels",
            {"idle_share": "0.03x2", "queued_or_unlaunched_idle_share": "0.95x2"},
            "clearx2",
        ),
        Run(
            "a host that is late",
            {"idle_share": "0.40", "queued_or_unlaunched_idle_share": "0.10"},
            "clear",
        ),
        Run(
            "a clause known to be false settles it",
            {"idle_share": "0.05 0.40", "queued_or_unlaunched_idle_share": "_ _"},
            "clear undecided",
        ),
    ),
    "compute-bound": (
        Run(
            "products at the library's peak",
            {
                "busy_share": "0.97x2",
                "exposed_communication_share": "0.01x2",
                "copy_exposed_share": "0.00x2",
            },
            "findingx2",
        ),
        Run(
            "busy, but half of it is unknown",
            {"busy_share": "0.95", "exposed_communication_share": "_", "copy_exposed_share": "0.00"},
            "undecided",
        ),
        Run(
            "not busy is not health, whatever is unknown",
            {"busy_share": "0.60", "exposed_communication_share": "_", "copy_exposed_share": "_"},
            "clear",
        ),
    ),
}
