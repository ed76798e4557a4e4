"""Secrets: tokens, keys, passwords, credentials in URLs, private keys, environment dumps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stepscope.model.redact.pattern import Pattern

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
    ("ya29.", r"(?<![A-Za-z0-9])ya29\.[A-Za-z0-9_-]{10,}"),
    ("GOCSPX-", r"(?<![A-Za-z0-9])GOCSPX-[A-Za-z0-9_-]{16,}"),
    ("SG.", r"(?<![A-Za-z0-9_.])SG\.(?=[A-Za-z_.-]{0,80}[0-9])[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    ("r8_", r"(?<![A-Za-z0-9_])r8_(?=[A-Za-z]{0,40}[0-9])[A-Za-z0-9]{16,}(?![A-Za-z0-9_])"),
    ("tskey-", r"(?<![A-Za-z0-9])tskey-[a-z]{2,12}-[A-Za-z0-9-]{8,}"),
    ("hvs.", r"(?<![A-Za-z0-9_.])hvs\.[A-Za-z0-9_-]{20,}"),
    ("gsk_", r"(?<![A-Za-z0-9_])gsk_[A-Za-z0-9]{20,}"),
    ("pplx-", r"(?<![A-Za-z0-9])pplx-[A-Za-z0-9]{20,}"),
    ("xai-", r"(?<![A-Za-z0-9])xai-[A-Za-z0-9]{20,}"),
    ("wandb_v1_", r"(?<![A-Za-z0-9_])wandb_v1_[A-Za-z0-9_]{16,}"),
    ("tgp_v1_", r"(?<![A-Za-z0-9_])tgp_v1_[A-Za-z0-9_-]{16,}"),
    ("rpa_", r"(?<![A-Za-z0-9_])rpa_[A-Z0-9]{20,}[A-Za-z0-9]*"),
    ("dapi", r"(?<![A-Za-z0-9])dapi[0-9a-f]{32}(?![A-Za-z0-9])"),
    ("dop_v1_", r"(?<![A-Za-z0-9_])dop_v1_[0-9a-f]{16,}"),
    ("ATATT3", r"(?<![A-Za-z0-9])ATATT3[A-Za-z0-9_=-]{16,}"),
    ("lrt-", r"(?<![A-Za-z0-9])glrt-[A-Za-z0-9_-]{16,}"),
    ("eyJ", r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
)

# ── names whose value is a secret ─────────────────────────────────────────────────────────────────────
# `token` counts only as the last word of the name: num_tokens, token_ids and tokenizer are a model's.
_SECRET_WORDS = (
    r"pass(?:word|wd|phrase)|pwd|secret(?:s|[_-]?key|[_-]?access[_-]?key)?|api[_-]?keys?|apikey"
    r"|access[_-]?keys?(?:[_-]?id)?|private[_-]?key|secretkey|credentials?|authorization|signature|sig"
    r"|(?:account|shared|storage|signing|encryption|master|ssh|deploy|auth|subscription|service)[_-]?key"
    r"|pswd|passcode"
)
# `pass` is also what a test says, what a compiler does and what a model does forward. It is a password in
# the name of an environment variable, and behind the name of what a password opens.
_PASS_NAME = Pattern(
    r"(?:^|[_.-])PASS$|(?:^|[^A-Za-z])(?i:db|database|user|usr|admin|root|mysql|pg|postgres|redis|mongo|smtp|imap|mail"
    r"|ftp|sftp|http|proxy|ssh|ldap|amqp|rabbitmq|mqtt|auth|login|api|registry|docker|sudo|rpc|keystore)"
    r"[_-]?(?i:pass|pw)$|[a-z](?:Pass|Pw)$"
)
_NO_PASS = Pattern(
    r"(?:forward|backward|fwd|bwd|first|second|third|last|single|multi|two|one|num|low|high|band|render|graph"
    r"|optimi[sz]ation|opt|compile|compiler|fusion|grad|test|tests|full|warmup|inference|train|eval|prefill|decode"
    r"|lowering|codegen|post|pre|sub|joint|custom|inductor|triton|all|each|per|no|by|check|ci)[_.-]?pass$",
    re.IGNORECASE,
)
_SECRET_NAME = Pattern(rf"(?:^|[^a-z])(?:{_SECRET_WORDS}|(?:auth)?token)$", re.IGNORECASE)
_CAMEL_NAME = Pattern(
    r"[a-z](?:Password|Passwd|Secret|(?:Secret|Api|Access|Private|Account|Shared|Storage|Auth|Signing)Key|Token)$"
)
# Special tokens of a tokenizer, not credentials.
_MODEL_TOKENS = Pattern(
    r"(?:^|[_-])(?:pad|eos|bos|cls|sep|mask|unk|image|video|audio|next|last|first|prev|start|end|stop|special|per|bpe|"
    r"new|bot|tool|think|fim|boi|eoi)[_-]token$",
    re.IGNORECASE,
)
_OPENING_KEY = Pattern(
    r"(?:shared|storage|signing|encryption|master|ssh|deploy|auth|subscription|service)[_-]?key$",
    re.IGNORECASE,
)
_NOT_A_SECRET = frozenset(
    ("", "none", "null", "nil", "true", "false", "yes", "no", "0", "1", "unset", "undefined", "n/a", "***")
)
_ENVIRONMENT_NAME = Pattern(r"^(?:os[._]?)?env(?:iron(?:ment)?)?(?:[_-]?var(?:iable)?s)?$", re.IGNORECASE)

# The word first, then back to where its name begins: to begin with the name would be to try every letter.
_PAIR = Pattern(
    rf"(?P<word>{_SECRET_WORDS}|token|pass|pw)"
    r"(?P<glue>\\*[\"']?\s{0,8}(?:=>|:=|:(?![:=])|=(?![=>]))\s{0,8})"
    r"(?P<value>\\*\"(?:[^\"\\]|\\(?!\")[^\"])*\\*\"|\\*'[^']*'|[^\s\"',;&|(){}\[\]<>]+)",
    re.IGNORECASE,
)
# `--password hunter2`, and the same as two words of a list: `"--password", "hunter2"`.
_OPTION = Pattern(
    r"(?P<head>(?<![\w-])--?(?P<name>[A-Za-z][A-Za-z0-9_.-]{0,63})"
    r"(?:[ \t]{1,8}|\\{0,4}[\"'],\s{0,8}(?=\\{0,4}[\"']))"
    r"(?P<quote>\\{0,4}[\"'])?)(?P<value>(?!-|\[secret)(?(quote)[^\"'\\]{1,512}|[^\s\"',;&|(){}\[\]<>]{1,512}))"
)
# What a sentence about such an option goes on with.
_OPTION_PROSE = frozenset(
    "option options flag flags argument arguments parameter parameters is are was and or can may must should "
    "to for from with in if when without given set file".split()
)
_ELEMENT = Pattern(r"(?P<head><(?P<name>[A-Za-z][A-Za-z0-9_.-]{0,63})>)(?P<value>[^<>]{1,512})(?=</)")
_LOGIN_WORDS = Pattern(r"(?<![a-z])(?:user|username|login|uid|usr)[\"']?\s{0,4}[=:]")
_NAME_END = Pattern(r"[A-Za-z0-9_.-]{0,64}\Z")
_PRIVATE_KEY = Pattern(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_HEADER = Pattern(
    r"(?P<head>\bauthorization\\*[\"']?\s*[:=]\s*\\*[\"']?(?:(?:bearer|basic|token|digest)\s+)?)"
    r"(?P<value>(?!\[secret|(?:bearer|basic|token|digest)\s)[^\s\"',;\\]+)",
    re.IGNORECASE,
)
_SCHEME = Pattern(
    r"(?P<head>\b(?:bearer|basic)\s+)(?P<value>(?=[A-Za-z._~+/-]*[0-9=])[A-Za-z0-9._~+/-]{8,}=*)",
    re.IGNORECASE,
)
# Without a digit it is a token where the scheme is written as in a header and no word of a sentence follows.
_BEARER = Pattern(
    r"(?P<head>\b(?:Bearer|BEARER)\s{1,4}|(?<![^\"':=])bearer\s{1,4})"
    r"(?P<value>(?!(?i:auth|credential|certificate|token|instrument|securit|represent|scheme|header|format|must|is\b))"
    r"[A-Za-z][A-Za-z._~+/-]{9,})(?![A-Za-z0-9._~+/-])"
)
_URL_CREDENTIALS = Pattern(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]{0,20}://)(?P<value>[^/\s:@\"'\[]*:[^/\s@\"'\[]+|[^/\s:@\"'\[]{16,})@",
    re.IGNORECASE,
)
_ASSIGNED = Pattern(r"[A-Za-z_][A-Za-z0-9_]*=")
_PIECE = Pattern(r"[^\s,;\x00]+")
# A pasted `env` has at least so many NAME=value, with at most so many other words between two of them.
_LEAST_ASSIGNED, _MOST_BETWEEN = 5, 12
_ENVIRONMENT_SIGN = Pattern(r"(?<![A-Za-z0-9_])(?:PATH|HOME|PWD|USER|SHELL|HOSTNAME|LD_LIBRARY_PATH)=")

# Any of these in the lower-case text means that a closer look is worth its time.
NEEDLES = (
    *(needle.lower() for needle, _ in _TOKENS),
    *("token", "pass", "pwd", "pswd", "_pw", "secret", "key", "credential", "authorization", "sig"),
    *("bearer", "basic", "://", "-----begin", "path=", "home="),
)
_TOKEN_PATTERNS = tuple((needle, Pattern(pattern)) for needle, pattern in _TOKENS)


def is_secret_name(name: str) -> bool:
    """Whether a value under this name (an environment variable, a JSON key) is a secret."""
    if _MODEL_TOKENS.search(name):
        return False
    if _SECRET_NAME.search(name) or _CAMEL_NAME.search(name):
        return True
    return bool(_PASS_NAME.search(name)) and not _NO_PASS.search(name)


def _is_secret_value(name: str, value: str) -> bool:
    bare = value.strip("\\\"' \t")
    if bare.lower() in _NOT_A_SECRET or bare.startswith(("[secret", "[environment")):
        return False
    lowered = name.lower()
    if lowered.endswith("token"):  # a count or a special token is not a credential
        return len(bare) >= 6 and not re.fullmatch(r"[0-9.,eE+-]+|<.*", bare)
    if lowered.endswith(("pwd", "sig", "signature")):
        return len(bare) >= 4 and not bare.startswith(("/", "("))
    if lowered.endswith(("pass", "pw")):  # how many passed is no password
        return len(bare) >= 3 and not re.fullmatch(
            r"[0-9.,/%eE+-]+|(?i:passed|failed|pass|fail|skip|ok)", bare
        )
    if _OPENING_KEY.search(name):  # where a key lies and which one of many it is are no key
        return len(bare) >= 8 and not re.fullmatch(r"[0-9.]+|[/~.].*|[a-z]+(?:[_.-][a-z]+)*", bare)
    return True


def without_secrets(text: str) -> tuple[str, int]:
    """The text with every secret replaced by a mark, and how many were replaced."""
    lowered = text.lower()
    if not any(needle in lowered for needle in NEEDLES):
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
        is_secret = is_secret_name(name)
        if name == "PASS":  # `PASS: test_x` is what a test says
            is_secret = match["glue"].lstrip("\\\"' \t").startswith("=")
        elif name.lower() in ("pass", "pw"):
            is_secret = has_login
        elif (
            match["word"].lower() in ("pass", "pw") or ":=" in match["glue"]
        ):  # `user_pass = f(x)` is a program
            is_secret = is_secret and not text.startswith("(", match.end())
        if not is_secret or not _is_secret_value(name, match["value"]):
            return match[0]
        if "=>" in match["glue"] and name.lower() == "token" and not re.search("[0-9]", match["value"]):
            return match[0]  # a function of a token
        count += 1
        quote = re.match(r"\\*[\"']", match["value"])
        around = quote[0] if quote else ""
        return f"{match['word']}{match['glue']}{around}{SECRET}{around}"

    def mark_named(match: re.Match[str]) -> str:
        nonlocal count
        name, value = match["name"], match["value"]
        lowered_name = name.lower()
        is_secret = is_secret_name(name) or lowered_name == "pass"
        if (
            not is_secret
            or value.lower().rstrip(".") in _OPTION_PROSE
            or lowered_name.endswith(("sig", "signature"))
        ):
            return match[0]
        if not _is_secret_value(name, value):
            return match[0]
        count += 1
        return f"{match['head']}{SECRET}"

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
        text = _BEARER.sub(mark_value, text)
    if "-" in text:
        text = _OPTION.sub(mark_named, text)
    if "</" in text:
        text = _ELEMENT.sub(mark_named, text)
    has_login = _LOGIN_WORDS.search(lowered) is not None
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
        items = []
        option = ""
        for item in value:
            if (
                option
                and isinstance(item, str)
                and not item.startswith("-")
                and _is_secret_value(option, item)
            ):
                items.append((SECRET, 1))
            else:
                items.append(tree_without_secrets(item))
            # `--password` and then, as the next argument, the password
            is_option = isinstance(item, str) and re.fullmatch(r"--?[A-Za-z][\w.-]{0,63}", item)
            option = item.lstrip("-") if is_option and is_secret_name(item.lstrip("-")) else ""
        return type(value)(item for item, _ in items), sum(found for _, found in items)
    return value, 0
