"""Features of how collectives are used: many small ones, gradients reduced more often than they are used."""

from __future__ import annotations

from stepscope.analyse.features import has_device
from stepscope.model.feature import Feature, Observed


def _number(name: str, unit: str, help: str) -> Feature:
    return Feature(name, unit, help, lambda observed: observed.device.numbers.get(name))


def _of_exposed(name: str, part: str, help: str) -> Feature:
    """A part of the communication that no computation hides, as a share of the step."""

    def value(observed: Observed) -> float | None:
        account, share = observed.device.accounting, observed.device.numbers.get(part)
        if account.total_ns <= 0 or not has_device(observed):
            return None
        if account.communication_exposed_ns == 0:
            return 0.0
        return None if share is None else share * account.communication_exposed_ns / account.total_ns

    return Feature(name, "ratio", help, value, of=("communication_exposed",))


def _hidden(observed: Observed) -> float | None:
    communication = observed.device.accounting.communication
    if communication is None or communication.total_ns <= 0 or not has_device(observed):
        return None
    return communication.hidden_ns / communication.total_ns


hidden_of_communication_share = Feature(
    "hidden_of_communication_share",
    "ratio",
    "Time in communication beside which something computes, as a share of all time in communication.",
    _hidden,
)
small_of_communication_share = _number(
    "small_of_communication_share",
    "ratio",
    "Collectives of less than a megabyte that take no longer than 0.2 ms, as a share of the communication "
    "that no computation hides; with several ranks, without what another rank shows to be waiting.",
)
small_collectives_per_step = _number(
    "small_collectives_per_step",
    "collectives",
    "Collectives of less than a megabyte that take no longer than 0.2 ms and that nothing hides, in a step.",
)
small_collective_median_ns = _number(
    "small_collective_median_ns",
    "ns",
    "How long a collective of less than a megabyte takes that nothing hides, the median; of several ranks "
    "of a job the least of theirs.",
)
small_collective_share = _of_exposed(
    "small_collective_share",
    "small_of_communication_share",
    "Time in which only collectives of less than a megabyte that take no longer than 0.2 ms run, as a "
    "share of the step.",
)
gradient_syncs_per_update = _number(
    "gradient_syncs_per_update",
    "syncs",
    "Micro-steps in which DistributedDataParallel reduces all gradients, for one step of the optimizer; 0 "
    "where nothing is reduced, unknown under another wrapper.",
)
repeated_sync_share = _of_exposed(
    "repeated_sync_share",
    "repeated_sync_part",
    "Time in which only reductions of gradients run that another one follows before the optimizer's step, "
    "as a share of the step.",
)
