"""Home paths: whose a directory is, told from the directories before it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stepscope.model.redact.name import NO_NAMES, PSEUDONYM, RANKISH
from stepscope.model.redact.pattern import Pattern

# The directory that holds homes, then directories that only sort them (`h1`, `o/`, `users`), then the name.
_IN_NAME = r"[^/\\\s:;,\"'`()<>|\[\]]"
_SORTING = r"[a-z][0-9]|[0-9]|users|staff|students?|people|faculty|vol[0-9]+|disk[0-9]+"
_FILE_NAME = (
    rf"{_IN_NAME}*\.(?:py[cdiox]?|ipynb|so|a|o|c|cc|cpp|cxx|cu|cuh|h|hpp|hip|rs|go|java|js|ts|tsx|json|jsonl|gz|zst|zip"
    r"|tar|txt|md|log|sh|ya?ml|toml|cfg|ini|csv|tsv|parquet|arrow|npy|npz|pt|pth|ckpt|bin|pkl|onnx|safetensors|html?)"
    r"(?![\w./\\-])"
)
HOME = Pattern(
    r"(?<![\w.+@-])(?P<homes>home\d{0,2}|homes|[Uu]sers?|u|Documents and Settings)[/\\]{1,4}"
    rf"(?:(?:{_SORTING})[/\\]{{1,4}}){{0,3}}"
    r"(?:(?P<one>[a-z])[/\\]{1,4}(?:[a-z]{1,2}[/\\]{1,4})?(?=(?P=one))|(?P<two>[a-z]{2})[/\\]{1,4}(?=(?P=two)))?"
    rf"(?!{_FILE_NAME})(?P<name>{_IN_NAME}+"
    r"(?:(?:\\{0,2} "
    r"(?!(?:and|or|to|in|on|at|from|of|is|for|with|by|the|as|not|was|has|via|then|into|under)[ /\\])"
    r"[A-Za-z][\w.'-]{0,31}){1,2}(?=[/\\]))?)"
)
_NAMED_BEHIND = Pattern(rf"[/\\]{{1,4}}{PSEUDONYM}")
_SORTING_ONLY = Pattern(rf"(?:{_SORTING})\Z")
# How far back the beginning of a path is looked for, and what stands before one.
_PATH_REACH = 256
_BEFORE_PATH = Pattern(r".*[^\w./\\~@+%$-]", re.DOTALL)
# Where sites mount what their people share, and where code lies: a package may have a folder `home`.
_MOUNT = Pattern(
    r"(?:mnt|nfs\d*|data\d*|lustre\w*|ceph\w*|afs|gpfs\w*|scratch\w*|storage\d*|work\d*|fsx|efs|shared?\d*|vol\w*"
    r"|exports?|net|projects?|groups?|beegfs\w*|weka\w*|vast\w*|panfs|pfs\d*|media|raid\d*|ssd\d*|nvme\d*|disk\d*"
    r"|cluster\w*|tank|hpc\w*|private|var|run|global|pool\d*|zfs|cygdrive|hdfs|s3|gs)\Z"
)
_PACKAGES = Pattern(
    r"(?:site-packages|dist-packages|node_modules|src|lib|lib64|include|python[\d.]*|torch)\Z"
)
_CODE = Pattern(
    r"(?:apps?|code|repos?|workspace|frontend|web|www|pages|routes|templates|static|tests?|api)\Z"
)


def home_owner(match: re.Match[str]) -> tuple[str, bool]:
    """Whose home a match of `HOME` is ("" where nobody's), and whether that is sure enough to learn."""
    name, homes = match["name"].rstrip("."), match["homes"]
    if len(name) < 2 or not (name[0].isalnum() or name[0] == "_") or re.match(PSEUDONYM, name):
        return "", False
    if _NAMED_BEHIND.match(match.string, match.end()):  # what only sorts, before a name that was replaced
        return "", False
    if name.isdigit() or name.lower() in NO_NAMES or RANKISH.match(name) or _SORTING_ONLY.match(name):
        return "", False
    path = match.string[max(0, match.start() - _PATH_REACH) : match.start()]
    break_before = _BEFORE_PATH.match(path)
    path = path[break_before.end() if break_before else 0 :].replace("\\", "/")
    before = [part for part in path.split("/") if part]
    is_rising = bool(before) and before[0] in (".", "..")
    before = [part for part in before if part not in (".", "..")]
    is_rooted = path.startswith("/") or is_rising
    is_mounted = bool(before) and _MOUNT.match(before[0]) is not None
    if any(map(_PACKAGES.match, before)):
        return "", False
    if homes in ("user", "users", "u", "User"):  # also names of a package, so only at the root or on a mount
        is_home = (path.startswith("/") and not before) or (is_rooted and is_mounted and homes != "u")
        return (name, True) if is_home else ("", False)
    if not is_rooted:
        is_home = homes.startswith("home") and (not before or is_mounted)
        return (name, False) if is_home else ("", False)
    if len(before) <= 1 or is_mounted or homes != "home":
        return name, True
    return ("", False) if any(map(_CODE.match, before)) else (name, False)


def home_owners(text: str) -> Iterable[str]:
    for match in HOME.finditer(text):
        name, is_sure = home_owner(match)
        if is_sure:
            yield name
