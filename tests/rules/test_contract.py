"""What holds for every rule because its form is data. A new rule gets all of this for nothing."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping

import pytest
from rich.cells import cell_len

from stepscope.model.feature import Clause, Facts, Feature
from stepscope.model.text import LANGS, Text
from stepscope.rules import Rule, judge, load_catalog
from stepscope.rules.rule import Clear, Finding, Undecided
from stepscope.views.signature import as_text
from tests.rules.series import outcomes, series
from tests.rules.worked_runs import Run, all_runs

CATALOG = load_catalog(others=())
RULES = [pytest.param(rule, id=rule.id) for rule in CATALOG]
JUDGED = [
    *RULES,
    *(
        pytest.param(rule.for_host(), id=f"{rule.id} on a host")
        for rule in CATALOG
        if rule.on_host is not None
    ),
]
"""Every rule in every form in which it is judged."""


def least(clause: Clause) -> float:
    """A difference that a float of the threshold's size can still hold."""
    return max(1e-9, 1e-12 * abs(clause.threshold))


def just_met(clause: Clause) -> float:
    """A value that barely meets the clause."""
    return clause.threshold + {">=": 0.0, "<=": 0.0, ">": 1.0, "<": -1.0}[clause.op] * least(clause)


def just_missed(clause: Clause) -> float:
    """A value that barely misses the clause."""
    return clause.threshold + {">=": -1.0, "<=": 1.0, ">": 0.0, "<": 0.0}[clause.op] * least(clause)


def firing(rule: Rule) -> dict[Feature, float]:
    """Facts that just meet every `when`, with the excuses known and not given."""
    return {c.feature: just_missed(c) for c in rule.unless} | {c.feature: just_met(c) for c in rule.when}


@pytest.mark.parametrize("rule", JUDGED)
def test_a_rule_fires_when_just_met(rule: Rule) -> None:
    assert isinstance(judge(rule, Facts(firing(rule))), Finding)


@pytest.mark.parametrize("rule", JUDGED)
def test_each_clause_is_necessary(rule: Rule) -> None:
    for clause in rule.when:
        outcome = judge(rule, Facts(firing(rule) | {clause.feature: just_missed(clause)}))
        assert isinstance(outcome, Clear)
        assert outcome.because == clause


@pytest.mark.parametrize("rule", JUDGED)
def test_each_excuse_silences(rule: Rule) -> None:
    for clause in rule.unless:
        outcome = judge(rule, Facts(firing(rule) | {clause.feature: just_met(clause)}))
        assert isinstance(outcome, Clear)
        assert outcome.because == clause


@pytest.mark.parametrize("rule", JUDGED)
def test_an_excuse_that_cannot_be_checked_caps_confidence_and_is_listed(rule: Rule) -> None:
    agreeing = {c.feature: just_met(c) for c in rule.corroborated_by}
    for clause in rule.unless:
        facts = agreeing | firing(rule)
        del facts[clause.feature]
        outcome = judge(rule, Facts(facts))
        assert isinstance(outcome, Finding)
        assert outcome.confidence == "medium"
        assert clause in outcome.unknown


@pytest.mark.parametrize("rule", JUDGED)
def test_missing_data_is_undecided_and_never_health(rule: Rule) -> None:
    assert isinstance(judge(rule, Facts()), Undecided)
    for clause in rule.when:
        facts = firing(rule)
        del facts[clause.feature]
        outcome = judge(rule, Facts(facts))
        assert isinstance(outcome, Undecided)
        assert outcome.missing == (clause.feature,)


@pytest.mark.parametrize("rule", JUDGED)
def test_what_corroborates_raises_confidence_and_is_not_needed(rule: Rule) -> None:
    alone = judge(rule, Facts(firing(rule)))
    assert isinstance(alone, Finding)
    # A rule that asks two layers at once has their agreement already.
    asked = {clause.feature.origin for clause in rule.when}
    assert alone.confidence == ("high" if len(asked) > 1 else "medium")
    agreeing = firing(rule) | {c.feature: just_met(c) for c in rule.corroborated_by}
    agreed = judge(rule, Facts(agreeing))
    assert isinstance(agreed, Finding)
    layers = {clause.feature.origin for clause in (*rule.when, *rule.corroborated_by)}
    assert agreed.confidence == ("high" if len(layers) > 1 else "medium")
    degraded = judge(rule, Facts(agreeing, degraded=frozenset({rule.when[0].feature})))
    assert isinstance(degraded, Finding)
    assert degraded.confidence == "low"


@pytest.mark.parametrize("rule", JUDGED)
def test_the_check_of_each_remedy_fails_while_the_rule_fires(rule: Rule) -> None:
    facts = Facts(firing(rule))
    for remedy in rule.remedies:
        assert remedy.clears.known(facts) is False, str(remedy.clears)


@pytest.mark.parametrize("rule", JUDGED)
def test_a_rule_that_stalls_advises_on_its_own_facts(rule: Rule) -> None:
    outcome = judge(rule, Facts(firing(rule)))
    assert isinstance(outcome, Finding)
    assert outcome.remedies or rule.verdict == "healthy"
    assert rule.checks


