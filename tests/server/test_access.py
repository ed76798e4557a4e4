"""Who may do what, what is written down of it, and what only some see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from stepscope.model.alarm import About
from stepscope.model.error import InputError, UsageError
from stepscope.model.incident import Change, Incident
from stepscope.server.auth import Auth, Role, new_token, read_tokens
from tests.agent.made import HOST, NS, START_NS, event, marked, node_second
from tests.server.served import TOKENS, Asked, body_of, serving

SILENCE = {"for_s": 60, "why": "maintenance", "matchers": [{"field": "job", "value": "llama"}]}
ALLOWED: dict[tuple[str, str], Role] = {
    ("GET", "/api/v1/jobs"): "viewer",
    ("GET", "/api/v1/nodes"): "viewer",
    ("GET", "/api/v1/alarms"): "viewer",
    ("GET", "/metrics"): "viewer",
    ("GET", "/api/v1/window"): "operator",
    ("POST", "/api/v1/silences"): "operator",
    ("POST", "/api/v1/captures"): "operator",
    ("POST", "/api/v1/incidents/x/acknowledge"): "operator",
    ("PUT", "/api/v1/rules/input-starvation/thresholds"): "admin",
    ("GET", "/api/v1/audit"): "admin",
    ("GET", "/api/v1/tokens"): "admin",
    ("POST", "/api/v1/tokens"): "admin",
    ("POST", "/api/v1/ingest"): "agent",
    ("GET", "/api/v1/agents/a/orders"): "agent",
    ("PUT", "/api/v1/captures/1/traces/r"): "agent",
}
MAY: dict[Role, tuple[Role, ...]] = {
    "viewer": ("viewer", "operator", "admin"),
    "operator": ("operator", "admin"),
    "admin": ("admin",),
    "agent": ("agent", "admin"),
}


@pytest.fixture
def server() -> Iterator[Asked]:
    with serving(has_tokens=True) as asked:
        yield asked


def test_each_role_may_do_its_own_and_no_more(server: Asked) -> None:
    for (method, path), least in ALLOWED.items():
        for role in TOKENS:
            status = server.ask(method, path, b"{}" if method != "GET" else None, role=role).status
            assert (status == 403) == (role not in MAY[least]), (method, path, role, status)
            assert status != 401


def test_every_write_and_every_refusal_is_in_the_audit_log_and_no_token(server: Asked) -> None:
    assert server.post("/api/v1/silences", SILENCE, role="operator").status == 201
    assert server.post("/api/v1/silences", SILENCE, role="viewer").status == 403
    assert server.get("/api/v1/jobs", Authorization="Bearer wrong-token-wrong-token").status == 401
    assert server.post("/api/v1/captures", {"job": "llama"}, role="admin").status == 501
    assert server.get("/api/v1/jobs", role="viewer").status == 200
    lines = server.get("/api/v1/audit", role="admin").json["items"]
    shown = [(each.get("who"), each["what"], each["outcome"], each["status"]) for each in lines]
    assert shown == [
        ("the-admin", "POST /api/v1/captures", "failed", 501),
        (None, "GET other", "refused", 401),
        ("the-viewer", "POST /api/v1/silences", "refused", 403),
        ("the-operator", "POST /api/v1/silences", "done", 201),
    ]
    assert all(each["address"] == "127.0.0.1" for each in lines)
    whole = b"".join(each.body for each in server.store.docs.values())
    assert not any(token.encode() in whole for token in (*TOKENS.values(), "wrong-token"))


def test_a_flood_of_refusals_does_not_fill_the_log() -> None:
    from stepscope.server.limit import Limits

    with serving(has_tokens=True, limits=Limits(refused_burst=1000, refused_per_s=1000)) as server:
        for _ in range(100):
            assert server.get("/api/v1/jobs").status == 401
        assert len(server.store.documents("audit")) in range(60, 121)  # a minute may begin meanwhile


def test_a_token_that_is_made_works_until_it_is_taken_back() -> None:
    with serving() as server:
        assert server.post("/api/v1/tokens", {"name": "eve", "role": "viewer"}).status == 400
        made = server.post("/api/v1/tokens", {"name": "ada", "role": "admin"}).json
        bearer = {"Authorization": f"Bearer {made['token']}"}
        assert server.get("/api/v1/jobs").status == 401
        assert server.get("/api/v1/jobs", **bearer).status == 200
        second = server.post("/api/v1/tokens", {"name": "eve", "role": "viewer"}, **bearer).json
        assert [each["name"] for each in server.get("/api/v1/tokens", **bearer).json["items"]] == [
            "eve",
            "ada",
        ]
        assert made["token"].encode() not in b"".join(each.body for each in server.store.docs.values())
        assert server.ask("DELETE", f"/api/v1/tokens/{second['id']}", **bearer).status == 204
        assert server.get("/api/v1/jobs", Authorization=f"Bearer {second['token']}").status == 401
        assert server.ask("DELETE", "/api/v1/tokens/none", **bearer).status == 404


def test_a_viewer_sees_no_labels_of_configuration_no_lines_of_logs_and_no_processes(server: Asked) -> None:
    line = msgspec.structs.replace(
        event("NVRM: Xid 79, pid=4242, name=secret-script.py"), labels={"log": "kernel", "job": "llama"}
    )
    body = body_of(node_second(0), *marked([(0.1, 0.4)] * 3), line)
    assert server.ingest(body, role="agent").status == 200
    window = f"start={START_NS}&end={START_NS + 60 * NS}"
    for role, sees in (("viewer", False), ("operator", True)):
        assert ("user" in server.get("/api/v1/runs", role=role).json["items"][0].get("labels", {})) is sees
        shown = server.get(f"/api/v1/events?{window}", role=role).json["items"][0]
        assert ("text" in shown) is sees
        said = server.get(f"/api/v1/series?signal=process_cpu_cores&{window}", role=role)
        assert said.status == (200 if sees else 403), said.body
        assert server.get(f"/api/v1/series?signal=power_watts&{window}", role=role).status == 200
    assert server.get("/api/v1/nodes", role="viewer").json["items"][0]["host"] == HOST


class _Actions:
    """What people do to one incident."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def _of(self, id: str, *what: Any) -> Incident:
        if id != "i1":
            raise KeyError(id)
        self.done.append(what)
        return Incident(
            id=id, about=About(job="llama"), severity="warning", title="x", onset_ns=1, opened_ns=2
        )

    def acknowledge(self, id: str, by: str, note: str | None) -> Incident:
        return self._of(id, "acknowledge", by, note)

    def change(self, id: str, change: Change) -> Incident:
        return self._of(id, "change", change)

    def close(self, id: str, by: str, why: str | None) -> Incident:
        if why == "too early":
            raise UsageError("it is still going on; wait for its end")
        return self._of(id, "close", by, why)


