"""Bad input: one line that names the input and the mend, the right code, no traceback, bounded memory."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from stepscope.cli import main
from tests.cli.conftest import Done, Run, run_process

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")
MEGABYTE = 1 << 20


def is_one_line(done: Done, name: str) -> bool:
    lines = done.err.splitlines()
    return (
        len(lines) == 1
        and lines[0].startswith("stepscope: ")
        and name in lines[0]
        and "Traceback" not in done.err
    )


def test_a_picture_is_not_a_trace(stepscope: Run, tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(PNG * 40)
    done = stepscope("diagnose", "x.png", cwd=tmp_path)
    assert done.code == 3
    assert done.out == ""
    assert is_one_line(done, "x.png")


def test_an_empty_file(stepscope: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_bytes(b"")
    done = stepscope("diagnose", "empty.json", cwd=tmp_path)
    assert done.code == 3
    assert is_one_line(done, "empty.json")


def test_a_file_that_is_not_there(stepscope: Run, tmp_path: Path) -> None:
    done = stepscope("diagnose", "nothing.json.gz", cwd=tmp_path)
    assert done.code == 3
    assert is_one_line(done, "nothing.json.gz")


def test_a_directory_without_traces(stepscope: Run, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "notes.txt").write_text("nothing here")
    done = stepscope("diagnose", "logs", cwd=tmp_path)
    assert done.code == 3
    assert is_one_line(done, "logs")


def test_a_gzip_bomb_stops_early_in_bounded_memory(stepscope: Run, tmp_path: Path) -> None:
    squeeze = zlib.compressobj(9, wbits=31)
    blank = b" " * (16 * MEGABYTE)
    with (tmp_path / "bomb.json.gz").open("wb") as file:
        file.write(squeeze.compress(b'{"traceEvents": ['))
        for _ in range(60):  # 1 GB of white space in about 1 MB
            file.write(squeeze.compress(blank))
        file.write(squeeze.flush())
    done = stepscope("diagnose", "bomb.json.gz", cwd=tmp_path)
    assert done.code in (3, 5)
    assert is_one_line(done, "bomb.json.gz")
    assert done.peak_bytes < 400 * MEGABYTE


def test_a_truncated_gzip_gives_what_came_before_the_cut(
    stepscope: Run, sample: Path, tmp_path: Path
) -> None:
    whole = sample.read_bytes()
    (tmp_path / "cut.json.gz").write_bytes(whole[: len(whole) * 3 // 4])
    done = stepscope("diagnose", "cut.json.gz", "--format", "json", cwd=tmp_path)
    assert done.code == 0
    assert "truncated" in {issue["code"] for issue in done.report["health"]["issues"]}
    assert 0 < done.report["inputs"][0]["events"] < 3836


def as_ordinary_user(*words: str | Path, tmp_path: Path) -> Done:
    """Run the command as nobody, where the tests run as root."""
    # Everything is imported before the process gives up root, for others may not read its Python.
    script = (
        "import io, os, sys, contextlib\n"
        "from stepscope.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    main(['demo'])\n"
        "if os.getuid() == 0:\n"
        "    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "assert os.getuid() != 0\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    for folder in (tmp_path, *tmp_path.parents):  # pytest's own folders are closed to others
        if os.getuid() == 0 and "pytest" in str(folder):
            folder.chmod(0o755)
    return run_process([sys.executable, "-c", script, *words], cwd=Path("/"))


def test_a_file_without_permission_as_an_ordinary_user(sample: Path, tmp_path: Path) -> None:
    locked = tmp_path / "locked.json.gz"
    shutil.copy(sample, locked)
    locked.chmod(0)
    done = as_ordinary_user("diagnose", locked, tmp_path=tmp_path)
    assert done.code == 3
    assert is_one_line(done, "locked.json.gz")
    assert "ermission" in done.err


def test_one_bad_among_eight_good_is_named_and_the_rest_is_used(
    stepscope: Run, eight_ranks: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "traces"
    shutil.copytree(eight_ranks, folder)
    (folder / "rank8.json.gz").write_bytes(PNG)
    done = stepscope("diagnose", folder, "--format", "json")
    assert done.code == 0, done.err
    inputs = {Path(i["name"]).name: i for i in done.report["inputs"]}
    assert len(inputs) == 9
    assert [name for name, i in inputs.items() if "error" in i] == ["rank8.json.gz"]
    assert {row["rank"] for row in done.report["accounting"]} == set(range(8))


def test_a_folder_without_permission_as_an_ordinary_user(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir()
    shutil.copy(sample, tmp_path / "locked" / "x.json.gz")
    (tmp_path / "locked").chmod(0)
    done = as_ordinary_user("diagnose", tmp_path / "locked" / "x.json.gz", tmp_path=tmp_path)
    assert done.code == 3
    assert is_one_line(done, "x.json.gz")
    assert "ermission" in done.err


def test_only_bad_inputs_is_3_and_names_the_first(stepscope: Run, tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(PNG)
    done = stepscope("diagnose", "a.json", "b.json", cwd=tmp_path)
    assert done.code == 3
    assert is_one_line(done, "a.json")


def test_two_files_of_one_rank_are_a_conflict_that_is_said(
    stepscope: Run, eight_ranks: Path, tmp_path: Path
) -> None:
    shutil.copy(eight_ranks / "rank3.json.gz", tmp_path / "a.json.gz")
    shutil.copy(eight_ranks / "rank3.json.gz", tmp_path / "b.json.gz")
    done = stepscope("diagnose", "a.json.gz", "b.json.gz", "--format", "json", cwd=tmp_path)
    assert done.code == 0
    issues = [i for i in done.report["health"]["issues"] if i["code"] == "rank_conflict"]
    assert [(i["rank"], i["count"]) for i in issues] == [(3, 1)]
    assert "a.json.gz was used, b.json.gz was not" in issues[0]["detail"]


@pytest.mark.parametrize(
    "words",
    [("diagnose", "{}"), ("diagnose", "{}", "--format", "json"), ("rules",), ("doctor",), ("--help",)],
)
def test_a_reader_that_leaves_is_no_error(sample: Path, words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", *(word.format(sample) for word in words)],
        stdout=writing, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode == 0


def test_the_report_cannot_go_into_a_directory(stepscope: Run, sample: Path, tmp_path: Path) -> None:
    done = stepscope("diagnose", sample, "-o", tmp_path)
    assert done.code == 2
    assert is_one_line(done, str(tmp_path))


def test_the_report_cannot_go_where_there_is_no_directory(
    stepscope: Run, sample: Path, tmp_path: Path
) -> None:
    done = stepscope("diagnose", sample, "-o", tmp_path / "no" / "report.json")
    assert done.code == 2
    assert is_one_line(done, "report.json")


def test_the_report_cannot_go_where_nothing_can_be_written(stepscope: Run, sample: Path) -> None:
    done = stepscope("diagnose", sample, "-o", "/proc/report.json")
    assert done.code == 2
    assert is_one_line(done, "/proc/report.json")


def test_a_failed_run_leaves_the_old_report(stepscope: Run, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("old")
    done = stepscope("diagnose", "nothing.json", "-o", "report.json", cwd=tmp_path)
    assert done.code == 3
    assert (tmp_path / "report.json").read_text() == "old"
    assert os.listdir(tmp_path) == ["report.json"]


def test_a_report_in_a_file_is_whole_and_alone(stepscope: Run, sample: Path, tmp_path: Path) -> None:
    done = stepscope("diagnose", sample, "--format", "json", "-o", "report.json", cwd=tmp_path)
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (tmp_path / "report.json").read_text().startswith('{\n  "schema": "stepscope.report/1"')
    assert os.listdir(tmp_path) == ["report.json"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["diagnose"], "PATH"),
        (["diagnose", "x", "--steps", "9:5"], "5:9"),
        (["diagnose", "x", "--format", "pdf"], "pdf"),
        (["diagnose", "x", "--telemetry", "y"], "--telemetry"),
        (["frobnicate"], "frobnicate"),
        (["explain", "input-starvatoin"], "input-starvation"),
        (["explain"], "RULE"),
    ],
)
def test_wrong_usage_is_2_and_one_line(stepscope: Run, words: list[str], hint: str) -> None:
    done = stepscope(*words)
    assert done.code == 2
    assert is_one_line(done, hint)


def test_wrong_thresholds_name_the_file_and_the_place(stepscope: Run, sample: Path, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("[no-such-rule]\nx = 1\n")
    done = stepscope("diagnose", sample, "--rules-config", "site.toml", cwd=tmp_path)
    assert done.code == 2
    assert is_one_line(done, "no-such-rule")
    (tmp_path / "site.toml").write_text("[input-starvation\n")
    done = stepscope("diagnose", sample, "--rules-config", "site.toml", cwd=tmp_path)
    assert done.code == 2
    assert is_one_line(done, "site.toml")


def test_debug_adds_the_traceback(stepscope: Run, tmp_path: Path) -> None:
    done = stepscope("diagnose", "nothing.json", "--debug", cwd=tmp_path)
    assert done.code == 3
    assert "Traceback" in done.err


HF = "hf" + "_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
AWS = "AKIA" + "IOSFODNN7QWERTYU"


@pytest.mark.parametrize("debug", [(), ("--debug",)])
@pytest.mark.parametrize(
    ("words", "secret", "code"),
    [
        (("diagnose", "keys.json"), AWS, 3),
        (("diagnose", "s3://reader:hunter2secret@bucket/x.json"), "hunter2secret", 3),
        (("diagnose", f"https://host/x.json?token={HF}"), HF, 3),
        (("diagnose", f"{HF}.json"), HF, 3),
        (("diagnose", f"nothing-{HF}/x.json", "keys.json"), HF, 3),
        (("diagnose", "{sample}", "--rules-config", "site.toml"), HF, 2),
        (("diagnose", "{sample}", "--rules-config", f"{HF}.toml"), HF, 2),
        (("diagnose", "{sample}", "-o", f"{HF}/report.json"), HF, 2),
        (("diagnose", "{sample}", "--steps", HF), HF, 2),
        (("explain", HF), HF, 2),
        ((HF,), HF, 2),
    ],
)
def test_no_secret_is_in_an_error(
    stepscope: Run, sample: Path, tmp_path: Path, words: tuple[str, ...], secret: str, code: int,
    debug: tuple[str, ...],
) -> None:  # fmt: skip
    (tmp_path / "keys.json").write_text(f'{{"{AWS}": 1, "other": 2}}')
    (tmp_path / f"{HF}.json").write_bytes(PNG)
    (tmp_path / "site.toml").write_text(f"[{HF}]\nx = 1\n")
    given = [str(sample) if word == "{sample}" else word for word in words]
    done = stepscope(*given, *(debug if words[0] != HF else ()), cwd=tmp_path)
    assert done.code == code, done.err
    assert done.out == ""
    assert done.err.splitlines()[-1].startswith("stepscope: ")
    assert secret not in done.err
    assert "[secret-removed]" in done.err


def test_no_secret_is_in_the_line_about_a_fault_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*words: object, **more: object) -> None:
        try:
            raise ValueError(f"inside: {HF}")
        except ValueError as error:
            raise ZeroDivisionError(f"token={HF}") from error

    monkeypatch.setattr("stepscope.offline.diagnose", broken)
    for words in (["diagnose", "x"], ["diagnose", "x", "--debug"]):
        assert main(words) == 70
        err = capsys.readouterr().err
        assert "ZeroDivisionError" in err
        assert HF not in err


def test_a_gzip_of_nothing(stepscope: Run, tmp_path: Path) -> None:
    (tmp_path / "x.json.gz").write_bytes(gzip.compress(b""))
    done = stepscope("diagnose", "x.json.gz", cwd=tmp_path)
    assert done.code == 3
    assert is_one_line(done, "x.json.gz")
