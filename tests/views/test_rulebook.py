"""The rules' page is generated and current."""

from __future__ import annotations

from pathlib import Path

from stepscope.rules import load_catalog
from stepscope.views.rulebook import rulebook

COMMITTED = Path(__file__).parents[2] / "docs" / "reference" / "rules.md"


def test_the_committed_page_is_current() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == rulebook(load_catalog(others=())), "run `make docs`"


def test_every_rule_and_feature_has_its_place() -> None:
    page = rulebook(load_catalog(others=()))
    for rule in load_catalog(others=()):
        assert f"## {rule.id}\n" in page
        for feature in rule.features():
            assert f"| `{feature.name}` |" in page
