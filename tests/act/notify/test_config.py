"""The configuration of channels: what is wrong is said with the channel's name, and no secret."""

from __future__ import annotations

import pytest

from stepscope.act.notify.channel import channels
from stepscope.act.notify.config import sender_of, settings_of
from stepscope.act.notify.secret import secrets_of
from stepscope.act.notify.silence import Matcher, Silence, checked, silenced_by
from stepscope.model.error import UsageError
from tests.act.notify.made import BEGIN_NS, NS, notice


def test_the_catalogue_has_what_the_documentation_lists() -> None:
    assert sorted(channels()) == ["alertmanager", "apprise", "webhook"]


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ({"kind": "pager"}, "channel pager-1: kind 'pager' is none of"),
        ({"kind": "webhook", "urls": "x"}, "channel webhook-1: unknown 'urls'"),
        ({"kind": "webhook", "lang": "fr"}, "channel webhook-1: lang is wrong; give en or zh"),
        ({"kind": "webhook", "from": "bad"}, "channel webhook-1: from is wrong"),
        ({"kind": "webhook", "levels": ["x"]}, "channel webhook-1: levels is wrong"),
        ({"kind": "webhook", "jobs": []}, "channel webhook-1: jobs is wrong"),
        ({"kind": "webhook", "per_hour": 0}, "channel webhook-1: per_hour is wrong"),
        ({"kind": "webhook", "per_hour": True}, "channel webhook-1: per_hour is wrong"),
        ({"kind": "webhook", "identities": "yes"}, "channel webhook-1: identities is wrong"),
    ],
    ids=["kind", "unknown", "lang", "from", "levels", "jobs", "rate", "bool-rate", "identities"],
)
def test_a_wrong_key_is_named(row: dict[str, object], line: str) -> None:
    with pytest.raises(UsageError, match=line.replace("(", r"\(")):
        settings_of({"channel": [row]})


@pytest.mark.parametrize(
    ("row", "environment", "line"),
    [
        ({"kind": "apprise", "url_env": "SLACK"}, {}, "environment variable SLACK is not there"),
        ({"kind": "apprise"}, {}, "no url; give url_env or url_file"),
        ({"kind": "apprise", "url_env": "A"}, {"A": "nonsense-hunter2"}, "apprise knows no such address"),
        ({"kind": "webhook", "url": "ftp://x", "secret_env": "S"}, {"S": "s"}, "url is no address"),
        ({"kind": "webhook", "url": "http://u:hunter2@x/", "secret_env": "S"}, {"S": "s"}, "credentials"),
        ({"kind": "webhook", "url": "http://x/?token=hunter2", "secret_env": "S"}, {"S": "s"}, "credentials"),
        ({"kind": "webhook", "url": "http://x/"}, {}, "no secret; give secret_env or secret_file"),
        ({"kind": "alertmanager", "url": "http://x/", "token_file": "/nowhere"}, {}, "file /nowhere"),
    ],
    ids=["unset", "none", "nonsense", "scheme", "user", "query", "no-secret", "no-file"],
)
def test_an_address_or_secret_that_is_not_there_is_said_without_showing_one(
    row: dict[str, object], environment: dict[str, str], line: str
) -> None:
    (settings,) = settings_of({"channel": [row]})
    with pytest.raises(UsageError) as error:
        sender_of(settings, secrets_of(environment))
    assert line in str(error.value)
    assert "hunter2" not in str(error.value)


def silence(*matchers: Matcher, **more: object) -> Silence:
    told: dict[str, object] = {
        "id": "s", "matchers": matchers, "start_ns": BEGIN_NS, "end_ns": BEGIN_NS + NS,
        "by": "ann", "why": "moved",
    }  # fmt: skip
    return Silence(**(told | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("matcher", "fits"),
    [
        (Matcher("rank", "7"), True),
        (Matcher("rank", "8"), False),
        (Matcher("node", "node-*", True), True),
        (Matcher("node", "node-*"), False),
        (Matcher("severity", "warning"), True),
        (Matcher("run", "x"), False),
        (Matcher("level", "task"), False),
    ],
    ids=["rank", "other-rank", "pattern", "no-pattern", "severity", "unknown-run", "level"],
)
def test_a_silence_covers_what_all_its_matchers_fit_while_it_lasts(matcher: Matcher, fits: bool) -> None:
    mine = checked(silence(Matcher("job", "llm"), matcher))
    assert (silenced_by(notice(), [mine], BEGIN_NS) == "s") is fits
    assert silenced_by(notice(), [mine], BEGIN_NS + NS) is None


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (silence(), "0 matchers"),
        (silence(Matcher("colour", "red")), "no field 'colour'"),
        (silence(Matcher("job", "")), "empty or too long"),
        (silence(Matcher("job", "*" * 9, True)), "empty or too long"),
        (silence(Matcher("job", "x"), end_ns=BEGIN_NS), "ends before"),
        (silence(Matcher("job", "x"), why=" "), "no reason"),
    ],
    ids=["none", "field", "empty", "stars", "end", "why"],
)
def test_a_silence_that_makes_no_sense_is_refused(wrong: Silence, line: str) -> None:
    with pytest.raises(UsageError, match=line):
        checked(wrong)
