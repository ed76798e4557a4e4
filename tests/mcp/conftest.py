"""A server in a process of its own, and the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import eight_ranks, sample, stepscope

__all__ = ["eight_ranks", "folder", "sample", "stepscope"]
TIMEOUT_SECONDS = 120


@pytest.fixture
def folder(sample: Path, tmp_path: Path) -> Path:
    """A root with the sample in it, and a file beside the root."""
    root = tmp_path / "root"
    root.mkdir()
    shutil.copy(sample, root / "a.json.gz")
    shutil.copy(sample, tmp_path / "outside.json.gz")
    return root


class Agent:
    """What an agent does: calls tools and reads JSON."""

    def __init__(self, session: Any) -> None:
        self.session = session

    async def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer of a call that goes well."""
        result = await self.session.call_tool(tool, arguments)
        (content,) = result.content
        assert not result.is_error, content.text
        answer: dict[str, Any] = json.loads(content.text)
        return answer

    async def refused(self, tool: str, **arguments: Any) -> str:
        """The line of a call that does not."""
        result = await self.session.call_tool(tool, arguments)
        (content,) = result.content
        assert result.is_error, content.text[:300]
        assert len(content.text.splitlines()) == 1
        text: str = content.text
        return text


def talk(root: Path, conversation: Callable[[Agent], Awaitable[None]], *words: str) -> None:
    """Start a server with `--root` and hold a conversation with it."""
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "stepscope", "mcp", "--root", str(root), *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )

    async def run() -> None:
        async with Client(stdio_client(parameters)) as client:
            await asyncio.wait_for(conversation(Agent(client)), TIMEOUT_SECONDS)

    # In a thread of its own: a browser of another test may have left a loop running in this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(run())).result()