def test_incidents_are_acknowledged_changed_and_closed_in_their_askers_name() -> None:
    from dataclasses import replace

    actions = _Actions()
    with serving(has_tokens=True, more=lambda parts: replace(parts, incidents=actions)) as server:

        def post(path: str, what: Any) -> int:
            return server.post(f"/api/v1/incidents/{path}", what, role="operator").status

        assert post("i1/acknowledge", {"note": "mine"}) == 200
        changed = {
            "what": "num_workers",
            "config": {"num_workers": ["2", "8"], "api_key": [None, "hunter2hunter2"]},
        }
        assert post("i1/change", changed | {"remedy": "nope#1"}) == 400
        assert post("i1/change", changed | {"remedy": "input-starvation#1"}) == 200
        assert post("i1/close", {"why": "too early"}) == 400
        assert post("i1/close", {}) == 200
        assert post("i2/close", {}) == 404
    assert actions.done[0] == ("acknowledge", "the-operator", "mine")
    change = actions.done[1][1]
    assert (change.by, change.what, change.config["num_workers"]) == (
        "the-operator",
        "num_workers",
        ("2", "8"),
    )
    assert "hunter2" not in str(change)
    assert actions.done[2] == ("close", "the-operator", None)


def test_a_file_of_tokens_is_read_and_its_errors_show_none() -> None:
    long = "0123456789abcdef" * 2
    text = f"# ours\nadmin ada {long}a\nagent=node-1 ship {long}b # the node's\n\n"
    tokens = read_tokens(text, "tokens", 1)
    assert [(each.role, each.name, each.agent) for each in tokens] == [
        ("admin", "ada", None), ("agent", "ship", "node-1"),
    ]  # fmt: skip
    auth = Auth(tokens)
    assert auth.who(f"Bearer {long}a").name == "ada"  # type: ignore[union-attr]
    assert auth.who(f"bearer  {long}b").agent == "node-1"  # type: ignore[union-attr]
    assert auth.who(f"Bearer {long}c") is None
    for bad in (
        "admin ada",
        f"king ada {long}",
        f"admin ada {long} more",
        "admin ada hunter2",
        f"viewer=x y {long}",
    ):
        with pytest.raises(InputError) as error:
            read_tokens(f"\n{bad}", "tokens", 1)
        assert "line 2" in str(error.value)
        assert "hunter2" not in str(error.value)
        assert long not in str(error.value)


def test_tokens_are_long_and_never_alike() -> None:
    made = {new_token("a", "viewer", 1)[0] for _ in range(100)}
    assert len(made) == 100
    assert all(len(each) >= 43 for each in made)
    token, kept = new_token("a", "viewer", 1)
    assert token not in str(kept)
