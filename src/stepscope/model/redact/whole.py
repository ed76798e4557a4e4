"""Whole traces and reports without secrets and identities."""

from __future__ import annotations

import dataclasses
import functools
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

import msgspec

from stepscope.model.redact.identity import (
    NOBODY,
    Identities,
    Pseudonyms,
    identities_in_text,
    identities_in_tree,
)
from stepscope.model.redact.secret import NEEDLES, tree_without_secrets, without_secrets
from stepscope.model.trace import Trace

T = TypeVar("T")

# Leaves that we made ourselves, from fixed lists, and that programs compare byte by byte.
_OURS = frozenset(
    "schema sha256 id rule code feature layer severity confidence from_ use scope status method "
    "persistence bound effect".split()
)

# Shapes and numbers, most of a trace's texts, hold nobody's name (and no address: those have dots or colons).
_PLAIN = re.compile(r"[0-9\[\]{}, \-]*\Z")

_NUMBERS = frozenset((int, float, bool, type(None)))


@functools.cache
def _speaking(cls: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a struct that may hold a string: columns of numbers are most of a report."""
    return tuple(each.name for each in msgspec.structs.fields(cls) if not _is_of_numbers(each.type))


def _is_of_numbers(kind: Any) -> bool:
    """Whether a field of this type holds numbers, or tuples of them, and nothing else."""
    if kind in _NUMBERS:
        return True
    inside = [each for each in typing.get_args(kind) if each is not Ellipsis]
    is_plain = typing.get_origin(kind) in (tuple, typing.Union, types.UnionType)
    return is_plain and all(map(_is_of_numbers, inside))


def map_strings(value: T, change: Callable[[str], str], skip: frozenset[str] = _OURS) -> T:
    """The same structure (structs, dataclasses, mappings, sequences) with every string leaf changed.

    String leaves in fields or under keys named in `skip` stay. Mapping keys are changed too.
    """

    def field(name: Any, item: Any) -> Any:
        return item if name in skip and isinstance(item, str) else walk(item)

    def walk(item: Any) -> Any:
        if type(item) in _NUMBERS:  # most leaves of a report are numbers
            return item
        if isinstance(item, str):
            return change(item)
        if isinstance(item, msgspec.Struct):
            return _changed(item, _speaking(type(item)), field, msgspec.structs.replace)
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            names = [each.name for each in dataclasses.fields(item)]
            return _changed(item, names, field, dataclasses.replace)
        if isinstance(item, Mapping):
            return {
                change(key) if isinstance(key, str) else key: field(key, inside)
                for key, inside in item.items()
            }
        if isinstance(item, (list, tuple)):
            # What has no string in it stays the same object.
            walked = [walk(inside) for inside in item]
            is_same = all(new is old for new, old in zip(walked, item, strict=True))
            return item if is_same else type(item)(walked)
        return item

    return cast("T", walk(value))


def _changed(
    item: Any, names: Iterable[str], field: Callable[[Any, Any], Any], replace: Callable[..., Any]
) -> Any:
    """The item with its fields changed; itself where none is."""
    new = {}
    for name in names:
        old = getattr(item, name)
        if type(old) not in _NUMBERS and (now := field(name, old)) is not old:
            new[name] = now
    return replace(item, **new) if new else item


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
        present = [needle for needle in NEEDLES if needle in joined]
        if not present:
            return texts
        pairs = [
            without_secrets(text) if any(needle in text.lower() for needle in present) else (text, 0)
            for text in texts
        ]
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


@dataclasses.dataclass(frozen=True, slots=True)
class Redaction:
    """What is done to the text of an export: pseudonyms under `key`, `known` names wherever they stand;
    nothing where `keep_identities`."""

    key: bytes = dataclasses.field(repr=False)
    known: Identities = NOBODY
    keep_identities: bool = False


def redact_trace(trace: Trace, redaction: Redaction) -> Trace:
    """A trace without secrets (`trace_without_secrets`) as it may leave: every string without identities.

    Names that the trace's own strings give away are replaced everywhere in it. Metadata is left out: nothing
    that leaves needs it.
    """
    trace = dataclasses.replace(trace, metadata={}, losses=())
    if redaction.keep_identities:
        return trace
    everybody = redaction.known
    for texts in (trace.names, trace.cats, trace.texts, strings_of(trace.tracks), [trace.name]):
        for text in texts:
            if _PLAIN.match(text):
                continue
            named = identities_in_text(text)
            if named != NOBODY:
                everybody = everybody | named
    pseudonyms = Pseudonyms(redaction.key, everybody)
    apply = functools.cache(lambda text: text if _PLAIN.match(text) else pseudonyms.apply(text))
    return dataclasses.replace(
        trace,
        name=apply(trace.name),
        names=list(map(apply, trace.names)),
        cats=list(map(apply, trace.cats)),
        texts=list(map(apply, trace.texts)),
        tracks=map_strings(trace.tracks, apply),
    )


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
    for text in set(strings_of(report)):
        named = identities_in_text(text)
        if named != NOBODY:
            everybody = everybody | named
    pseudonyms = Pseudonyms(key, everybody)
    ids = {getattr(item, "id", None) for name in ("findings", "cards") for item in getattr(report, name, ())}
    # A report names the same ops and ranks over and over.
    apply = functools.cache(pseudonyms.apply)
    return map_strings(report, lambda text: text if text in ids else apply(text))


def _leaves_without_secrets(value: T) -> tuple[T, int]:
    total = 0
    judged = functools.cache(without_secrets)

    def clean(text: str) -> str:
        nonlocal total
        kept, found = judged(text)
        total += found
        return kept

    return map_strings(value, clean), total


def _replace(value: T, **changes: Any) -> T:
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **changes)
    return cast("T", dataclasses.replace(cast("Any", value), **changes))
