"""A trace's text without secrets: still JSON, and the same to the loader but for what was a secret."""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stepscope.model.error import InputError
from stepscope.model.redact import trace_without_secrets
from stepscope.model.trace import Trace
from stepscope.trace.limits import Limits
from stepscope.trace.load import load_bytes
from stepscope.trace.packed import packed, unpacked
from stepscope.trace.secret import SecretsRemoved

GITHUB = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
PASSWORD = "correct-horse-7battery"
SECRETS = (GITHUB, PASSWORD)


def cleaned(text: bytes, size: int = 1 << 20) -> tuple[bytes, int]:
    made = SecretsRemoved(text[at : at + size] for at in range(0, len(text), size))
    return b"".join(made), made.num


def event(name: str = "aten::mm", **args: Any) -> dict[str, Any]:
    made = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 7, "tid": 8, "ts": 1000.25, "dur": 3.125}
    return made | {"args": args}


names = st.text(st.characters(codec="utf-8"), max_size=12)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | names,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(names, inside, max_size=3),
    max_leaves=6,
)
secret = st.sampled_from((
    {"token": GITHUB}, {"cmd": f"git clone https://me:{PASSWORD}@host/x"}, {"argv": ["--password", PASSWORD]},
    {"environ": {"HOME": "/root", "DB_PASSWORD": PASSWORD}}, {"api_key": GITHUB, "n": 3},
    {"nested": [{"Authorization": f"Bearer {GITHUB}"}]},
))  # fmt: skip
events = st.lists(
    st.builds(
        lambda name, args, held, ts, dur: event(name, **{**args, **(held or {})}) | {"ts": ts, "dur": dur},
        names, st.dictionaries(st.sampled_from(("Input Dims", "Ev Idx", "shape", "text")), plain),
        st.none() | secret,
        st.integers(0, 10**9), st.integers(0, 10**6),
    ),
    min_size=1, max_size=6,
)  # fmt: skip
members = st.dictionaries(names.filter(lambda name: name != "traceEvents"), plain | secret, max_size=3)


@settings(max_examples=60, deadline=None)
@given(events, members, members, st.sampled_from((None, 1)), st.integers(1, 400), st.booleans())
@example([event("x", token=GITHUB)], {}, {}, None, 1, True)
def test_the_loader_makes_the_same_of_it_but_for_the_secrets(
    rows: list[dict[str, Any]], front: dict[str, Any], behind: dict[str, Any], indent: int | None, size: int,
    is_ascii: bool,
) -> None:  # fmt: skip
    whole = {**front, "baseTimeNanoseconds": 1_700_000_000_000_000_000, "traceEvents": rows} | {
        key: value for key, value in behind.items() if key not in front
    }
    text = json.dumps(whole, indent=indent, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    made, num = cleaned(text, size)
    json.loads(made)
    assert not any(each.encode() in made for each in SECRETS)
    if not any(each.encode() in text for each in SECRETS) and num == 0:
        assert made == text
    assert cleaned(made, size) == (made, 0)  # and there is nothing left to do
    was, _, _ = trace_without_secrets(load_bytes(text, "t"))
    now, more, _ = trace_without_secrets(load_bytes(made, "t"))
    assert more == 0
    assert list(numbers(now)) == list(numbers(was))
    assert not any(each in str(strings(now)) for each in SECRETS)


def numbers(trace: Trace) -> Iterator[tuple[str, list[Any]]]:
    """Every column of numbers, without ids of texts: these are counted anew where texts became one."""
    for part in ("spans", "correlations", "ops", "python", "gpu", "flows", "instants", "memory"):
        for column in dataclasses.fields(getattr(trace, part)):
            values = getattr(getattr(trace, part), column.name)
            if isinstance(values, np.ndarray) and not column.name.endswith("_id"):
                yield f"{part}.{column.name}", values.tolist()


def strings(trace: Trace) -> list[Any]:
    return [trace.names, trace.cats, trace.texts, dict(trace.metadata)]


def test_what_holds_no_secret_stays_byte_for_byte_and_numbers_keep_their_digits() -> None:
    rows = (
        b'{"a" : 1.50, "traceEvents": [ {"ts": 1700000000000000.1250, "name": "x"} ,\n'
        b'{"ts":1e3}] , "z":[ ]}\n'
    )
    assert cleaned(rows, 3) == (rows, 0)
    one = b'{"traceEvents": [{"ts": 1700000000000000.1250, "token": "%s"},{"ts":1E3}]}' % GITHUB.encode()
    made, num = cleaned(one, 5)
    assert num == 1
    assert made == (
        b'{"traceEvents": [{"ts": 1700000000000000.1250, "token": "[secret-removed]"},{"ts":1E3}]}'
    )


@pytest.mark.parametrize(
    "text",
    [
        f'{{"traceEvents": [{{"name": "a"}}, {{"name": oops, "token": "{GITHUB}"}}, ',
        f'{{"a": "token={GITHUB}',
        f"no json at all, password={PASSWORD}",
        "[" * 50_000 + f' "token={GITHUB}"',
        f'{{"traceEvents": [1] extra token={GITHUB}',
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_of_damaged_text_no_secret_comes_out_either(text: str, size: int) -> None:
    made, num = cleaned(text.encode(), 4096 if len(text) > 1000 and size == 1 else size)
    assert num >= 1
    assert not any(each.encode() in made for each in SECRETS)


def test_bytes_that_are_no_utf_8_come_out_as_they_went_in() -> None:
    text = b'{"traceEvents": [{"name": "\xff\xfe caf\xc3\xa9"}], "x": "\xed\xa0\x80"}'
    assert cleaned(text, 1) == (text, 0)


# ── packing ──


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=5000), st.integers(1, 700), st.integers(1, 4))
def test_text_comes_out_of_gzip_in_chunks_of_any_size_and_of_several_members(
    text: bytes, size: int, num: int
) -> None:
    body = gzip.compress(text) * num
    chunks = (body[at : at + size] for at in range(0, len(body), size))
    assert b"".join(unpacked(chunks, "t")) == text * num
    assert gzip.decompress(b"".join(packed([text] * num))) == text * num


def test_text_that_is_not_packed_is_taken_as_it_is() -> None:
    assert b"".join(unpacked([b"{", b'"a": 1}'], "t")) == b'{"a": 1}'


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (gzip.compress(b"x" * 1000)[:-9], "breaks off"),
        (gzip.compress(b"x" * 1000)[:10] + b"\x07" * 50, "damaged gzip"),
        (gzip.compress(b"0" * (40 << 20), 9), "too much text for its size"),
    ],
    ids=[str(n) for n in range(3)],
)
def test_gzip_that_is_cut_damaged_or_a_bomb_is_refused(body: bytes, what: str) -> None:
    limits = Limits(ratio_from=1 << 20)
    with pytest.raises(InputError, match=what):
        for _ in unpacked(_in_chunks(body), "t", limits):
            pass


def _in_chunks(body: bytes) -> Iterable[bytes]:
    return (body[at : at + 100] for at in range(0, len(body), 100))
