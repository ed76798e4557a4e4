"""One line of a training log to the step and the numbers that it states. Pure: a line in, numbers out."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from stepscope.sources.catalog import log_training as table
from stepscope.sources.formats.log_number import VALUE, number, whole

_MOST_DEPTH = 6
_SETTINGS = frozenset({"epoch", "learning_rate", "samples", "tokens", "sequence_length", "loss_scale"})
"""Numbers that a line of settings states as well."""


@dataclass(slots=True)
class Stated:
    """What one line states.

    `values` are by fields of `PROGRESS_FIELDS`, in their units, finite. `vague` are seconds that may be of
    the step or since the start. `not_finite` are fields that were NaN or infinite. `is_eval`: it holds a
    number of an evaluation. `epoch_base` is 0 or 1, from which epochs are counted, where `step` counts
    within an epoch.
    """

    step: int | None = None
    total: int | None = None
    values: dict[str, float] = field(default_factory=dict)
    vague: dict[str, float] = field(default_factory=dict)
    not_finite: list[str] = field(default_factory=list)
    is_eval: bool = False
    epoch_base: int | None = None

    @property
    def says_something(self) -> bool:
        """Whether it states a number that changes while a job goes on: a list of settings does not."""
        return bool(self.vague or self.not_finite or set(self.values) - _SETTINGS)


@dataclass(frozen=True, slots=True)
class _Name:
    """What a label means: a step (`rank` orders them), a total, an evaluation's number, or a key."""

    what: Literal["step", "total", "eval", "key", "none"]
    rank: int = 0
    name: str = ""
    key: table.Key | None = None
    factor: float | None = None
    """Of the unit that the name ends in, `None` where it has none."""


