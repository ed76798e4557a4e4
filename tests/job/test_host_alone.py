"""Counters of the host alone beside traces: where nothing else is known they are all that can tell."""

from __future__ import annotations

from pathlib import Path

from stepscope import offline
from stepscope.simulate import Config, Recording, parse, write


def test_what_keeps_the_launches_is_told_by_the_host_without_any_counter_of_a_device(tmp_path: Path) -> None:
    telemetry = Recording(counters="full", lost=0.0, log_style="plain")
    write(
        Config(
            ranks=2,
            layers=2,
            steps=30,
            step_ms=300.0,
            faults=(parse("cpu-contention:severe"),),
            telemetry=telemetry,
            seed=3,
        ),
        tmp_path,
    )
    traces = [str(path) for path in sorted(tmp_path.glob("*.json.gz"))]
    (host,) = tmp_path.glob("telemetry/*.node.prom")
    alone = offline.diagnose(traces)
    assert alone.findings[0].rule == "launch-bound"
    beside = offline.diagnose(traces, telemetry=[str(host)])
    assert beside.findings[0].rule == "busy-cores"
    reasons = {f.rule: f.explained_by for f in beside.findings if f.rule != "busy-cores"}
    assert {(by or "").split(":")[0] for by in reasons.values()} == {"busy-cores"}
