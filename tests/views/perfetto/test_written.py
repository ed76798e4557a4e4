"""What Perfetto's own trace_processor finds in a written file is what the traces and the report hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscope import offline
from stepscope.export import perfetto
from stepscope.trace.load import load
from tests.views.perfetto.engine import Engine

ROOT = Path(__file__).resolve().parents[3]
DEMO = ROOT / "src/stepscope/demo/demo.pt.trace.json.gz"
REAL = (
    "holistictraceanalysis/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "holistictraceanalysis/cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    "holistictraceanalysis/critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz",
    "holistictraceanalysis/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    "holistictraceanalysis/negative_queue_length_values_check/rank0.json.gz",
    "kineto/be239c04/resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz",
    "tracelens/b200/eager_trace.json.gz",
    "tracelens/mi300/resnet_act_checkpoint.json.gz",
)


def written(paths: list[Path], out: Path, **options: Any) -> tuple[offline.Diagnosed, perfetto.Written]:
    done = offline.diagnosed(paths, **options)
    with out.open("wb") as sink:
        return done, perfetto.write(done, sink)


def complaints(engine: Engine) -> list[tuple[Any, ...]]:
    """What the engine lost or could not read."""
    return engine.query(
        "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
    )


def check(paths: list[Path], out: Path) -> None:
    """Every complete event is a slice with its name, category, time and length; ours are counted."""
    done, counts = written(paths, out)
    traces = [load(str(path)) for path in paths]
    expected: Counter[tuple[str, str, int, int]] = Counter()
    for trace in traces:
        spans = trace.spans
        rows = zip(
            spans.name_id.tolist(),
            spans.cat_id.tolist(),
            spans.ts_ns.tolist(),
            np.maximum(spans.dur_ns, 0).tolist(),
            strict=True,
        )
        for name, cat, start, duration in rows:
            expected[trace.cats[cat], trace.names[name], start, duration] += 1
        # Old writers leave the category out: the engine shows none then, and instants are slices too.
    num_instants = sum(len(trace.instants.ts_ns) for trace in traces)
    with Engine(out) as engine:
        rows = engine.query(
            "select category, name, ts, dur from slice "
            "where category is null or category not glob 'stepscope.*'"
        )
        found = Counter((cat or "", name or "", start, duration) for cat, name, start, duration in rows)
        ours = dict(
            engine.query("select category, count(*) from slice where category glob 'stepscope.*' group by 1")
        )
        assert complaints(engine) == []
        assert engine.query("select count(*) from flow") == [(counts.flows,)]
        assert engine.query("select count(*) from counter") == [(counts.counters,)]
    assert sum(found.values()) == counts.slices + num_instants
    assert counts.left_out == 0
    missing = expected - found
    assert not missing, list(missing.items())[:5]
    assert sum((found - expected).values()) == num_instants == counts.instants
    report = done.report
    assert ours.get("stepscope.step", 0) == len(report.steps)
    assert ours.get("stepscope.card", 0) == len(report.cards)
    findings = {name: count for name, count in ours.items() if name.startswith("stepscope.finding.")}
    severities = Counter(f"stepscope.finding.{finding.severity}" for finding in report.findings)
    assert findings == severities
    assert sum(ours.values()) == counts.marks


def test_the_sample_is_in_the_file_slice_by_slice(tmp_path: Path) -> None:
    check([DEMO], tmp_path / "out.pftrace")


@pytest.mark.parametrize("name", REAL)
def test_a_real_trace_is_in_the_file_slice_by_slice(shared_data: Path, tmp_path: Path, name: str) -> None:
    check([shared_data / "traces" / name], tmp_path / "out.pftrace")
