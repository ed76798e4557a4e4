"""A server's address as telemetry: which job is read is said where nobody chose it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from stepscope.model.batch import Marks
from stepscope.offline import diagnose
from tests.agent.made import marked
from tests.server.served import Asked, body_of, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Asked]:
    with serving() as asked:
        for n, job in enumerate(("llama", "vision", "gpt")):
            marks = marked([(0.1, 0.4)] * 30)
            renamed = [
                msgspec.structs.replace(each, identity={**each.identity, "job": job}, ring=f"{job}.ring")
                for each in marks
                if isinstance(each, Marks)
            ]
            body = body_of(*renamed, agent=f"a{n}")
            assert asked.ingest(body).status == 200
        yield asked


def _issues(server: Asked, job: str | None) -> list[str]:
    report = diagnose(telemetry=[f"http://127.0.0.1:{server.port}"], job=job)
    return [each.detail or "" for each in report.health.issues if each.code == "spool_jobs"]


def test_the_job_that_was_taken_and_those_that_were_not_are_named(server: Asked) -> None:
    (said,) = _issues(server, None)
    assert "was read; there are also" in said
    assert sum(job in said for job in ("llama", "vision", "gpt")) == 3
    assert said.endswith("choose by --job")


def test_nothing_is_said_where_a_job_was_chosen(server: Asked) -> None:
    assert _issues(server, "vision") == []
