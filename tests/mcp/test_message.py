"""Lines that are no message: who sent them is answered, under the id that they bear."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.mcp.message import id_of
from tests.mcp.test_protocol import HELLO, PIPES, READY, lines

DEEP = "[" * 5000 + "]" * 5000


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"id":7,"params":"\\ud800"}', 7),
        ('{"params":{"id":1,"x":[{"id":2}]},"id":"a-7"}', "a-7"),
        ('{"params":' + DEEP + ',"id":9}', 9),
        ('{"method":"id","id":3}', 3),
        ('{"x":"\\"id\\":4,","id":5}', 5),
        ('{ "id" : 6', 6),
        ('{"params":{"id":1}}', None),
        ('{"id":null}', None),
        ('{"id":true}', None),
        ('{"id":1.5}', None),
        ('{"id":{"id":1}}', None),
        ('{"id":"\\ud800"}', None),
        ('[{"id":1}]', None),
        ("no json", None),
        ("", None),
    ],
)
def test_the_id_of_a_line(line: str, expected: int | str | None) -> None:
    assert id_of(line) == expected


LEAF = st.none() | st.booleans() | st.integers() | st.text()
JSON = st.recursive(LEAF, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@given(st.dictionaries(st.text(), JSON), st.integers() | st.text(st.characters(exclude_categories=["Cs"])))
def test_the_id_is_what_a_parser_finds(message: dict[str, Any], number: int | str) -> None:
    assert id_of(json.dumps({**message, "id": number})) == number


def call(number: int, arguments: str, name: str = "diagnose") -> bytes:
    params = f'{{"name":"{name}","arguments":{arguments}}}'
    return f'{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{params}}}\n'.encode()


UNREAD = (
    call(10, '{"paths":["\\ud800"]}'),
    call(11, '{"paths":["\\udfff\\ud800"]}'),
    call(12, f'{{"paths":{DEEP}}}'),
    call(13, "{}", name="\\udfff"),
    call(14, '{"rule":"\\ud800"}', name="explain"),
    call(15, "{nope}"),
    b'{"jsonrpc":"2.0","id":16,"method":7}\n',
    b'{"jsonrpc":"1.0","id":17,"method":"tools/list"}\n',
    b'{"id":18,"method":"tools/list"}\n',
    b'{"jsonrpc":"2.0","id":19,"method":"tools/list","params":[]}\n',
)
ANSWERED = (
    call(20, '{"paths":["\xff.json"]}'),
    call(21, f'{{"paths":{"[" * 100 + "]" * 100}}}'),
    call(22, '{"paths":["\\u0000\\ud83d\\ude00"]}'),
    call(23, '{"paths":["a.json.gz"],"rank":1e400}'),
)


def test_every_call_is_answered_whatever_is_wrong_with_its_line(folder: Path) -> None:
    words = [sys.executable, "-m", "stepscope", "mcp"]
    with subprocess.Popen(words, cwd=folder, **PIPES) as process:
        process.stdin.write(lines(HELLO, READY))
        process.stdin.flush()
        process.stdout.readline()
        for sent in (*UNREAD, *ANSWERED):
            process.stdin.write(sent)
            process.stdin.flush()
            told = json.loads(process.stdout.readline())
            assert told["id"] == id_of(sent.decode()), sent[-80:]
            assert ("error" in told) if sent in UNREAD else told["result"]["isError"]
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(20) == 0
