"""Causes as data: one file a cause in `catalog/`, one function that judges."""

from stepscope.rules.load import Broken, Catalog, load_catalog
from stepscope.rules.rule import Rule, judge

__all__ = ["Broken", "Catalog", "Rule", "judge", "load_catalog"]
