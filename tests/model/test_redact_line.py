"""A secret that goes over several lines is taken out of each, however the lines come."""

from __future__ import annotations

import base64
import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.model import redact
from stepscope.model.redact import SECRET, Open, lines_without_secrets, without_secrets

BODY = base64.b64encode(random.Random(3).randbytes(48 * 6)).decode()
KEY = [
    "-----BEGIN RSA PRIVATE KEY-----",
    *(BODY[n : n + 64] for n in range(0, len(BODY), 64)),
    "c2hvcnQ=",
    "-----END RSA PRIVATE KEY-----",
]
LOG = ["step 1 loss 2.5", *KEY, "export DB_PASSWORD=\\", "  bluebird9 && run", "step 2 loss 2.4"]


@settings(max_examples=30, deadline=None)
@given(cuts=st.sets(st.integers(1, len(LOG) - 1)))
def test_lines_are_cleaned_alike_however_they_are_shipped(cuts: set[int]) -> None:
    state, told = Open(), []
    edges = [0, *sorted(cuts), len(LOG)]
    for begin, end in itertools.pairwise(edges):
        told += lines_without_secrets(LOG[begin:end], state)[0]
    assert told == [
        "step 1 loss 2.5", *[SECRET] * len(KEY), "export DB_PASSWORD=\\", f"  {SECRET} && run",
        "step 2 loss 2.4",
    ]  # fmt: skip


def test_full_lines_of_a_key_whose_first_line_was_lost_go() -> None:
    assert lines_without_secrets([KEY[2], "a" * 64, "f0" * 32], Open())[0] == [SECRET, "a" * 64, "f0" * 32]


def test_a_key_that_never_ends_does_not_take_the_rest_of_the_log() -> None:
    lines = [KEY[0], *["step 3 loss 2.3"] * 300]
    assert lines_without_secrets(lines, Open())[0][-1] == "step 3 loss 2.3"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("export DB_PASSWORD=\\\nbluebird9 ok", f"export DB_PASSWORD=\\\n{SECRET} ok"),
        ("GET /?password%3Dbluebird9 HTTP", f"GET /?password%3D{SECRET} HTTP"),
        ("q=api_key%253Dbluebird9", f"q=api_key%253D{SECRET}"),
        ("api_key: !!str bluebird9", f"api_key: !!str {SECRET}"),
        ("token: &a !<tag:yaml.org,2002:str> 'bluebird9'", f"token: &a !<tag:yaml.org,2002:str> '{SECRET}'"),
        ("password: |\n  bluebird9\nlr: 3", f"password: |\n  {SECRET}\nlr: 3"),
        ("/etc/passwd: no JSON", "/etc/passwd: no JSON"),
        ("/etc/passwd: nothing in it", "/etc/passwd: nothing in it"),
    ],
)  # fmt: skip
def test_what_stands_between_a_name_and_its_secret_does_not_hide_it(text: str, clean: str) -> None:
    assert without_secrets(text)[0] == clean
    assert without_secrets(clean) == (clean, 0)


def test_the_word_behind_a_bare_p_goes_where_it_looks_like_a_password() -> None:
    argv = ["train.py", "-p", "bluebird9", "-p", "8080", "-p", "bf16", "-p", "./data/part9", "-p", "debug"]
    clean, count = redact.tree_without_secrets({"argv": argv})
    assert (clean["argv"], count) == ([*argv[:2], SECRET, *argv[3:]], 1)
    assert redact.tree_without_secrets(["srun", "-p", "gpu-a100"]) == (["srun", "-p", "gpu-a100"], 0)