_NONE = _Name("none")
_LONGEST_LABEL = 120
_NO_LETTER = "0123456789/.%()-"
_NOT_WORD = re.compile(r"[^a-z0-9]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(maxsize=8192)
def _meaning(label: str) -> _Name:
    name = _NOT_WORD.sub("_", label.lower()).strip("_")
    words = name.split("_")
    if table.EVAL_WORDS.intersection(words):
        return _Name("eval")
    if name in table.TOTALS:
        return _Name("total")
    if label == "_step":
        name = label
    if name in table.STEPS:
        return _Name("step", table.STEPS.index(name))
    if words[-1] in table.LAST_OF_STEP and not table.NO_STEP_WORDS.intersection(words):
        return _Name("step", len(table.STEPS))
    for candidate in _candidates(label, words):
        key = table.KEYS.get(candidate)
        if key is not None:
            return _Name("key", key.rank, candidate, key, 0.01 if "%" in label and "%" in key.units else None)
        base, _, unit = candidate.rpartition("_")
        key = table.KEYS.get(base)
        if key is not None and unit in table.NAME_UNITS and (key.units or unit in ("percent", "pct")):
            return _Name("key", key.rank, base, key, table.NAME_UNITS[unit])
    return _NONE


def _candidates(label: str, words: list[str]) -> Iterator[str]:
    yield "_".join(words)
    snake = _NOT_WORD.sub("_", _CAMEL.sub("_", label).lower()).strip("_")
    yield snake
    rest = words
    while len(rest) > 1 and rest[0] in table.FIRST_WORDS:
        rest = rest[1:]
        yield "_".join(rest)
    folder, _, last = label.rpartition("/")
    if folder and not last.strip("() ").startswith("s"):  # `tokens/s` is no folder
        yield _NOT_WORD.sub("_", last.lower()).strip("_")


def of_pairs(pairs: Sequence[tuple[str, str, str | None, str | None]], text: str = "") -> Stated:
    """What (label, value, unit, total) say together, and numbers of `text` that their unit names."""
    stated = Stated()
    best_step = math.inf
    ranks: dict[str, int] = {}
    names = {_meaning(label).name for label, _, _, _ in pairs}
    for label, value, unit, total in pairs:
        name = _meaning(label)
        if name.what == "eval":
            stated.is_eval = True
        elif name.what == "total":
            stated.total = whole(value) or stated.total
        elif name.what == "step":
            step = whole(value)
            if step is not None and name.rank < best_step:
                best_step, stated.step = name.rank, step
                stated.total = (whole(total) if total else None) or stated.total
        elif name.key is not None:
            _take(stated, name, name.key, value, unit, names, ranks)
    lower = text.lower() if table.UNIT_BEHIND.search(text) else ""
    for needle, pattern, column, factor in table.UNIT_FIRST:
        if column in ranks or needle not in lower:
            continue
        found = pattern.search(text)
        if found is not None and math.isfinite(read := number(found[1])):
            stated.values[column] = read * factor * {"k": 1e3, "m": 1e6}.get(found[2].lower(), 1.0)
    return stated


def _take(
    stated: Stated,
    name: _Name,
    key: table.Key,
    value: str,
    unit: str | None,
    names: set[str],
    ranks: dict[str, int],
) -> None:
    """Puts one number into what a line states, unless a better name of its field has been there."""
    read = number(value)
    if not math.isfinite(read):
        if key.field in ("loss", "grad_norm") and key.field not in stated.not_finite:
            stated.not_finite.append(key.field)
        return
    factor = key.units.get((unit or "").lower())
    if factor is None:
        factor = name.factor if name.factor is not None else key.bare
    if factor is None and name.name in table.BESIDE:
        beside, bare = table.BESIDE[name.name]
        factor = bare if beside & names else None
    if factor is None or (read < 0 and key.field not in ("loss", "epoch")):
        return
    column = stated.vague if key.is_vague else stated.values
    seen = ranks.get(key.field)
    if key.is_vague or seen is None or name.rank < seen:
        # A share of 1 is a percent: no job is as fast as its devices.
        share = key.field == "mfu_ratio" and factor == 1.0 and read > 1
        column[key.field] = read * (0.01 if share else factor)
        if not key.is_vague:
            ranks[key.field] = name.rank


def of_text(text: str) -> Stated:
    """What a line of names and numbers states."""
    pairs = []
    end = 0
    for each in table.PAIR.finditer(text):
        label = _label(text[max(end, each.start() - _LONGEST_LABEL) : each.start()])
        if label:
            pairs.append((label, each["value"], each["unit"], _total(each["total"])))
        end = each.end()
        if each["unit"] and each.start("unit") == end:
            end = each.end("unit")
    stated = of_pairs(pairs, text)
    if "[" not in text and "RunningAvg" not in text:
        return stated
    for pattern, base in table.EPOCH_POSITIONS:
        found = pattern.search(text)
        if found is not None:
            stated.step, stated.total = int(found["n"]), int(found["total"])
            stated.values["epoch"], stated.epoch_base = float(found["epoch"]), base
            return stated
    for pattern in table.POSITIONS if stated.step is None else ():
        found = pattern.search(text)
        if found is not None:
            stated.step = int(found["n"])
            stated.total = int(found["total"]) if "total" in pattern.groupindex else None
            break
    return stated


def _label(text: str) -> str:
    """The name that ends a text: words of letters with one blank between them; empty where none does."""
    broken = table.LABEL_BREAK.match(text)
    words = (text[broken.end() :] if broken is not None else text).split(" ")
    first = len(words)
    while first > 0 and words[first - 1].strip(_NO_LETTER):
        first -= 1
    label = " ".join(words[first:][-table.MOST_LABEL_WORDS :])
    return "" if words[-1].startswith("--") else label.lstrip(_NO_LETTER)  # an option is no statement


def _total(text: str | None) -> str | None:
    return text.replace("/", " ").strip() if text else None


@dataclass(frozen=True, slots=True)
class Record:
    """A line of JSON: what it states, its time as written, and the text that it wraps, if any."""

    stated: Stated
    time: str | None
    text: str | None
    host: str | None
    rank: int | None


def of_json(text: str) -> Record | None:
    """What a line of JSON states, `None` where it is no object of JSON."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(tree, dict):
        return None
    pairs = [(label, str(value), None, None) for label, value in _flat(tree, "", 0)]
    journal = tree.get(table.JOURNAL_TIME)
    times = [journal] if journal is not None else [tree.get(name) for name in table.JSON_TIMES]
    texts = [tree.get(name) for name in table.JSON_TEXTS]
    return Record(
        of_pairs(pairs),
        next((str(each) for each in times if _is_time(each)), None),
        next((each for each in texts if isinstance(each, str) and each.strip()), None),
        next((str(tree[name]) for name in table.JSON_HOSTS if isinstance(tree.get(name), str)), None),
        next((tree[name] for name in table.JSON_RANKS if _is_rank(tree.get(name))), None),
    )


def _is_time(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool) and len(str(value)) >= 10


def _is_rank(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 24


_A_NUMBER = re.compile(VALUE + r"\Z")


def _flat(tree: Mapping[str, Any], before: str, depth: int) -> Iterator[tuple[str, float | int | str]]:
    """(path, number) of every number in a tree, and of every text that is one, as fairseq writes them."""
    for name, value in tree.items():
        path = f"{before}/{name}" if before else name
        if isinstance(value, bool):
            continue
        if isinstance(value, int):
            if abs(value) < 10**18:
                yield path, value
        elif isinstance(value, float) or (
            isinstance(value, str) and len(value) < 40 and _A_NUMBER.match(value)
        ):
            yield path, value
        elif isinstance(value, dict) and depth < _MOST_DEPTH:
            yield from _flat(value, path, depth + 1)
