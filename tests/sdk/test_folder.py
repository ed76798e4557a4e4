"""Where rings lie, and what is safe."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from stepscope_sdk import folder as folders
from stepscope_sdk import ring_abi as abi
from stepscope_sdk.folder import OLD_NS, Rights, open_folder, remove_old, rights, run_dir, why_unsafe
from stepscope_sdk.ring import Ring


def test_the_folder_is_the_given_one_else_the_pods_else_shared_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "KUBERNETES", str(tmp_path))
    assert run_dir({"STEPSCOPE_RUN_DIR": "/x", "POD_UID": "u-1"}) == "/x"
    assert run_dir({"POD_UID": "u-1"}) == "/dev/shm/stepscope"
    (tmp_path / "u-1").mkdir()
    assert run_dir({"POD_UID": "u-1"}) == str(tmp_path / "u-1")
    assert run_dir({}, pod_uid="u-1") == str(tmp_path / "u-1")
    assert run_dir({"POD_UID": "../etc"}) == "/dev/shm/stepscope"
    assert run_dir({}) == "/dev/shm/stepscope"


def test_rights_are_as_asked_but_others_never_write() -> None:
    assert rights({}) == Rights(0o640, None)
    assert rights({"STEPSCOPE_RUN_MODE": "0777", "STEPSCOPE_RUN_GROUP": "12"}) == Rights(0o664, 12)
    assert rights({"STEPSCOPE_RUN_MODE": "0"}) == Rights(0o600, None)
    assert rights({"STEPSCOPE_RUN_GROUP": "root"}).group == 0
    with pytest.raises(ValueError, match="no group 'nobody-at-all'"):
        rights({"STEPSCOPE_RUN_GROUP": "nobody-at-all"})
    with pytest.raises(ValueError):
        rights({"STEPSCOPE_RUN_MODE": "rw"})


def of(user: int, mode: int) -> os.stat_result:
    return os.stat_result((stat.S_IFDIR | mode, 1, 1, 1, user, 0, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("user", "mode", "is_safe"),
    [
        (1000, 0o777, True),  # one's own
        (0, 0o777, True),  # root's, such as a pod's volume
        (1001, 0o1777, True),  # as /tmp
        (1001, 0o775, True),  # of an agent's account, open to our group
        (1001, 0o777, False),  # anybody may put a file of his own in the place of ours
    ],
)
def test_a_folder_of_somebody_else_that_all_may_write_to_needs_the_sticky_bit(
    user: int, mode: int, is_safe: bool
) -> None:
    assert (why_unsafe(of(user, mode), 1000) is None) == is_safe


def test_the_shared_folder_is_made_for_all_and_a_link_in_its_place_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "stepscope"
    monkeypatch.setattr(folders, "DEFAULT", str(shared))
    os.close(open_folder(str(shared)))
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777
    shared.rmdir()
    (tmp_path / "elsewhere").mkdir()
    shared.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        open_folder(str(shared))
    # A folder that was given may be a link: its giver made it.
    (tmp_path / "mine").symlink_to(tmp_path / "elsewhere")
    os.close(open_folder(str(tmp_path / "mine")))
    os.close(open_folder(str(tmp_path / "a/b/c")))
    assert (tmp_path / "a/b/c").is_dir()


def test_what_was_planted_under_the_name_of_a_ring_is_not_touched(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "a.ring").symlink_to(victim)
    with pytest.raises(FileExistsError):
        Ring(str(tmp_path / "a.ring"), {})
    assert victim.read_text() == "mine"


def test_a_ring_has_the_rights_asked_for_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        ring = Ring(str(tmp_path / "a.ring"), {}, mode=0o640, group=os.getegid())
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(ring.path).st_mode) == 0o640
    ring.close()


def test_old_rings_of_the_dead_go_and_no_others(tmp_path: Path) -> None:
    now_ns = 1_800_000_000_000_000_000
    day = OLD_NS

    def made(name: str, last_ns: int, is_alive: bool = False) -> Ring:
        ring = Ring(str(tmp_path / f"{name}.ring"), {}, num_records=2)
        for _ in range(3):
            ring.write(6, 0, 0, at=(1, last_ns))
        (tmp_path / f"{name}.control").write_bytes(b"")
        if not is_alive:
            ring.close()
        return ring

    alive = made("alive", now_ns - 9 * day, is_alive=True)
    made("old", now_ns - day - 1)
    made("young", now_ns - day + 1)
    (tmp_path / "other.ring").write_text("not ready yet")
    os.utime(tmp_path / "other.ring", ns=(now_ns, now_ns - day + 1))
    (tmp_path / "link.ring").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "pipe.ring")
    (tmp_path / "nonsense.ring").write_bytes(abi.MAGIC + b"\xff" * abi.HEADER_BYTES)
    at = os.open(tmp_path, os.O_RDONLY)
    try:
        assert remove_old(at, now_ns) == 1
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "alive.control", "alive.ring", "link.ring", "nonsense.ring", "other.ring", "pipe.ring",
            "young.control", "young.ring",
        ]  # fmt: skip
        alive.close()
        assert remove_old(at, now_ns) == 1
    finally:
        os.close(at)
