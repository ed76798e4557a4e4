"""The report's tables as CSV and Parquet, from traces and from a saved report."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepscope as api
from stepscope.cli import export as verb
from stepscope.export.kind import KINDS
from stepscope.views import csv as csv_view
from stepscope.views.table import TABLES, Column, Table, table
from tests.cli.conftest import Run
from tests.views.perfetto.test_file import TOKEN, event, told, trace_file


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_command_offers_what_there_is() -> None:
    assert (*KINDS, "samples") == verb.KINDS  # of telemetry, not of a report
    assert TABLES == verb.TABLES


@pytest.fixture
def saved(stepscope: Run, sample: Path, tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    assert stepscope("diagnose", sample, "--format", "json", "-o", path).code == 0
    return path


def test_csv_has_a_file_for_every_table_and_the_report_s_numbers(
    stepscope: Run, sample: Path, saved: Path, tmp_path: Path
) -> None:
    done = stepscope("export", "csv", sample, "-o", tmp_path / "out")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert sorted(path.stem for path in (tmp_path / "out").iterdir()) == sorted(TABLES)
    report = json.loads(saved.read_text())
    (first, *_) = read_csv(tmp_path / "out/accounting.csv")
    assert int(first["idle.input_ns"]) == report["accounting"][0]["idle"]["input_ns"]
    assert first["rank"] == ""
    (finding,) = read_csv(tmp_path / "out/findings.csv")
    assert finding["severity"] == "critical"
    assert float(finding["cost.share"]) == report["findings"][0]["cost"]["share"]
    steps = read_csv(tmp_path / "out/steps.csv")
    assert [int(row["dur_ns"]) for row in steps] == [step["dur_ns"] for step in report["steps"]]


def test_a_saved_report_gives_the_same_tables(
    stepscope: Run, sample: Path, saved: Path, tmp_path: Path
) -> None:
    for source, out in ((sample, "a"), (saved, "b")):
        assert stepscope("export", "csv", source, "-o", tmp_path / out).code == 0
    for name in TABLES:
        assert (tmp_path / f"a/{name}.csv").read_bytes() == (tmp_path / f"b/{name}.csv").read_bytes()


@pytest.mark.parametrize("kind", ["mark", "gzip", "both"])
def test_a_saved_report_is_known_in_other_clothes(
    kind: str, stepscope: Run, saved: Path, tmp_path: Path
) -> None:
    """With a byte order mark, as some editors save, and compressed, as reports are kept."""
    data = saved.read_bytes()
    data = data if kind == "gzip" else codecs.BOM_UTF8 + data
    (tmp_path / "other").write_bytes(data if kind == "mark" else gzip.compress(data))
    words = ["--table", "steps", "-o", "-"]
    done = stepscope("export", "csv", tmp_path / "other", *words)
    assert (done.code, done.err) == (0, "")
    assert done.out == stepscope("export", "csv", saved, *words).out
    done = stepscope("export", "ops", tmp_path / "other", "-o", tmp_path / "x")
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert "is a report, and ops is made of traces" in done.err


def test_one_table_goes_to_a_file_or_to_the_screen(stepscope: Run, saved: Path, tmp_path: Path) -> None:
    words = ["export", "csv", saved, "--table", "steps", "-o"]
    assert stepscope(*words, tmp_path / "steps.csv").code == 0
    assert stepscope(*words, "-").out == (tmp_path / "steps.csv").read_bytes().decode()


@pytest.mark.parametrize(
    "text",
    ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1+1", "＠x", "\n-1"],
)
def test_no_cell_begins_like_a_formula(text: str) -> None:
    column = (Column("name", "text", ()), Column("delta", "integer", ()))
    data = csv_view.render(Table("t", column, ((text, -3), ("void f()", None))))
    rows = list(csv.reader(io.StringIO(data.decode(), newline="")))
    assert rows[1][0].startswith("'")
    assert rows[1][0].replace("'", "") == text.replace("'", "")
    assert rows[1][1] == "-3"  # a number is no formula
    assert rows[2] == ["void f()", ""]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("x;=cmd|' /C calc'!A0", "x;'=cmd|' /C calc'!A0"),
        ("x\t=1", "x\t'=1"),
        ("\t=1", "'\t'=1"),
        ("x; -1;\n+1", "x;' -1;\n'+1"),
        ('x;"=1"', 'x;\'"=1"'),
        ("void f<a, -1>(int); g-1", "void f<a, -1>(int); g-1"),
        ("a-b=c", "a-b=c"),
    ],
)
def test_no_part_of_a_cell_is_a_formula_under_another_separator(text: str, written: str) -> None:
    assert csv_view.inert(text) == written


@given(st.text(st.sampled_from("=+-@;\t\r\n \"'＝ab\0\x0b"), max_size=12))
def test_whatever_separates_cells_none_begins_like_a_formula(text: str) -> None:
    for part in re.split("[;\t\r\n]", csv_view.inert(text)):
        assert not part.lstrip(' \x0b"').startswith(tuple("=+-@＝"))


def test_a_long_text_without_a_formula_is_read_once() -> None:
    """Each blank is looked at a bounded number of times: the square of this many would never end."""
    text = "x" + "\n" * 2_000_000
    assert csv_view.inert(text) == text


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_utf_8_cannot_carry_is_a_replacement_character(
    kind: str, tmp_path: Path, stepscope: Run
) -> None:
    """Half of a surrogate pair and a NUL, in every text of a report that a trace can write."""
    odd = "k\ud800x\0y"
    args = {"correlation": 1, "device": 0, "stream": 7}
    path = trace_file(
        tmp_path / "a.json",
        [
            event(odd, 1, 50, args={"Input Dims": [[2]], "Input type": [odd]}),
            event("cudaLaunchKernel", 5, 2, cat="cuda_runtime", args={"correlation": 1}),
            event(odd, 10, 5, tid=7, pid=0, cat="kernel", args=args),
        ],
        deviceProperties=[{"id": 0, "name": odd}],
    )
    if kind == "parquet":
        duckdb = pytest.importorskip("duckdb")
    done = stepscope("export", kind, path, "-o", tmp_path / "out")
    assert (done.code, done.err) == (0, "")
    if kind == "csv":
        (kernel,) = read_csv(tmp_path / "out/kernels.csv")
        assert kernel["name"] == "k�x�y"
    else:
        found = duckdb.sql(f"select name from '{tmp_path}/out/kernels.parquet'").fetchall()
        assert found == [("k�x�y",)]


def test_a_hostile_kernel_name_stays_a_text_in_the_whole_way(tmp_path: Path, stepscope: Run) -> None:
    args = {"correlation": 1, "device": 0, "stream": 7}
    path = trace_file(
        tmp_path / "a.json",
        [
            event("cudaLaunchKernel", 5, 2, cat="cuda_runtime", args={"correlation": 1}),
            event('=HYPERLINK("x","y")\n"', 10, 5, tid=7, pid=0, cat="kernel", args=args),
        ],
    )
    assert stepscope("export", "csv", path, "-o", tmp_path / "out").code == 0
    (kernel,) = read_csv(tmp_path / "out/kernels.csv")
    assert kernel["name"].startswith("'=HYPERLINK")


def test_parquet_holds_the_same_rows_with_types(stepscope: Run, sample: Path, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    done = stepscope("export", "parquet", sample, "-o", tmp_path / "out")
    assert done.code == 0, done.err
    report = api.diagnose(sample)
    for name in TABLES:
        found = table(report, name)
        relation = duckdb.sql(f"select * from '{tmp_path}/out/{name}.parquet'")
        assert relation.columns == [column.name for column in found.columns]
        kinds = {"integer": "BIGINT", "number": "DOUBLE", "text": "VARCHAR", "flag": "BOOLEAN"}
        assert [str(kind) for kind in relation.types] == [kinds[c.kind] for c in found.columns]
        if name not in ("inputs", "issues"):  # which name the file
            assert relation.fetchall() == list(found.rows)


def test_an_integer_beyond_64_bits_is_a_double(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    from stepscope.export import parquet

    with (tmp_path / "a.parquet").open("wb") as sink:
        parquet.write(Table("t", (Column("flops", "integer", ()),), ((2**70,), (None,))), sink)
    rows = duckdb.sql(f"select flops from '{tmp_path}/a.parquet'").fetchall()
    assert rows == [(float(2**70),), (None,)]


def test_without_duckdb_one_line_says_what_to_install(sample: Path, tmp_path: Path) -> None:
    script = (
        "import sys\nsys.modules['duckdb'] = None\nfrom stepscope.cli import main\n"
        f"sys.exit(main(['export', 'parquet', {str(sample)!r}, '-o', 'out']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    line = "stepscope: export parquet needs duckdb; add it: pip install 'stepscope[sql]'"
    assert done.stderr.startswith(line)
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["ops", "report.json", "-o", "x"], "is a report, and ops is made of traces"),
        (["speedscope", "report.json", "-o", "x"], "is a report, and speedscope is made of traces"),
        (["csv", "report.json", "--steps", "1:2", "-o", "x"], "--steps and --rank are for traces"),
        (["ops", "report.json", "--table", "steps", "-o", "x"], "--table is for csv and parquet"),
        (["csv", "report.json", "-o", "report.json"], "is a file; give a directory"),
        (["csv", "report.json", "-o", "no/where"], "cannot be made"),
        (["xml", "report.json", "-o", "x"], "'xml' is not one of"),
        (["csv", "broken.json", "-o", "x"], "is no report"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    words: list[str], line: str, stepscope: Run, saved: Path, tmp_path: Path
) -> None:
    (tmp_path / "broken.json").write_text('{"schema": "stepscope.report/1", "tool": 7}')
    done = stepscope("export", *words, cwd=tmp_path)
    assert done.code == (3 if "broken" in words[1] else 2)
    assert line in done.err
    assert len(done.err.splitlines()) == 1
    assert json.loads(saved.read_text())["schema"] == "stepscope.report/1"


@pytest.mark.parametrize("kind", list(KINDS))
def test_no_secret_and_no_identity_leaves_in_any_kind(kind: str, tmp_path: Path, stepscope: Run) -> None:
    if kind == "parquet":
        pytest.importorskip("duckdb")
    args: dict[str, Any] = {"correlation": 1, "device": 0, "stream": 7}
    path = trace_file(
        tmp_path / "a.json",
        [
            event("/home/jsmithers/a.py(3): f", 1, 90, cat="python_function"),
            event(f"op --token={TOKEN}", 2, 50, args={"Input Dims": [[2]], "Input type": ["jsmithers"]}),
            event("cudaLaunchKernel", 5, 2, cat="cuda_runtime", args={"correlation": 1}),
            event("kernel of jsmithers on gpunode17", 10, 500, tid=7, pid=0, cat="kernel", args=args),
        ],
        host_name="gpunode17",
        user="jsmithers",
    )
    out = tmp_path / "out"
    done = stepscope("export", kind, path, "-o", out)
    assert done.code == 0, done.err
    files = sorted(out.iterdir()) if out.is_dir() else [out]
    text = " ".join(map(told, files))
    for hidden in (TOKEN, "jsmithers", "gpunode17"):
        assert hidden not in text
    assert re.search(r"user-[0-9a-f]{8}", text) or kind == "parquet"


def test_a_report_saved_with_identities_is_redacted_when_exported(stepscope: Run, tmp_path: Path) -> None:
    path = trace_file(
        tmp_path / "a.json",
        [
            event("cudaLaunchKernel", 5, 2, cat="cuda_runtime", args={"correlation": 1}),
            event(
                "/home/jsmithers/x.cu kernel", 10, 5, tid=7, pid=0, cat="kernel",
                args={"correlation": 1, "device": 0, "stream": 7},
            ),
        ],
    )  # fmt: skip
    words = ["diagnose", path, "--no-redact", "--format", "json", "-o", tmp_path / "r.json"]
    assert stepscope(*words).code == 0
    assert "jsmithers" in (tmp_path / "r.json").read_text()
    assert stepscope("export", "csv", tmp_path / "r.json", "-o", tmp_path / "out").code == 0
    assert "jsmithers" not in (tmp_path / "out/kernels.csv").read_text()
    done = stepscope("export", "csv", tmp_path / "r.json", "--no-redact", "-o", tmp_path / "open")
    assert done.code == 0
    assert "jsmithers" in (tmp_path / "open/kernels.csv").read_text()
