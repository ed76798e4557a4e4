"""Worked runs of every rule: features over windows in a row, and what the rule says of each window.

They lie in `worked/`, one file a rule, under the rule's name.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass

from tests.rules import worked


@dataclass(frozen=True)
class Run:
    """`features` by name in the series notation, all as long as `says`.

    `is_near_miss`: it looks like the cause and is not; the rule says `clear` or `undecided` throughout.
    """

    name: str
    features: dict[str, str]
    says: str
    is_near_miss: bool = False


def all_runs() -> dict[str, tuple[Run, ...]]:
    """Rule id -> its runs."""
    return {
        module.name.replace("_", "-"): importlib.import_module(f"{worked.__name__}.{module.name}").RUNS
        for module in pkgutil.iter_modules(worked.__path__)
    }
