"""Bad input: one line that names the input and the mend, the right code, no traceback, bounded memory."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from stepscope.cli import main
from stepscope.offline import diagnose
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
    text = gzip.decompress((eight_ranks / "rank3.json.gz").read_bytes())
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(text + b"\n", 1))
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
        (["diagnose", "x", "--telemetry", "http://u:p@host:9090"], "prometheus+http://host:9090"),
        (["diagnose", "x", "--parameters", "many"], "8e9"),
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


@pytest.mark.parametrize(
    "bad",
    [b"", b"\0" * 100, '{"traceEvents": []}'.encode("utf-16"), b"\x1f\x8b\x08", b'{"a": 1}', b"nonsense"],
)
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_bad_input_costs_the_others_nothing_whichever_process_reads_it(
    stepscope: Run, sample: Path, tmp_path: Path, bad: bytes, jobs: str
) -> None:
    shutil.copy(sample, tmp_path / "good.json.gz")
    (tmp_path / "bad.json").write_bytes(bad)
    done = stepscope("diagnose", ".", "--format", "json", "--jobs", jobs, cwd=tmp_path)
    assert done.code == 0, done.err
    errors = [i for i in done.report["inputs"] if i.get("error")]
    assert [i["name"] for i in errors] == ["./bad.json"]
    assert "fewer --jobs" not in errors[0]["error"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_in_a_folder_is_passed_over(stepscope: Run, sample: Path, tmp_path: Path) -> None:
    shutil.copy(sample, tmp_path / "good.json.gz")
    os.mkfifo(tmp_path / "a.json")
    done = stepscope("diagnose", ".", "--format", "json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert [i["name"] for i in done.report["inputs"]] == ["./good.json.gz"]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_copy_of_an_input_is_left_out_and_said(
    stepscope: Run, eight_ranks: Path, tmp_path: Path, jobs: str
) -> None:
    shutil.copy(eight_ranks / "rank3.json.gz", tmp_path / "a.json.gz")
    shutil.copy(eight_ranks / "rank3.json.gz", tmp_path / "b.json.gz")
    os.link(tmp_path / "a.json.gz", tmp_path / "c.json.gz")
    words = ("--format", "json", "--jobs", jobs)
    done = stepscope("diagnose", "a.json.gz", "b.json.gz", "c.json.gz", *words, cwd=tmp_path)
    assert done.code == 0, done.err
    errors = {i["name"]: i.get("error") for i in done.report["inputs"]}
    assert errors == {
        "a.json.gz": None,
        "b.json.gz": "b.json.gz: the same bytes as a.json.gz; left out",
        "c.json.gz": "c.json.gz: the same bytes as a.json.gz; left out",
    }
    assert {row["rank"] for row in done.report["accounting"]} == {3}
    assert "rank_conflict" not in {issue["code"] for issue in done.report["health"]["issues"]}
    alone = stepscope("diagnose", "a.json.gz", *words, cwd=tmp_path)
    assert done.report["accounting"] == alone.report["accounting"]


def test_a_copy_is_not_analysed_again(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stepscope.analyse import rank

    calls: list[object] = []
    analyse = rank.analyse_rank

    def counting(trace: Any, **more: Any) -> Any:
        calls.append(trace)
        return analyse(trace, **more)

    monkeypatch.setattr(rank, "analyse_rank", counting)
    for name in ("a.json.gz", "b.json.gz"):
        shutil.copy(sample, tmp_path / name)
    diagnose(tmp_path)
    assert len(calls) == 1


def test_thresholds_are_read_within_a_limit(stepscope: Run, sample: Path, tmp_path: Path) -> None:
    (tmp_path / "large.toml").write_bytes(b"#" * 1_000_001)
    (tmp_path / "full.toml").write_bytes(b"#" * 1_000_000)
    (tmp_path / "deep.toml").write_text("x = " + "[" * 50_000)
    for name, why in [
        ("/dev/zero", "is no regular file"),
        (".", "is a directory"),
        ("large.toml", "is larger than 1 MB"),
        ("deep.toml", "deep.toml"),
        ("nothing.toml", "No such file"),
    ]:
        done = stepscope("diagnose", sample, "--rules-config", name, cwd=tmp_path)
        assert done.code == 2, done.err
        assert is_one_line(done, why)
        assert done.peak_bytes < 200 * MEGABYTE
    assert stepscope("diagnose", sample, "--rules-config", "full.toml", cwd=tmp_path).code == 0
    script = '"$@" --rules-config <(printf "[input-starvation]\\nidle_input_share = 0.05\\n")'
    piped = run_process(["bash", "-c", script, "bash", sys.executable, "-m", "stepscope", "diagnose", sample])
    assert piped.code == 0, piped.err


WRITING = [
    ("diagnose", "{}"),
    ("diagnose", "{}", "--format", "json"),
    ("diagnose", "{}", "--format", "markdown"),
    ("diagnose", "{}", "--format", "html"),
    ("rules",),
    ("explain", "input-starvation"),
    ("doctor",),
    ("--help",),
    ("--version",),
]


@pytest.mark.parametrize("words", WRITING)
@pytest.mark.parametrize("to", [">/dev/full", ">&-", ">&- <&-", "1</dev/null"])
def test_an_output_that_cannot_be_written_is_2(sample: Path, words: tuple[str, ...], to: str) -> None:
    script = f'"$@" {to}'
    given = [word.format(sample) for word in words]
    done = run_process(["bash", "-c", script, "bash", sys.executable, "-m", "stepscope", *given])
    assert done.code == 2, done.err
    assert is_one_line(done, "standard output cannot be written")


def test_an_output_that_is_not_used_may_be_closed(sample: Path, tmp_path: Path) -> None:
    for to in (">/dev/full", ">&-"):
        script = f'"$@" {to}'
        words = ["diagnose", sample, "--format", "json", "-o", tmp_path / "report.json"]
        done = run_process(["bash", "-c", script, "bash", sys.executable, "-m", "stepscope", *words])
        assert (done.code, done.err) == (0, "")
        assert (tmp_path / "report.json").read_text().startswith("{")
        (tmp_path / "report.json").unlink()


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

    monkeypatch.setattr("stepscope.offline.diagnosed", broken)
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


@pytest.mark.parametrize("flops", ["many", "0", "-1", "nan", "inf", "1e30"])
def test_model_flops_that_are_no_number_of_operations_are_refused(
    stepscope: Run, sample: Path, flops: str
) -> None:
    done = stepscope("diagnose", sample, "--model-flops", flops)
    assert done.code == 2
    assert f"'{flops}' is no number of operations; write one, as in 3.2e14" in done.err
