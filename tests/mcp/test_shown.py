"""What an agent sees of the machine: names relative to a root, and nobody's name."""

from __future__ import annotations

import json
import pickle
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.conftest import Agent, talk

pytest.importorskip("mcp")


@pytest.fixture
def of_somebody(sample: Path, tmp_path: Path) -> Path:
    """A root below a home, with another home in it and one input of each kind that cannot be read."""
    root = tmp_path / "home" / "annsmith" / "hushproject"
    inner = root / "home" / "bobjones"
    inner.mkdir(parents=True)
    for name in ("a.json.gz", "copy.json.gz", "home/bobjones/a.json.gz", "annsmith_run.json.gz"):
        shutil.copy(sample, root / name)
    for folder in (root, inner):
        (folder / "bad.json").write_text("{nope")
        (folder / "empty.json").touch()
        (folder / "cut.json.gz").write_bytes(sample.read_bytes()[:300])
        (folder / "snap.pickle").write_bytes(pickle.dumps(print))
        with tarfile.open(folder / "x.tar", "w") as archive:
            archive.add(sample, "m.json.gz")
        with tarfile.open(folder / "none.tar", "w") as archive:
            archive.add(folder / "empty.json", "readme")
    return root


NAMES = (
    "bad.json",
    "empty.json",
    "cut.json.gz",
    "snap.pickle",
    "x.tar::no.json",
    "none.tar",
    "no.json",
    "zz*",
)


def test_no_error_names_a_folder_above_the_root_or_a_user(of_somebody: Path) -> None:
    async def conversation(agent: Agent) -> None:
        for name in NAMES:
            for start in ("", f"{of_somebody}/", "home/bobjones/", f"{of_somebody}/home/bobjones/"):
                told = await agent.refused("diagnose", paths=[start + name])
                check(told, of_somebody)
                assert name.partition("::")[0] in told, told
        for paths in (["bad.json", "empty.json"], ["home/bobjones/bad.json", "home/bobjones/cut.json.gz"]):
            check(await agent.refused("diagnose", paths=paths), of_somebody)

    talk(of_somebody, conversation)


def test_no_answer_names_a_folder_above_the_root_or_a_user(of_somebody: Path) -> None:
    async def conversation(agent: Agent) -> None:
        for paths in (["."], ["a.json.gz", "copy.json.gz", "bad.json"], ["home"], ["x.tar"], ["a*"]):
            answer = await agent.ask("diagnose", paths=paths)
            check(json.dumps(answer), of_somebody)
            rows = await agent.ask("query", report=answer["report"], table="inputs")
            check(json.dumps(rows), of_somebody)
            if paths == ["."]:
                assert "copy.json.gz: the same bytes as a.json.gz; left out" in answer["unused_inputs"]
        check(json.dumps(await agent.ask("doctor")), of_somebody)

    talk(of_somebody, conversation)


def check(told: Any, root: Path) -> None:
    for word in ("annsmith", "hushproject", "bobjones", str(root), str(root.parents[2])):
        assert word not in told, told
