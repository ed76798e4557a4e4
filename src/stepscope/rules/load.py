"""The catalogue of rules: what lies in `catalog/`, what other packages add, and a site's own thresholds."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

from stepscope.model.error import StepscopeError, UsageError
from stepscope.model.feature import Clause
from stepscope.rules import catalog as shipped
from stepscope.rules.rule import Remedy, Rule

GROUP = "stepscope.rules"


class CatalogError(StepscopeError):
    """A file of the catalogue is not a rule: our fault."""

    exit_code = 70


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule of another package that could not be used, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Catalog:
    """All rules by id, in alphabetical order, and those of others that were left out."""

    rules: Mapping[str, Rule]
    broken: tuple[Broken, ...] = ()

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules.values())

    @property
    def remedy_ids(self) -> frozenset[str]:
        """Every `rule#number` that a report may give as a remedy's id."""
        return frozenset(
            f"{rule.id}#{number}"
            for rule in self
            for number in range(
                1, len(rule.remedies) + len(rule.on_host.remedies if rule.on_host else ()) + 1
            )
        )

    def __getitem__(self, rule_id: str) -> Rule:
        """The rule of this id; an unknown one is a `UsageError` that names those there are."""
        try:
            return self.rules[rule_id]
        except KeyError:
            raise UsageError(f"no rule {rule_id!r}; there are: {', '.join(self.rules)}") from None

    def with_thresholds(self, config: Mapping[str, Any]) -> Catalog:
        """The catalogue with a site's thresholds: `{rule id: {feature name: number}}`, as read from TOML.

        A threshold replaces that feature's threshold wherever the rule decides by it; the clause by which a
        remedy counts as successful moves in proportion. Unknown names and unfit numbers are a `UsageError`.
        """
        rules = dict(self.rules)
        for rule_id, table in config.items():
            rule = self[rule_id]
            if not isinstance(table, Mapping):
                raise UsageError(f"[{rule_id}]: a table of `feature = number` is wanted, not {table!r}")
            for name, value in table.items():
                rule = _with_threshold(rule, name, value)
            rules[rule_id] = rule
        return replace(self, rules=rules)


def load_catalog(others: Iterable[EntryPoint] | None = None) -> Catalog:
    """Every rule of `catalog/` and of other packages (entry points of the group `stepscope.rules`).

    A file of ours that does not fit is an error; a broken one of others is named in `broken` and left out.
    """
    rules = dict(_shipped(shipped))
    broken: list[Broken] = []
    for point in entry_points(group=GROUP) if others is None else others:
        try:
            rule = _as_rule(point.load())
            if rule.id in rules:
                raise ValueError(f"the id {rule.id} is taken")
        except Exception as error:  # noqa: BLE001 - any fault of a stranger's module, by name, without ours failing
            broken.append(Broken(point.name, f"{type(error).__name__}: {error}"))
        else:
            rules[rule.id] = rule
    return Catalog(dict(sorted(rules.items())), tuple(broken))


def _shipped(package: ModuleType) -> Iterator[tuple[str, Rule]]:
    for module in pkgutil.iter_modules(package.__path__):
        name = f"{package.__name__}.{module.name}"
        try:
            rule = _as_rule(importlib.import_module(name))
        except (ImportError, TypeError, ValueError) as error:
            raise CatalogError(f"{name}: {error}; a file of the catalogue holds one rule as RULE") from error
        if rule.id.replace("-", "_") != module.name:
            raise CatalogError(f"{name}: holds the rule {rule.id}; the file must be named after its rule")
        yield rule.id, rule


def _as_rule(loaded: object) -> Rule:
    """The rule itself, or the `RULE` of a module."""
    rule = getattr(loaded, "RULE", None) if isinstance(loaded, ModuleType) else loaded
    if not isinstance(rule, Rule):
        raise TypeError(f"a Rule is wanted, not {type(rule).__name__}")
    return rule


def _with_threshold(rule: Rule, name: str, value: object) -> Rule:
    deciding = [c for c in rule.clauses() if c.feature.name == name]
    if not deciding:
        known = ", ".join(sorted({c.feature.name for c in rule.clauses()}))
        raise UsageError(f"[{rule.id}] {name}: no such threshold; there are: {known}")
    feature = deciding[0].feature
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UsageError(f"[{rule.id}] {name} = {value!r}: a finite number is wanted")
    if feature.unit == "ratio" and not 0 <= value <= 1:
        raise UsageError(f"[{rule.id}] {name} = {value!r}: a ratio from 0 to 1 is wanted, not per cent")
    old = next((c.threshold for c in rule.when if c.feature is feature), deciding[0].threshold)

    def moved(clauses: tuple[Clause, ...]) -> tuple[Clause, ...]:
        return tuple(c.at(value) if c.feature is feature else c for c in clauses)

    def cleared(clause: Clause) -> Clause:
        # A fix must still be told from a near miss: 0.05 under 0.10 becomes 0.02 under 0.04.
        if clause.feature is not feature or not old:
            return clause
        return clause.at(clause.threshold * value / old)

    def mended(remedies: tuple[Remedy, ...]) -> tuple[Remedy, ...]:
        return tuple(
            replace(r, only_if=moved(r.only_if), unless=moved(r.unless), clears=cleared(r.clears))
            for r in remedies
        )

    host = rule.on_host
    return replace(
        rule,
        when=moved(rule.when),
        unless=moved(rule.unless),
        corroborated_by=moved(rule.corroborated_by),
        remedies=mended(rule.remedies),
        on_host=None if host is None else replace(host, remedies=mended(host.remedies)),
        readings=tuple(replace(r, only_if=moved(r.only_if)) for r in rule.readings),
        questions=tuple(
            replace(q, only_if=moved(q.only_if), settled_by=moved(q.settled_by)) for q in rule.questions
        ),
    )
