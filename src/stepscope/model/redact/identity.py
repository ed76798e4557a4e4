"""Identities: hosts, users and addresses, found by their form or by what the inputs state of themselves."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stepscope.model.redact.address import is_address_in_context, replace_addresses
from stepscope.model.redact.home import home_owners, is_nobody, owners, replace_owners
from stepscope.model.redact.host import (
    NAME,
    hosts_in_text,
    hosts_of_list,
    is_host_like,
    replace_hosts,
    replace_urls,
)
from stepscope.model.redact.name import PSEUDONYM, is_address, is_learnable, is_somebody
from stepscope.model.redact.pattern import Pattern


@dataclasses.dataclass(frozen=True, slots=True)
class Identities:
    """Names known to be of a host or a user, from where the inputs say so (metadata, home paths)."""

    hosts: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()

    def __or__(self, other: Identities) -> Identities:
        return Identities(self.hosts | other.hosts, self.users | other.users)


NOBODY = Identities()

_HOST_KEYS = frozenset(
    "host hostname host_name node nodename node_name slurmd_nodename slurm_nodelist slurm_job_nodelist "
    "master_addr pod_name podname worker_name fqdn machine_name".split()
)
_USER_KEYS = frozenset(
    "user username user_name logname login sudo_user slurm_job_user started_by owner".split()
)
# Directories that programs make for one user.
_OWN_DIRECTORY = Pattern(
    rf"(?P<head>(?:[/\\]torchinductor_|pytest-of-|[/\\]run[/\\]media[/\\]))(?!{PSEUDONYM})(?P<name>[A-Za-z0-9_][\w.-]*)"
)
_TILDE = Pattern(rf"(?P<head>(?<![\w./~])~)(?!{PSEUDONYM})(?P<name>[a-z_][a-z0-9_-]+)(?=/)")
# What stands behind an @ and is no host: a library, a version, a commit, a digest.
_NO_HOST = (
    r"(?:lib[\w+.-]{1,64}\.so(?![\w-])|[\w+-]{1,64}\.(?:so\.\d|(?:dll|dylib|cpp|hpp|h|o|exe|json|ya?ml|txt)(?![\w.-]))"
    r"|(?!(?:\d{1,3}\.){3}\d{1,3}(?![\w.]))[vV]?\d{1,8}(?:\.\d{1,8}){1,2}(?:[.+-]?(?:a|b|rc|post|dev|cu|alpha|beta)?\d{0,8}){0,2}(?![\w.-]*[\w-])"
    r"|[vV]\d{1,4}(?![\w.-]*[\w-])|sha\d{3}\b|[0-9a-f]{40}\b|\d{4}\.\d{1,2}(?:\.\d{1,2})?(?![\w.-]*[\w-])"
    r"|GLIBC|GCC|CXXABI)"
)
_MAIL = Pattern(
    rf"(?<![\w.+-])[A-Za-z0-9_.+-]+@(?!{_NO_HOST})[A-Za-z0-9](?:[A-Za-z0-9-]*\.)+[A-Za-z]{{2,}}(?![\w-])"
)
_LOGIN = Pattern(
    rf"(?<![\w.@+-])(?!{PSEUDONYM}@)(?P<user>[A-Za-z_][A-Za-z0-9_.-]*)@(?!{_NO_HOST})(?!{PSEUDONYM})"
    r"(?P<host>(?=[A-Za-z.-]*[0-9-])[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)(?![\w@])"
)
_NAMED_USER = Pattern(
    r"(?P<head>(?<![A-Za-z0-9])(?:user|user_?name|logname)\\*[\"']?\s*[=:](?![:=])\s*\\*[\"']?)"
    rf"(?!{PSEUDONYM})(?P<name>{NAME})",
    re.IGNORECASE,
)
# A home wherever it is: `HOME=/data/7/ann`.
_STATED_HOME = Pattern(rf"/(?:[^/\s]{{1,64}}/){{0,8}}(?!{PSEUDONYM})(?P<name>[A-Za-z0-9_][\w.-]{{0,64}})/?\Z")
# What `id` prints.
_ID = Pattern(r"(?P<head>\b(?:e?[ug]id|groups)=\d{1,10}\()(?P<name>[A-Za-z_][\w.-]{0,64})(?=\))")
# A node of a graph has users too: `user: Embedding`, `user: convolution_default`.
_CODE_NAME = Pattern(
    r"(?:(?:[A-Z]\w*)?(?:Embedding|Linear|Conv|Norm|Layer|Dropout|ReLU|GELU|SiLU|Softmax|Module|ModuleList|Sequential"
    r"|Attention|MLP|Pool|Pooling|Loss|Model|Encoder|Decoder|Block|Backward|Forward|Optimizer|Identity|Upsample|Tensor"
    r"|Stage|Adapter|Head|Transformer)(?:[0-9]d?)?|[a-z]\w*_(?:default|tensor|Tensor|scalar|Scalar|backward|forward|out)(?:_\d+)?"
    r"|(?:aten|prim|torch|nn|prims|c10|at|inductor)(?:[.:].*)?)\Z",
    re.DOTALL,
)


def _stated(hosts: Iterable[str], users: Iterable[str]) -> Identities:
    """The names that may be replaced wherever they stand."""
    hosts = (host for host in hosts if not is_address(host) and not re.fullmatch(PSEUDONYM, host))
    users = (user for user in users if not _CODE_NAME.match(user) and not re.fullmatch(PSEUDONYM, user))
    return Identities(frozenset(filter(is_learnable, hosts)), frozenset(filter(is_learnable, users)))


def identities_in_tree(value: Any) -> Identities:
    """Host and user names that a JSON value states under a name that says so (`host_name`, `USER`)."""
    hosts: set[str] = set()
    users: set[str] = set()

    def walk(item: Any, name: str) -> None:
        if isinstance(item, Mapping):
            for key, inside in item.items():
                walk(inside, str(key))
        elif isinstance(item, (list, tuple)):
            for inside in item:
                walk(inside, name)
        elif isinstance(item, str):
            lowered = name.lower()
            if lowered in _HOST_KEYS:
                if re.fullmatch(NAME, item) and (not lowered.startswith("node") or is_host_like(item)):
                    hosts.add(item)
                elif lowered.endswith("list"):
                    hosts.update(hosts_of_list(item))
            elif lowered in _USER_KEYS and re.fullmatch(NAME, item):
                users.add(item)
            elif lowered == "home" and (home := _STATED_HOME.match(item)) and not is_nobody(home["name"]):
                users.add(home["name"])
            users.update(home_owners(item))

    walk(value, "")
    return _stated(hosts, users)


def identities_in_text(text: str) -> Identities:
    """Host and user names that a text gives away by its form: home paths, logins, handler file names."""
    hosts = set(hosts_in_text(text))
    users: set[str] = set()
    if "/" in text or "\\" in text:
        users.update(home_owners(text))
        users.update(match["name"] for match in _OWN_DIRECTORY.finditer(text))
        users.update(match["name"] for match in _TILDE.finditer(text))
    if "@" in text:
        for match in _LOGIN.finditer(text):
            users.add(match["user"])
            hosts.add(match["host"])
    if "=" in text or ":" in text:
        users.update(match["name"] for match in _NAMED_USER.finditer(text))
    if "id=" in text or "groups=" in text:
        users.update(match["name"] for match in _ID.finditer(text))
    return _stated(hosts, users)


def identities_in_path(path: str) -> Identities:
    """The identities of a path that may begin below a folder that is not shown: in a sentence `home/ann/x`
    may be no path, here it is one."""
    rooted = path if path.startswith(("/", "\\")) else f"/{path}"
    return identities_in_text(rooted) | _stated((), (rooted[begin:end] for begin, end, _ in owners(rooted)))


def key_of_inputs(digests: Iterable[str]) -> bytes:
    """The key used where a site has set none: the same inputs give the same pseudonyms."""
    return hashlib.sha256("\n".join(sorted(digests)).encode()).digest()


class Pseudonyms:
    """Replaces identities by names derived from `key`; `known` are replaced wherever they stand."""

    def __init__(self, key: bytes, known: Identities = NOBODY) -> None:
        self._key = key
        self._hosts = _words(known.hosts, r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])")
        self._users = _words(known.users, r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])")

    def name(self, kind: str, value: str) -> str:
        """`kind-` and eight hex digits: the same for the same value under the same key."""
        same = value.lower()
        if kind == "host" and not is_address(same):
            same = same.split(".", 1)[0]
        digest = hmac.new(self._key, f"{kind}\0{same}".encode(), hashlib.sha256).hexdigest()
        return f"{kind}-{digest[:8]}"

    def apply(self, text: str) -> str:
        """The text with every identity replaced."""
        changed = self._apply_once(text)
        # what was replaced may have hidden another
        return changed if changed == text else self._apply_once(changed)

    def _apply_once(self, text: str) -> str:

        def named(kind: str) -> Callable[[re.Match[str]], str]:
            return lambda match: f"{match['head']}{self._kept_or_named(kind, match['name'])}"

        def host(name: str) -> str:
            return self._kept_or_named("host", name)

        if "@" in text:
            text = _MAIL.sub(lambda match: self.name("mail", match[0]), text)
            text = _LOGIN.sub(self._login, text)
        if "/" in text or "\\" in text:
            text = replace_owners(text, lambda name: self.name("user", name))
            text = _OWN_DIRECTORY.sub(named("user"), text)
            text = _TILDE.sub(named("user"), text)
        text = replace_urls(text, host, is_address)
        text = replace_addresses(text, self.name)
        text = replace_hosts(text, host, self.name)
        if "=" in text or ":" in text:
            text = _NAMED_USER.sub(
                lambda match: match[0] if _CODE_NAME.match(match["name"]) else named("user")(match), text
            )
        if "id=" in text or "groups=" in text:
            text = _ID.sub(named("user"), text)
        if self._hosts:
            text = self._hosts.sub(lambda match: self.name("host", match[0]), text)
        if self._users:
            text = self._users.sub(lambda match: self.name("user", match[0]), text)
        return text

    def _kept_or_named(self, kind: str, value: str) -> str:
        if not is_somebody(value) or re.fullmatch(PSEUDONYM, value) or value.endswith("-"):
            return value
        return self.name(kind, value)

    def _login(self, match: re.Match[str]) -> str:
        host = match["host"] if is_address(match["host"]) else self._kept_or_named("host", match["host"])
        return f"{self._kept_or_named('user', match['user'])}@{host}"


def _words(names: frozenset[str], before: str, after: str) -> re.Pattern[str] | None:
    if not names:
        return None
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    return re.compile(f"{before}(?:{'|'.join(map(re.escape, longest_first))}){after}")


__all__ = [
    "NOBODY",
    "Identities",
    "Pseudonyms",
    "identities_in_path",
    "identities_in_text",
    "identities_in_tree",
    "is_address_in_context",
    "key_of_inputs",
]
