"""`stepscope agent`: real processes, from its words to its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepscope.agent.source import kinds
from stepscope.cli.agent import PROFILES, SOURCES
from stepscope.model.batch import Batch, Happened, Marks, Samples
from stepscope.model.error import InputError
from stepscope.sources.formats.spool import batches_of, open_spool
from tests.agent.agents import ROOT, Marking, until
from tests.agent.test_scrape import UUID, exporter, silent
from tests.cli.conftest import Run

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    """The agent as a process, which has begun."""
    process = subprocess.Popen(
        [sys.executable, "-m", "stepscope", "agent", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=30)


def begun(process: subprocess.Popen[str]) -> str:
    """Its first line, once its sources are at work."""
    assert process.stderr is not None
    return process.stderr.readline()


def kept(spool: Path) -> list[Batch]:
    try:
        return list(batches_of(open_spool(str(spool))))
    except InputError:  # nothing yet
        return []


def test_the_words_name_what_there_is() -> None:
    from stepscope.agent.profile import PROFILES as REAL

    assert tuple(REAL) == PROFILES
    assert sorted(SOURCES) == sorted(each.name for each in kinds())


def test_once_prints_what_is_here_and_names_what_is_not(stepscope: Run, tmp_path: Path) -> None:
    done = stepscope(
        "agent", "--once", "--run-dir", tmp_path, "--source", "host", "--source", "nvml", "--host", "n7"
    )
    assert (done.code, done.err) == (0, "")
    assert "host n7 memory_available_bytes" in done.out
    assert "host n7 cpu_user_ratio" in done.out
    assert "source_absent" in done.out or "device 0" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--server", "http://h:1"), "--server needs --spool DIR"),
        (("--token-file", "x"), "--token-file is for --server"),
        (("--time-scale", "0"), "--time-scale 0 is out of range"),
        (("--capture", "-1"), "--capture -1 is no number of steps"),
        (("--listen", "here"), "--listen here: no address"),
        (("--listen", "127.0.0.1:70000"), "no address"),
        (("--profile", "fast"), "'fast' is not one of"),
        (("--exporter", "h:9400", "--once"), "no URL of an exporter"),
        (("--source", "gpu"), "'gpu' is not one of"),
    ],
)
def test_wrong_words_are_one_line_and_code_two(stepscope: Run, words: tuple[str, ...], said: str) -> None:
    done = stepscope("agent", *words)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_spool_that_cannot_be_made_is_refused_in_one_line(stepscope: Run) -> None:
    done = stepscope("agent", "--spool", "/proc/x", "--once")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("stepscope: /proc/x: cannot be made: ")
    assert done.err.endswith("give another --spool\n")
    assert done.err.count("\n") == 1


def test_what_it_read_is_in_the_spool_when_it_is_told_to_end(tmp_path: Path) -> None:
    spool, run_dir = tmp_path / "spool", tmp_path / "run"
    run_dir.mkdir()
    job = Marking(run_dir, RANK="0", TORCHELASTIC_RUN_ID="job-7", CUDA_VISIBLE_DEVICES=UUID)
    try:
        with exporter() as (url, asked):
            words = ("--spool", str(spool), "--run-dir", str(run_dir), "--exporter", url, "--host", "n1")
            with running(*words) as process:
                assert "spool" in begun(process)
                job.steps(3)
                assert until(lambda: len(asked) >= 3)  # it looks every second now: a job runs
                job.steps(2)
                assert until(lambda: any(isinstance(each, Marks) and 4 in each.step for each in kept(spool)))
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0
    finally:
        job.end()
    batches = kept(spool)
    assert [each.seq for each in batches] == sorted({each.seq for each in batches})
    marks = [each for each in batches if isinstance(each, Marks)]
    assert {step for each in marks for step in each.step} >= {0, 1, 2, 3, 4}
    assert any(isinstance(each, Happened) and each.what == "start" for each in batches)
    samples = [each for each in batches if isinstance(each, Samples)]
    device = [s for each in samples if each.source == "dcgm-exporter" for s in each.series]
    assert {s.signal for s in device} == {"power_watts"}
    labelled = [s for s in device if s.labels.get("job") == "job-7"]
    assert labelled
    assert {s.labels["rank"] for s in labelled} == {"0"}
    assert any(s.steps is not None for s in labelled)
    host = [s for each in samples if each.source == "host" for s in each.series]
    assert {s.labels.get("job") for s in host if s.signal == "cpu_user_ratio"} == {"job-7"}
    mine = [s for s in host if s.signal == "process_resident_bytes" and s.owner.pid == job.pid]
    assert mine
    assert mine[0].labels["rank"] == "0"
    assert {each.host for each in batches} == {"n1"}


def test_a_second_agent_on_one_spool_is_refused_in_one_line(tmp_path: Path) -> None:
    words = ("--spool", str(tmp_path / "s"), "--source", "host")
    with running(*words) as first:
        begun(first)
        with running(*words) as second:
            _, err = second.communicate(timeout=60)
            assert second.returncode == 5
            assert err.count("\n") == 1
            assert "another agent writes this spool" in err
        assert first.poll() is None


def test_an_interrupt_ends_it_in_order_with_its_own_code(tmp_path: Path) -> None:
    spool = tmp_path / "s"
    with running("--spool", str(spool), "--source", "host", "--profile", "debug") as process:
        begun(process)
        assert until(lambda: bool(kept(spool)))
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    seqs = [each.seq for each in kept(spool)]
    assert seqs == list(range(1, len(seqs) + 1))


def test_metrics_are_served_where_it_is_told_to(tmp_path: Path) -> None:
    with (
        exporter() as (url, _),
        running(
            "--listen", "127.0.0.1:0", "--exporter", url, "--profile", "debug", "--source", "scrape"
        ) as process,
    ):
        address = begun(process).rstrip().rpartition("metrics at ")[2]
        assert address.startswith("http://127.0.0.1:")

        def is_there() -> bool:
            with urllib.request.urlopen(address, timeout=10) as answer:
                return f'DCGM_FI_DEV_POWER_USAGE{{Hostname="n1",UUID="{UUID}"' in answer.read().decode()

        assert until(is_there)


def test_an_exporter_that_hangs_holds_up_no_end(tmp_path: Path) -> None:
    with silent() as url, running("--spool", str(tmp_path / "s"), "--exporter", url) as process:
        begun(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_the_agents_process_is_light(tmp_path: Path) -> None:
    script = (
        "import json, sys\nfrom stepscope.cli import main\n"
        f"folder = {str(tmp_path)!r}\n"
        "code = main(['agent', '--once', '--spool', folder + '/s', '--run-dir', folder])\n"
        "heavy = {'duckdb', 'rich', 'perfetto', 'isal', 'psutil'} & sys.modules.keys()\n"
        "print(json.dumps([code, sorted(heavy)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=120,
        check=False,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == [0, []], done.stderr
