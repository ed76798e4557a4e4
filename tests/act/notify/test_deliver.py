"""What is told to whom, when, and how often."""

from __future__ import annotations

import msgspec
import pytest

from stepscope.act.notify.channel import Sent, Settings
from stepscope.act.notify.deliver import Line, Notices
from stepscope.act.notify.outbox import Queued
from stepscope.act.notify.silence import Matcher, Silence
from stepscope.model.incident import Incident
from tests.act.notify.made import BEGIN_NS, NS, Composer, Documents, Recorder, incident


class Desk:
    """Notices over a clock that the test turns."""

    def __init__(
        self, *lines: Line, store: Documents | None = None, composer: Composer | None = None
    ) -> None:
        self.at_ns = BEGIN_NS
        self.store, self.composer = store or Documents(), composer or Composer()
        self.told: list[tuple[str, str, int]] = []
        self.said: list[str] = []
        self.lines = lines
        self.again()

    def again(self) -> None:
        """As after a kill: nothing but the store is left."""
        self.notices = Notices(
            self.store, self.lines, self.composer, lambda: self.at_ns, key=b"k",  # type: ignore[arg-type]
            told=lambda name, channel, at: self.told.append((name, channel, at)), say=self.said.append,
        )  # fmt: skip

    def take(self, what: Incident) -> None:
        self.composer.now[what.id] = what
        self.notices.take(what)

    def later(self, seconds: float) -> None:
        self.at_ns += int(seconds * NS)
        self.notices.step()

    def rows(self) -> dict[str, Queued]:
        found = (msgspec.json.decode(each.body, type=Queued) for each in self.store.documents("notice"))
        return {each.id: each for each in found}


def line(sender: Recorder, **more: object) -> Line:
    told: dict[str, object] = {"name": "chat", "kind": "webhook"}
    return Line(Settings(**(told | more)), sender)  # type: ignore[arg-type]


def test_an_incident_is_told_once_and_then_only_when_its_state_changes() -> None:
    sender = Recorder()
    desk = Desk(line(sender))
    desk.take(incident())
    desk.later(0)
    desk.take(incident())  # its report was written anew: no change of state
    desk.later(60)
    assert [m.key for m in sender.got] == ["i-1.open.chat"]
    assert desk.told == [("i-1", "chat", BEGIN_NS)]
    desk.take(incident(state="acknowledged"))
    desk.take(incident(state="acknowledged", severity="critical"))
    desk.take(incident(state="acknowledged", severity="critical", ended_ns=BEGIN_NS + 99 * NS))
    desk.later(1)
    assert [m.key for m in sender.got[1:]] == [
        "i-1.acknowledged.chat", "i-1.worse-critical.chat", "i-1.ended.chat",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "is_told"),
    [
        ({}, True),
        ({"least": "critical"}, False),
        ({"jobs": ("vision-*",)}, False),
        ({"jobs": ("vision-*", "l?m")}, True),
        ({"levels": ("task",)}, False),
    ],
    ids=["all", "worse-only", "other-jobs", "pattern", "other-level"],
)
def test_a_channel_hears_of_what_it_asked_for(more: dict[str, object], is_told: bool) -> None:
    sender = Recorder()
    desk = Desk(line(sender, **more))
    desk.take(incident())
    desk.take(incident(ended_ns=BEGIN_NS + NS))  # nobody is told the end of what they never heard of
    desk.later(1)
    assert len(sender.got) == (2 if is_told else 0)


def test_a_refused_message_is_tried_again_after_a_growing_wait_and_sent_once() -> None:
    sender = Recorder([Sent(False, "it answers 503")] * 3)
    desk = Desk(line(sender))
    desk.take(incident())
    waits = []
    for _ in range(4):
        desk.later(0)
        row = desk.rows()["i-1.open.chat"]
        if row.state == "sent":
            break
        waits.append((row.due_ns - desk.at_ns) / NS)
        desk.at_ns = row.due_ns
    assert len(sender.got) == 4
    assert len({m.key for m in sender.got}) == 1
    assert 5 <= waits[0] <= 10 <= waits[1] <= 20 <= waits[2] <= 40


def test_retry_after_is_obeyed_to_the_second() -> None:
    sender = Recorder([Sent(False, "it answers 429", False, 77.0)])
    desk = Desk(line(sender))
    desk.take(incident())
    desk.later(0)
    assert desk.rows()["i-1.open.chat"].due_ns - desk.at_ns == 77 * NS
    desk.later(76)
    assert len(sender.got) == 1
    desk.later(1)
    assert len(sender.got) == 2


def test_a_final_refusal_is_given_up_and_said_without_waiting() -> None:
    sender = Recorder([Sent(False, "it answers 404", True)])
    desk = Desk(line(sender))
    desk.take(incident())
    desk.later(0)
    desk.later(3600)
    assert len(sender.got) == 1
    assert desk.rows()["i-1.open.chat"].state == "failed"
    assert desk.said == ["channel chat: a message was given up: it answers 404"]


