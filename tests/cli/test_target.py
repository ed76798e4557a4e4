"""Where answers go: never in the place of an input, whole or not at all, one line for what cannot be."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from tests.cli.conftest import Done, Run

# Every option that names a file, behind its verb; {} is the input.
VERBS = [
    ["diagnose", "{}", "-o"],
    ["diagnose", "{}", "--perfetto"],
    ["export", "ops", "{}", "-o"],
    ["export", "speedscope", "{}", "-o"],
    ["export", "csv", "{}", "--table", "steps", "-o"],
    ["export", "parquet", "{}", "--table", "steps", "-o"],
]
IDS = ["".join(verb).replace("{}", " ") for verb in VERBS]


def words(verb: list[str], source: str | Path) -> list[str]:
    if "parquet" in verb:
        pytest.importorskip("duckdb")
    return [str(source) if word == "{}" else word for word in verb]


def is_refused(done: Done, line: str) -> bool:
    """One line, and the code for wrong words."""
    return done.code == 2 and line in done.err and len(done.err.splitlines()) == 1 and done.out == ""


@pytest.fixture
def folder(sample: Path, tmp_path: Path) -> Path:
    """A directory `d` with a trace, an archive of it, and two other names of the trace."""
    (tmp_path / "d").mkdir()
    data = sample.read_bytes()
    (tmp_path / "d/t.json.gz").write_bytes(data)
    os.symlink("d/t.json.gz", tmp_path / "soft")
    os.link(tmp_path / "d/t.json.gz", tmp_path / "hard")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(tmp_path / "d/t.json.gz", "t.json.gz")
    return tmp_path


@pytest.mark.parametrize("verb", VERBS, ids=IDS)
def test_no_verb_replaces_an_input(verb: list[str], stepscope: Run, folder: Path) -> None:
    before = (folder / "d/t.json.gz").read_bytes()
    done = stepscope(*words(verb, "d"), "d/t.json.gz", cwd=folder)
    assert is_refused(done, f"d/t.json.gz: is an input; give another file to {verb[-1]}"), done.err
    assert (folder / "d/t.json.gz").read_bytes() == before


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("d/t.json.gz", "d/t.json.gz"),
        ("d/t.json.gz", "soft"),
        ("d/t.json.gz", "hard"),
        ("d/*.gz", "d/../d/t.json.gz"),
        ("a.tar", "a.tar"),
        ("a.tar::t.json.gz", "a.tar"),
    ],
)
def test_an_input_is_never_replaced_under_any_name(
    source: str, output: str, stepscope: Run, folder: Path
) -> None:
    before = (folder / output).read_bytes()
    done = stepscope("diagnose", source, "-o", output, cwd=folder)
    assert is_refused(done, f"{output}: is an input; give another file to -o"), done.err
    assert (folder / output).read_bytes() == before


def test_thresholds_are_an_input_too(stepscope: Run, folder: Path) -> None:
    (folder / "site.toml").write_text("")
    for option in ("-o", "--perfetto"):
        done = stepscope("diagnose", "d", "--rules-config", "site.toml", option, "site.toml", cwd=folder)
        assert is_refused(done, f"site.toml: is an input; give another file to {option}")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_no_table_of_a_directory_replaces_an_input(kind: str, stepscope: Run, folder: Path) -> None:
    if kind == "parquet":
        pytest.importorskip("duckdb")
    (folder / "out").mkdir()
    os.rename(folder / "d/t.json.gz", folder / f"out/steps.{kind}")
    done = stepscope("export", kind, f"out/steps.{kind}", "-o", "out", cwd=folder)
    assert is_refused(done, f"out/steps.{kind}: is an input")
    assert os.listdir(folder / "out") == [f"steps.{kind}"]


@pytest.mark.parametrize("verb", [*VERBS, ["demo", "-o"], ["export", "csv", "{}", "-o"]], ids=" ".join)
def test_a_name_that_is_too_long_is_refused(verb: list[str], stepscope: Run, folder: Path) -> None:
    done = stepscope(*words(verb, "d"), "a" * 300, cwd=folder)
    assert is_refused(done, f"{'a' * 300}: cannot be written: File name too long; give another file to -")


@pytest.mark.parametrize("name", ["é" * 200, "x/" * 3000 + "x", "soft/x"], ids=["bytes", "path", "below"])
@pytest.mark.parametrize("table", [["--table", "steps"], []], ids=["file", "directory"])
def test_a_name_that_no_file_can_have_is_one_line(
    table: list[str], name: str, stepscope: Run, folder: Path
) -> None:
    assert is_refused(stepscope("export", "csv", "d", *table, "-o", name, cwd=folder), f"{name}: ")


@pytest.mark.parametrize("name", ["a" * 255, "é" * 127, "😀" * 63], ids=lambda name: str(len(name)))
def test_the_longest_names_that_a_file_can_have_are_written(name: str, stepscope: Run, folder: Path) -> None:
    done = stepscope("export", "csv", "d", "--table", "steps", "-o", name, cwd=folder)
    assert (done.code, done.err) == (0, "")
    assert (folder / name).stat().st_size


@pytest.mark.parametrize("verb", [*VERBS, ["demo", "-o"], ["export", "csv", "{}", "-o"]], ids=" ".join)
def test_an_empty_name_is_refused(verb: list[str], stepscope: Run, folder: Path) -> None:
    assert is_refused(stepscope(*words(verb, "d"), "", cwd=folder), "is given an empty name")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_all_tables_do_not_go_to_the_screen(kind: str, stepscope: Run, folder: Path) -> None:
    if kind == "parquet":
        pytest.importorskip("duckdb")
    before = sorted(os.listdir(folder))
    assert is_refused(stepscope("export", kind, "d", "-o", "-", cwd=folder), "writes a directory")
    assert sorted(os.listdir(folder)) == before


def test_tables_are_written_all_or_none(stepscope: Run, folder: Path) -> None:
    """A table that cannot be written leaves those of the run before as they were."""
    assert stepscope("export", "csv", "d", "-o", "out", cwd=folder).code == 0
    (folder / "out/operators.csv").unlink()
    (folder / "out/operators.csv").mkdir()
    (folder / "out/accounting.csv").write_text("before")
    done = stepscope("export", "csv", "d", "-o", "out", cwd=folder)
    assert is_refused(done, "out/operators.csv: is a directory")
    assert (folder / "out/accounting.csv").read_text() == "before"
    assert [name for name in os.listdir(folder / "out") if name.startswith(".")] == []


def test_a_full_disk_under_one_table_leaves_the_others_as_they_were(stepscope: Run, folder: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    (folder / "out").mkdir()
    os.symlink("/dev/full", folder / "out/undecided.csv")
    (folder / "out/accounting.csv").write_text("before")
    done = stepscope("export", "csv", "d", "-o", "out", cwd=folder)
    assert is_refused(done, "out: cannot be written: No space left on device")
    assert sorted(os.listdir(folder / "out")) == ["accounting.csv", "undecided.csv"]
    assert (folder / "out/accounting.csv").read_text() == "before"


@pytest.mark.parametrize("source", ["absent.json", "broken.json"])
def test_no_directory_is_made_for_what_cannot_be_read(source: str, stepscope: Run, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    done = stepscope("export", "csv", source, "-o", "out", cwd=tmp_path)
    assert done.code == 3
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words_", "output"),
    [
        (["diagnose", "d", "--format", "json"], "d/report.json"),
        (["diagnose", "d/*", "--format", "json"], "d/report.json"),
        (["diagnose", "d", "--format", "html"], "d/report.html"),
        (["export", "ops", "d"], "d/ops.json"),
        (["export", "ops", "d"], "d/ops.json.gz"),
        (["export", "speedscope", "d"], "d/open.json"),
    ],
)
def test_what_was_written_beside_the_traces_is_no_trace_and_is_replaced(
    words_: list[str], output: str, stepscope: Run, folder: Path
) -> None:
    assert stepscope(*words_, "-o", output, cwd=folder).code == 0
    first = (folder / output).read_bytes()
    again = stepscope(*words_, "-o", output, cwd=folder)
    assert (again.code, again.err) == (0, ""), again.err
    assert (folder / output).read_bytes() == first
