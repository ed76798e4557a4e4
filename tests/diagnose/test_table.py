"""Tables given by name or in a folder: the report they become, in both languages, and what it never says."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest

from stepscope.model.error import StepscopeError
from stepscope.model.report import Report, decode, encode
from stepscope.model.table import Timeline
from stepscope.offline import diagnose
from tests.analyse.pipeline_made import Times, timeline


def csv(path: Path, slow: float = 1.0, ranks: int = 8, unit: str = "_ms") -> Path:
    x = 100 * (1 + 0.01 * np.random.default_rng(4).standard_normal((ranks, 40)))
    x[ranks - 1] *= slow
    lines = [f"{rank},{step},{x[rank, step]:.4f}" for rank in range(ranks) for step in range(40)]
    path.write_text("\n".join([f"rank,step,duration{unit}", *lines]) + "\n")
    return path


def parquet(path: Path, made: Timeline) -> Path:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t (dp_rank INT, stage INT, rank INT, step INT, optype VARCHAR, start_ts DOUBLE, "
        "duration DOUBLE, seq_id INT, mc INT, mb_id INT)"
    )
    columns = (made.data_parallel_rank, made.stage, made.rank, made.step, made.kind, made.start_ns / 1e9)
    rest = (made.duration_ns / 1e9, made.sequence, made.chunk, made.micro_batch)
    rows = [list(row) for row in zip(*(each.tolist() for each in (*columns, *rest)), strict=True)]
    for row in rows:
        row[4] = made.kinds[row[4]]
    connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * 10)})", rows)
    connection.execute(f"COPY t TO '{path}' (FORMAT parquet)")
    connection.close()
    return path


def sound(report: Report) -> Report:
    assert decode(encode(report)) == report
    assert report.health.verdict == "ok"
    assert (report.accounting, report.findings) == ((), ())
    return report


def test_a_slow_rank_is_named_with_its_time_and_cost(tmp_path: Path) -> None:
    report = sound(diagnose(csv(tmp_path / "steps.csv", slow=1.2)))
    assert [(i.kind, i.format, i.events) for i in report.inputs] == [("steps", "step-table", 320)]
    (slow,) = report.stragglers
    assert (slow.rank, slow.num_late, slow.num_steps) == (7, 40, 40)
    assert slow.lateness_ns == pytest.approx(20_000_000, rel=0.05)
    # The others wait for it from the second-slowest on.
    assert slow.cost_ns == pytest.approx(40 * 18_500_000, rel=0.05)
    assert report.lateness is not None
    assert (len(report.lateness.rows), len(report.lateness.steps)) == (8, 40)
    assert report.verdict.class_ == "other-stall"


def test_equal_ranks_are_not_called_healthy_nor_slow(tmp_path: Path) -> None:
    report = sound(diagnose(csv(tmp_path / "steps.csv")))
    assert report.stragglers == ()
    assert report.verdict.class_ == "undecided"
    assert "none of 8 workers differs from its peers beyond the noise of 1." in report.verdict.text


def test_a_table_without_a_unit_has_shares_and_no_times(tmp_path: Path) -> None:
    report = sound(diagnose(csv(tmp_path / "steps.csv", slow=1.2, unit="_norm")))
    (slow,) = report.stragglers
    assert (slow.lateness_ns, slow.cost_ns) == (None, None)
    assert slow.lateness_share == pytest.approx(0.2, abs=0.01)
    assert report.lateness is not None
    assert (report.lateness.noise_ns, report.lateness.rows) == (None, ())


def test_only_the_steps_asked_for_are_judged(tmp_path: Path) -> None:
    path = csv(tmp_path / "steps.csv", slow=1.2)
    (slow,) = diagnose(path, steps=(10, 29)).stragglers
    assert (slow.num_steps, slow.late_steps[0], slow.late_steps[-1]) == (20, 10, 29)
    made = diagnose(parquet(tmp_path / "t.parquet", timeline(1)), steps=(1, 3))
    assert made.replay is not None
    assert made.replay.num_steps == 3
    with pytest.raises(
        StepscopeError, match=r"no step from 90 to 99 in the inputs: steps 0 to 39 are recorded"
    ):
        diagnose(path, steps=(90, 99))


def test_cells_left_out_are_named_by_the_name_that_is_shown(tmp_path: Path) -> None:
    path = csv(tmp_path / "steps.csv")
    path.write_text(path.read_text() + "3,40,nan\n0,0,100\n")
    report = diagnose(path, shown_as={str(path): "run.csv"})
    assert [(i.code, i.count, i.effect) for i in report.health.issues] == [
        ("malformed_events", 1, "none"),
        ("malformed_events", 1, "degraded"),
    ]
    assert all(i.detail.startswith("run.csv: 1 ") for i in report.health.issues)


def test_one_rank_alone_is_withheld(tmp_path: Path) -> None:
    report = sound(diagnose(csv(tmp_path / "steps.csv", ranks=1)))
    assert report.lateness is not None
    assert (report.lateness.status, report.lateness.why) == ("withheld", "one rank has no peers")
    assert report.verdict.text == "Undecided: who is slow cannot be told: one rank has no peers."


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_pipeline_with_a_bad_worker_is_said_in_both_languages(tmp_path: Path, lang: str) -> None:
    def fault(factor: Times) -> None:
        factor[:, 1, 2] *= 1.8

    path = parquet(tmp_path / "timeline.parquet", timeline(1, fault=fault))
    report = sound(diagnose(path, lang=lang))  # type: ignore[arg-type]
    assert [(i.kind, i.format) for i in report.inputs] == [("steps", "timeline-table")]
    (slow,) = report.stragglers
    assert (slow.rank, slow.data_parallel_rank, slow.stage) == (9, 1, 2)
    assert report.replay is not None
    assert report.replay.status == "ok"
    assert report.replay.what_if[0].remove == "straggler"
    assert report.verdict.class_ == "computing-slowly"
    assert ("replica 1, stage 2" if lang == "en" else "副本 1，stage 2") in report.verdict.text


def test_a_heavy_stage_names_its_ranks_and_no_straggler(tmp_path: Path) -> None:
    def fault(factor: Times) -> None:
        factor[:, :, 3] *= 2

    report = sound(diagnose(parquet(tmp_path / "t.parquet", timeline(1, fault=fault))))
    assert report.imbalance is not None
    assert (report.imbalance.class_, report.imbalance.stage) == ("stage", 3)
    assert report.imbalance.ranks == (12, 13, 14, 15)
    assert report.stragglers == ()
    assert report.verdict.class_ == "waiting-for-communication"


def test_an_even_pipeline_is_healthy_with_its_bubble(tmp_path: Path) -> None:
    report = sound(diagnose(parquet(tmp_path / "t.parquet", timeline(1))))
    assert report.verdict.class_ == "healthy"
    assert report.imbalance is not None
    assert report.imbalance.class_ == "none"


def test_a_folder_gives_its_tables_and_passes_over_others(tmp_path: Path) -> None:
    csv(tmp_path / "steps.csv")
    (tmp_path / "telemetry.csv").write_text("timestamp, utilization.gpu [%]\n1, 99 %\n")
    connection = duckdb.connect()
    connection.execute(f"COPY (SELECT 1 AS a) TO '{tmp_path / 'other.parquet'}' (FORMAT parquet)")
    connection.close()
    report = diagnose(tmp_path)
    assert [Path(i.name).name for i in report.inputs] == ["steps.csv"]


def test_a_csv_that_is_no_table_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(StepscopeError, match="no column names the worker or rank"):
        diagnose(path)
