"""The catalogue: its folder, other packages' rules, a site's thresholds."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from stepscope.analyse.features import idle_input_share
from stepscope.model.error import UsageError
from stepscope.model.feature import Facts
from stepscope.rules import judge, load_catalog
from stepscope.rules.load import GROUP, CatalogError, _shipped
from stepscope.rules.rule import Clear, Finding

IDS = [
    "allocator-thrash",
    "beside-communication",
    "between-steps",
    "busy-cores",
    "checkpoint-stall",
    "clock-ramp",
    "collective-mismatch",
    "communication-bound",
    "compile-in-window",
    "compute-bound",
    "cpu-quota",
    "cross-socket",
    "dead-job",
    "device-fault",
    "device-warning",
    "eval-stall",
    "expert-imbalance",
    "exposed-communication",
    "exposed-copy",
    "failing-link",
    "foreign-process",
    "fragmented-out-of-memory",
    "garbage-collection",
    "hidden-sync",
    "host-preprocessing",
    "hot-device",
    "idle-device",
    "idle-in-checkpoint",
    "idle-in-evaluation",
    "idle-nvlink",
    "initialising",
    "input-starvation",
    "irregular-pauses",
    "killed-process",
    "late-start",
    "launch-bound",
    "layout-transposes",
    "locked-clock",
    "logged-out-of-memory",
    "logging-stall",
    "memory-creep",
    "memory-fragmentation",
    "memory-jump",
    "memory-leak",
    "memory-nearly-full",
    "misaligned-shapes",
    "no-progress",
    "nvlink-errors",
    "out-of-memory",
    "pageable-copies",
    "pcie-downgrade",
    "pcie-replays",
    "periodic-stall",
    "power-brake",
    "power-cap",
    "profiler-overhead",
    "python-stall",
    "rank-not-in-collective",
    "recomputation",
    "remapped-rows",
    "row-remap-failed",
    "row-remap-pending",
    "sequence-imbalance",
    "slow-bus",
    "slow-group",
    "slow-rank",
    "slow-storage",
    "slow-transfer",
    "slowing-steps",
    "small-kernels",
    "sparse-bursts",
    "stage-imbalance",
    "sync-every-micro-step",
    "tensor-cores-unused",
    "tf32-off",
    "thermal-throttle",
    "tiny-collectives",
    "uncorrected-memory-errors",
    "underrecorded-graphs",
    "unfused-attention",
    "unfused-elementwise",
    "unfused-optimizer",
    "unrecorded-work",
    "waiting-for-peers",
    "wrong-transport",
]


def test_the_catalogue_holds_these_rules() -> None:
    assert list(load_catalog(others=()).rules) == IDS


def test_a_rule_is_found_by_its_id_and_an_unknown_one_names_those_there_are() -> None:
    catalog = load_catalog(others=())
    assert catalog["hidden-sync"].id == "hidden-sync"
    with pytest.raises(UsageError, match="there are: allocator-thrash, beside-communication"):
        catalog["no-such-rule"]


def test_every_remedy_has_an_id_that_its_rule_begins() -> None:
    ids = load_catalog().remedy_ids
    assert {"input-starvation#1", "input-starvation#2"} <= ids
    assert not ids & {"input-starvation#0", "input-starvation#99", "nope#1"}
    assert {each.partition("#")[0] for each in ids} <= set(load_catalog().rules)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("X = 1", "a Rule is wanted"),
        ("import no_such_module_at_all", "no_such_module_at_all"),
        ("from stepscope.rules.catalog.hidden_sync import RULE", "must be named after its rule"),
    ],
)
def test_a_misfit_file_is_an_error(
    tmp_path: Path, source: str, why: str, request: pytest.FixtureRequest
) -> None:
    package = ModuleType("misfit_rules")
    package.__path__ = [str(tmp_path)]
    (tmp_path / "stray.py").write_text(source)
    sys.modules["misfit_rules"] = package
    request.addfinalizer(lambda: sys.modules.pop("misfit_rules.stray", None))
    request.addfinalizer(lambda: sys.modules.pop("misfit_rules"))
    with pytest.raises(CatalogError, match=why):
        list(_shipped(package))


def test_rules_of_other_packages_join_and_broken_ones_are_named_and_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = ModuleType("another_package_rules")
    import dataclasses

    theirs = dataclasses.replace(load_catalog(others=())["hidden-sync"], id="their-rule")
    module.RULE = theirs  # type: ignore[attr-defined]
    module.taken = dataclasses.replace(theirs, id="hidden-sync")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "another_package_rules", module)
    points = [
        EntryPoint("fine", "another_package_rules", GROUP),
        EntryPoint("missing", "no_such_package_of_rules", GROUP),
        EntryPoint("taken", "another_package_rules:taken", GROUP),
        EntryPoint("no-rule", "another_package_rules:__name__", GROUP),
    ]
    catalog = load_catalog(points)
    assert list(catalog.rules) == sorted([*IDS, "their-rule"])
    assert [broken.name for broken in catalog.broken] == ["missing", "taken", "no-rule"]
    assert "no_such_package_of_rules" in catalog.broken[0].why


def test_a_site_sets_its_own_threshold() -> None:
    catalog = load_catalog(others=()).with_thresholds({"input-starvation": {"idle_input_share": 0.04}})
    outcome = judge(catalog["input-starvation"], Facts({idle_input_share: 0.045}))
    assert isinstance(outcome, Finding)
    assert outcome.evidence[0].threshold == 0.04
    assert outcome.evidence[0].overridden is True
    # What counts as mended moves along: half of the threshold, as in the catalogue.
    assert outcome.remedies[0].clears.threshold == pytest.approx(0.02)
    assert isinstance(judge(catalog["input-starvation"], Facts({idle_input_share: 0.039})), Clear)
    # The catalogue itself is as it was.
    assert isinstance(judge(load_catalog(())["input-starvation"], Facts({idle_input_share: 0.045})), Clear)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (
            {"input-starvaton": {"idle_input_share": 0.1}},
            "no rule 'input-starvaton'; there are: allocator-thrash",
        ),
        (
            {"input-starvation": {"idle_share": 0.1}},
            "no such threshold; there are: host_cpu_busy, idle_input",
        ),
        ({"input-starvation": {"idle_input_share": 10}}, "a ratio from 0 to 1 is wanted, not per cent"),
        ({"input-starvation": {"idle_input_share": "10%"}}, "a finite number is wanted"),
        ({"input-starvation": {"idle_input_share": True}}, "a finite number is wanted"),
        ({"input-starvation": {"idle_input_share": float("nan")}}, "a finite number is wanted"),
        ({"input-starvation": 0.1}, "a table of `feature = number` is wanted"),
    ],
)
def test_a_threshold_that_does_not_fit_is_refused_with_the_names_there_are(
    config: dict[str, object], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        load_catalog(others=()).with_thresholds(config)
