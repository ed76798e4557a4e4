"""Options of `diagnose()`: those that make no sense are refused in one line, and thresholds are read."""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeGuard

from stepscope.model.error import UsageError
from stepscope.model.text import LANGS

if TYPE_CHECKING:
    from stepscope.analyse.memory.estimate import Training

MAX_THRESHOLD_BYTES = 1_000_000


def check_options(**given: Any) -> None:
    """Refuse options that make no sense in one line each: the first one, with what to give in its place."""
    steps, rank, jobs, rules = given["steps"], given["rank"], given["jobs"], given["rules_config"]
    is_pair = isinstance(steps, (tuple, list)) and len(steps) == 2 and all(map(is_count, steps))
    sound: dict[str, tuple[bool, str]] = {
        "steps": (
            steps is None or (is_pair and steps[0] <= steps[1]),
            "(first, last), the smaller first, as in (5, 9)",
        ),
        "rank": (rank is None or (is_count(rank) and rank >= 0), "0 or more, or None for all"),
        "job": (isinstance(given["job"], str | None), "a name"),
        "lang": (given["lang"] in LANGS, " or ".join(map(repr, LANGS))),
        "log_pattern": (
            isinstance(given["log_pattern"], str | None),
            "a pattern with a group named step, or None",
        ),
        "parameters": (isinstance(given["parameters"], str | None), "a text, as in '8e9' or '8B', or None"),
        "rules_config": (
            rules is None or isinstance(rules, (str, os.PathLike, Mapping)),
            "a TOML file, or {rule: {feature: number}}",
        ),
        "redact_key": (isinstance(given["redact_key"], str | None), "a text"),
        "model_flops": (
            given["model_flops"] is None or (is_count(given["model_flops"]) and given["model_flops"] > 0),
            "a number of operations above 0, or None",
        ),
        "jobs": (is_count(jobs) and jobs >= 1, "1 or more"),
        "on_progress": (given["on_progress"] is None or callable(given["on_progress"]), "a function"),
        "shown_as": (isinstance(given["shown_as"], Mapping | None), "{path: name}"),
    }
    for name, (is_sound, wanted) in sound.items():
        if not is_sound:
            value = given[name]
            # A key is a secret, and what is no plain value may take pages.
            is_told = name != "redact_key" and (
                value is None or isinstance(value, (str, int, float, tuple, list))
            )
            told = " ".join(repr(value).split())[:80] if is_told else f"a {type(value).__name__}"
            raise UsageError(f"{name} is {told}; give {wanted}")


def as_training(parameters: str | None) -> Training | None:
    """What is trained, by its number of parameters; how it is divided is left open."""
    from stepscope.analyse.memory.estimate import parameters_of

    if parameters is None:
        return None
    try:
        return dataclasses.replace(parameters_of(parameters), stage=None)
    except ValueError as error:
        raise UsageError(f"parameters: {error}") from error


def is_count(value: object) -> TypeGuard[int]:
    """An integer, NumPy's among them; true and false count nothing."""
    return isinstance(value, SupportsIndex) and not isinstance(value, bool)


def read_thresholds(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """A site's thresholds from TOML: `[rule-id]`, then `feature = number`."""
    return read_toml(path, "--rules-config takes a TOML file", "[rule-id], then feature = number")


def read_toml(path: str | os.PathLike[str], mend: str, shape: str) -> Mapping[str, Any]:
    """A TOML file of a person's. UsageError where it is none: `mend` says what the option takes, `shape` how
    it is written."""
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    name = os.fspath(path)
    try:
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            kind = "a directory" if stat.S_ISDIR(mode) else "no regular file"
            raise UsageError(f"{name}: is {kind}; {mend}")
        with open(path, "rb") as file:
            data = file.read(MAX_THRESHOLD_BYTES + 1)
        if len(data) > MAX_THRESHOLD_BYTES:
            raise UsageError(f"{name}: is larger than {MAX_THRESHOLD_BYTES // 1_000_000} MB; {mend}")
        text = data.decode("utf-8")
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        no_text = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else "is no file name"
        why = error.strerror if isinstance(error, OSError) else no_text
        raise UsageError(f"{name}: {why}; {mend}") from error
    try:
        read: Mapping[str, Any] = tomllib.loads(text)
    except RecursionError as error:
        raise UsageError(f"{name}: is nested too deeply; {mend}") from error
    except tomllib.TOMLDecodeError as error:
        takes = mend.removesuffix(" a TOML file") + " TOML"
        raise UsageError(f"{name}: {error}; {takes}: {shape}") from error
    return read
