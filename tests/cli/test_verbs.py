"""What the verbs say and how they end."""

from __future__ import annotations

import ast
import gzip
import html
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stepscope.cli import VERBS, cli, doctor, doctor_mark, doctor_zh, main
from tests.cli.conftest import Run


def test_help_lists_the_verbs_there_are_and_no_others(stepscope: Run) -> None:
    done = stepscope("--help")
    assert done.code == 0
    listed = done.out.split("Commands:")[1].split()
    assert [word for word in listed if word in VERBS] == list(VERBS)


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\nfrom stepscope.cli import main\nmain(['--help'])\n"
        "heavy = {'numpy', 'rich', 'msgspec', 'isal', 'pynvml'} & sys.modules.keys()\n"
        "sys.exit(f'imported {heavy}' if heavy - {'msgspec'} else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_flags_are_those_of_the_contract() -> None:
    command = cli.get_command(None, "diagnose")  # type: ignore[arg-type]
    assert command is not None
    flags = {flag for parameter in command.params for flag in parameter.opts if flag.startswith("-")}
    assert flags == {
        "--steps", "--rank", "--job", "--format", "-o", "--output", "--lang", "--rules-config", "--fail-on",
        "--perfetto", "--no-redact", "--jobs", "--debug", "--model-flops", "--telemetry", "--logs",
        "--log-pattern", "--parameters",
    }  # fmt: skip


def test_the_version_says_which_loader(stepscope: Run) -> None:
    done = stepscope("--version")
    assert done.code == 0
    assert "native loader: yes" in done.out or "native loader: no" in done.out


def test_the_demo_finds_what_was_planted(stepscope: Run) -> None:
    done = stepscope("demo", "--format", "json")
    assert done.code == 0, done.err
    report = done.report
    assert report["verdict"]["class"] == "waiting-for-data"
    assert report["findings"][0]["rule"] == "input-starvation"
    row = next(row for row in report["accounting"] if row["scope"] == "steps")
    assert 0.25 < row["idle"]["input_ns"] / row["total_ns"] < 0.40
    assert 0.60 < row["host"]["loader_share"] < 0.70
    lost = [issue for issue in report["health"]["issues"] if issue["code"] == "missing_launch"]
    assert [issue["count"] for issue in lost] == [4]


def test_the_demo_shows_no_path_of_this_machine(stepscope: Run, root: Path) -> None:
    for form in ("text", "json", "markdown", "html"):
        out = stepscope("demo", "--format", form).out
        assert str(root) not in out
        assert ("demo.pt.trace.json.gz" in out) == (form in ("json", "html"))


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("form", ["text", "json", "markdown", "html"])
def test_every_form_and_language_answers_and_ends_with_a_command(
    stepscope: Run, sample: Path, form: str, lang: str
) -> None:
    done = stepscope("diagnose", sample, "--format", form, "--lang", lang)
    assert (done.code, done.err) == (0, "")
    has_chinese = any("\u4e00" <= char <= "\u9fff" for char in done.out)
    assert has_chinese == (lang == "zh")
    tail = done.report["next"] if form == "json" else done.out.rstrip()[-400:]
    assert "stepscope" in tail


WORDS: dict[str, tuple[str, ...]] = {
    "diagnose": ("SAMPLE",),
    "compare": ("SAMPLE", "SAMPLE"),
    "demo": (),
    "doctor": (),
    "rules": (),
    "explain": ("input-starvation",),
    "simulate": ("--out", "OUT", "--steps", "3"),
}
SILENT = ("export", "mcp", "agent", "run", "serve", "token", "notify")
"""Verbs whose output is for programs, or of the command that is run (`tests/job/test_run.py`), or that go
on."""
FORMS = {
    "diagnose": ("text", "json", "markdown", "html"),
    "compare": ("text", "json", "markdown"),
    "run": ("text", "json", "markdown", "html"),
    "demo": ("text",),
    "doctor": ("text", "json"),
}
"""Where a verb has forms to choose from."""


