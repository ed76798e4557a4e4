"""`stepscope compare`: what it takes, what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from stepscope.cli import main
from stepscope.model.comparison import decode, encode
from stepscope.simulate import Config, parse, write
from stepscope.views.compare import schema
from tests.cli.conftest import Run

SMALL = {"ranks": 1, "steps": 16, "layers": 2, "buckets": 2}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders `good`, `other` (as good), `bad` (a slow loader), `mild` (a little slower), `turn` (slow from
    step 8 on)."""
    folder = tmp_path_factory.mktemp("runs")
    for name, seed, fault in (
        ("good", 1, None), ("other", 2, None), ("bad", 3, "loader-stall:medium"),
        ("mild", 4, "host-sync:medium"), ("turn", 5, "loader-stall:medium@8:15"),
    ):  # fmt: skip
        faults = () if fault is None else (parse(fault),)
        write(Config(**SMALL, seed=seed, faults=faults), folder / name)  # type: ignore[arg-type]
    return folder


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def compare(runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """`stepscope` in this process, among the runs: a process each would take longer than all comparisons."""
    monkeypatch.chdir(runs)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*words: str | Path, verb: str = "compare") -> Done:
        code = main([verb, *map(str, words)])
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return run


def told(done: Done) -> dict[str, Any]:
    """The comparison that was printed, checked against its schema."""
    whole: dict[str, Any] = json.loads(done.out)
    Draft202012Validator(schema()).validate(whole)
    assert json.loads(encode(decode(done.out))) == whole
    return whole


def test_a_run_that_is_no_slower_ends_with_0_and_a_regression_with_1(compare, runs: Path) -> None:
    done = compare("good", "other", "--format", "json")
    assert (done.code, done.err) == (0, "")
    assert told(done)["verdict"]["class"] == "same"
    done = compare("good", "bad", "--format", "json")
    assert done.code == 1
    verdict = told(done)["verdict"]
    assert (verdict["class"], verdict["severity"], verdict["by"]) == ("worse", "critical", "median")
    assert compare("bad", "good").code == 0


def test_fail_on_says_from_which_size_on_a_regression_counts(compare, runs: Path) -> None:
    for level, code in (("info", 1), ("warning", 1), ("critical", 0)):
        assert compare("good", "mild", "--fail-on", level).code == code


def test_runs_of_other_work_end_with_3_and_say_what_would_help(compare, runs: Path, sample: Path) -> None:
    done = compare("good", sample, "--format", "json")
    assert done.code == 3
    whole = told(done)
    assert whole["is_comparable"] is False
    assert whole["obstacles"][0]["what"] == "device"
    assert "one device model" in whole["verdict"]["why"]


def test_reports_compare_as_the_traces_they_are_of(compare, runs: Path) -> None:
    for name in ("good", "bad"):
        done = compare(name, "--format", "json", "-o", f"{name}.json", verb="diagnose")
        assert done.code == 0
    traces = told(compare("good", "bad", "--format", "json"))
    reports = told(compare("good.json", "bad.json", "--format", "json"))
    for name in ("step_time", "parts", "operators", "findings", "verdict"):
        assert reports[name] == traces[name]
    mixed = told(compare("good", "bad.json", "--format", "json"))
    assert mixed["step_time"] == traces["step_time"]


@pytest.mark.parametrize("kind", ["traces", "report"])
def test_one_run_is_compared_before_and_behind_a_step(compare, runs: Path, kind: str) -> None:
    given = "turn"
    if kind == "report":
        given = "turn.json"
        assert compare("turn", "--format", "json", "-o", given, verb="diagnose").code == 0
    done = compare(given, "--at", "8", "--format", "json")
    assert done.code == 1, done.err
    whole = told(done)
    assert (whole["base"]["steps"], whole["new"]["steps"]) == ([0, 7], [8, 15])
    assert whole["parts"][0]["part"] == "idle.input"


def test_steps_of_each_side_can_be_chosen(compare, runs: Path) -> None:
    done = compare(
        "turn",
        "turn",
        "--base-steps",
        "1:7",
        "--new-steps",
        "9:15",
        "--format",
        "json",
    )
    whole = told(done)
    assert (whole["base"]["steps"], whole["new"]["steps"]) == ([1, 7], [9, 15])


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_every_form_and_language_ends_with_a_command_that_works(
    compare, runs: Path, form: str, lang: str
) -> None:
    done = compare("good", "bad", "--format", form, "--lang", lang)
    assert (done.code, done.err) == (1, "")
    assert any("\u4e00" <= char <= "\u9fff" for char in done.out) == (lang == "zh")
    lines = done.out.splitlines()
    label = {"en": "Next: ", "zh": "下一步："}[lang]
    command = {
        "json": lambda: json.loads(done.out)["next"],
        "markdown": lambda: lines[-2],
        "text": lambda: lines[-1].removeprefix(label),
    }[form]()
    assert command == "stepscope diagnose bad"


def test_the_file_of_an_answer_holds_what_the_screen_would(compare, runs: Path) -> None:
    done = compare("good", "bad", "-o", "answer.txt")
    assert (done.code, done.out) == (1, "")
    assert (runs / "answer.txt").read_text(encoding="utf-8").startswith("Worse: a step takes ")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("good",), 2, "give NEW, or --at STEP"),
        (("good", "bad", "--at", "3"), 2, "give NEW, or --at STEP"),
        (("good", "--at", "3", "--new-steps", "1:2"), 2, "--at divides the steps already"),
        (("good", "absent"), 3, "absent"),
        (("good", ""), 2, "a side is an empty name"),
        (("good", "--at", "99"), 2, "no step from 99 on in the inputs: steps 0 to 15 are recorded"),
        (("good", "bad", "-o", "good/rank0.json.gz"), 2, "is an input"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    compare, runs: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    done = compare(*words)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1


def test_no_home_and_no_secret_of_a_name_is_shown(compare, runs: Path, tmp_path: Path) -> None:
    home = tmp_path / "home/jdoe"
    home.mkdir(parents=True)
    (home / "good").symlink_to(runs / "good")
    for form in ("text", "json", "markdown"):
        done = compare(home / "good", runs / "other", "--format", form)
        assert done.code == 0, done.err
        assert "jdoe" not in done.out
    assert "jdoe" in compare(home / "good", runs / "other", "--no-redact").out


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_a_regression_is_none_the_less_where_nobody_reads_to_the_end(runs: Path, form: str) -> None:
    words = [sys.executable, "-m", "stepscope", "compare", "good", "bad", "--format", form]
    read, write_end = os.pipe()
    os.close(read)  # the reader has gone before the first line
    try:
        done = subprocess.run(words, cwd=runs, stdout=write_end, stderr=subprocess.PIPE, timeout=120)
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_file_whose_name_looks_like_a_secret_is_named(compare, tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text("root:x:0:0")
    done = compare(tmp_path / "passwd", "good")
    assert done.code == 3
    assert "/passwd: is no JSON" in done.err


def test_no_word_of_a_table_is_cut_in_two_on_a_narrow_screen(
    compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in (("good", "bad"), ("good", "mild")):
        out = compare(*words).out
        assert max(map(len, out.splitlines())) <= 80
        for word in ("waiting", "computing"):
            cut = [f"{word[:n]}\n" for n in range(4, len(word))]
            assert not any(each in "\n".join(map(str.rstrip, out.splitlines())) + "\n" for each in cut)


def test_the_verb_runs_as_a_process(stepscope: Run, runs: Path) -> None:
    done = stepscope("compare", "good", "bad", cwd=runs)
    assert done.code == 1
    assert done.out.startswith("Worse: a step takes ")