def test_beyond_its_rate_a_channel_gets_one_message_for_all_that_was_held_back() -> None:
    sender = Recorder()
    desk = Desk(line(sender, per_hour=3))
    for n in range(8):
        desk.take(incident(id=f"i-{n}", severity="critical" if n == 5 else "warning"))
    desk.later(0)
    assert len(sender.got) == 3
    desk.later(3600)
    assert len(sender.got) == 4
    assert sender.got[3].notice.incident == "i-5"  # the worst of the five
    assert sender.got[3].notice.num_held_back == 4
    assert sorted(row.state for row in desk.rows().values()) == ["held"] * 4 + ["sent"] * 4


def test_what_is_silenced_is_kept_and_told_when_the_silence_ends_if_it_still_lasts() -> None:
    sender = Recorder()
    desk = Desk(line(sender))
    silence = Silence(
        id="s-1", matchers=(Matcher("job", "ll*", is_pattern=True), Matcher("node", "node-7")),
        start_ns=BEGIN_NS, end_ns=BEGIN_NS + 600 * NS, by="ann", why="the node is being moved",
    )  # fmt: skip
    desk.store.put("silence", "s-1", msgspec.json.encode(silence), at_ns=BEGIN_NS)
    desk.take(incident())
    desk.take(incident(id="i-2"))
    desk.later(1)
    assert sender.got == []
    assert {row.silence for row in desk.rows().values()} == {"s-1"}
    desk.composer.now["i-2"] = incident(id="i-2", state="closed")
    desk.later(600)
    assert [m.notice.incident for m in sender.got] == ["i-1"]


def test_a_kill_between_sending_and_noting_it_costs_one_message_twice_and_none_lost() -> None:
    class Killed(Exception):
        pass

    sender = Recorder()
    desk = Desk(line(sender))
    desk.take(incident())
    put = desk.store.put

    def dies(kind: str, name: str, body: bytes, **more: int) -> None:
        if b'"sent"' in body:
            raise Killed
        put(kind, name, body, **more)  # type: ignore[arg-type]

    desk.store.put = dies  # type: ignore[method-assign]
    with pytest.raises(Killed):
        desk.notices.step()
    desk.store.put = put  # type: ignore[method-assign]
    desk.again()
    desk.later(1)
    desk.again()
    desk.take(incident())  # whoever listens hears of it anew
    desk.later(60)
    assert [m.key for m in sender.got] == ["i-1.open.chat"] * 2
    assert desk.rows()["i-1.open.chat"].state == "sent"


def test_after_a_restart_only_what_changed_meanwhile_is_told() -> None:
    sender = Recorder()
    desk = Desk(line(sender))
    desk.take(incident())
    desk.later(0)
    desk.again()
    desk.take(incident(state="acknowledged"))
    desk.later(1)
    assert [m.notice.state for m in sender.got] == ["open", "acknowledged"]


def test_a_message_says_what_it_is_of_though_more_has_happened_since() -> None:
    sender = Recorder()
    desk = Desk(line(sender))
    desk.take(incident())
    desk.later(0)
    desk.take(incident(state="acknowledged"))
    desk.take(incident(state="changed"))
    desk.later(1)
    assert [each.notice.state for each in sender.got] == ["open", "acknowledged", "changed"]


def test_a_repeating_channel_is_told_again_until_the_end() -> None:
    sender = Recorder(repeats_s=60.0)
    desk = Desk(line(sender))
    desk.take(incident())
    desk.later(0)
    for _ in range(3):
        desk.later(60)
    assert len(sender.got) == 4
    desk.again()  # a restart forgets none of them
    desk.later(60)
    assert len(sender.got) == 5
    desk.take(incident(ended_ns=desk.at_ns))
    desk.later(1)
    desk.later(600)
    assert [m.notice.state for m in sender.got] == ["open"] * 5 + ["ended"]


def test_hosts_are_pseudonyms_unless_the_channel_may_show_them_and_secrets_never_are() -> None:
    hidden, shown = Recorder(), Recorder()
    desk = Desk(line(hidden, name="a"), line(shown, name="b", shows_identities=True))
    token = "sk-" + "a1B2" * 8
    real = Composer.notice

    def leaky(self: Composer, name: str, event: str, settings: Settings):  # type: ignore[no-untyped-def]
        found = real(self, name, event, settings)
        assert found is not None
        return msgspec.structs.replace(found, title=f"slow on node-7, OPENAI_API_KEY={token}")

    desk.composer.notice = leaky.__get__(desk.composer)  # type: ignore[method-assign]
    desk.take(incident())
    desk.later(0)
    (mine,), (theirs,) = hidden.got, shown.got
    assert token not in str(mine) + str(theirs)
    assert "node-7" not in str(mine)
    assert mine.notice.hosts[0].startswith("host-")
    assert "node-7" in theirs.title


def test_the_thread_sends_and_ends() -> None:
    import time

    sender = Recorder()
    desk = Desk(line(sender))
    desk.notices.start()
    desk.take(incident())
    until = time.monotonic() + 20
    while not sender.got and time.monotonic() < until:
        time.sleep(0.01)
    desk.notices.stop()
    assert len(sender.got) == 1
