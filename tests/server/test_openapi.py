"""The API answers as its own description says, whatever it is asked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope.server.app import description
from stepscope.server.limit import Limits
from tests.agent.made import event, marked, node_second
from tests.server.served import Asked, body_of, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Asked]:
    with serving(limits=Limits(requests_per_s=1e6, burst=10**9, poll_s=0.2)) as asked:
        assert asked.ingest(body_of(node_second(0), *marked([(0.1, 0.4)] * 5), event("x"))).status == 200
        yield asked


def test_the_committed_description_is_that_of_the_code(root: Path, server: Asked) -> None:
    committed = json.loads((root / "docs/reference/openapi.json").read_text(encoding="utf-8"))
    assert committed == description() == server.get("/openapi.json").json


def test_every_path_is_described_with_its_errors() -> None:
    for path, methods in description()["paths"].items():
        for method, told in methods.items():
            assert told["summary"], (path, method)
            assert told["tags"], (path, method)
            codes = set(told["responses"])
            assert {"400", "401", "403", "429"} <= codes, (path, method)
            if method in ("post", "put") and "501" not in codes:
                assert {"408", "413"} <= codes, (path, method)


PROBE = """
import sys, warnings
warnings.simplefilter("ignore")
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance, response_headers_conformance, response_schema_conformance,
    status_code_conformance,
)
from hypothesis import HealthCheck, Phase, given, settings

schemathesis.serializer.alias("application/vnd.stepscope.spool", "application/octet-stream")
checks = (not_a_server_error, content_type_conformance, response_headers_conformance,
          response_schema_conformance, status_code_conformance)
schema = schemathesis.openapi.from_url(sys.argv[1] + "/openapi.json").exclude(path="/api/v1/stream")
num = failed = 0
for result in schema.get_all_operations():
    operation = result.ok()
    for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
        @settings(max_examples=int(sys.argv[2]), deadline=None, database=None, derandomize=True,
                  phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=mode))
        def probe(case):
            global num
            num += 1
            answer = case.call(timeout=20)
            if answer.status_code == 501:
                return  # a part that this server runs without
            case.validate_response(answer, checks=checks)
        try:
            probe()
        except Exception as error:
            if "Unsatisfiable" in type(error).__name__:
                continue
            failed += 1
            print(operation.label, mode, type(error).__name__, str(error)[:1500])
            for each in getattr(error, "exceptions", ()):
                print("   ", type(each).__name__, str(each)[:1500])
print(f"{num} requests, {failed} operations failed")
sys.exit(failed > 0)
"""


def test_nothing_that_can_be_asked_breaks_it(server: Asked, record_property: Any) -> None:
    words = [sys.executable, "-c", PROBE, f"http://127.0.0.1:{server.port}", "2"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert server.lines == []
    record_property("shown", done.stdout.splitlines()[-1])
