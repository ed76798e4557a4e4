"""Where a channel's secrets come from: the environment or a file, never the configuration itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from stepscope.act.notify.channel import Secrets, Settings
from stepscope.model.error import UsageError

MOST_BYTES = 1 << 16


def secrets_of(environment: Mapping[str, str]) -> Secrets:
    """Looks secrets up when a channel is made."""

    def secret(source: str) -> str | None:
        kind, _, name = source.partition(":")
        if kind == "env":
            return environment.get(name) or None
        try:
            return Path(name).read_bytes()[:MOST_BYTES].decode("utf-8").strip() or None
        except (OSError, UnicodeDecodeError):
            return None

    return secret


def optional(settings: Settings, name: str, secrets: Secrets) -> str | None:
    """The secret that `NAME_env` or `NAME_file` points to, `None` where neither is given. UsageError where
    it is given and not there."""
    for kind in ("env", "file"):
        source = settings.options.get(f"{name}_{kind}")
        if source is not None:
            found = secrets(f"{kind}:{source}")
            if found is None:
                what = "environment variable" if kind == "env" else "file"
                raise UsageError(f"channel {settings.name}: {what} {source} is not there or empty; set it")
            return found
    return None


def required(settings: Settings, name: str, secrets: Secrets) -> str:
    """As `optional`, and UsageError where neither is given."""
    found = optional(settings, name, secrets)
    if found is None:
        raise UsageError(f"channel {settings.name}: no {name}; give {name}_env or {name}_file")
    return found


def address_of(settings: Settings, secrets: Secrets) -> str:
    """`url`, or what `url_env` or `url_file` points to. UsageError where it is none, or holds credentials
    in the open."""
    url = settings.options.get("url")
    if url is None:
        return required(settings, "url", secrets)
    try:
        parts = urlsplit(str(url))
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_address = False
    if not is_address:
        raise UsageError(f"channel {settings.name}: url is no address; give https://HOST[:PORT]/PATH")
    if parts.username or parts.password or parts.query:
        raise UsageError(f"channel {settings.name}: credentials stand in url; give url_env or url_file")
    return str(url)
