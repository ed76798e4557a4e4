"""What may happen to an incident, and the line that each step adds to its history.

    open → acknowledged → changed → verified or not_verified → closed

An incident may be closed from every state, and opened again when it comes back. Nothing is skipped silently:
a step that does not fit the state is refused, with those that do.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stepscope.model.error import UsageError
from stepscope.model.incident import Change, Gain, Incident, IncidentState, Noted
from stepscope.model.redact import without_secrets
from stepscope.model.text import percent

FOLLOWS: Mapping[IncidentState, tuple[IncidentState, ...]] = {
    "open": ("acknowledged", "changed", "closed"),
    "acknowledged": ("changed", "closed"),
    "changed": ("changed", "verified", "not_verified", "closed"),
    "verified": ("changed", "closed"),
    "not_verified": ("changed", "verified", "closed"),
    "closed": ("open",),
}
"""State -> states that may come next. A verified incident may be changed once more, to win the rest."""
STEPSCOPE = "stepscope"


def acknowledged(incident: Incident, by: str, now_ns: int) -> Incident:
    """Somebody looks after it."""
    return _moved(incident, "acknowledged", now_ns, "acknowledged", by)


def changed(incident: Incident, change: Change) -> Incident:
    """Something was changed against it; what was judged of an earlier change is in its history."""
    clean = without_secrets_in(change)
    told = f"changed: {clean.what}"
    if clean.commit is not None:
        told += f" (commit {clean.commit[:12]})"
    made = _moved(incident, "changed", clean.at_ns, told, clean.by)
    return msgspec.structs.replace(made, change=clean, gain=None)


def judged(incident: Incident, gain: Gain, now_ns: int) -> Incident:
    """What came of the change: `verified` where steps are faster beyond the noise, `not_verified` where they
    are not. Of `unknown` it stays as it is, with the reason in its history."""
    realised = "" if gain.realised is None else f", realised {percent_signed(gain.realised)}"
    realised += "" if gain.noise is None or not realised else f" ±{percent(gain.noise)}"
    why = "" if gain.why is None else f": {gain.why}"
    if gain.verdict == "unknown":
        _check(incident, "verified")
        noted = _noted(incident, now_ns, f"not judged yet{why}", STEPSCOPE)
        return msgspec.structs.replace(noted, gain=gain)
    state: IncidentState = "verified" if gain.verdict == "better" else "not_verified"
    words = {"verified": "the change worked", "not_verified": "the change did not work"}[state]
    made = _moved(incident, state, now_ns, f"{words}{realised}{why}", STEPSCOPE)
    return msgspec.structs.replace(made, gain=gain)


def closed(incident: Incident, by: str, now_ns: int, why: str | None = None) -> Incident:
    """It is over; change and gain stay, and later advice learns from them."""
    made = _moved(incident, "closed", now_ns, "closed" if why is None else f"closed: {why}", by)
    return msgspec.structs.replace(made, closed_ns=now_ns)


def reopened(incident: Incident, by: str, now_ns: int, why: str | None = None) -> Incident:
    """It came back: open again, without the change that did not last."""
    told = "opened again" if why is None else f"opened again: {why}"
    made = _moved(incident, "open", now_ns, told, by)
    return msgspec.structs.replace(made, closed_ns=None, ended_ns=None, change=None, gain=None)


def percent_signed(share: float) -> str:
    """A share that may be below zero."""
    return percent(share) if share >= 0 else f"−{percent(-share)}"


def without_secrets_in(change: Change) -> Change:
    """The change as it may be stored and shown."""

    def clean(text: str | None) -> str | None:
        return None if text is None else without_secrets(text)[0]

    return msgspec.structs.replace(
        change,
        what=clean(change.what) or "",
        by=clean(change.by) or "",
        commit=clean(change.commit),
        config={key: (clean(before), clean(after)) for key, (before, after) in change.config.items()},
    )


def _moved(incident: Incident, state: IncidentState, now_ns: int, what: str, by: str) -> Incident:
    _check(incident, state)
    return msgspec.structs.replace(_noted(incident, now_ns, what, by), state=state)


def _check(incident: Incident, state: IncidentState) -> None:
    allowed = FOLLOWS[incident.state]
    if state not in allowed:
        raise UsageError(
            f"incident {incident.id}: is {incident.state} and cannot become {state}; it can become "
            f"{' or '.join(allowed)}"
        )


def _noted(incident: Incident, now_ns: int, what: str, by: str) -> Incident:
    line = Noted(at_ns=now_ns, what=without_secrets(what)[0], by=without_secrets(by)[0])
    return msgspec.structs.replace(incident, history=(*incident.history, line))
