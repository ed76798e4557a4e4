"""Features of a rank beside its peers: known only where the ranks of a job were joined."""

from __future__ import annotations

from stepscope.model import report
from stepscope.model.feature import Feature, Observed


def _number(
    name: str, unit: str, help: str, *, of: tuple[str, ...] = (), is_of_peers: bool = False
) -> Feature:
    return Feature(
        name,
        unit,
        help,
        lambda observed: observed.device.numbers.get(name),
        of=of,
        is_of_peers=is_of_peers,
    )


def _peers(observed: Observed) -> float | None:
    world = observed.rank.world_size
    if observed.device.accounting.device.kind == "cpu" and observed.rank.accelerator != "cpu":
        return None
    if world is not None:
        return float(world - 1)
    # What talks to nobody has no peers; what talks may have any number.
    return None if observed.rank.collectives else 0.0


num_peers = Feature(
    "num_peers", "ranks", "Other ranks of the job; 0 where nothing says that there are any.", _peers
)
peer_wait_share = _number(
    "peer_wait_share",
    "ratio",
    "Time in a collective, hidden by nothing, before the last rank had come, as a share of the step.",
    of=("communication_exposed",),
)
transfer_exposed_share = _number(
    "transfer_exposed_share",
    "ratio",
    "Time in a collective, hidden by nothing, after the last rank had come, as a share of the step.",
    of=("communication_exposed",),
)


def _waiting_part(observed: Observed) -> float | None:
    row = observed.device.accounting
    wait = observed.device.numbers.get("peer_wait_share")
    if wait is None or row.total_ns <= 0:
        return None
    return wait * row.total_ns / row.communication_exposed_ns if row.communication_exposed_ns else 0.0


peer_wait_of_exposed = Feature(
    "peer_wait_of_exposed",
    "ratio",
    "Waiting for later ranks, as a share of the communication that no computation hides.",
    _waiting_part,
)
transfer_link_share = _number(
    "transfer_link_share",
    "ratio",
    "Bus bandwidth of large collectives once every rank had come, against one direction of the link.",
)
transfer_bytes_per_second = _number(
    "transfer_bytes_per_second",
    "B/s",
    "Bus bandwidth of large collectives once every rank had come.",
)
slower_group_ratio = _number(
    "slower_group_ratio",
    "ratio",
    "How much longer transfers of this rank's groups take than those of other groups, of the same kind and "
    "size: the median, 1 where they take as long.",
)
straggler_cost_share = _number(
    "straggler_cost_share",
    "ratio",
    "What the other ranks wait for this rank alone, as a share of the window; 0 where it is not late.",
    is_of_peers=True,
)
num_late_ranks = _number(
    "num_late_ranks",
    "ranks",
    "How many ranks take turns in being late; 1 where it is always this one.",
)
is_lateness_untold = _number(
    "is_lateness_untold",
    "1",
    "1 where nothing recorded says why the rank is late, or only that its host took longer (loader, batch, "
    "launches, Python); 0 where its kernels or a pause of a known kind do.",
)
uneven_work_share = _number(
    "uneven_work_share",
    "ratio",
    "What the other ranks wait for this rank in the steps in which it has more to compute than they, while "
    "in others it is another rank, as a share of the window.",
    is_of_peers=True,
)
expert_work_share = _number(
    "expert_work_share",
    "ratio",
    "What the other ranks wait in all-to-alls for this rank in the steps in which it has more to compute "
    "than they, as a share of the window.",
    is_of_peers=True,
)
stage_work_share = _number(
    "stage_work_share",
    "ratio",
    "What the other pipeline stages compute less than this rank's, as a share of the window; 0 for other "
    "stages.",
    is_of_peers=True,
)
beside_communication_share = Feature(
    "beside_communication_share",
    "ratio",
    "Time by which kernels run longer beside communication than the same kernels do alone, as a share of "
    "the step.",
    lambda observed: observed.device.numbers.get("beside_communication_share"),
    of=("compute",),
)


def _hidden(observed: Observed) -> float | None:
    row = observed.device.accounting
    if row.total_ns <= 0 or row.device.kind in report.HOST_KINDS:
        return None
    return row.communication.hidden_ns / row.total_ns if row.communication is not None else 0.0


hidden_communication_share = Feature(
    "hidden_communication_share",
    "ratio",
    "Time in which communication ran beside computation, as a share of the step.",
    _hidden,
)
pinned_copy_bus_share = _number(
    "pinned_copy_bus_share",
    "ratio",
    "Rate of the fastest large copies from or to pinned memory, against one direction of the bus.",
)
pinned_copy_bytes_per_second = _number(
    "pinned_copy_bytes_per_second", "B/s", "Rate of the fastest large copies from or to pinned memory."
)
