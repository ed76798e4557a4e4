"""What two runs of a job differ in by their labels."""

from __future__ import annotations

from stepscope.act.incident.difference import commit_of, config_difference, inferred_change

BEFORE = {"git_commit": "aaaa111", "num_workers": "2", "pod": "train-7f", "run": "r1", "image": "train:1.0"}
AFTER = {"git_commit": "bbbb222", "num_workers": "8", "pod": "train-9c", "run": "r2", "image": "train:1.0"}


def test_only_what_somebody_changed_is_a_difference() -> None:
    assert config_difference(BEFORE, AFTER) == {
        "git_commit": ("aaaa111", "bbbb222"),
        "num_workers": ("2", "8"),
    }
    assert config_difference({"a": "1"}, {"b": "2"}) == {"a": ("1", None), "b": (None, "2")}


def test_no_secret_is_a_difference() -> None:
    token = "hf_abcdefghijklmnopqrstuvwxyz012345"
    found = config_difference(
        {"api_key": "x1", "args": "--lr 1"}, {"api_key": "x2", "args": f"--token {token}"}
    )
    assert "api_key" not in found
    assert token not in repr(found)
    assert set(found) == {"args"}


def test_the_commit_is_found_under_its_names() -> None:
    assert commit_of({"git-commit": "abc"}) == "abc"
    assert commit_of({"app.kubernetes.io/version": "v1", "GIT_COMMIT": "abc"}) == "abc"
    assert commit_of({"num_workers": "2"}) is None


def test_a_new_run_with_other_labels_is_taken_for_the_change_and_said_to_be_inferred() -> None:
    change = inferred_change(BEFORE, AFTER, run="r2", at_ns=7)
    assert change is not None
    assert (change.by, change.run, change.commit, change.at_ns) == ("stepscope", "r2", "bbbb222", 7)
    assert change.what == "inferred from the labels of the new run: another commit, num_workers 2 → 8"


def test_a_run_that_only_began_anew_changed_nothing() -> None:
    again = BEFORE | {"pod": "train-2d", "run": "r3"}
    assert inferred_change(BEFORE, again, run="r3", at_ns=7) is None
