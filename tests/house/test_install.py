"""Installing needs no compiler; what is installed stays within its budget."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MAX_PACKAGES = 22
MAX_BYTES = 130_000_000


def clean_clone(root: Path, target: Path) -> Path:
    """The committed and the working files, without what was built."""
    ignored = shutil.ignore_patterns(
        ".git",
        ".venv*",
        "env",
        ".bench",
        ".fuzz",
        "build",
        "*.egg-info",
        "*.so",
        "__pycache__",
        ".*_cache",
        ".hypothesis",
    )
    shutil.copytree(root, target, ignore=ignored)
    return target


def test_a_build_without_a_compiler_ends_well_on_the_fallback(root: Path, tmp_path: Path) -> None:
    clone = clean_clone(root, tmp_path / "clone")
    environment = {**os.environ, "CC": "/bin/false", "CXX": "/bin/false", "PYTHONPATH": "src"}
    built = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=clone, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert not list(clone.rglob("*.so"))
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "--version"],
        cwd=clone, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "native loader: no" in done.stdout, done.stderr
    answers = {}
    for folder in (clone, root):
        done = subprocess.run(
            [sys.executable, "-m", "stepscope", "demo", "--format", "markdown"],
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        answers[folder] = done.stdout
    assert answers[clone] == answers[root]


@pytest.mark.slow
def test_an_installed_wheel_is_within_its_budget_and_answers(root: Path, tmp_path: Path) -> None:
    clone = clean_clone(root, tmp_path / "clone")
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = venv / "bin/python"
    installed = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "."],
        cwd=clone, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if installed.returncode != 0 and "Could not find a version" in installed.stderr:
        pytest.skip("no package registry can be reached")
    assert installed.returncode == 0, installed.stderr
    site = next((venv / "lib").glob("python3*/site-packages"))
    brought = [path for path in site.iterdir() if path.suffix == ".dist-info"]
    names = sorted({path.name.split("-")[0].lower() for path in brought} - {"pip", "setuptools"})
    size = sum(
        path.stat().st_size
        for path in site.rglob("*")
        if path.is_file()
        and path.relative_to(site).parts[0] not in ("pip", "setuptools", "pkg_resources", "_distutils_hack")
    )
    print(f"{len(names)} packages, {size / 1e6:.0f} MB: {', '.join(names)}")
    assert len(names) <= MAX_PACKAGES
    assert size <= MAX_BYTES
    assert not list((site / "stepscope").rglob("*.cpp"))
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    demo = subprocess.run(
        [venv / "bin/stepscope", "demo"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert demo.returncode == 0, demo.stderr
    assert "input-starvation" in demo.stdout
    page = subprocess.run(
        [venv / "bin/stepscope", "demo", "--format", "html"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert page.returncode == 0, page.stderr
    assert "prefers-color-scheme" in page.stdout


@pytest.mark.slow
def test_the_demo_brings_no_tools_and_says_that_it_takes_a_while(root: Path, tmp_path: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("no make")
    clone = clean_clone(root, tmp_path / "clone")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "PYTHONPATH"))}

    def demo() -> subprocess.CompletedProcess[str]:
        words = ["make", "--no-print-directory", "demo"]
        return subprocess.run(words, cwd=clone, env=environment, capture_output=True, text=True, check=False)

    first = demo()
    if first.returncode != 0 and "Could not find a version" in first.stderr:
        pytest.skip("no package registry can be reached")
    assert first.returncode == 0, first.stderr
    assert "input-starvation" in first.stdout
    assert first.stderr.startswith("make: setting up .venv")
    assert (clone / ".venv/bin/stepscope").exists()
    assert not (clone / ".venv/bin/pytest").exists()
    if "torch is not installed" in first.stdout:
        assert ".venv/bin/pip install torch" in first.stdout
    again = demo()
    assert again.returncode == 0, again.stderr
    if "a real loop" not in first.stdout:  # a recording takes another time every time
        assert again.stdout == first.stdout
    assert "setting up" not in again.stderr


def test_fuzzing_without_a_compiler_says_so_and_ends_with_2(root: Path, tmp_path: Path) -> None:
    for tool in ("bash", "env"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    done = subprocess.run(
        [tmp_path / "bash", root / "tests/trace/fuzz/run.sh", "1"],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "no C++ compiler" in done.stderr
    assert "apt install clang" in done.stderr
