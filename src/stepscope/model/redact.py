"""Takes secrets out of everything that is shown, and puts pseudonyms in the place of identities.

Secrets (tokens, keys, passwords, credentials in URLs, private keys, environment dumps) go always: public
traces were found with live tokens in their metadata. Identities (host and user names, home paths,
addresses) are replaced in what is exported by pseudonyms that are the same for the same key, so that
"the slow host" keeps one name over all reports of a site that sets its key.

Pure: the key and the names that are known to be identities come in as arguments. Every function is
idempotent: what it puts in is never taken for a secret or an identity again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

import msgspec

from stepscope.model.trace import Trace

T = TypeVar("T")

SECRET = "[secret-removed]"
ENVIRONMENT = "[environment-removed]"

# ── what a secret looks like by itself ────────────────────────────────────────────────────────────────
# (needle that must be in the text, pattern). The needle is a plain substring: a text without it costs
# one fast search and no regular expression. Forms as published by each issuer.
_TOKENS: tuple[tuple[str, str], ...] = (
    ("hf_", r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{16,}"),
    ("gh", r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{16,}"),
    ("github_pat_", r"github_pat_[A-Za-z0-9_]{16,}"),
    ("glpat-", r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{16,}"),
    ("AKIA", r"(?<![A-Za-z0-9])AKIA[A-Z0-9]{12,}(?![a-z])"),
    ("ASIA", r"(?<![A-Za-z0-9])ASIA[A-Z0-9]{12,}(?![a-z])"),
    ("sk-", r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{16,}"),
    ("sk_", r"(?<![A-Za-z0-9])[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("xox", r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{8,}"),
    ("xapp-", r"(?<![A-Za-z0-9])xapp-[A-Za-z0-9-]{8,}"),
    ("hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{8,}"),
    ("AIza", r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{30,}"),
    ("nvapi-", r"(?<![A-Za-z0-9])nvapi-[A-Za-z0-9_-]{16,}"),
    ("npm_", r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{30,}"),
    ("pypi-", r"(?<![A-Za-z0-9])pypi-[A-Za-z0-9_-]{32,}"),
    ("dckr_pat_", r"dckr_pat_[A-Za-z0-9_-]{16,}"),
    ("eyJ", r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
)

# ── names whose value is a secret ─────────────────────────────────────────────────────────────────────
# `token` counts only as the last word of the name: num_tokens, token_ids and tokenizer are a model's.
_SECRET_WORDS = (
    r"pass(?:word|wd|phrase)|pwd|secret(?:s|[_-]?key|[_-]?access[_-]?key)?|api[_-]?keys?|apikey"
    r"|access[_-]?keys?(?:[_-]?id)?|private[_-]?key|secretkey|credentials?|authorization|signature|sig"
)
_SECRET_NAME = re.compile(rf"(?:^|[^a-z])(?:{_SECRET_WORDS}|(?:auth)?token)$", re.IGNORECASE)
_CAMEL_NAME = re.compile(r"[a-z](?:Password|Passwd|Secret|SecretKey|ApiKey|AccessKey|PrivateKey|Token)$")
# Special tokens of a tokenizer, not credentials.
_MODEL_TOKENS = re.compile(
    r"(?:^|_)(?:pad|eos|bos|cls|sep|mask|unk|image|video|audio|next|last|first|prev|start|end|stop|special|per)"
    r"_token$",
    re.IGNORECASE,
)
_NOT_A_SECRET = frozenset(
    ("", "none", "null", "nil", "true", "false", "yes", "no", "0", "1", "unset", "undefined", "n/a", "***")
)
_ENVIRONMENT_NAME = re.compile(r"^(?:os[._]?)?env(?:iron(?:ment)?)?(?:[_-]?var(?:iable)?s)?$", re.IGNORECASE)

# The word first, then back to where its name begins: to begin with the name would be to try every letter.
_PAIR = re.compile(
    rf"(?P<word>{_SECRET_WORDS}|token)"
    r"(?P<glue>\\*[\"']?\s{0,8}(?::(?!:)|=(?!=))\s{0,8})"
    r"(?P<value>\\*\"(?:[^\"\\]|\\(?!\")[^\"])*\\*\"|\\*'[^']*'|[^\s\"',;&|(){}\[\]<>]+)",
    re.IGNORECASE,
)
_NAME_END = re.compile(r"[A-Za-z0-9_.-]{0,64}\Z")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_HEADER = re.compile(
    r"(?P<head>\bauthorization\\*[\"']?\s*[:=]\s*\\*[\"']?(?:(?:bearer|basic|token|digest)\s+)?)"
    r"(?P<value>(?!\[secret|(?:bearer|basic|token|digest)\s)[^\s\"',;\\]+)",
    re.IGNORECASE,
)
_SCHEME = re.compile(
    r"(?P<head>\b(?:bearer|basic)\s+)(?P<value>(?=[A-Za-z._~+/-]*[0-9=])[A-Za-z0-9._~+/-]{8,}=*)",
    re.IGNORECASE,
)
_URL_CREDENTIALS = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]{0,20}://)(?P<value>[^/\s:@\"'\[]*:[^/\s@\"'\[]+|[^/\s:@\"'\[]{16,})@",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PIECE = re.compile(r"[^\s,;\x00]+")
# A pasted `env` has at least so many NAME=value, with at most so many other words between two of them.
_LEAST_ASSIGNED, _MOST_BETWEEN = 5, 12
_ENVIRONMENT_SIGN = re.compile(r"(?<![A-Za-z0-9_])(?:PATH|HOME|PWD|USER|SHELL|HOSTNAME|LD_LIBRARY_PATH)=")

# Any of these in the lower-case text means that a closer look is worth its time.
_NEEDLES = (
    *(needle.lower() for needle, _ in _TOKENS),
    *("token", "passw", "passphrase", "pwd", "secret", "key", "credential", "authorization", "sig"),
    *("bearer", "basic", "://", "-----begin", "path=", "home="),
)
_TOKEN_PATTERNS = tuple((needle, re.compile(pattern)) for needle, pattern in _TOKENS)


def is_secret_name(name: str) -> bool:
    """Whether a value under this name (an environment variable, a JSON key) is a secret."""
    if _MODEL_TOKENS.search(name):
        return False
    return bool(_SECRET_NAME.search(name) or _CAMEL_NAME.search(name))


def _is_secret_value(name: str, value: str) -> bool:
    bare = value.strip("\\\"' \t")
    if bare.lower() in _NOT_A_SECRET or bare.startswith(("[secret", "[environment")):
        return False
    lowered = name.lower()
    if lowered.endswith("token"):  # a count or a special token is not a credential
        return len(bare) >= 6 and not re.fullmatch(r"[0-9.,eE+-]+|<.*", bare)
    if lowered.endswith(("pwd", "sig", "signature")):
        return len(bare) >= 4 and not bare.startswith(("/", "("))
    return True


def without_secrets(text: str) -> tuple[str, int]:
    """The text with every secret replaced by a mark, and how many were replaced."""
    lowered = text.lower()
    if not any(needle in lowered for needle in _NEEDLES):
        return text, 0
    count = 0

    def mark(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return SECRET

    def mark_value(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"{match['head']}{SECRET}"

    def mark_url(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"{match['scheme']}{SECRET}@"

    def mark_pair(match: re.Match[str]) -> str:
        nonlocal count
        before = _NAME_END.search(match.string, max(0, match.start() - 64), match.start())
        name = (before[0] if before else "") + match["word"]
        if name.lower().endswith("authorization"):  # its scheme word is not the secret
            return match[0]
        if not is_secret_name(name) or not _is_secret_value(name, match["value"]):
            return match[0]
        count += 1
        quote = re.match(r"\\*[\"']", match["value"])
        around = quote[0] if quote else ""
        return f"{match['word']}{match['glue']}{around}{SECRET}{around}"

    if "-----begin" in lowered:
        text = _PRIVATE_KEY.sub(mark, text)
    for needle, pattern in _TOKEN_PATTERNS:
        if needle in text:
            text = pattern.sub(mark, text)
    if "://" in text:
        text = _URL_CREDENTIALS.sub(mark_url, text)
    if "authorization" in lowered:
        text = _HEADER.sub(mark_value, text)
    if "bearer" in lowered or "basic" in lowered:
        text = _SCHEME.sub(mark_value, text)
    text = _PAIR.sub(mark_pair, text)
    if "path=" in lowered or "home=" in lowered:
        text, more = _without_environment(text)
        count += more
    return text, count


def _without_environment(text: str) -> tuple[str, int]:
    """The text without pasted environments; one that held no marked secret counts as one."""
    runs: list[tuple[int, int]] = []
    first = last = num_assigned = num_between = 0
    for piece in _PIECE.finditer(text):
        if _ASSIGNED.match(piece[0]):
            if num_assigned == 0:
                first = piece.start()
            num_assigned, num_between, last = num_assigned + 1, 0, piece.end()
        elif num_assigned:
            num_between += 1
            if num_between > _MOST_BETWEEN:
                runs += [(first, last)] if num_assigned >= _LEAST_ASSIGNED else []
                num_assigned = 0
    runs += [(first, last)] if num_assigned >= _LEAST_ASSIGNED else []
    count = 0
    for begin, end in reversed(runs):
        dump = text[begin:end]
        if _ENVIRONMENT_SIGN.search(dump):
            count += 0 if SECRET in dump else 1
            text = text[:begin] + ENVIRONMENT + text[end:]
    return text, count


def tree_without_secrets(value: Any) -> tuple[Any, int]:
    """A JSON value without secrets, and how many were removed.

    A value under a name that says secret goes whole; a mapping or list under a name that says
    environment goes whole too, and counts as the secrets found in it, at least one.
    """
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Mapping):
        total = 0
        kept: dict[Any, Any] = {}
        for name, item in value.items():
            clean_name, found = without_secrets(name) if isinstance(name, str) else (name, 0)
            if isinstance(name, str) and _ENVIRONMENT_NAME.match(name) and isinstance(item, (Mapping, list)):
                if item:
                    found += max(1, tree_without_secrets(item)[1])
                    item = ENVIRONMENT
            elif isinstance(name, str) and is_secret_name(name) and isinstance(item, (str, int, float)):
                if not isinstance(item, bool) and _is_secret_value(name, str(item)):
                    found += 1
                    item = SECRET
            else:
                item, inside = tree_without_secrets(item)
                found += inside
            kept[clean_name] = item
            total += found
        return kept, total
    if isinstance(value, (list, tuple)):
        items = [tree_without_secrets(item) for item in value]
        return type(value)(item for item, _ in items), sum(found for _, found in items)
    return value, 0


# ── identities ────────────────────────────────────────────────────────────────────────────────────────
@dataclasses.dataclass(frozen=True, slots=True)
class Identities:
    """Names known to be of a host or a user, from where the inputs say so (metadata, home paths)."""

    hosts: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()

    def __or__(self, other: Identities) -> Identities:
        return Identities(self.hosts | other.hosts, self.users | other.users)


NOBODY = Identities()

# Words that are no one's name although they stand where a name does.
_NOBODY = frozenset(
    "root user admin nobody default none null unknown localhost local host node worker master test ubuntu "
    "debian centos ec2-user docker container python torch cuda linux home shared public data job "
    # Words of our own sentences: a pseudonym in their place would make nonsense of a report.
    "step steps rank ranks device devices kernel kernels trace traces train trainer training time copy "
    "copies launch launches queue idle input loader waiting communication computing stream event events "
    "batch model gpu cpu rule finding card share the and for with before after work found next check "
    "change cause health issue note first".split()
)
_HOST_KEYS = frozenset(
    "host hostname host_name node nodename node_name slurmd_nodename slurm_nodelist slurm_job_nodelist "
    "master_addr pod_name podname worker_name fqdn machine_name".split()
)
_USER_KEYS = frozenset(
    "user username user_name logname login sudo_user slurm_job_user started_by owner".split()
)
_PSEUDONYM = r"(?:host|user|ip|mail|mac)-[0-9a-f]{8}(?![0-9A-Za-z])"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"

_HOME = re.compile(
    r"(?P<head>(?<![\w.])(?:/[\w.-]+)?/(?:home|Users)/+|\b[A-Za-z]:(?:\\+|/+)(?:Users|home)(?:\\+|/+))"
    rf"(?!{_PSEUDONYM})(?P<name>[^/\\\s:;,\"'()<>|\[\]]+)"
)
_TILDE = re.compile(rf"(?P<head>(?<![\w./~])~)(?!{_PSEUDONYM})(?P<name>[a-z_][a-z0-9_-]+)(?=/)")
_MAIL = re.compile(r"(?<![\w.+-])[A-Za-z0-9_.+-]+@[A-Za-z0-9](?:[A-Za-z0-9-]*\.)+[A-Za-z]{2,}(?![\w-])")
_LOGIN = re.compile(
    rf"(?<![\w.@+-])(?!{_PSEUDONYM}@)(?P<user>[A-Za-z_][A-Za-z0-9_.-]*)@"
    rf"(?!GLIBC|GCC|CXXABI)(?!{_PSEUDONYM})(?P<host>(?=[A-Za-z.-]*[0-9-])[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)(?![\w@])"
)
_MAC = re.compile(
    r"(?<![\w:-])[0-9A-Fa-f]{2}(?P<glue>[:-])(?:[0-9A-Fa-f]{2}(?P=glue)){4}[0-9A-Fa-f]{2}(?![\w:-])"
)
_QUAD = re.compile(
    r"(?P<before>(?:[A-Za-z_]{1,16}[ \t]{0,4}[:=]?[ \t]{0,4}\(?|//|@|==|>=|<=|~=|[^\s])?)(?<![\w.])"
    r"(?P<quad>(?:\d{1,3}\.){3}\d{1,3})(?P<after>:\d{1,5}(?!\d)|/\d{1,2}(?!\d))?(?![\w]|\.\d|\.[a-z]+\d)"
)
_SIX = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{1,4})?(?::{1,2}[0-9A-Fa-f]{1,4}){2,7}(?:::)?(?:%\w+)?(?![\w:])")
_INTERNAL = re.compile(
    r"(?<![\w.@/-])(?P<host>(?=[a-z.-]*[0-9-])[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"
    r"\.(?:internal|local|localdomain|lan|corp|intra|intranet|amazonaws\.com|cloudapp\.net|svc))(?![\w-])",
    re.IGNORECASE,
)
_EC2 = re.compile(r"(?<![\w-])ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}(?![\w-])")
_NAMED_HOST = re.compile(
    rf"(?P<head>(?<![A-Za-z0-9])(?:host|host_?name|node_?name|fqdn|SLURMD_NODENAME|MASTER_ADDR)\\*[\"']?\s*[=:](?![:=])\s*\\*[\"']?)"
    rf"(?!{_PSEUDONYM})(?P<name>{_NAME})",
    re.IGNORECASE,
)
_NAMED_USER = re.compile(
    rf"(?P<head>(?<![A-Za-z0-9])(?:user|user_?name|logname)\\*[\"']?\s*[=:](?![:=])\s*\\*[\"']?)"
    rf"(?!{_PSEUDONYM})(?P<name>{_NAME})",
    re.IGNORECASE,
)
# `<host>_<pid>.<time>.pt.trace.json`, the name a profiler's TensorBoard handler gives.
_HANDLER_FILE = re.compile(
    r"(?<![\w.-])(?P<host>[A-Za-z][A-Za-z0-9.-]*)_\d+\.\d{10,}(?:\.\d+)?\.pt\.trace\.json"
)  # fmt: skip
_RANKISH = re.compile(r"^(?:rank|worker|trace)[-_.]?\d*$", re.IGNORECASE)
# What stands before four dotted numbers says whether they are a version or an address.
_VERSION_WORDS = re.compile(
    r"(?:v|ver|version|release|driver|cuda|cudnn|cublas|nccl|rocm|cupti|toolkit|build|lib\w*|\w+-cu\d+"
    r"|==|>=|<=|~=)[ \t]*[:=]?[ \t]*\(?$",
    re.IGNORECASE,
)
_ADDRESS_WORDS = re.compile(
    r"(?:ip|ipv4|addr|address|host|hostname|server|node|from|to|at|via|master|peer|endpoint|listen|bind"
    r"|connect\w*|remote|client|rank\d*|//|@)[ \t]*[:=]?[ \t]*\(?$",
    re.IGNORECASE,
)


def _is_somebody(name: str) -> bool:
    return len(name) >= 3 and name.lower() not in _NOBODY and not name.isdigit() and not _RANKISH.match(name)


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
            if lowered in _HOST_KEYS and re.fullmatch(_NAME, item) and not _is_address(item):
                hosts.add(item)
            elif lowered in _USER_KEYS and re.fullmatch(_NAME, item):
                users.add(item)
            users.update(match["name"] for match in _HOME.finditer(item))

    walk(value, "")
    return Identities(frozenset(filter(_is_somebody, hosts)), frozenset(filter(_is_somebody, users)))


def identities_in_text(text: str) -> Identities:
    """Host and user names that a text gives away by its form: home paths, logins, handler file names."""
    hosts: set[str] = set()
    users: set[str] = set()
    if "/" in text or "\\" in text:
        users.update(match["name"] for match in _HOME.finditer(text))
        users.update(match["name"] for match in _TILDE.finditer(text))
    if "@" in text:
        for match in _LOGIN.finditer(text):
            users.add(match["user"])
            hosts.add(match["host"])
    if ".pt.trace" in text:
        hosts.update(match["host"] for match in _HANDLER_FILE.finditer(text))
    if "=" in text or ":" in text:
        hosts.update(match["name"] for match in _NAMED_HOST.finditer(text))
        users.update(match["name"] for match in _NAMED_USER.finditer(text))
    hosts = {host for host in hosts if not _is_address(host) and not re.fullmatch(_PSEUDONYM, host)}
    users = {user for user in users if not re.fullmatch(_PSEUDONYM, user)}
    return Identities(frozenset(filter(_is_somebody, hosts)), frozenset(filter(_is_somebody, users)))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


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
        if kind == "host" and not _is_address(same):
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
            text = _HOME.sub(named("user"), text)
            text = _TILDE.sub(named("user"), text)
        if ":" in text or "-" in text:
            text = _MAC.sub(lambda match: self.name("mac", match[0].replace("-", ":")), text)
        if ":" in text:
            text = _SIX.sub(self._six, text)
        if "." in text:
            text = _QUAD.sub(self._quad, text)
            text = _INTERNAL.sub(lambda match: self.name("host", match["host"]), text)
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
        if not _is_somebody(value) or re.fullmatch(_PSEUDONYM, value) or value.endswith("-"):
            return value
        return self.name(kind, value)

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


# ── whole structures ──────────────────────────────────────────────────────────────────────────────────
# Leaves that we made ourselves, from fixed lists, and that programs compare byte by byte.
_OURS = frozenset(
    "schema sha256 id rule code feature layer severity confidence from_ op use scope status method "
    "persistence bound effect".split()
)


def map_strings(value: T, change: Callable[[str], str], skip: frozenset[str] = _OURS) -> T:
    """The same structure (structs, dataclasses, mappings, sequences) with every string leaf changed.

    String leaves in fields or under keys named in `skip` stay. Mapping keys are changed too.
    """

    def field(name: Any, item: Any) -> Any:
        return item if name in skip and isinstance(item, str) else walk(item)

    def walk(item: Any) -> Any:
        if isinstance(item, str):
            return change(item)
        if isinstance(item, msgspec.Struct):
            return msgspec.structs.replace(
                item, **{name: field(name, getattr(item, name)) for name in item.__struct_fields__}
            )
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            names = [each.name for each in dataclasses.fields(item)]
            return dataclasses.replace(item, **{name: field(name, getattr(item, name)) for name in names})
        if isinstance(item, Mapping):
            return {
                change(key) if isinstance(key, str) else key: field(key, inside)
                for key, inside in item.items()
            }
        if isinstance(item, (list, tuple)):
            return type(item)(walk(inside) for inside in item)
        return item

    return cast("T", walk(value))


def strings_of(value: Any, skip: frozenset[str] = _OURS) -> list[str]:
    """Every string leaf that `map_strings` would change."""
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    map_strings(value, note, skip)
    return found


def trace_without_secrets(trace: Trace) -> tuple[Trace, int, Identities]:
    """The trace without secrets, how many were removed, and the identities that its metadata states."""
    total = 0

    def clean(texts: list[str]) -> list[str]:
        nonlocal total
        joined = "\n".join(texts).lower()
        if not any(needle in joined for needle in _NEEDLES):
            return texts
        pairs = [without_secrets(text) for text in texts]
        found = sum(count for _, count in pairs)
        total += found
        return [text for text, _ in pairs] if found else texts

    metadata, in_metadata = tree_without_secrets(trace.metadata)
    total += in_metadata
    known = identities_in_tree(trace.metadata)
    names, cats, texts = clean(trace.names), clean(trace.cats), clean(trace.texts)
    file_name, in_name = without_secrets(trace.name)
    total += in_name

    def clean_leaf(text: str) -> str:
        nonlocal total
        kept, found = without_secrets(text)
        total += found
        return kept

    tracks = map_strings(trace.tracks, clean_leaf)
    losses = map_strings(trace.losses, clean_leaf)
    changed = dataclasses.replace(
        trace,
        name=file_name,
        names=names,
        cats=cats,
        texts=texts,
        tracks=tracks,
        losses=losses,
        metadata=cast("Mapping[str, Any]", metadata),
    )
    return changed, total, known


def redact_report(
    report: T, *, key: bytes, known: Identities | None = None, keep_identities: bool = False
) -> T:
    """The report as it may leave: no secrets ever, no identities unless `keep_identities`.

    `known` are names that the inputs state as identities; names that the report's own strings give away
    (a home path, a login) are added. Secrets found in the report's own strings are added to
    `inputs[].redacted`, to the input that shows them or else to the first.
    """
    inputs = getattr(report, "inputs", None)
    counts: list[int] = []
    if inputs:
        new_inputs = []
        for item in inputs:
            item, found = _leaves_without_secrets(item)
            counts.append(found)
            new_inputs.append(item)
        report = _replace(report, inputs=type(inputs)(new_inputs))
    report, rest = _leaves_without_secrets(report)
    if counts:
        counts[0] += rest
        inputs = cast("Any", report).inputs
        report = _replace(
            report,
            inputs=type(inputs)(
                _replace(item, redacted=(item.redacted or 0) + found) if found else item
                for item, found in zip(inputs, counts, strict=True)
            ),
        )
    if keep_identities:
        return report
    everybody = known or NOBODY
    for text in strings_of(report):
        everybody = everybody | identities_in_text(text)
    pseudonyms = Pseudonyms(key, everybody)
    ids = {item.id for name in ("findings", "cards") for item in getattr(report, name, ())}
    return map_strings(report, lambda text: text if text in ids else pseudonyms.apply(text))


def _leaves_without_secrets(value: T) -> tuple[T, int]:
    total = 0

    def clean(text: str) -> str:
        nonlocal total
        kept, found = without_secrets(text)
        total += found
        return kept

    return map_strings(value, clean), total


def _replace(value: T, **changes: Any) -> T:
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **changes)
    return cast("T", dataclasses.replace(cast("Any", value), **changes))
