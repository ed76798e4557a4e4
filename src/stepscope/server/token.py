"""Tokens of a folder: through its store, or through the server that has it."""

from __future__ import annotations

import http.client
from contextlib import closing
from urllib.parse import quote, urlsplit

import msgspec

from stepscope.model.error import ServiceError, UsageError
from stepscope.server.auth import TokenOf, check_first, new_token
from stepscope.server.reply import Wrong
from stepscope.server.shape import TokenMade, Tokens, TokenShown

_TIMEOUT_S = 30.0
_MOST_BYTES = 8 << 20


class Opened:
    """The tokens of a folder that no server has. `now_ns` is when a new one is made."""

    def __init__(self, folder: str, now_ns: int) -> None:
        self._folder, self._now_ns = folder, now_ns

    def add(self, name: str, role: str, agent: str | None) -> str:
        """A new token, which is kept nowhere."""
        from stepscope.server.assemble import open_store, tokens_of

        token, kept = new_token(name, role, self._now_ns, agent)
        with closing(open_store(self._folder)) as store:
            check_first(role, len(tokens_of(store)))
            store.put("token", kept.id, msgspec.json.encode(kept), at_ns=kept.made_ns)
        return token

    def list(self) -> list[TokenOf]:
        """All of them, without themselves."""
        from stepscope.server.assemble import open_store, tokens_of

        with closing(open_store(self._folder)) as store:
            return tokens_of(store)

    def remove(self, id: str) -> None:
        """Take one back. UsageError where there is none of that id."""
        from stepscope.server.assemble import open_store

        with closing(open_store(self._folder)) as store:
            if not store.remove("token", id):
                raise UsageError("no token of that id; `stepscope token list` shows those there are")


class Asked:
    """The tokens of a server that runs, asked with an admin's token."""

    def __init__(self, address: str, token: str | None) -> None:
        self._address, self._token = address, token

    def add(self, name: str, role: str, agent: str | None) -> str:
        """A new token, which is kept nowhere."""
        asked = {"name": name, "role": role} | ({"agent": agent} if agent else {})
        body = self._ask("POST", "/api/v1/tokens", msgspec.json.encode(asked))
        return msgspec.json.decode(body, type=TokenMade).token

    def list(self) -> list[TokenShown]:
        """All of them, without themselves."""
        return msgspec.json.decode(self._ask("GET", "/api/v1/tokens"), type=Tokens).items

    def remove(self, id: str) -> None:
        """Take one back. UsageError where there is none of that id."""
        self._ask("DELETE", f"/api/v1/tokens/{quote(id, safe='')}")

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        host = urlsplit(self._address)
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = http.client.HTTPConnection(host.hostname or "", host.port or 80, timeout=_TIMEOUT_S)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            said = answer.read(_MOST_BYTES)
        except (OSError, http.client.HTTPException) as error:
            why = str(error) or type(error).__name__
            raise ServiceError(
                self._address, f"does not answer ({why})", "is the server still up?"
            ) from error
        finally:
            connection.close()
        if answer.status < 300:
            return said
        try:
            wrong = msgspec.json.decode(said, type=Wrong)
        except msgspec.MsgspecError:
            wrong = Wrong(f"answers {answer.status}", "is it a server of stepscope?")
        if answer.status in (401, 403):
            wrong = Wrong(wrong.error, "give an admin's token as STEPSCOPE_TOKEN")
        if answer.status in (400, 404):
            raise UsageError(f"{wrong.error}; {wrong.mend}")
        raise ServiceError(self._address, wrong.error, wrong.mend)
