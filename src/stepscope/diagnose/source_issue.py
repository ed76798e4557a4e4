"""What is wrong with telemetry and logs, for the health report. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stepscope.model import report
from stepscope.model.analysis import RankAnalysis
from stepscope.model.log import Log
from stepscope.model.sample import Owner, Telemetry

if TYPE_CHECKING:
    from stepscope.diagnose.telemetry import Device


def issues_of(
    telemetry: Sequence[Telemetry],
    devices: Sequence[Device],
    every: Sequence[Mapping[str, float]],
    analyses: Sequence[RankAnalysis],
    logs: Sequence[Log],
) -> tuple[report.HealthIssue, ...]:
    """What is wrong with telemetry and logs."""
    noted = [(source.name, note) for source in telemetry for note in source.notes]
    noted += [(log.name, note) for log in logs for note in log.notes]
    issues = [
        report.HealthIssue(code=code, count=count, effect="none", detail=f"{name}: {detail}")
        for name, (code, count, detail) in noted
    ]
    issues += _elsewhere(devices, analyses)
    for each, found in zip(devices, every, strict=True):
        if found.get("counter_is_broken") == 1.0 and each.place is not None:
            rank = analyses[each.place[0]].rank
            detail = (
                f"{each.source}: the counters of {called(each.samples.owner)} say that nothing ran while the "
                f"trace has kernels for {100 * found['trace_busy_share']:.0f} % of the same time: the "
                f"counter "
                "is broken, the device was not idle"
            )
            issues.append(
                report.HealthIssue(
                    code="counter_broken",
                    count=1,
                    rank=rank,
                    effect="none",
                    detail=detail,
                    affects=("signals",),
                )
            )
    return tuple(issues)


LOG_ELSEWHERE = report.HealthIssue(
    code="log_elsewhere",
    count=1,
    effect="none",
    detail="the log's steps lie more than ten minutes from the counters or traces: they are of another "
    "run, or "
    "its times are of another zone; they decide nothing",
    affects=("progress",),
)


def _elsewhere(devices: Sequence[Device], analyses: Sequence[RankAnalysis]) -> list[report.HealthIssue]:
    """Devices whose counters are of another time than the traces, and those that are none of the traces'."""
    issues = []
    apart = [each for each in devices if each.apart_ns]
    if apart:
        hours = min(each.apart_ns for each in apart) / 3.6e12
        issues.append(
            report.HealthIssue(
                code="telemetry_elsewhere",
                count=len(apart),
                effect="none",
                detail=f"the counters of {len(apart)} devices lie {hours:,.2f} hours from the traces: they "
                f"are "
                "of another time, and decide nothing",
                affects=("signals",),
            )
        )
    others = [each for each in devices if each.place is None and not each.apart_ns]
    if others and any(d.accounting.device.kind not in report.HOST_KINDS for a in analyses for d in a.devices):
        names = ", ".join(called(each.samples.owner) for each in others[:3])
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        issues.append(
            report.HealthIssue(
                code="device_of_nobody",
                count=len(others),
                effect="none",
                detail=f"nothing tells whether a rank of the traces ran on {names}{more}: shown, and not "
                f"judged; "
                "give the processes (nvidia-smi --query-compute-apps) or NCCL's log",
                affects=("signals",),
            )
        )
    return issues


def called(owner: Owner) -> str:
    return (
        owner.uuid or owner.pci_bus_id or (f"device {owner.index}" if owner.index is not None else "a device")
    )
