"""What the documentation shows is what the program does."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
import shlex
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import msgspec
import pytest

import stepscope
from stepscope.analyse.variation import LEAST_STEPS
from stepscope.model import report
from stepscope.offline import diagnose
from tests.cli.conftest import run_process
from tests.sources.allocator import Allocator
from tools import make_docs

ROOT = make_docs.ROOT
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md")),
]


@pytest.mark.parametrize("path", make_docs.PAGES)
def test_a_generated_page_is_what_the_code_makes(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == make_docs.PAGES[path](), "run `make docs`"


def test_a_page_of_a_rule_that_is_no_more_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_docs.left_over() == []
    kept = {path: make for path, make in make_docs.PAGES.items() if not path.endswith("/hidden-sync.md")}
    monkeypatch.setattr(make_docs, "PAGES", kept)
    assert make_docs.left_over() == [ROOT / "docs/rules/hidden-sync.md"]


PARTS = [
    part
    for part in vars(report).values()
    if isinstance(part, type)
    and issubclass(part, msgspec.Struct)
    and not part.__name__.startswith("_")
    and part.__module__.startswith(report.__name__)
    and part is not report.base.Part
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_field_of_the_report_has_a_meaning(part: type[msgspec.Struct]) -> None:
    said = make_docs.meanings(part)
    assert list(said) == [field.name for field in msgspec.structs.fields(part)]
    assert all(meaning.endswith(".") for meaning in said.values())


def emitted_codes() -> set[str]:
    """Health codes that the sources write out: of an issue, or of a loss that becomes one."""
    found = set()
    for path in Path(stepscope.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if name in ("Issue", "Loss", "HealthIssue"):
                given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "code")]
                found |= {
                    part.value
                    for code in given
                    for part in ast.walk(code)
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                }
    return found


def test_every_health_code_that_is_emitted_is_documented() -> None:
    page = (ROOT / "docs/reference/health.md").read_text(encoding="utf-8")
    heads = re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE)
    documented = {code for head in heads for code in re.findall(r"`(\w+)`", head)}
    assert {"unit_suspect", "rule_broken", "rank_missing", "truncated"} <= emitted_codes()
    assert emitted_codes() <= documented


def test_every_option_of_diagnose_is_documented_with_its_default() -> None:
    page = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| `(\w+)=([^`]*)` \|", page, re.MULTILINE))
    options = {
        name: parameter.default
        for name, parameter in inspect.signature(diagnose).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert list(shown) == list(options)
    for name, value in shown.items():
        # An example stands where the default is to leave the option out.
        assert (
            value in (repr(options[name]), repr(options[name]).replace("'", '"')) or options[name] is None
        ), name


def commands(path: str) -> list[str]:
    """The `stepscope` lines in a page's shell blocks, without their comments."""
    text = (ROOT / path).read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    return [
        line.split("  #")[0].strip() for line in lines if "stepscope " in line and not line.startswith("make")
    ]


@pytest.mark.parametrize(
    ("path", "command"),
    [
        (path, command)
        for path in ("README.md", "docs/tutorial.md", *(p for p in PAGES if p.startswith("docs/how-to")))
        for command in commands(path)
    ],
)
def test_a_command_in_the_documentation_works(path: str, command: str, tmp_path: Path) -> None:
    sample = ROOT / "src/stepscope/demo/demo.pt.trace.json.gz"
    shutil.copy(sample, tmp_path / "trace.json.gz")
    (tmp_path / "traces").mkdir()
    shutil.copy(sample, tmp_path / "traces")
    (tmp_path / "site.toml").write_text("[input-starvation]\nidle_input_share = 0.05\n")
    (tmp_path / "site.key").write_text("key")
    (tmp_path / "snapshot.pickle").write_bytes(pickle.dumps(Allocator(1 << 30).snapshot_of(1 << 20)))
    script = command.replace("stepscope ", f"{shlex.quote(sys.executable)} -m stepscope ", 1)
    done = run_process(["bash", "-c", script], cwd=tmp_path)
    # `--fail-on critical` is there to end with 1: the sample's stall is critical.
    assert done.code == (1 if "--fail-on" in command else 0), done.err


