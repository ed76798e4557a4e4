"""Real processes in good and bad surroundings: whatever the folder is, training ends as without marks."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.sources.ring import RingReader
from stepscope_sdk import ring_abi as abi
from stepscope_sdk.start import is_off
from tests.sdk import writer

KIND = {each.number: each.name for each in abi.KINDS}
TRAIN = """
import sys, stepscope_sdk
monitor = stepscope_sdk.monitor()
for batch in monitor.data(range(3)):
    with monitor.step(tokens=5), monitor.phase("forward"):
        monitor.log(loss=float(batch))
print("trained", monitor.is_on)
"""


def records(path: Path) -> list[str]:
    with RingReader(str(path)) as reader:
        return [KIND[int(kind)] for kind in reader.poll().records["kind"]]


def test_a_run_leaves_one_ring_with_its_begin_its_steps_and_its_end(tmp_path: Path) -> None:
    done = writer.run(TRAIN, tmp_path, RANK="1", WORLD_SIZE="2", LOCAL_RANK="1", STEPSCOPE_JOB="j")
    assert (done.stdout, done.stderr) == ("trained True\n", "")
    (path,) = writer.rings(tmp_path)
    kinds = records(path)
    assert (kinds[0], kinds[-1]) == ("start", "exit")
    assert [kinds.count(kind) for kind in ("step_begin", "step_end", "value")] == [3, 3, 3]
    with RingReader(str(path)) as reader:
        found = reader.identity()
        assert reader.poll().records["a"][-1] == 0
        assert not reader.is_alive()
    assert (found.job, found.rank, found.world_size, found.local_rank) == ("j", 1, 2, 1)
    assert found.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert found.script == "-c"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("name", ["STEPSCOPE_DISABLE", "STEPSCOPE"])
def test_the_environment_switches_all_off(tmp_path: Path, name: str) -> None:
    done = writer.run(TRAIN, tmp_path, **{name: "1" if name == "STEPSCOPE_DISABLE" else "off"})
    assert (done.stdout, done.stderr) == ("trained False\n", "")
    assert not list(tmp_path.iterdir())
    assert is_off({"STEPSCOPE": "OFF"})
    assert not is_off({"STEPSCOPE_DISABLE": "0", "STEPSCOPE": "on"})
    assert not is_off({})


def hindered(kind: str, folder: Path) -> tuple[Path, tuple[str, ...]]:
    """A run directory that cannot be used, and what the script begins with."""
    if kind == "missing and not to be made":
        return Path("/proc/none/here"), ()
    if kind == "a file":
        (folder / "run").write_text("")
        return folder / "run", ()
    if kind == "over a limit of size":
        return folder / "run", ("import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))",)
    if kind == "a device":
        return Path("/dev/null"), ()
    if kind == "nonsense for rights":
        return folder / "run", ("import os; os.environ['STEPSCOPE_RUN_MODE'] = 'rw'",)
    if kind == "no group of that name":
        return folder / "run", ("import os; os.environ['STEPSCOPE_RUN_GROUP'] = 'no-such-group'",)
    assert kind == "no more files may be opened"
    return folder / "run", (
        "import stepscope_sdk, os, resource",
        "most = len(os.listdir('/proc/self/fd')) - 1",
        "resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))",
    )


@pytest.mark.parametrize(
    "kind",
    [
        "missing and not to be made", "a file", "over a limit of size", "a device", "nonsense for rights",
        "no group of that name", "no more files may be opened",
    ],
)  # fmt: skip
def test_where_no_ring_can_be_made_training_goes_on_and_says_why_only_if_asked(
    tmp_path: Path, kind: str
) -> None:
    folder, before = hindered(kind, tmp_path)
    script = "\n".join([*before, TRAIN])
    done = writer.run(script, folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "trained False\n", "")
    said = writer.run(script, folder, STEPSCOPE_VERBOSE="1")
    assert said.stdout == "trained False\n"
    assert said.stderr.startswith("stepscope: no marks: ")
    assert said.stderr.count("\n") == 1
    if folder.is_dir():
        assert not writer.rings(folder)  # no half-made one stays


def small_disk(folder: Path, script: str, options: str) -> subprocess.CompletedProcess[str]:
    """Run a script with a file system of its own at `folder`."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("a file system of one's own needs root and unshare")
    words = f'mount -t tmpfs -o {options} none "$0" && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", words, folder, sys.executable, "-c", script],
        env=writer.environment(folder, STEPSCOPE_VERBOSE="1"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "mount" in done.stderr and "trained" not in done.stdout:
        pytest.skip("this machine mounts nothing here")
    return done


def test_a_full_disk_costs_the_marks_and_nothing_else(tmp_path: Path) -> None:
    done = small_disk(tmp_path, TRAIN, "size=256k")
    assert (done.returncode, done.stdout) == (0, "trained False\n")
    assert "No space left" in done.stderr


def test_a_disk_that_fills_up_later_harms_no_mark(tmp_path: Path) -> None:
    fill = """
import os, stepscope_sdk
monitor = stepscope_sdk.monitor()
try:
    with open(os.environ["STEPSCOPE_RUN_DIR"] + "/full", "wb") as file:
        while True: file.write(b"x" * 65536)
except OSError as error:
    print(error.errno)
for n in range(20000):
    with monitor.step(): pass
print("trained", monitor._ring._words[8])
"""
    done = small_disk(tmp_path, fill, "size=4m")
    assert (done.returncode, done.stdout) == (0, "28\ntrained 40001\n")


def test_a_read_only_disk_costs_the_marks_and_nothing_else(tmp_path: Path) -> None:
    done = small_disk(tmp_path, TRAIN, "ro")
    assert (done.returncode, done.stdout) == (0, "trained False\n")
    assert "Read-only" in done.stderr


def test_without_permission_there_are_no_marks_and_no_harm(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("to become another user needs root and setpriv")
    folder = tmp_path / "run"
    folder.mkdir(mode=0o755)
    for path in (tmp_path, *tmp_path.parents[:-2]):
        if path.stat().st_mode & 0o711 != 0o711 and path.owner() == "root":
            path.chmod(path.stat().st_mode | 0o711)
    done = subprocess.run(
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-c", TRAIN],
        env=writer.environment(folder, STEPSCOPE_VERBOSE="1"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "ModuleNotFoundError" in done.stderr or ("Permission denied" in done.stderr and not done.stdout):
        pytest.skip("another user cannot read this repository")
    assert (done.returncode, done.stdout) == (0, "trained False\n")
    assert "Permission denied" in done.stderr


def test_a_ring_that_is_removed_under_the_writer_harms_nothing(tmp_path: Path) -> None:
    remove = (
        TRAIN
        + """
import glob, os
for path in glob.glob(os.environ["STEPSCOPE_RUN_DIR"] + "/*"): os.unlink(path)
os.rmdir(os.environ["STEPSCOPE_RUN_DIR"])
for n in range(100):
    with monitor.step(): pass
print("on", monitor._ring._words[8] > 200)
"""
    )
    done = writer.run(remove, tmp_path / "run")
    assert (done.stdout, done.stderr) == ("trained True\non True\n", "")


def test_a_restart_in_the_same_folder_is_another_ring_and_another_run(tmp_path: Path) -> None:
    for restart in ("0", "1"):
        more = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "1", "TORCHELASTIC_RESTART_COUNT": restart}
        assert writer.run(TRAIN, tmp_path, **more).returncode == 0
    found = [RingReader(str(path)).identity() for path in writer.rings(tmp_path)]
    assert {each.restart for each in found} == {0, 1}
    assert len({each.run for each in found}) == 2


ENDS = {
    "raise ValueError": (1, "exit", 1),
    "import sys; sys.exit(0)": (0, "exit", 0),
    "import os; os._exit(3)": (3, "step_end", None),
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": (-signal.SIGKILL, "step_end", None),
    "import os, signal; os.kill(os.getpid(), signal.SIGINT)": (-signal.SIGINT, "exit", 2),
    "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'print(1)'])": (0, "step_end", None),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_last_record_tells_how_a_process_ended(tmp_path: Path, end: str) -> None:
    code, kind, failed = ENDS[end]
    script = f"import stepscope_sdk\nm = stepscope_sdk.monitor()\nwith m.step(): pass\n{end}"
    assert writer.run(script, tmp_path).returncode == code
    (path,) = writer.rings(tmp_path)
    with RingReader(str(path)) as reader:
        last = reader.poll().records[-1]
        assert not reader.is_alive()
    assert KIND[int(last["kind"])] == kind
    if failed is not None:
        assert last["a"] == failed


def test_marks_after_the_end_are_left_out_in_silence(tmp_path: Path) -> None:
    late = """
import threading, stepscope_sdk, atexit, time
monitor = stepscope_sdk.monitor()
def work():
    while True:
        with monitor.step(), monitor.phase("forward"): monitor.log(loss=1.0)
        time.sleep(0)
atexit.register(lambda: monitor.log(late=1.0))
threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
class Late:
    def __del__(self):
        with monitor.step(): monitor.log(later=1.0)
kept = Late()
"""
    for _ in range(3):
        done = writer.run(late, tmp_path)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_handler_that_marks_within_marks_never_stops_the_loop(tmp_path: Path) -> None:
    signals = """
import gc, os, signal, stepscope_sdk, time
monitor = stepscope_sdk.monitor()
num = 0
def handler(*_):
    global num
    num += 1
    monitor.log(**{f"in_{num % 9}": num})
    with monitor.phase("logging"): pass
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
gc.set_threshold(1, 1, 1)
until = time.monotonic() + 0.7
steps = 0
while time.monotonic() < until:
    with monitor.step(): monitor.log(loss=1.0)
    steps += 1
signal.setitimer(signal.ITIMER_REAL, 0)
print(num > 10, steps > 10)
"""
    done = writer.run(signals, tmp_path)
    assert (done.stdout, done.stderr) == ("True True\n", "")
    (path,) = writer.rings(tmp_path)
    assert records(path)[-1] == "exit"


def test_an_agent_that_is_killed_while_it_reads_harms_nothing(tmp_path: Path) -> None:
    slow = f"{TRAIN}print('on', flush=True)\nsys.stdin.readline()\nwith monitor.step(): pass\nprint('still')"
    process = writer.start(slow, tmp_path)
    try:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["trained True\n", "on\n"]
        (path,) = writer.rings(tmp_path)
        read = f"""
from stepscope.sources.ring import RingReader
reader = RingReader({str(path)!r})
print(len(reader.poll().records), flush=True)
while True: reader.poll()
"""
        agent = writer.start(read, tmp_path)
        try:
            assert agent.stdout is not None
            assert int(agent.stdout.readline()) > 10
        finally:
            agent.kill()
            agent.communicate()
        with RingReader(str(path)) as reader:
            assert reader.is_alive()
            out, errors = process.communicate("\n", timeout=writer.PATIENCE_SECONDS)
            assert (out, errors) == ("still\n", "")
            assert not reader.is_alive()
    finally:
        process.kill()
        process.communicate()