def test_every_verb_has_words_to_be_tried_with() -> None:
    assert sorted((*WORDS, *SILENT)) == sorted(VERBS)
    for verb in VERBS:
        command = cli.get_command(None, verb)  # type: ignore[arg-type]
        assert command is not None
        assert (verb in FORMS) == ("form" in {parameter.name for parameter in command.params})


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    ("verb", "form"), [(verb, form) for verb in WORDS for form in FORMS.get(verb, ("",))]
)
def test_every_answer_ends_with_a_command_that_can_be_run(
    stepscope: Run, sample: Path, tmp_path: Path, verb: str, form: str, lang: str
) -> None:
    places = {"SAMPLE": str(sample), "OUT": str(tmp_path / "run")}
    words = [places.get(word, word) for word in WORDS[verb]]
    done = stepscope(verb, *words, *(["--format", form] if form else []), "--lang", lang)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    label = {"en": "Next: ", "zh": "下一步："}[lang]
    if form == "json":
        command = json.loads(done.out)["next"]
    elif form == "html":
        data = re.search(r'id="stepscope-report">(.*?)</script>', done.out, re.DOTALL)
        assert data is not None
        command = json.loads(data[1])["next"]
        last = done.out.rpartition('<pre class="command"')[2].partition(">")[2].partition("</pre>")[0]
        assert html.unescape(last) == command
    elif form == "markdown":
        assert lines[-5].rstrip() == label.rstrip()
        command = lines[-2]
    else:
        assert lines[-1].startswith(label)
        command = lines[-1].removeprefix(label)
    assert command.startswith("stepscope ")
    run, _, meaning = command.partition("  # ")
    if "TRACE" in run:  # what stands for a file of the reader's is explained beside it
        assert meaning
    else:
        assert stepscope(*run.split()[1:]).code == 0


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("verb", ["doctor", "rules", "explain"])
def test_no_line_ends_in_blanks(stepscope: Run, verb: str, lang: str) -> None:
    for columns in ("60", "100"):
        out = stepscope(verb, *WORDS[verb], "--lang", lang, env={"COLUMNS": columns}).out
        assert [line for line in out.splitlines() if line != line.rstrip()] == []


def test_the_first_rule_listed_is_the_next_to_read(stepscope: Run) -> None:
    lines = stepscope("rules").out.splitlines()
    assert lines[-1] == f"Next: stepscope explain {lines[0]}"


@pytest.mark.parametrize(("level", "code"), [("info", 1), ("warning", 1), ("critical", 1)])
def test_fail_on_is_1_when_a_finding_is_as_severe(
    stepscope: Run, sample: Path, level: str, code: int
) -> None:
    assert stepscope("diagnose", sample, "--fail-on", level).code == code


def test_fail_on_is_0_when_nothing_is_as_severe(stepscope: Run, sample: Path, tmp_path: Path) -> None:
    done = stepscope("diagnose", sample, "--steps", "11:14", "--format", "json")
    share = done.report["findings"][0]["cost"]["share"]
    (tmp_path / "site.toml").write_text(f"[input-starvation]\nidle_input_share = {min(share + 0.1, 1)}\n")
    done = stepscope("diagnose", sample, "--rules-config", "site.toml", "--fail-on", "critical", cwd=tmp_path)
    assert done.code == 0


def test_steps_outside_are_left_out(stepscope: Run, sample: Path) -> None:
    done = stepscope("diagnose", sample, "--steps", "12:13", "--format", "json")
    assert done.code == 0, done.err
    assert done.report["window"]["steps"] == [12, 13]
    assert [step["step"] for step in done.report["steps"]] == [12, 13]
    assert [row["num_steps"] for row in done.report["accounting"] if row["scope"] == "steps"] == [2]


def test_a_rank_can_be_chosen(stepscope: Run, eight_ranks: Path) -> None:
    done = stepscope("diagnose", eight_ranks, "--rank", "5", "--format", "json")
    assert done.code == 0, done.err
    assert {row["rank"] for row in done.report["accounting"]} == {5}
    done = stepscope("diagnose", eight_ranks, "--rank", "9")
    assert done.code == 2
    assert "there are: 0, 1, 2" in done.err


def test_jobs_changes_nothing_but_the_time(stepscope: Run, eight_ranks: Path) -> None:
    one = stepscope("diagnose", eight_ranks, "--format", "json")
    two = stepscope("diagnose", eight_ranks, "--format", "json", "--jobs", "2")
    assert one.out == two.out


def test_doctor_names_the_loader_and_gives_the_line_to_add(stepscope: Run) -> None:
    done = stepscope("doctor", "--format", "json")
    assert done.code == 0
    checks = {check["name"]: check for check in json.loads(done.out)["checks"]}
    assert {"stepscope", "torch", "py-spy", "room for traces"} <= checks.keys()
    assert all("add" in check for check in checks.values() if check["state"] == "missing")
    assert stepscope("doctor").code == 0


def test_doctor_speaks_chinese_in_text_and_keeps_its_json(stepscope: Run) -> None:
    chinese = stepscope("doctor", "--lang", "zh")
    assert chinese.code == 0, chinese.err
    assert "正常" in chinese.out
    assert "下一步：stepscope diagnose" in chinese.out
    for english in ("native loader", "free in", "missing", "Next:", "9400, "):
        assert english not in chinese.out
    names = [
        [check["name"] for check in json.loads(stepscope("doctor", "--format", "json", *lang).out)["checks"]]
        for lang in ((), ("--lang", "zh"))
    ]
    assert names[0] == names[1]