def test_the_documentation_has_commands_to_run() -> None:
    assert [c.split()[1] for c in commands("README.md")] == ["diagnose", "diagnose"]
    assert [c.split()[1] for c in commands("docs/tutorial.md")] == ["demo", "explain", "diagnose", "demo"]


def test_the_first_command_of_the_readme_works() -> None:
    if not (ROOT / ".venv/.stamp").exists() or shutil.which("make") is None:
        pytest.skip("not set up by make: run `make test`")
    done = run_process(
        ["make", "--no-print-directory", "demo"], cwd=ROOT, env={"MAKEFLAGS": "", "MAKELEVEL": ""}
    )
    assert done.code == 0, done.err
    assert "input-starvation" in done.out
    assert "torch" in done.out or "a real loop on this CPU" in done.out


@pytest.mark.parametrize("page", PAGES)
def test_a_link_in_the_documentation_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), target


def named_places(text: str, places: list[Path]) -> list[str]:
    """Which of these folders of one machine a text names."""
    return [str(place) for place in places if len(place.parts) > 2 and f"{place}" in text]


def places_of_this_machine(root: Path) -> list[Path]:
    """Where this checkout lies, what lies beside it, and who works on it."""
    return [root, *(path for path in root.parent.iterdir() if path.is_dir()), Path.home() / "."]


def test_a_text_that_names_this_machine_is_found(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "beside").mkdir()
    places = places_of_this_machine(tmp_path / "here")
    assert named_places(f"see {tmp_path}/beside/data", places) == [str(tmp_path / "beside")]
    assert named_places("see /usr/bin and ../beside/data", places) == []


def test_nothing_committed_names_a_machine(root: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    if root.parent in (Path("/usr"), Path("/usr/src"), Path("/opt"), Path("/home"), Path("/tmp")):
        pytest.skip("this checkout lies where many things do")
    places = places_of_this_machine(root)
    for name in listed.stdout.splitlines():
        path = root / name
        if path.suffix in (".gz", ".zst", ".bin") or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        assert named_places(text, places) == [], name


def test_the_recording_of_the_tutorial_makes_one_file_and_needs_no_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The recipe is run against a stand-in for torch that notes what it is asked for."""
    text = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    asked: dict[str, Any] = {}

    class Profile:
        def __init__(self, **options: Any) -> None:
            asked.update(options, steps=0)

        def __enter__(self) -> Profile:
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def step(self) -> None:
            asked["steps"] += 1

    profiler = types.ModuleType("torch.profiler")
    vars(profiler).update(
        ProfilerActivity=types.SimpleNamespace(CPU="cpu", CUDA="cuda"),
        profile=Profile,
        schedule=lambda **options: options,
        tensorboard_trace_handler=lambda folder, use_gzip: folder,
    )
    for has_cuda in (False, True):
        torch = types.ModuleType("torch")
        vars(torch).update(
            profiler=profiler, cuda=types.SimpleNamespace(is_available=lambda has=has_cuda: has)
        )
        monkeypatch.setitem(sys.modules, "torch", torch)
        monkeypatch.setitem(sys.modules, "torch.profiler", profiler)
        exec(recipe, {"loader": range(60), "train_one_step": lambda batch: None})
        assert asked["activities"] == (["cpu", "cuda"] if has_cuda else ["cpu"])
        assert asked["schedule"]["repeat"] == 1
        assert asked["schedule"]["active"] >= LEAST_STEPS
        total = sum(asked["schedule"][name] for name in ("wait", "warmup", "active"))
        assert f"wait + warmup + active = {total} batches" in text
        assert asked["steps"] == 60


def test_the_shown_output_is_what_a_pipe_gives() -> None:
    script = f"env -u COLUMNS -u NO_COLOR {shlex.quote(sys.executable)} -m stepscope demo </dev/null | cat"
    piped = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    shown = re.search(
        r"output of: stepscope demo -->\n```text\n(.*?)```", (ROOT / "README.md").read_text(), re.S
    )
    assert shown is not None
    assert [line.rstrip() for line in piped.stdout.splitlines()] == shown[1].splitlines()
