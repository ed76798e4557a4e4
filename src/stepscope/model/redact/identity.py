"""Identities: hosts, users and addresses, found by their form or by what the inputs state of themselves."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stepscope.model.redact.home import HOME, home_owner, home_owners
from stepscope.model.redact.name import PSEUDONYM, is_address, is_somebody
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
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"

# Directories that programs make for one user.
_OWN_DIRECTORY = Pattern(
    rf"(?P<head>(?:[/\\]torchinductor_|pytest-of-|[/\\]run[/\\]media[/\\]))(?!{PSEUDONYM})(?P<name>[A-Za-z0-9_][\w.-]*)"
)
_TILDE = Pattern(rf"(?P<head>(?<![\w./~])~)(?!{PSEUDONYM})(?P<name>[a-z_][a-z0-9_-]+)(?=/)")
_MAIL = Pattern(r"(?<![\w.+-])[A-Za-z0-9_.+-]+@[A-Za-z0-9](?:[A-Za-z0-9-]*\.)+[A-Za-z]{2,}(?![\w-])")
_LOGIN = Pattern(
    rf"(?<![\w.@+-])(?!{PSEUDONYM}@)(?P<user>[A-Za-z_][A-Za-z0-9_.-]*)@"
    rf"(?!GLIBC|GCC|CXXABI)(?!{PSEUDONYM})(?P<host>(?=[A-Za-z.-]*[0-9-])[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)(?![\w@])"
)
_MAC = Pattern(
    r"(?<![\w:-])[0-9A-Fa-f]{2}(?P<glue>[:-])(?:[0-9A-Fa-f]{2}(?P=glue)){4}[0-9A-Fa-f]{2}(?![\w:-])"
)
_QUAD = Pattern(
    r"(?P<before>(?:[A-Za-z_]{1,16}[ \t]{0,4}[:=]?[ \t]{0,4}\(?|//|@|==|>=|<=|~=|[^\s])?)(?<![\w.])"
    r"(?P<quad>(?:\d{1,3}\.){3}\d{1,3})(?P<after>:\d{1,5}(?!\d)|/\d{1,2}(?!\d))?(?![\w]|\.\d|\.[a-z]+\d)"
)
_SIX = Pattern(r"(?<![\w:.])(?:[0-9A-Fa-f]{1,4})?(?::{1,2}[0-9A-Fa-f]{1,4}){2,7}(?:::)?(?:%\w+)?(?![\w:])")
_INTERNAL = Pattern(
    r"(?<![\w.@/-])(?P<host>(?=[a-z.-]*[0-9-])[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"
    r"\.(?:internal|local|localdomain|lan|corp|intra|intranet|amazonaws\.com|cloudapp\.net|svc))(?![\w-])",
    re.IGNORECASE,
)
_EC2 = Pattern(r"(?<![\w-])ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}(?![\w-])")
# A name of three labels or more, judged by `_is_fully_qualified`.
_DOTTED = Pattern(
    r"(?<![\w.@/-])[A-Za-z][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9-]{1,63}){2,8}(?![\w(\[-]|\.\w)", re.IGNORECASE
)
_HOST_WORD = (
    r"(?:dgx|hgx|gpu|cpu|node|nid|compute|comp|worker|login|head|master|cn|gn|srv|server|host|vm|slurm|hpc|cluster"
    r"|frontend|submit|storage)[a-z]{0,3}-?\d"
)
_HOST_LABEL = Pattern(
    rf"(?:{_HOST_WORD}|(?!(?:us|eu|ap|ca|sa|af|me|il)-[a-z]+-\d)"
    r"(?!(?:download|cdn|dl|docs|files|www|repo|mirror|api|static|s3)[0-9-])[a-z0-9]*-[a-z0-9-]*\d)",
    re.IGNORECASE,
)
_SITE_END = Pattern(r"\.(?:edu|gov|mil|(?:ac|edu|gov)\.[a-z]{2})\Z", re.IGNORECASE)
_DOMAIN_END = Pattern(
    r"\.(?:com|org|net|(?:co|com|org|net|or|go|re)\.[a-z]{2}|de|fr|uk|nl|se|fi|dk|ch|at|it|es|be|cz|pl|no|jp|cn|kr|tw|sg"
    r"|hk|au|nz|ca|us|br|il|ru|eu|ie|gr|hu|si|sk|ee|lv|lt|lu|ro|bg|hr|tr|za|mx)\Z",
    re.IGNORECASE,
)
_URL_HOST = Pattern(
    r"(?P<head>\b(?P<scheme>tcp|grpc|ssh|sftp|smb|cifs|nfs|afp|hdfs|rsync|redis|postgres|postgresql|mysql|mongodb|amqp"
    rf"|zmq|ucx|https?)://(?:[^/\s@\"']{{0,128}}@)?)(?!{PSEUDONYM})(?P<name>[A-Za-z0-9][A-Za-z0-9.-]{{0,252}})"
)
_UNC = Pattern(
    rf"(?P<head>(?<![\w\\:.)\]])(?:\\\\(?!\\)(?=[\w.-]+\\[\w$])|\\{{4}}(?!\\)(?=[\w.-]+\\\\[\w$])))"
    rf"(?!{PSEUDONYM})(?P<name>[A-Za-z0-9][A-Za-z0-9.-]{{1,252}})(?=\\)"
)
_NAMED_HOST = Pattern(
    rf"(?P<head>(?<![A-Za-z0-9])(?:host|host_?name|node_?name|fqdn|SLURMD_NODENAME|MASTER_ADDR)\\*[\"']?\s*[=:](?![:=])\s*\\*[\"']?)"
    rf"(?!{PSEUDONYM})(?P<name>{_NAME})",
    re.IGNORECASE,
)
_NAMED_USER = Pattern(
    rf"(?P<head>(?<![A-Za-z0-9])(?:user|user_?name|logname)\\*[\"']?\s*[=:](?![:=])\s*\\*[\"']?)"
    rf"(?!{PSEUDONYM})(?P<name>{_NAME})",
    re.IGNORECASE,
)
# `<host>_<pid>.<time>.pt.trace.json`, the name a profiler's TensorBoard handler gives.
_HANDLER_FILE = Pattern(
    r"(?<![\w.-])(?P<host>[A-Za-z][A-Za-z0-9.-]*)_\d+\.\d{10,}(?:\.\d+)?\.pt\.trace\.json"
)  # fmt: skip
# What stands before four dotted numbers says whether they are a version or an address.
_VERSION_WORDS = Pattern(
    r"(?:v|ver|version|release|driver|cuda|cudnn|cublas|nccl|rocm|cupti|toolkit|build|lib\w*|\w+-cu\d+"
    r"|==|>=|<=|~=)[ \t]*[:=]?[ \t]*\(?$",
    re.IGNORECASE,
)
_ADDRESS_WORDS = Pattern(
    r"(?:ip|ipv4|addr|address|host|hostname|server|node|from|to|at|via|master|peer|endpoint|listen|bind"
    r"|connect\w*|remote|client|rank\d*|//|@)[ \t]*[:=]?[ \t]*\(?$",
    re.IGNORECASE,
)


def _is_fully_qualified(name: str) -> bool:
    """Whether a dotted name is a host's: it begins as hosts do and ends as domains do."""
    first = name.split(".", 1)[0]
    if not any(char.isdigit() for char in first):
        return False
    if _SITE_END.search(name):
        return True
    return bool(_DOMAIN_END.search(name) and _HOST_LABEL.match(first))


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
            if lowered in _HOST_KEYS and re.fullmatch(_NAME, item) and not is_address(item):
                hosts.add(item)
            elif lowered in _USER_KEYS and re.fullmatch(_NAME, item):
                users.add(item)
            users.update(home_owners(item))

    walk(value, "")
    return Identities(frozenset(filter(is_somebody, hosts)), frozenset(filter(is_somebody, users)))


