"""Secrets: tokens, keys, passwords, credentials in URLs, private keys, environment dumps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stepscope.model.redact import command
from stepscope.model.redact.environment import ENVIRONMENT, ENVIRONMENT_NAME, SECRET, without_environment
from stepscope.model.redact.issued import ISSUED
from stepscope.model.redact.pattern import Pattern
from stepscope.model.redact.secret_name import (
    FIELDS,
    SUFFIX,
    WORDS,
    is_opaque,
    is_secret_name,
    is_secret_value,
)

# The word first, then back to where its name begins: to begin with the name would be to try every letter.
_NAMED = Pattern(
    rf"(?P<word>{WORDS})(?P<suffix>{SUFFIX})?"
    r"(?P<glue>\\*(?:[\"']|%2[27])?\s{0,8}(?:=>|:=|:(?![:=])|=(?![=>])|%(?:25){0,2}3[AD](?:%2[27])?)\s{0,8}"
    # a line that goes on in the next; what YAML writes before a value: an anchor, a tag, a block
    r"(?:\\\r?\n\s{0,64})?(?:&\w{1,64}\s{1,8}|!(?:<[^<>\s]{1,128}>|[\w!:/.-]{1,128})\s{1,8}){0,2}"
    r"(?:[|>][+-]?[1-9]?\s{1,64})?)",
    re.IGNORECASE,
)
# A value in quotes ends where they do, an escaped quote (or one that is escaped once more) inside is of the
# value. Without quotes it ends at a blank; a comma is of it where no blank and no next name follows.
_VALUE = Pattern(
    r"(?P<open>(?:[bBuUrR]{1,2}(?=\\*[\"']))?)(?:"
    r"(?P<double>\")(?:[^\"\\]|\\.)*(?:\"|\\?\Z)|(?P<single>')(?:[^'\\]|\\.)*(?:'|\\?\Z)"
    r"|(?P<slash>\\+)(?P<quote>[\"'])(?:[^\"'\\]|(?!(?P=quote))[\"']|\\+(?![\"'\\])|(?P=slash)\\+[\"'])*"
    r"(?:(?P=slash)(?P=quote))?"
    r"|(?P<bare>(?:[^\s\"',;&|(){}\[\]<>\\]|\\(?!\r?\n)|\\\r?\n(?=\S))+"
    r"(?:(?:[,;&|](?![\w.-]{1,64}\\{0,4}[\"']?[ ]?[=:])|[(){}\[\]<>\"'])[^\s\"',;&|(){}\[\]<>]+)*))",
    re.DOTALL,
)
# `--password hunter2`, and the same as two words of a list: `"--password", "hunter2"`.
_OPTION = Pattern(
    r"(?P<head>(?<![\w-])--?(?P<name>[A-Za-z][A-Za-z0-9_.-]{0,63})"
    r"(?:[ \t]{1,8}|\\{0,4}[\"'],\s{0,8}(?=\\{0,4}[\"']))"
    r"(?P<quote>\\{0,4}[\"'])?)(?P<value>(?!-|\[secret)"
    r"(?(quote)[^\"'\\]{1,512}|[^\s\"',;&|(){}\[\]<>]{1,512}(?:[,;&|(){}\[\]<>][^\s\"',;&|(){}\[\]<>]{1,512}){0,8}))"
)
# `("password", "x")`, `["password", "x"]`, and the pair that requests takes: `auth=("user", "x")`.
_TUPLE = Pattern(
    r"(?P<head>(?:[(\[]\s{0,4}[bu]?\\{0,4}[\"'](?P<name>[A-Za-z][A-Za-z0-9_.-]{0,63})"
    r"|\bauth\s{0,2}=\s{0,2}\(\s{0,4}\\{0,4}[\"'][^\"'\s]{1,64})"
    r"\\{0,4}[\"']\s{0,4},\s{0,4}[bu]?\\{0,4}(?P<quote>[\"']))"
    r"(?P<value>(?!\[secret)(?:(?!(?P=quote))[^\\\n]){1,512})(?=\\{0,4}(?P=quote)\s{0,4},?\s{0,4}[)\]])"
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
_OPTION_NAME = Pattern(r"--?[A-Za-z][\w.-]{0,63}")

# Any of these in the lower-case text means that a closer look is worth its time.
NEEDLES = (
    *(needle.lower() for needle, _ in ISSUED),
    *command.NEEDLES,
    *("token", "pass", "pwd", "pswd", "_pw", "secret", "key", "credential", "auth", "sig", "sess", "cookie"),
    *("bearer", "basic", "://", "-----begin", "path=", "home="),
)
_MOST_PASSES = 4


class _Removal:
    """One pass over one text; counts what it takes away."""

    def __init__(self) -> None:
        self.count = 0

    def mark(self, match: re.Match[str]) -> str:
        self.count += 1
        return SECRET

    def mark_value(self, match: re.Match[str]) -> str:
        self.count += 1
        at, end = match.start("value") - match.start(), match.end("value") - match.start()
        return f"{match[0][:at]}{SECRET}{match[0][end:]}"

    def mark_url(self, match: re.Match[str]) -> str:
        self.count += 1
        return f"{match['scheme']}{SECRET}@"

    def mark_named(self, match: re.Match[str]) -> str:
        name, value = match["name"], match["value"]
        is_secret = is_secret_name(name) or name.lower() == "pass"
        if not is_secret or value.lower().rstrip(".") in _OPTION_PROSE:
            return match[0]
        if name.lower().endswith(("sig", "signature")) or not is_secret_value(name, value):
            return match[0]
        return self.mark_value(match)

    def mark_second(self, match: re.Match[str]) -> str:
        name, value = match["name"], match["value"]
        if name is not None and not is_pair(name, value):
            return match[0]
        return self.mark_value(match)

    def commands(self, text: str, lowered: str) -> str:
        for needle, pattern in command.COMMANDS:
            if needle in lowered:
                text = pattern.sub(self.mark_value, text)
        return text

    def named(self, text: str, has_login: bool) -> str:
        """The text without the values that stand behind a name that says secret."""
        pieces: list[str] = []
        at = 0  # a value is never looked into again, so that the time stays in proportion
        for match in _NAMED.finditer(text):
            if match.start() < at:
                continue
            before = _NAME_END.search(text, max(0, match.start() - 64), match.start())
            name = (before[0] if before else "") + match["word"] + (match["suffix"] or "")
            lowered = name.lower()
            is_bare_key = lowered == "key" and has_login
            is_secret = is_bare_key or (lowered in ("pass", "pw") and has_login) or is_secret_name(name)
            if name == "PASS":  # `PASS: test_x` is what a test says
                is_secret = match["glue"].lstrip("\\\"' \t").startswith("=")
            elif lowered in ("pass", "pw") and not has_login:
                is_secret = False
            if lowered == "passwd" and text.endswith("/etc/", 0, match.start()):
                is_secret = False  # a file that holds none, in front of what is said of it
            if not is_secret or lowered.endswith("authorization"):  # its scheme word is not the secret
                continue
            value = _VALUE.match(text, match.end())
            if value is None:
                continue
            if (
                match["word"].lower() in ("pass", "pw") or ":=" in match["glue"]
            ):  # `user_pass = f(x)` is a program
                is_secret = not re.match(r"[A-Za-z_][\w.]*\(", value["bare"] or "") and not text.startswith(
                    "(", value.end()
                )
            if is_bare_key:
                is_secret = is_opaque(value[0].strip("\\\"'"), 16)
            elif not is_secret_value(name, value[0][len(value["open"]) :]):
                is_secret = False
            if "=>" in match["glue"] and lowered == "token" and not re.search("[0-9]", value[0]):
                is_secret = False  # a function of a token
            if is_secret:
                self.count += 1
                begin = value["double"] or value["single"] or (value["slash"] or "") + (value["quote"] or "")
                inside = value[0][len(value["open"]) + len(begin) :]
                end = begin if begin and inside.endswith(begin) else ""
                pieces += [text[at : match.end()], value["open"], begin, SECRET, end]
                at = value.end()
            else:
                pieces.append(text[at : value.end()])
                at = value.end()
        return "".join((*pieces, text[at:])) if pieces else text


def is_pair(name: str, value: str) -> bool:
    """Whether two words that stand as a pair are a secret's name and the secret."""
    return is_secret_name(name) and value.lower() not in FIELDS and is_secret_value(name, value)