def test_every_sentence_of_doctor_has_its_chinese() -> None:
    """The sentences are read from the source, with what is filled in put as one word."""
    files = (doctor.__file__, doctor_mark.__file__)
    sentences = set()
    for call in [c for file in files for c in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8")))]:
        if not (
            isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Check" and len(call.args) > 2
        ):
            continue
        found = call.args[2]
        if isinstance(found, ast.Constant):
            sentences.add(str(found.value))
        elif isinstance(found, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "9.9" for part in found.values]
            sentences.add("".join(map(str, parts)))
    wordy = {each for each in sentences if len(re.findall(r"[a-z]{3,}", each)) > 1}
    assert len(wordy) >= 10
    for sentence in wordy:
        assert doctor_zh.in_chinese(sentence) != sentence


def test_every_verb_takes_a_language(stepscope: Run) -> None:
    for verb in VERBS:
        if verb == "notify":  # each of its channels has a language of its own
            continue
        command = cli.get_command(None, verb)  # type: ignore[arg-type]
        assert command is not None
        assert "--lang" in {flag for parameter in command.params for flag in parameter.opts}


def test_rules_lists_what_explain_explains(stepscope: Run) -> None:
    listed = stepscope("rules")
    assert listed.code == 0, listed.err
    assert "input-starvation" in listed.out
    for lang in ("en", "zh"):
        explained = stepscope("explain", "input-starvation", "--lang", lang)
        assert explained.code == 0, explained.err
        assert "idle_input_share" in explained.out


def test_an_unexpected_fault_is_70_and_says_how_to_report_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*words: Any, **more: Any) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("stepscope.offline.diagnosed", broken)
    assert main(["diagnose", "x"]) == 70
    err = capsys.readouterr().err
    assert "ZeroDivisionError: planted" in err
    assert "report" in err
    assert len(err.splitlines()) == 1


def test_an_interrupt_is_130(sample: Path) -> None:
    script = (
        # A shell's background job ignores interrupts, and so would whatever it starts.
        "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import sys, time\nimport stepscope.offline as offline\nfrom stepscope.cli import main\n"
        "def slow(*words, **more):\n    print('ready', file=sys.stderr, flush=True)\n    time.sleep(30)\n"
        "offline.diagnosed = slow\nsys.exit(main(['diagnose', 'x']))\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        time.sleep(0.1)
        os.kill(process.pid, signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(10) == 130
    assert "Traceback" not in rest


def test_the_key_of_the_site_names_hosts_the_same_in_every_report(
    stepscope: Run, sample: Path, tmp_path: Path
) -> None:
    named = []
    for size in (1, 2):
        text = gzip.decompress(sample.read_bytes()).replace(
            b'"record_shapes": 1', b'"record_shapes": %d' % size, 1
        )
        (tmp_path / "trainer17_12.1700000000000.pt.trace.json").write_bytes(text)
        done = stepscope(
            "diagnose", "trainer17_12.1700000000000.pt.trace.json", "--format", "json",
            cwd=tmp_path, env={"STEPSCOPE_REDACT_KEY": "site"},
        )  # fmt: skip
        assert "trainer17" not in done.out
        named.append(done.report["inputs"][0]["name"])
    assert named[0] == named[1]
    done = stepscope(
        "diagnose",
        "trainer17_12.1700000000000.pt.trace.json",
        "--no-redact",
        "--format",
        "json",
        cwd=tmp_path,
    )
    assert "trainer17" in done.out


@pytest.mark.parametrize("form", ["text", "json", "markdown", "html"])
def test_no_secret_host_or_user_of_a_public_trace_leaves(
    stepscope: Run, shared_data: Path, form: str
) -> None:
    trace = shared_data / "traces/tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
    metadata = json.loads(gzip.decompress(trace.read_bytes()))["metadata"]
    done = stepscope("diagnose", trace, "--format", form)
    assert metadata["system"]["env"]["HF_TOKEN"] not in done.out
    assert metadata["system"]["uname"]["node"] not in done.out
    assert f"/{metadata['started_by']}/" not in done.out
    if form == "json":
        assert done.report["inputs"][0]["redacted"] == 1
    done = stepscope("diagnose", trace, "--format", form, "--no-redact")
    assert metadata["system"]["env"]["HF_TOKEN"] not in done.out


@pytest.mark.parametrize("form", ["json", "html"])
def test_names_in_a_picture_give_nobody_away(stepscope: Run, sample: Path, tmp_path: Path, form: str) -> None:
    """What only a timeline shows (an op of a single call, the name of a thread) is redacted like the rest."""
    text = gzip.decompress(sample.read_bytes()).decode()
    text = text.replace("pt_autograd_0", "worker of /home/mallory/x", 1)
    text = text.replace("aten::stack", "load /home/mallory/data on trainer17.corp.example.com")
    (tmp_path / "x.json").write_text(text)
    done = stepscope("diagnose", "x.json", "--format", form, cwd=tmp_path)
    assert done.code == 0, done.err
    assert "worker of /home/user-" in done.out
    for name in ("mallory", "trainer17"):
        assert name not in done.out
    kept = stepscope("diagnose", "x.json", "--format", form, "--no-redact", cwd=tmp_path)
    assert "mallory" in kept.out