def identities_in_text(text: str) -> Identities:
    """Host and user names that a text gives away by its form: home paths, logins, handler file names."""
    hosts: set[str] = set()
    users: set[str] = set()
    if "/" in text or "\\" in text:
        users.update(home_owners(text))
        users.update(match["name"] for match in _OWN_DIRECTORY.finditer(text))
        hosts.update(match["name"] for match in _UNC.finditer(text))
        users.update(match["name"] for match in _TILDE.finditer(text))
    if "@" in text:
        for match in _LOGIN.finditer(text):
            users.add(match["user"])
            hosts.add(match["host"])
    if "." in text:
        for match in _DOTTED.finditer(text):
            if _is_fully_qualified(match[0]):
                first = match[0].split(".", 1)[0]
                hosts.update((match[0], first) if _HOST_LABEL.match(first) else (match[0],))
    if ".pt.trace" in text:
        hosts.update(match["host"] for match in _HANDLER_FILE.finditer(text))
    if "=" in text or ":" in text:
        hosts.update(match["name"] for match in _NAMED_HOST.finditer(text))
        users.update(match["name"] for match in _NAMED_USER.finditer(text))
    hosts = {host for host in hosts if not is_address(host) and not re.fullmatch(PSEUDONYM, host)}
    users = {user for user in users if not re.fullmatch(PSEUDONYM, user)}
    return Identities(frozenset(filter(is_somebody, hosts)), frozenset(filter(is_somebody, users)))


def key_of_inputs(digests: Iterable[str]) -> bytes:
    """The key used where a site has set none: the same inputs give the same pseudonyms."""
    return hashlib.sha256("\n".join(sorted(digests)).encode()).digest()