def without_secrets(text: str) -> tuple[str, int]:
    """The text with every secret replaced by a mark, and how many were replaced."""
    lowered = text.lower()
    if not any(needle in lowered for needle in NEEDLES):
        return text, 0
    count = 0
    for _ in range(_MOST_PASSES):  # what stood between two secrets may have hidden the second
        text, found = _without_secrets_once(text, lowered)
        if not found:
            break
        count, lowered = count + found, text.lower()
    return text, count


def _without_secrets_once(text: str, lowered: str) -> tuple[str, int]:
    removal = _Removal()
    if "-----begin" in lowered:
        text = _PRIVATE_KEY.sub(removal.mark, text)
    for needle, pattern in ISSUED:
        if needle in text:
            text = pattern.sub(removal.mark, text)
    if "://" in text:
        text = command.URL_CREDENTIALS.sub(removal.mark_url, text)
    if "authorization" in lowered:
        text = command.HEADER.sub(removal.mark_value, text)
    if "cookie" in lowered:
        text = command.COOKIE.sub(removal.mark_value, text)
    if "bearer" in lowered or "basic" in lowered:
        text = command.SCHEME.sub(removal.mark_value, text)
        text = command.BEARER.sub(removal.mark_value, text)
    text = removal.commands(text, lowered)
    if "-" in text:
        text = _OPTION.sub(removal.mark_named, text)
    if "</" in text:
        text = _ELEMENT.sub(removal.mark_named, text)
    if "," in text:
        text = _TUPLE.sub(removal.mark_second, text)
    text = removal.named(text, _LOGIN_WORDS.search(lowered) is not None)
    if "path=" in lowered or "home=" in lowered:
        text, more = without_environment(text)
        removal.count += more
    return text, removal.count


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
            if isinstance(name, str) and ENVIRONMENT_NAME.match(name) and isinstance(item, (Mapping, list)):
                if item:
                    found += max(1, tree_without_secrets(item)[1])
                    item = ENVIRONMENT
            elif _is_secret_item(value, name, item):
                found += 1
                item = SECRET
            else:
                item, inside = tree_without_secrets(item)
                found += inside
            kept[clean_name] = item
            total += found
        return kept, total
    if isinstance(value, (list, tuple)):
        clean, total = _words_without_secrets(list(value))
        return type(value)(clean), total
    return value, 0