def texts(part: object) -> Iterator[Text]:
    """Every text of a rule, wherever it stands: a field that is new tomorrow is among them."""
    if isinstance(part, Text):
        yield part
    elif isinstance(part, Mapping):
        for value in part.values():
            yield from texts(value)
    elif isinstance(part, (tuple, list)):
        for each in part:
            yield from texts(each)
    elif dataclasses.is_dataclass(part):
        for field in dataclasses.fields(part):
            yield from texts(getattr(part, field.name))


@pytest.mark.parametrize("rule", RULES)
def test_every_text_is_in_both_languages(rule: Rule) -> None:
    for text in texts(rule):
        assert re.search("[\u4e00-\u9fff]", text.zh), text.en
        assert not re.search("[\u4e00-\u9fff]", text.en), text.en


def test_a_text_is_found_in_every_part_of_a_rule() -> None:
    starved, exposed = CATALOG["input-starvation"], CATALOG["exposed-communication"]
    assert starved.on_host is not None
    (question,) = exposed.questions
    assert question.with_all_ranks is not None
    found = [*texts(starved), *texts(exposed)]
    for text in (
        starved.on_host.title,
        starved.on_host.checks[-1],
        starved.on_host.remedies[-1].text,
        exposed.remedies[0].with_all_ranks,
        exposed.readings[0].with_all_ranks,
        question.with_all_ranks.brief,
        *exposed.references.values(),
    ):
        assert text in found


SOURCES = re.compile(
    "SageMaker Debugger|TraceML|TraceLens|XProf|TensorBoard plugin|PyTorch's performance tuning guide"
    "|PyTorch's documentation|NVIDIA's guide to matrix products|NVIDIA's DCGM guide|nccl-tests"
    r"|\((ICSE|OSDI|ATC|SOSP) 20\d\d\)|Unicron|nvidia_gpu_exporter|netdata|NCCL's documentation"
    "|NVIDIA's (NVML reference|Xid catalogue|guide to GPU memory errors)"
)
"""What a reader can look up: a tool's own rules, a vendor's page, a paper."""


@pytest.mark.parametrize("rule", RULES)
def test_a_threshold_names_its_source_or_is_called_ours(rule: Rule) -> None:
    """A clause against 0 asks only whether there is any, and is no threshold that somebody chose."""
    for feature, text in rule.references.items():
        if all(clause.threshold == 0 for clause in rule.clauses() if clause.feature == feature):
            continue
        assert SOURCES.search(text.en) or "our choice" in text.en, f"{feature.name}: {text.en}"
        if "our choice" in text.en:
            assert "自定" in text.zh, f"{feature.name}: {text.zh}"


@pytest.mark.parametrize("rule", RULES)
def test_every_threshold_has_a_reference_and_every_reference_a_threshold(rule: Rule) -> None:
    assert {c.feature for c in rule.clauses()} == set(rule.references)


@pytest.mark.parametrize("rule", RULES)
def test_relations_name_rules_that_exist(rule: Rule) -> None:
    assert set(rule.explains) <= set(CATALOG.rules) - {rule.id}
    assert set(rule.explains_peers) <= set(CATALOG.rules) - {rule.id}


def test_every_feature_has_one_name_and_a_help() -> None:
    features = {feature for rule in CATALOG for feature in rule.features()}
    assert len({feature.name for feature in features}) == len(features)
    assert all(feature.help.endswith(".") for feature in features)


RUNS = all_runs()
ALL_RUNS = [
    pytest.param(CATALOG[rule_id], run, id=f"{rule_id}: {run.name}")
    for rule_id, runs in RUNS.items()
    for run in runs
]


def test_every_rule_has_three_to_five_worked_runs() -> None:
    assert set(RUNS) == set(CATALOG.rules)
    assert all(3 <= len(runs) <= 5 for runs in RUNS.values())


def facts_of(rule: Rule, run: Run) -> list[Facts]:
    """What is known in each window of a run."""
    named = {feature.name: feature for feature in rule.features()}
    columns = {named[name]: series(notation) for name, notation in run.features.items()}
    num = len(outcomes(run.says))
    assert all(len(values) == num for values in columns.values())
    at = [{feature: values[window] for feature, values in columns.items()} for window in range(num)]
    return [Facts({f: value for f, value in each.items() if value is not None}) for each in at]


def looks_like_it(rule: Rule, facts: Facts) -> bool:
    """Whether something that a finding would show as evidence is there."""
    shown = any(facts.get(feature) for feature in rule.shows)
    return shown or any(c.known(facts) is True for c in (*rule.when, *rule.corroborated_by))


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_a_near_miss_that_looks_like_its_cause(rule: Rule) -> None:
    misses = [run for run in RUNS[rule.id] if run.is_near_miss]
    assert misses
    for run in misses:
        assert set(outcomes(run.says)) <= {"clear", "undecided"}, run.name
        assert all(looks_like_it(rule, facts) for facts in facts_of(rule, run)), run.name


@pytest.mark.parametrize("rule", RULES)
def test_the_picture_of_a_rule_fits_a_terminal(rule: Rule) -> None:
    for lang in LANGS:
        assert all(cell_len(line) <= 76 for line in as_text(rule.signature, 10_000, lang))


@pytest.mark.parametrize(("rule", "run"), ALL_RUNS)
def test_a_worked_run_says_what_is_written_beside_it(rule: Rule, run: Run) -> None:
    said = [type(judge(rule, facts)).__name__.lower() for facts in facts_of(rule, run)]
    assert said == outcomes(run.says)
