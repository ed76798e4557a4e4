"""The whole server as people run it: a process, its folder, an agent's bodies, questions, an end in order."""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import subprocess
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepscope.cli import main
from stepscope.model.batch import Happened, Lines, Marks
from stepscope.sources.formats.frame import CONTENT_TYPE
from tests.agent.made import HOST, START_NS, device, job, marked, node_second, samples, series
from tests.server.process import Process, server
from tests.server.served import body_of

pytest.importorskip("duckdb")
SECRETS = (
    "hunter2-in-a-line", "hunter2-in-a-label", "hunter2-in-an-event", "hunter2-in-a-mark",
    "hunter2-in-a-url", "hunter2-in-a-name", "hunter2-in-a-query", "hunter2-in-a-header",
    "hunter2-in-a-path", "hunter2-in-a-note", "hunter2-in-a-ring", "hunter2-in-a-trace", "hunter2-as-a-token",
)  # fmt: skip


def verb(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """One command in this process: (exit code, standard output, standard error)."""
    code = main(words)
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def whole_body(start_ns: int = START_NS) -> bytes:
    shift = start_ns - START_NS
    batches: list[Any] = [node_second(n) for n in range(3)]
    batches = [
        msgspec.structs.replace(
            each,
            series=[msgspec.structs.replace(s, at_ns=[at + shift for at in s.at_ns]) for s in each.series],
        )
        for each in batches
    ]
    return body_of(*batches, *marked([(0.3, 0.7)] * 40, start_ns=start_ns))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with server(tmp_path_factory.mktemp("served")) as process:
        status, said = process.post(
            "/api/v1/ingest", whole_body(time.time_ns() - 60 * 10**9), Content_Type=CONTENT_TYPE
        )
        assert (status, json.loads(said)["seq"]) == (200, 4), said
        yield process


def test_it_says_where_it_is_and_what_to_do_next(running: Process) -> None:
    lines = running.out.read_text().splitlines()
    assert lines[-1] == f"Next: stepscope agent --server {running.url} --spool spool"
    assert running.json("/-/ready") == {"is_ready": True}


def test_what_was_shipped_is_there_to_be_asked_for(running: Process) -> None:
    assert [each["job"] for each in running.json("/api/v1/jobs")["items"]] == ["llama"]
    assert len(running.json("/api/v1/devices")["items"]) == 8
    lines = running.json("/api/v1/series?signal=power_watts&signal=step_seconds&start=now-1h&job=llama")[
        "lines"
    ]
    assert {each["signal"] for each in lines} == {"power_watts", "step_seconds"}
    steps = running.json("/api/v1/steps?job=llama")["ranks"][0]
    assert steps["step"] == list(range(40)) or steps["step"] == list(range(39))
    packed = running.get("/api/v1/jobs", Accept="application/vnd.msgpack")
    assert msgspec.msgpack.decode(packed) == running.json("/api/v1/jobs")


def test_an_answer_that_is_known_is_not_sent_again(running: Process) -> None:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", int(running.url.rpartition(":")[2]), timeout=30)
    connection.request("GET", "/api/v1/rules", headers={"Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    body = answer.read()
    assert answer.getheader("Content-Encoding") == "gzip"
    assert len(json.loads(gzip.decompress(body))["items"]) > 50
    connection.request("GET", "/api/v1/rules", headers={"If-None-Match": answer.getheader("ETag") or ""})
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (304, b"")
    connection.close()


def test_diagnose_reads_the_server_as_it_reads_a_spool(
    running: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("diagnose", "--telemetry", running.url, "--job")
    code, out, err = verb(capsys, *words, "llama", "--format", "json")
    assert code in (0, 1), err
    report = json.loads(out)
    assert report["inputs"][0]["name"] == running.url
    assert "error" not in report["inputs"][0]
    assert len(report["steps"]) >= 39
    assert "window.spool" not in out
    code, _, err = verb(capsys, *words, "no-such-job")
    assert code == 3
    assert "no job of that id" in err
    code, _, err = verb(capsys, "diagnose", "--telemetry", "http://127.0.0.1:1")
    assert code != 0
    assert "cannot be reached" in err


def test_samples_are_exported_through_the_server(
    running: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import duckdb

    words = ("export", "samples", running.url, "--job", "llama", "-o")
    assert verb(capsys, *words, str(tmp_path / "x.csv"), "--no-redact")[0] == 0
    lines = (tmp_path / "x.csv").read_text().splitlines()
    assert lines[0] == "at_ns,host,kind,device,pid,name,job,run,rank,signal,unit,value"
    assert len(lines) == 1 + 3 * 8 * 40
    assert all(f",{HOST},device,GPU-" in line and ",llama,r1," in line for line in lines[1:])
    code, _, err = verb(capsys, *words, str(tmp_path / "x.parquet"))
    assert code == 0, err
    found = duckdb.sql(f"SELECT count(*), count(DISTINCT device), min(host) FROM '{tmp_path}/x.parquet'")
    count, devices, host = found.fetchall()[0]
    assert (count, devices) == (960, 8)
    assert HOST not in host


def test_the_metrics_are_as_promtool_wants_them(running: Process) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool here (Debian: apt install prometheus)")
    done = subprocess.run(
        [promtool, "check", "metrics"], input=running.get("/metrics"), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == b""


def test_a_folder_has_one_server_and_a_port_one_listener(
    running: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(running.out.parent / "data")
    code, _, err = verb(capsys, "serve", "--data", data, "--port", "0")
    assert code == 5, err
    assert len(err.splitlines()) == 1
    code, _, err = verb(capsys, "serve", "--data", f"{data}-2", "--port", running.url.rpartition(":")[2])
    assert code == 2
    assert "listens there already" in err


def test_without_a_token_it_listens_to_this_machine_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = str(tmp_path / "data")
    code, _, err = verb(capsys, "serve", "--data", data, "--port", "0", "--host", "0.0.0.0")
    assert code == 5
    assert f"stepscope token add --role admin --name NAME --data {data}" in err
    add = ("token", "add", "--data", data, "--role")
    assert verb(capsys, *add, "viewer", "--name", "eve")[0] == 2
    code, out, _ = verb(capsys, *add, "admin", "--name", "ada")
    assert code == 0
    token = out.strip()
    with server(tmp_path) as process:
        with pytest.raises(urllib.error.HTTPError):
            process.get("/api/v1/jobs")
        assert process.json("/api/v1/jobs", Authorization=f"Bearer {token}") == {"items": []}
        assert verb(capsys, *add, "viewer", "--name", "eve")[0] == 4
        monkeypatch.setenv("STEPSCOPE_TOKEN", token)
        code, out, err = verb(capsys, *add, "viewer", "--name", "eve")
        assert code == 0, err
        assert process.json("/api/v1/jobs", Authorization=f"Bearer {out.strip()}") == {"items": []}
        listed = verb(capsys, "token", "list", "--data", data)[1]
        assert [line.split()[1:] for line in listed.splitlines()] == [["viewer", "eve"], ["admin", "ada"]]
        assert token not in process.out.read_text() + process.err.read_text()
    assert token.encode() not in _files(tmp_path)


def test_it_ends_in_order_and_what_it_acknowledged_is_there_again(tmp_path: Path) -> None:
    with server(tmp_path) as process:
        assert process.post("/api/v1/ingest", whole_body(), Content_Type=CONTENT_TYPE)[0] == 200
        assert process.end(signal.SIGTERM) == 0
        assert process.err.read_text() == ""
    assert not (tmp_path / "data" / "server.json").exists()
    with server(tmp_path) as process:
        status, said = process.post("/api/v1/ingest", whole_body(), Content_Type=CONTENT_TYPE)
        assert (status, json.loads(said)["seq"]) == (200, 4)
        assert b"duplicate_batches_total 4" in process.get("/metrics")
        assert process.end(signal.SIGINT) == 130
        assert process.err.read_text() == ""


def planted() -> bytes:
    """Secrets in every place of a body."""
    labels = job(0) | {"api_key": SECRETS[1], "command": f"train.py --password {SECRETS[1]}"}
    lines = Lines(
        "", 0, HOST, "kernel", f"log?token={SECRETS[5]}", [START_NS], [f"export API_KEY={SECRETS[0]}"], labels
    )
    happened = Happened(
        "", 0, HOST, START_NS, "test", f"https://user:{SECRETS[4]}@example.com failed; password={SECRETS[2]}",
        None, device(0), labels,
    )  # fmt: skip
    marks: Marks = marked([(0.1, 0.4)] * 3)[0]
    identity = {**marks.identity, "script": f"train.py --api-key {SECRETS[3]}"}
    marks = msgspec.structs.replace(
        marks, identity=identity, names=[f"secret_key={SECRETS[3]}"], ring=f"rank0?token={SECRETS[10]}"
    )
    named = msgspec.structs.replace(device(0), kind="process", pid=7, name=f"app --token={SECRETS[5]}")
    row = series("process_cpu_cores", 1.0, named, labels=labels)
    return body_of(samples(row), lines, happened, marks)


def test_secrets_are_nowhere_in_the_store_the_answers_the_logs_or_the_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("token", "add", "--role", "admin", "--name", "ada", "--data", str(tmp_path / "data"))
    token = verb(capsys, *words)[1].strip()
    bearer = {"Authorization": f"Bearer {token}"}
    seen = b""
    with server(tmp_path) as process:
        assert process.post("/api/v1/ingest", planted(), Content_Type=CONTENT_TYPE, **bearer)[0] == 200
        for path, body, headers in (
            (f"/api/v1/jobs?token={SECRETS[6]}", b"{}", {}),
            (f"/api/v1/{SECRETS[8]}", b"{}", {}),
            (f"/api/v1/incidents/password={SECRETS[8]}/close", b"{}", {}),
            ("/api/v1/silences", b"{}", {"Authorization": f"Bearer {SECRETS[12]}"}),
            ("/api/v1/silences", b"{}", {"Cookie": f"session={SECRETS[7]}", "X_Api_Key": SECRETS[7]}),
            ("/api/v1/silences", json.dumps({
                "for_s": 60, "why": f"password={SECRETS[9]}",
                "matchers": [{"field": "job", "value": f"token={SECRETS[9]}"}]}).encode(), {}),
            (f"/api/v1/captures/1/traces/token={SECRETS[11]}", f'"password={SECRETS[11]}"'.encode(), {}),
        ):  # fmt: skip
            sent = {"Content_Type": "application/json", **bearer, **headers}
            seen += process.post(path, body, **sent)[1]
        window = f"start={START_NS - 10**12}&end={START_NS + 10**12}"
        for path in (
            "jobs", "runs", "devices", "nodes", "ranks?job=llama", f"events?{window}", "silences", "audit",
            "tokens", f"series?signal=process_cpu_cores&{window}", f"steps?job=llama&{window}",
        ):  # fmt: skip
            seen += process.get(f"/api/v1/{path}", **bearer)
        assert b"secret-removed" in seen
        from stepscope.sources.formats.frame import batch_of, frames_of, header_of

        body = process.get(f"/api/v1/window?job=llama&{window}", **bearer)
        header = header_of(body, "window")
        seen += "".join(
            str(batch_of(each, header, "window")) for each in frames_of(body, header, [])
        ).encode()
        seen += process.get("/metrics", **bearer)
        seen += _files(tmp_path)  # with the log that is written ahead
        assert process.end() == 0
        seen += process.out.read_bytes() + process.err.read_bytes()
    seen += _files(tmp_path) + _tables(tmp_path / "data")
    for secret in (*SECRETS, token):
        assert secret.encode() not in seen, secret


def _files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def _tables(data: Path) -> bytes:
    """Everything in the store, its hours sealed, as text: packed columns hide words."""
    import duckdb

    from stepscope.store.store import Store

    store = Store.open(str(data), now_ns=time.time_ns)
    store.tend()
    store.close()
    text = []
    with duckdb.connect(str(data / "store.duckdb"), read_only=True) as connection:
        names = [
            row[0]
            for row in connection.execute("SELECT table_name FROM information_schema.tables").fetchall()
        ]
        assert names
        text += [str(connection.execute(f'SELECT * FROM "{name}"').fetchall()) for name in names]
        for path in data.rglob("*.parquet"):
            text.append(str(connection.execute("SELECT * FROM read_parquet(?)", [str(path)]).fetchall()))
    return "\n".join(text).encode()