def _is_secret_item(beside: Mapping[Any, Any], name: Any, item: Any) -> bool:
    if not isinstance(name, str) or not isinstance(item, (str, int, float)) or isinstance(item, bool):
        return False
    if name.lower() == "key" and {"user", "username", "login", "email"} & {
        str(key).lower() for key in beside
    }:
        return is_opaque(str(item), 16)
    return is_secret_name(name) and is_secret_value(name, str(item))


def _words_without_secrets(words: list[Any]) -> tuple[list[Any], int]:
    """A list of a JSON value, which may be a pair or the words of a command."""
    if len(words) == 2 and all(isinstance(word, str) for word in words) and is_pair(*words):
        return [words[0], SECRET], 1
    total = 0
    if any(isinstance(word, str) and command.PROGRAMS.match(word) for word in words) and all(
        isinstance(word, str) for word in words
    ):
        removal = _Removal()
        joined = "\0".join(words)
        parted = removal.commands(joined, joined.lower()).split("\0")
        if len(parted) == len(words):
            words, total = parted, removal.count
    clean: list[Any] = []
    option = ""
    is_other = any(isinstance(word, str) and command.OTHER_P.match(word) for word in words)
    for word in words:
        if (
            option in command.SHORT_PASSWORD
            and isinstance(word, str)
            and not is_other
            and command.is_like_password(word)
        ) or (
            option
            and option not in command.SHORT_PASSWORD
            and isinstance(word, str)
            and not word.startswith("-")
            and is_secret_value(option, word)
        ):
            clean.append(SECRET)
            total += 1
        else:
            item, found = tree_without_secrets(word)
            clean.append(item)
            total += found
        # `--password` and then, as the next argument, the password
        is_option = isinstance(word, str) and _OPTION_NAME.fullmatch(word) is not None
        is_short = isinstance(word, str) and word in command.SHORT_PASSWORD
        option = (
            word if is_short else word.lstrip("-") if is_option and is_secret_name(word.lstrip("-")) else ""
        )
    return clean, total


__all__ = ["ENVIRONMENT", "NEEDLES", "SECRET", "is_secret_name", "tree_without_secrets", "without_secrets"]
