"""The server as an agent sees it: over real pipes, with the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stepscope.mcp.answer import MAX_TOKENS, num_tokens
from stepscope.mcp.tool import TOOLS
from tests.mcp.conftest import Agent, talk

pytest.importorskip("mcp")


def test_the_tools_are_listed_as_read_only_with_their_arguments(folder: Path) -> None:
    async def conversation(agent: Agent) -> None:
        listed = (await agent.session.list_tools()).tools
        assert [tool.name for tool in listed] == [tool.name for tool in TOOLS]
        assert [tool.name for tool in listed] == [
            "diagnose", "findings", "evidence", "explain", "doctor", "query",
        ]  # fmt: skip
        for tool in listed:
            assert tool.annotations.read_only_hint
            assert tool.input_schema["additionalProperties"] is False

    talk(folder, conversation)


def test_the_next_calls_lead_through_every_tool(folder: Path) -> None:
    async def conversation(agent: Agent) -> None:
        seen: set[str] = set()
        waiting: list[dict[str, Any]] = [{"tool": "diagnose", "arguments": {"paths": ["a.json.gz"]}}]
        while waiting:
            step = waiting.pop(0)
            if step["tool"] in seen:
                continue
            seen.add(step["tool"])
            answer = await agent.ask(step["tool"], **step["arguments"])
            assert num_tokens(answer) <= MAX_TOKENS
            assert answer["next"]
            waiting += answer["next"]
        assert seen == {tool.name for tool in TOOLS}

    talk(folder, conversation)


def test_the_sample_is_diagnosed_with_ids_costs_and_what_is_withheld(folder: Path) -> None:
    async def conversation(agent: Agent) -> None:
        answer = await agent.ask("diagnose", paths=["."])
        assert answer["verdict"]["class"] == "waiting-for-data"
        (card,) = answer["cards"]
        assert (card["id"], card["severity"]) == ("input-starvation", "critical")
        assert "num_workers" in card["change"]
        finding = card["findings"][0]
        shown = await agent.ask("evidence", report=answer["report"], finding=finding)
        (share,) = [each for each in shown["evidence"] if each["feature"] == "idle_input_share"]
        assert share["threshold"] == ">= 10.0 %"
        assert 0.25 < share["value"] < 0.40
        rows = await agent.ask(
            "query",
            report=answer["report"],
            table="steps",
            columns=["step", "dur_ns", "use"],
            where=[
                {"column": "step", "op": ">=", "value": 12},
                {"column": "use", "op": "=", "value": "counted"},
            ],
            order_by="dur_ns",
            descending=True,
            limit=2,
        )
        assert rows["columns"] == ["step", "dur_ns", "use"]
        assert rows["matched"] == 4
        assert len(rows["rows"]) == 2
        assert rows["rows"][0][1] >= rows["rows"][1][1]
        chinese = await agent.ask("diagnose", paths=["a.json.gz"], lang="zh")
        assert any("\u4e00" <= char <= "\u9fff" for char in chinese["verdict"]["text"])
        assert num_tokens(chinese) <= MAX_TOKENS

    talk(folder, conversation)


HOSTILE: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("diagnose", {}, "diagnose: paths is missing"),
    ("diagnose", {"paths": []}, "0 items; give 1 to 64"),
    ("diagnose", {"paths": "a.json.gz"}, "give array, not str"),
    ("diagnose", {"paths": [7]}, "diagnose.paths[0]: give string, not int"),
    ("diagnose", {"paths": ["a.json.gz"] * 65}, "65 items"),
    ("diagnose", {"paths": ["x" * 5000]}, "a text of 5000 characters"),
    ("diagnose", {"paths": ["../outside.json.gz"]}, "outside of the folders that may be read"),
    ("diagnose", {"paths": ["/etc/passwd"]}, "outside of the folders that may be read"),
    ("diagnose", {"paths": ["/no/such/file"]}, "outside of the folders that may be read"),
    ("diagnose", {"paths": ["link.json.gz"]}, "outside of the folders that may be read"),
    ("diagnose", {"paths": ["linked/outside.json.gz"]}, "outside of the folders that may be read"),
    ("diagnose", {"paths": ["linked/*.gz"]}, "outside of the folders that may be read"),
    ("diagnose", {"paths": ["link*/outside.json.gz"]}, "only links there that lead out of"),
    ("diagnose", {"paths": ["link*/nothing.json.gz"]}, "only links there that lead out of"),
    ("diagnose", {"paths": ["*/../../*.gz"]}, "a pattern may not hold '..'"),
    ("diagnose", {"paths": ["http://127.0.0.1:9/a.json"]}, "no path of a file here"),
    ("diagnose", {"paths": ["file:///etc/passwd"]}, "no path of a file here"),
    ("diagnose", {"paths": ["nothing.json"]}, "no trace there"),
    ("diagnose", {"paths": ["a\0.json"]}, "no path of a file here"),
    ("diagnose", {"paths": ["pipe.json"]}, "is no regular file"),
    ("diagnose", {"paths": ["a.json.gz"], "steps": [9, 5]}, "the first is after the last"),
    ("diagnose", {"paths": ["a.json.gz"], "steps": [900, 901]}, "no step from 900 to 901"),
    ("diagnose", {"paths": ["a.json.gz"], "rank": -1}, "give 0 to"),
    ("diagnose", {"paths": ["a.json.gz"], "rank": True}, "give integer, not bool"),
    ("diagnose", {"paths": ["a.json.gz"], "lang": "fr"}, "give one of en, zh"),
    ("diagnose", {"paths": ["a.json.gz"], "output": "x"}, "no argument 'output'"),
    ("findings", {"report": "r-0000000000"}, "call diagnose"),
    ("evidence", {"report": "HANDLE", "finding": "nobody"}, "there are: input-starvation:"),
    ("explain", {"rule": "input-starvatoin"}, "did you mean input-starvation?"),
    ("query", {"report": "HANDLE", "table": "spans"}, "give one of accounting,"),
    ("query", {"report": "HANDLE", "table": "steps", "limit": 10**9}, "give 1 to 50"),
    ("query", {"report": "HANDLE", "table": "steps", "limit": 0}, "give 1 to 50"),
    (
        "query",
        {"report": "HANDLE", "table": "steps", "columns": ["step", "1; drop"]},
        "there are: rank, step",
    ),
    ("query", {"report": "HANDLE", "table": "steps", "order_by": "__class__"}, "no column '__class__'"),
    (
        "query",
        {"report": "HANDLE", "table": "steps", "where": [{"column": "step", "op": "=", "value": "x"}]},
        "step is a integer",
    ),
    (
        "query",
        {"report": "HANDLE", "table": "steps", "where": [{"column": "step", "op": "like", "value": 1}]},
        "give one of =",
    ),
    (
        "query",
        {"report": "HANDLE", "table": "steps", "where": [{"column": "step", "op": "="}]},
        "value is missing",
    ),
    ("run", {}, "no tool 'run'"),
)


def test_hostile_arguments_get_one_line_and_the_server_goes_on(folder: Path) -> None:
    (folder / "link.json.gz").symlink_to(folder.parent / "outside.json.gz")
    (folder / "linked").symlink_to(folder.parent)
    os.mkfifo(folder / "pipe.json")

    async def conversation(agent: Agent) -> None:
        handle = (await agent.ask("diagnose", paths=["a.json.gz"]))["report"]
        for tool, arguments, line in HOSTILE:
            given = {key: handle if value == "HANDLE" else value for key, value in arguments.items()}
            told = await agent.refused(tool, **given)
            assert line in told, (tool, arguments, told)
            assert str(folder.parent) not in told
        assert (await agent.ask("diagnose", paths=["a.json.gz"]))["report"] == handle

    talk(folder, conversation)


def test_calls_at_the_same_time_each_get_their_own_answer(folder: Path, eight_ranks: Path) -> None:
    for each in eight_ranks.glob("*.gz"):
        shutil.copy(each, folder)

    async def conversation(agent: Agent) -> None:
        asked = [agent.ask("diagnose", paths=[f"rank{rank}.json.gz"]) for rank in range(8)]
        again = [agent.ask("diagnose", paths=["rank0.json.gz"]) for _ in range(4)]
        answers = await asyncio.gather(*asked, *again, agent.ask("explain", rule="late-start"))
        assert [answer["time"][0]["rank"] for answer in answers[:8]] == list(range(8))
        assert {answer["report"] for answer in answers[8:12]} == {answers[0]["report"]}

    talk(folder, conversation)


def test_a_file_that_changed_is_read_again(folder: Path, eight_ranks: Path) -> None:
    async def conversation(agent: Agent) -> None:
        first = await agent.ask("diagnose", paths=["a.json.gz"])
        shutil.copy(eight_ranks / "rank3.json.gz", folder / "a.json.gz")
        second = await agent.ask("diagnose", paths=["a.json.gz"])
        assert first["report"] != second["report"]
        assert second["time"][0]["rank"] == 3

    talk(folder, conversation)


HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    },
}  # fmt: skip
CALL = {
    "jsonrpc": "2.0", "id": 2, "method": "tools/call",
    "params": {"name": "diagnose", "arguments": {"paths": ["a.json.gz"]}},
}  # fmt: skip
PIPES: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def lines(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def test_stdout_carries_the_protocol_only_and_the_end_of_stdin_ends_it(folder: Path) -> None:
    words = [sys.executable, "-m", "stepscope", "mcp"]
    with subprocess.Popen(words, cwd=folder, **PIPES) as process:
        process.stdin.write(lines(HELLO, READY, CALL) + b"no json\n")
        process.stdin.flush()
        ids = {json.loads(process.stdout.readline()).get("id") for _ in range(2)}
        assert ids == {1, 2}
        process.stdin.close()
        rest = process.stdout.read()
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
        assert process.wait(20) == 0
        assert b"Traceback" not in process.stderr.read()


def test_a_long_call_does_not_hold_up_the_end(folder: Path) -> None:
    script = (
        "import sys, time\nfrom stepscope import offline\n"
        "def slow(*words, **more):\n    print('started', file=sys.stderr, flush=True)\n    time.sleep(60)\n"
        "offline.diagnosed = slow\n"
        "from stepscope.cli import main\nsys.exit(main(['mcp']))\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=folder, **PIPES) as process:
        process.stdin.write(lines(HELLO, READY, CALL))
        process.stdin.flush()
        assert process.stderr.readline() == b"started\n"
        began = time.monotonic()
        process.stdin.close()
        assert process.wait(30) == 0
        assert time.monotonic() - began < 20
