"""Users glued to other words by `_`, and homes at any depth of a path."""

from __future__ import annotations

import pytest

from stepscope.model.redact import Pseudonyms, identities_in_text, identities_in_tree

KEY = b"a site's key"


def applied(text: str, **metadata: str) -> str:
    known = identities_in_tree(metadata) | identities_in_text(text)
    return Pseudonyms(KEY, known).apply(text)


STATED = (
    {"username": "annsmith"},
    {"user": "annsmith"},
    {"USER": "annsmith"},
    {"LOGNAME": "annsmith"},
    {"HOME": "/home/annsmith"},
    {"HOME": "/data/7/annsmith"},
    {"HOME": "/annsmith/"},
)


@pytest.mark.parametrize("metadata", STATED, ids=str)
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("run_annsmith.json", "run_{}.json"),
        ("annsmith_gemm", "{}_gemm"),
        ("a_annsmith_b", "a_{}_b"),
        ("annsmith-run.json", "{}-run.json"),
        ("_annsmith__annsmith_", "_{}__{}_"),
        ("of annsmith", "of {}"),
        ("annsmithson_gemm", "annsmithson_gemm"),
        ("xannsmith", "xannsmith"),
        ("annsmith2_gemm", "annsmith2_gemm"),
    ],
)
def test_a_stated_user_is_replaced_beside_an_underline(
    metadata: dict[str, str], text: str, shown: str
) -> None:
    name = Pseudonyms(KEY).name("user", "annsmith")
    found = applied(text, **metadata)
    assert found == shown.replace("{}", name)
    assert applied(found, **metadata) == found


@pytest.mark.parametrize(
    "home", ["/root", "/home/jovyan", "/", "/home/torch", "relative", "/work/data", "/workspace", "/app"]
)
@pytest.mark.parametrize(
    "text",
    ["data_gemm", "root_mean", "torch_kernel", "relative_attention", "workspace_bytes", "/workspace/a.py"],
)
def test_a_home_of_nobody_replaces_no_word(home: str, text: str) -> None:
    assert applied(text, HOME=home) == text


@pytest.mark.parametrize("depth", range(8))
@pytest.mark.parametrize("holder", ["home", "users", "Users"])
@pytest.mark.parametrize("first", ["tmp", "mnt", "opt", "work", "any", "srv", "root"])
def test_a_home_at_any_depth_names_a_user(first: str, holder: str, depth: int) -> None:
    path = "/".join(["", first, *(f"d{i}" for i in range(depth)), holder, "annsmith", "proj", "a.json"])
    found = applied(f"{path}: no such file")
    assert "annsmith" not in found
    assert found.startswith(path.partition("annsmith")[0])
    assert found.endswith("/proj/a.json: no such file")


@pytest.mark.parametrize(
    "path",
    [
        "/opt/conda/lib/python3.11/site-packages/app/home/feed/rank.py",
        "/workspace/app/users/views.py",
        "/workspace/app/users/models/views.py",
        "/work/src/home/feed/rank.py",
        "app/users/views/list.py",
    ],
)
def test_a_folder_of_code_is_no_home(path: str) -> None:
    assert applied(path) == path
