"""Who asks: tokens, their roles, and what each role may do.

A token is 256 random bits: its SHA-256 is kept, never itself, and needs no salt or stretching to be safe
from guessing. Tokens are documents of the store (`token`) and may come from a file beside them.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from stepscope.model.error import InputError, UsageError
from stepscope.sources.formats.frame import is_agent_id

Role = Literal["viewer", "operator", "admin", "agent"]
ROLES: tuple[Role, ...] = get_args(Role)
_RANK = {"viewer": 1, "operator": 2, "admin": 3}
PREFIX = "stepscope_"
LEAST_CHARACTERS = 32
"""Of a token that a file brings: what is shorter can be guessed."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class TokenOf(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A token without itself. `agent`: the only agent that it is good for, `None` for any."""

    id: str
    name: str
    role: Role
    sha256: str
    made_ns: int
    agent: str | None = None


class Principal(msgspec.Struct, frozen=True):
    """Who asks. `name` is the token's, `anonymous` where none is asked for."""

    name: str
    role: Role
    agent: str | None = None

    def may(self, role: Role) -> bool:
        """Whether somebody who needs `role` would be let in: a higher role includes the lower ones, `agent`
        is apart and of an admin too."""
        if role == "agent":
            return self.role in ("agent", "admin")
        return _RANK.get(self.role, 0) >= _RANK[role]

    @property
    def sees_sensitive(self) -> bool:
        """Names of processes, lines of logs, labels of configuration."""
        return self.may("operator")


ANYBODY = Principal("anonymous", "admin")
"""Who asks a server on a loopback address that has no tokens."""


def digest(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def new_token(name: str, role: str, at_ns: int, agent: str | None = None) -> tuple[str, TokenOf]:
    """A new token, to be shown once, and what is kept of it. UsageError where a word is none."""
    token = PREFIX + secrets.token_urlsafe(32)
    return token, token_of(token, name, role, at_ns, agent)


def token_of(token: str, name: str, role: str, at_ns: int, agent: str | None = None) -> TokenOf:
    """What is kept of a token. UsageError where a word is none."""
    if role not in ROLES:
        raise UsageError(f"no role of that name; there are {', '.join(ROLES)}")
    if not _NAME.fullmatch(name):
        raise UsageError(
            "a token's name has 1 to 64 letters, digits, dots, dashes, underscores or @; give such"
        )
    if agent is not None and (role != "agent" or not is_agent_id(agent)):
        raise UsageError("only a token of the role agent is bound to one agent's id; leave --agent out")
    sha256 = digest(token)
    return TokenOf(id=sha256[:12], name=name, role=role, sha256=sha256, made_ns=at_ns, agent=agent)


def check_first(role: str, num_tokens: int) -> None:
    """UsageError where the first token is not an admin's: from it on a token is asked for, and nobody could
    make another."""
    if not num_tokens and role != "admin":
        raise UsageError("the first token must be an admin's; make one with --role admin before this one")


def read_tokens(text: str, path: str, at_ns: int) -> list[TokenOf]:
    """The tokens of a file: on each line ROLE NAME TOKEN, `agent=ID` a role too; # begins a comment. The
    line of an error shows none of it."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        place = f"line {number}"
        if len(words) != 3:
            raise InputError(path, "not three words", "write ROLE NAME TOKEN on each line", place)
        role, name, token = words
        role, _, agent = role.partition("=")
        if len(token) < LEAST_CHARACTERS:
            mend = "make one with `stepscope token add`, or with `openssl rand -hex 32`"
            raise InputError(path, f"a token of less than {LEAST_CHARACTERS} characters", mend, place)
        try:
            found.append(token_of(token, name, role, at_ns, agent or None))
        except UsageError as error:
            what, _, mend = str(error).partition("; ")
            raise InputError(path, what, mend, place) from error
    return found


class Auth:
    """Tells who a token is. From any thread. `is_open`: where no token is known, everybody may do all."""

    def __init__(self, tokens: Iterable[TokenOf] = (), *, is_open: bool = False) -> None:
        self._is_open = is_open
        self._lock = threading.Lock()
        self._fixed = {each.sha256: each for each in tokens}
        self._stored: dict[str, TokenOf] = {}

    @property
    def is_on(self) -> bool:
        """Whether a token is asked for."""
        return not self._is_open or bool(self._fixed or self._stored)

    @property
    def num_tokens(self) -> int:
        return len(self._fixed) + len(self._stored)

    def set_stored(self, tokens: Iterable[TokenOf]) -> None:
        """These are the store's tokens now."""
        with self._lock:
            self._stored = {each.sha256: each for each in tokens}

    def is_bound(self, agent: str) -> bool:
        """Whether a token is good for this agent alone: then no unbound one speaks for it."""
        with self._lock:
            return any(each.agent == agent for each in (*self._fixed.values(), *self._stored.values()))

    def who(self, authorization: str | None) -> Principal | None:
        """Whose header this is; `None` where it is nobody's."""
        if not self.is_on:
            return ANYBODY
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return None
        given = digest(token.strip())
        with self._lock:
            known = (*self._fixed.values(), *self._stored.values())
        found: TokenOf | None = None
        for each in known:  # all of them, so that the time says nothing
            if hmac.compare_digest(each.sha256, given):
                found = each
        return Principal(found.name, found.role, found.agent) if found is not None else None
