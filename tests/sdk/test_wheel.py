"""The wheel for training images: this package, nothing else, and small."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import stepscope_sdk
from stepscope.version import VERSION
from stepscope_sdk.version import VERSION as SDK_VERSION
from tests.house.test_install import clean_clone
from tests.sdk import writer

PACKAGE = Path(stepscope_sdk.__file__).parent
MAX_BYTES = 200_000


def wheel(project: Path, folder: Path) -> Path:
    """Built without a network, by the setuptools that is installed."""
    pytest.importorskip("setuptools", "77", reason="wheels are built by setuptools 77 or later")
    words = [
        "-m",
        "pip",
        "wheel",
        "--no-build-isolation",
        "--no-deps",
        "--no-index",
        "--quiet",
        "--wheel-dir",
    ]
    done = subprocess.run(
        [sys.executable, *words, str(folder), str(project)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_holds_the_sdk_alone_and_marks_where_nothing_else_is(root: Path, tmp_path: Path) -> None:
    clone = clean_clone(root, tmp_path / "clone")
    made = wheel(clone / "packages/sdk", tmp_path / "dist")
    assert made.name.startswith("stepscope_sdk-")
    assert made.name.endswith("-py3-none-any.whl")
    assert made.stat().st_size < MAX_BYTES
    with zipfile.ZipFile(made) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
        meta = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    modules = {name for name in names if not name.startswith("stepscope_sdk-")}
    ours = {f"stepscope_sdk/{path.relative_to(PACKAGE)}" for path in PACKAGE.rglob("*.py")}
    assert modules == ours | {"stepscope_sdk/py.typed"}
    assert "Requires-Dist" not in meta
    assert f"Version: {VERSION}" in meta
    assert any(name.endswith("LICENSE") for name in names)
    script = "import stepscope_sdk\nwith stepscope_sdk.monitor().step(): print(stepscope_sdk.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", script], capture_output=True, text=True, check=False,
        env={**writer.environment(tmp_path / "run"), "PYTHONPATH": str(tmp_path / "site")},
    )  # fmt: skip
    assert done.stdout.startswith(str(tmp_path / "site")), done.stderr
    assert len(writer.rings(tmp_path / "run")) == 1


def test_both_wheels_have_one_version() -> None:
    assert SDK_VERSION == VERSION


def test_the_whole_product_has_the_sdk_within_and_does_not_depend_on_it(root: Path) -> None:
    setuptools = pytest.importorskip("setuptools", reason="packages are found by setuptools")
    found = setuptools.find_packages(str(root / "src"))
    assert {"stepscope", "stepscope_sdk"} <= set(found)
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    assert '\nstepscope_sdk = ["py.typed"]' in project
    assert "stepscope-sdk" not in project.partition("[project.optional-dependencies]")[0]


def imported(path: Path) -> set[str]:
    """What is imported when the module is: a framework may be imported by what runs later."""
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10))
    found: set[str] = set()
    todo: list[ast.AST] = list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(str(node.module).split(".")[0])
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            todo += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            todo += ast.iter_child_nodes(node)
    return found


MODULES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_is_python_3_10_and_imports_the_standard_library_alone(path: Path) -> None:
    assert imported(path) <= {*sys.stdlib_module_names, "stepscope_sdk"}


def test_importing_brings_no_framework_and_little_else(tmp_path: Path) -> None:
    script = (
        "import sys; before = set(sys.modules); import stepscope_sdk; new = set(sys.modules) - before\n"
        "print(sorted({n.split('.')[0] for n in new} - set(sys.stdlib_module_names)))"
    )
    assert writer.run(script, tmp_path).stdout == "['stepscope_sdk']\n"


def test_the_sdk_runs_on_the_oldest_python_there_is(tmp_path: Path) -> None:
    named = shutil.which("python3.10")
    asked = [named or "", "-c", "import sys; print(sys.executable)"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False) if named else None
    if told is None or told.returncode != 0:
        pytest.skip("no Python 3.10 here; the syntax is checked all the same")
    python = told.stdout.strip()
    done = subprocess.run(
        [python, "-c", "import stepscope_sdk; m = stepscope_sdk.monitor(); m.begin_step(); print(m.is_on)"],
        env=writer.environment(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "True\n", done.stderr
