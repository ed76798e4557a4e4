"""The control file, from both ends, and what it costs a step that nobody asks anything of."""

import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.act.capture.control import ControlWriter
from stepscope.model.error import InputError
from stepscope_sdk import control
from stepscope_sdk import ring_abi as abi
from stepscope_sdk.control import SEQ, Command, Control, Watch
from stepscope_sdk.monitor import Monitor
from stepscope_sdk.profile_sample import Sampler
from stepscope_sdk.ring import Ring


@pytest.fixture
def pair(tmp_path):
    path = str(tmp_path / "rank0-1-a.ring")
    ring = Ring(path, {"rank": 0}, num_records=64, mode=0o640)
    read = Control(path, "/somewhere/traces")
    write = ControlWriter(path)
    yield read, write
    write.close()
    read.close()
    ring.close()


ORDERS = st.tuples(
    st.sampled_from(abi.COMMANDS), st.integers(0, 2**62), st.integers(0, 2**62), st.integers(0, 2**31),
    st.sampled_from(abi.MODES), st.frozensets(st.sampled_from(sorted(abi.CAPTURE_FLAGS))),
)  # fmt: skip


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(orders=st.lists(ORDERS, min_size=1, max_size=4))
def test_what_is_written_is_read(tmp_path_factory, orders):
    path = str(tmp_path_factory.mktemp("control") / "rank0-1-a.ring")
    Ring(path, {"rank": 0}, num_records=64).close()
    read, write = Control(path, "/somewhere/traces"), ControlWriter(path)
    assert (read.read(), write.capture, write.trace_dir) == (None, 0, "/somewhere/traces")
    for number, (*given_words, flags) in enumerate(orders):
        write.write(*given_words, flags)
        assert read.words[SEQ] == 2 * (number + 1)
        assert read.read() == Command(*given_words, sum(abi.CAPTURE_FLAGS[each] for each in flags))
        assert write.capture == given_words[1]


def test_a_command_that_is_being_written_or_damaged_is_none(pair):
    read, write = pair
    write.write("propose", 1, 10, 3, "full", frozenset())
    good = bytes(read._map)
    for offset in range(24, 80):
        read._map[offset] ^= 1
        assert read.read() is None, offset
        read._map[:] = good
    read.words[SEQ] += 1
    assert read.read() is None


def test_the_control_file_has_the_rights_of_its_ring(tmp_path):
    for mode in (0o600, 0o640, 0o660):
        path = str(tmp_path / f"rank{mode}-1-a.ring")
        Ring(path, {"rank": 0}, num_records=64, mode=mode).close()
        assert os.stat(Control(path, "").path).st_mode & 0o777 == mode


def test_what_is_no_control_file_is_said_in_one_line(tmp_path):
    path = tmp_path / "rank0-1-a.control"
    path.write_bytes(b"\0" * 4096)
    with pytest.raises(InputError, match="no control file of this version; update"):
        ControlWriter(str(tmp_path / "rank0-1-a.ring"))


class Told:
    """A capturer that says what it was told."""

    def __init__(self, *, fails=False):
        self.told, self.is_busy, self.fails, self.given_up = [], False, fails, 0

    def begin(self, step, command):
        if self.fails:
            raise ZeroDivisionError
        self.told.append((step, command and command.command))
        return 0

    end = begin

    def give_up(self):
        self.given_up += 1


def marked(pair, told, num_steps, at=None):
    read, write = pair
    watch = Watch(read, lambda: told, {}, "")
    monitor = Monitor(None, watch=watch)
    for step in range(num_steps):
        if at is not None and step == at:
            write.write("propose", 1, 10, 3, "full", frozenset())
        monitor.begin_step()
        monitor.end_step()
    return watch


def test_nothing_is_imported_nor_called_as_long_as_nothing_is_asked(pair):
    watch = marked(pair, Told(), 3)
    assert watch._capturer is None
    script = """import stepscope_sdk, sys
stepscope_sdk.monitor().begin_step()
print('stepscope_sdk.capture' in sys.modules)"""
    env = {"PYTHONPATH": os.pathsep.join(sys.path), "STEPSCOPE_RUN_DIR": os.path.dirname(pair[0].path)}
    ended = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "False\n"


def test_a_command_reaches_the_capturer_at_the_next_step_and_once(pair):
    told = Told()
    marked(pair, told, 5, at=2)
    assert told.told == [(2, "propose")]


def test_a_capturer_that_breaks_is_given_up_and_the_steps_go_on(pair):
    told = Told(fails=True)
    watch = marked(pair, told, 5, at=2)
    assert told.given_up == 1
    assert watch.seen == watch.words[SEQ]


def test_shadow_steps_leave_out_what_lies_within_them_and_say_so():
    written = []

    class FakeRing:
        def write(self, kind, flags, step, *more):
            written.append((kind, flags, step))
            return 0

        def set(self, **told):
            pass

        def name(self, text):
            return 0

    monitor = Monitor(FakeRing(), shadow_every=2)
    for _ in range(5):
        with monitor.step(), monitor.phase("forward"):
            monitor.log(loss=1.0)
    monitor.close()
    begin, phase, value = (abi.kind_number(each) for each in ("step_begin", "phase_begin", "value"))
    shadow = abi.FLAGS["shadow"]
    assert [(flags, step) for kind, flags, step in written if kind == begin] == [
        (0, 0), (0, 1), (shadow, 2), (shadow, 3), (0, 4),
    ]  # fmt: skip
    assert [step for kind, _, step in written if kind == phase] == [0, 1, 4]
    assert [step for kind, _, step in written if kind == value] == [0, 1, 4]


def test_samples_stop_as_long_as_they_cost_more_than_the_run_affords():
    clock = [0]
    sampler = Sampler(10, overhead=0.01, now=lambda: clock[0])
    sampled = []
    for step in range(200):
        if sampler.due(step) is not None:
            sampled.append(step + 1)
        is_slow = sampled and sampled[-1] == step
        clock[0] += 150_000_000 if is_slow else 100_000_000
    # A sample costs 50 ms here, so that 5 s of run must have gone by for each behind the first.
    assert sampled == [10, 60, 100, 150, 200]


def test_counts_of_the_environment_are_read_or_left():
    given = {"A": "20", "B": "0", "C": "-1", "D": "many", "E": " 7 "}
    assert [control.number(given, name) for name in "ABCDEF"] == [20, None, None, None, 7, None]
