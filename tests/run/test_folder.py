"""The folder of a run comes and goes."""

from __future__ import annotations

import os
import re

from stepscope.run import folder as folders
from stepscope.run.answer import FAULT, SEEN, why_none
from stepscope_sdk import attach


def test_a_folder_is_its_users_alone_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(folders.tempfile, "tempdir", str(tmp_path))
    made = folders.make((str(tmp_path),))
    assert made.live.stat().st_mode & 0o777 == made.kept.parent.stat().st_mode & 0o777 == 0o700
    (made.live / "x.ring").touch()
    made.remove()
    assert [*tmp_path.iterdir()] == []


def test_what_a_killed_run_left_is_swept_and_what_is_held_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(folders.tempfile, "tempdir", str(tmp_path))
    held, left = (folders.make((str(tmp_path),)) for _ in range(2))
    os.close(left._lock)  # as after kill -9
    now_s = held.live.stat().st_mtime
    folders.sweep(now_s + 30, (str(tmp_path),))
    assert left.live.exists()  # it might be one that is just being made
    for _ in range(2):
        folders.sweep(now_s + 90, (str(tmp_path),))
    assert held.live.exists()
    assert held.kept.exists()
    assert not left.live.exists()
    assert not left.kept.exists()
    held.remove()


def test_why_there_is_no_verdict_is_told_by_what_attach_mode_left(tmp_path, monkeypatch):
    monkeypatch.setattr(folders.tempfile, "tempdir", str(tmp_path))
    made = folders.make((str(tmp_path),))
    assert (SEEN, FAULT) == (attach.SEEN, attach.FAULT)
    assert "STEPSCOPE_DISABLE" in why_none(made, True, "en")
    assert "imported no torch" in why_none(made, False, "en")
    (made.live / SEEN).touch()
    assert "no optimizer of torch.optim finished a step" in why_none(made, False, "en")
    (made.live / FAULT).write_text("KeyError: 'x'\nat attach.py:1")
    assert "a fault of stepscope (KeyError: 'x' at attach.py:1)" in why_none(made, False, "en")
    (made.live / FAULT).write_text("")  # as on a full disk
    assert "a fault of stepscope (which one could not be written: no room" in why_none(made, False, "en")
    made.remove()


def test_a_fault_without_a_text_is_told_by_its_type_and_place(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("STEPSCOPE_ATTACH", "1")

    class Mute(RuntimeError):
        def __str__(self):
            raise ValueError

    for fault in (AssertionError(), Mute()):
        try:
            raise fault
        except (RuntimeError, AssertionError) as error:
            attach._say_fault(error)
        said = (tmp_path / FAULT).read_text()
        assert re.fullmatch(rf"{type(fault).__name__} at test_folder\.py:\d+", said), said