class Pseudonyms:
    """Replaces identities by names derived from `key`; `known` are replaced wherever they stand."""

    def __init__(self, key: bytes, known: Identities = NOBODY) -> None:
        self._key = key
        self._hosts = _words(known.hosts, r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])")
        self._users = _words(known.users, r"(?<![A-Za-z0-9_])", r"(?![A-Za-z0-9_])")

    def name(self, kind: str, value: str) -> str:
        """`kind-` and eight hex digits: the same for the same value under the same key."""
        same = value.lower()
        if kind == "host" and not is_address(same):
            same = same.split(".", 1)[0]
        digest = hmac.new(self._key, f"{kind}\0{same}".encode(), hashlib.sha256).hexdigest()
        return f"{kind}-{digest[:8]}"

    def apply(self, text: str) -> str:
        """The text with every identity replaced."""

        def named(kind: str) -> Callable[[re.Match[str]], str]:
            return lambda match: f"{match['head']}{self._kept_or_named(kind, match['name'])}"

        if "@" in text:
            text = _MAIL.sub(lambda match: self.name("mail", match[0]), text)
            text = _LOGIN.sub(self._login, text)
        if "/" in text or "\\" in text:
            text = HOME.sub(self._home, text)
            text = _OWN_DIRECTORY.sub(named("user"), text)
            text = _TILDE.sub(named("user"), text)
        if "://" in text:
            text = _URL_HOST.sub(self._url_host, text)
        if "\\" in text:
            text = _UNC.sub(named("host"), text)
        if ":" in text or "-" in text:
            text = _MAC.sub(lambda match: self.name("mac", match[0].replace("-", ":")), text)
        if ":" in text:
            text = _SIX.sub(self._six, text)
        if "." in text:
            text = _QUAD.sub(self._quad, text)
            text = _INTERNAL.sub(lambda match: self.name("host", match["host"]), text)
            text = _DOTTED.sub(
                lambda match: self.name("host", match[0]) if _is_fully_qualified(match[0]) else match[0], text
            )
        if "ip-" in text:
            text = _EC2.sub(lambda match: self.name("host", match[0]), text)
        if ".pt.trace" in text:
            text = _HANDLER_FILE.sub(
                lambda match: self._kept_or_named("host", match["host"]) + match[0][len(match["host"]) :],
                text,
            )
        if "=" in text or ":" in text:
            text = _NAMED_HOST.sub(named("host"), text)
            text = _NAMED_USER.sub(named("user"), text)
        if self._hosts:
            text = self._hosts.sub(lambda match: self.name("host", match[0]), text)
        if self._users:
            text = self._users.sub(lambda match: self.name("user", match[0]), text)
        return text

    def _kept_or_named(self, kind: str, value: str) -> str:
        if not is_somebody(value) or re.fullmatch(PSEUDONYM, value) or value.endswith("-"):
            return value
        return self.name(kind, value)

    def _home(self, match: re.Match[str]) -> str:
        owner, _ = home_owner(match)
        if not owner:
            return match[0]
        at = match.start("name") - match.start()
        return f"{match[0][:at]}{self.name('user', owner)}{match[0][at + len(owner) :]}"

    def _url_host(self, match: re.Match[str]) -> str:
        name = match["name"].rstrip(".")
        if match["scheme"].startswith("http"):
            is_host = bool(_is_fully_qualified(name) and re.match(_HOST_WORD, name, re.IGNORECASE))
        else:
            is_host = not is_address(name)
        kept = self._kept_or_named("host", name) if is_host else name
        return f"{match['head']}{kept}{match['name'][len(name) :]}"

    def _login(self, match: re.Match[str]) -> str:
        return f"{self._kept_or_named('user', match['user'])}@{self._kept_or_named('host', match['host'])}"

    def _six(self, match: re.Match[str]) -> str:
        text = match[0]
        try:
            address = ipaddress.IPv6Address(text.split("%", 1)[0])
        except ValueError:
            return text
        first = text.split(":", 1)[0]
        # `::add` and `ade::bad` are C++ names that happen to be hexadecimal.
        if address.is_loopback or len(first) < 3 or not any(char.isdigit() for char in text):
            return text
        return self.name("ip", str(address))

    def _quad(self, match: re.Match[str]) -> str:
        quad = match["quad"]
        try:
            address = ipaddress.IPv4Address(quad)
        except ValueError:
            return match[0]
        before, after = match["before"] or "", match["after"] or ""
        if address.is_loopback or address.is_unspecified or not is_address_in_context(quad, before, after):
            return match[0]
        return f"{before}{self.name('ip', quad)}{after}"


def is_address_in_context(quad: str, before: str, after: str) -> bool:
    """Whether four dotted numbers are an address and not a version such as 12.4.0.1.

    A port or a mask behind, or a word such as "host" before, says address; a word such as "driver" or
    an operator such as == says version. With neither: addresses set aside for private networks and
    numbers beyond what versions reach are addresses.
    """
    if _VERSION_WORDS.search(before) or before in ("-", "_", "+"):
        return False
    if after.startswith(":") or _ADDRESS_WORDS.search(before):
        return True
    parts = [int(part) for part in quad.split(".")]
    private = parts[0] == 10 or parts[:2] == [192, 168] or (parts[0] == 172 and 16 <= parts[1] < 32)
    return private or parts[0] >= 32 or max(parts) >= 128


def _words(names: frozenset[str], before: str, after: str) -> re.Pattern[str] | None:
    if not names:
        return None
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    return re.compile(f"{before}(?:{'|'.join(map(re.escape, longest_first))}){after}")
