"""What a path reaches below a root: nothing of what lies outside, by whatever pattern or link."""

from __future__ import annotations

import glob
from pathlib import Path

import pytest

from stepscope.mcp.root import Roots
from stepscope.model.error import RefusedError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Files in folders, a link within the root, and links that lead out or to nothing."""
    folder = tmp_path / "root"
    for name in (
        "a.json.gz",
        "b.json",
        "sub/c.json",
        "sub/deep/d.json.gz",
        ".hidden/e.json",
        "sub/notes.txt",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "within").symlink_to(folder / "sub")
    (folder / "again.json").symlink_to(folder / "b.json")
    outside = tmp_path / "outside" / "secret"
    outside.mkdir(parents=True)
    (outside / "there.json").write_text("x")
    return folder


def outcome(root: Path, path: str) -> str:
    try:
        found = Roots([str(root)]).files([path])
    except RefusedError as error:
        return str(error).replace(path, "PATH")
    return f"{[each.name for each in found.traces]} {found.strays}"


PLACES = (
    "out/{}",
    "out/{}/there.json",
    "[o]ut/{}",
    "[o]ut/{}/there.json",
    "o*/{}/*",
    "*/{}/there.json",
    "**/{}/*.json",
    "sub/../out/{}",
    "o*/{}*",
    "??t/{}/**",
    "out/{}/*",
    "sub/[o]ut/{}",
    "*/*/{}",
    "[o]ut/{}::member",
)


@pytest.mark.parametrize("place", PLACES)
def test_the_answer_is_the_same_whether_something_is_outside_or_not(root: Path, place: str) -> None:
    (root / "out").symlink_to(root.parent / "outside")
    (root / "sub/out").symlink_to(root.parent / "outside")
    there, missing = (outcome(root, place.format(name)) for name in ("secret", "nobody"))
    assert there == missing
    assert "there.json" not in there


@pytest.mark.parametrize("path", ["out.json", "[o]ut.json", "o*", "."])
@pytest.mark.parametrize("target", ["there.json", "nothing.json", "", "../nobody"])
def test_a_link_out_says_nothing_of_its_target(root: Path, path: str, target: str) -> None:
    link = root / "out.json"
    link.symlink_to(root.parent / "outside" / "secret" / "there.json")
    expected = outcome(root, path)
    link.unlink()
    link.symlink_to(root.parent / "outside" / "secret" / target)
    assert outcome(root, path) == expected


@pytest.mark.parametrize(
    "target", ["../../outside/secret/there.json", "../gone.json", "z.json", "/etc/hostname"]
)
@pytest.mark.parametrize("path", [".", "sub", "sub/*", "*/*.json", "**/*.json"])
def test_a_stray_link_is_named_and_the_rest_is_found(root: Path, path: str, target: str) -> None:
    before = Roots([str(root)]).files([path])
    assert before.strays == ()
    (root / "sub/z.json").symlink_to(target)
    after = Roots([str(root)]).files([path])
    assert after.traces == before.traces
    assert set(after.strays) - {"within/z.json"} == {"sub/z.json"}


@pytest.mark.parametrize(
    "pattern",
    [
        "*",
        "*.gz",
        "*.json",
        "sub/*",
        "*/*.json",
        "within/*",
        "w*/*",
        "**/*.gz",
        "**",
        "sub/**",
        "[ab].json*",
        "?.json",
        ".h*/*",
        ".*",
        "*/deep/*",
        "**/d*",
        "nothing*",
        "[!a]*",
        "sub/[dn]*/*",
        "*/c.json",
    ],
)
def test_patterns_find_what_glob_finds(root: Path, pattern: str) -> None:
    wanted = {
        str(Path(path).resolve().relative_to(root.resolve()))
        for path in glob.glob(str(root / pattern), recursive=True)
        if Path(path).is_file()
    }
    try:
        found = {each.name for each in Roots([str(root)]).files([pattern]).traces}
    except RefusedError:
        found = set()
    assert found == wanted
