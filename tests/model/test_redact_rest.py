"""What stands around a secret or a name stays; only names of somebody are taken to other texts."""

from __future__ import annotations

import pytest

from stepscope.model import redact

HEX32 = "0123456789abcdef" * 2
HEX40 = "0123456789abcdef0123456789abcdef01234567"


def test_the_rest_of_a_path_and_of_a_sentence_stays() -> None:
    names = redact.Pseudonyms(b"key")
    user = names.name("user", "dave")
    assert names.apply("/mnt/nfs/home/dave/run/train.py(12): main") == (
        f"/mnt/nfs/home/{user}/run/train.py(12): main"
    )
    assert names.apply("from /home/dave to run/out") == f"from /home/{user} to run/out"
    assert names.apply("It is /home/dave.") == f"It is /home/{user}."
    assert names.apply("/afs/site/user/d/dave/x.py") == f"/afs/site/user/d/{user}/x.py"
    assert names.apply(r"\\files01\share\x") == rf"\\{names.name('host', 'files01')}\share\x"


def test_a_fully_qualified_name_gives_its_host_away_everywhere() -> None:
    names = redact.Pseudonyms(b"key", redact.identities_in_text("node dgx-03.hpc.uni.edu"))
    host = names.name("host", "dgx-03")
    assert names.apply("dgx-03 and dgx-03.hpc.uni.edu") == f"{host} and {host}"


def test_a_word_that_only_may_be_a_user_is_not_taken_from_other_texts() -> None:
    assert redact.identities_in_text("home/quinn/x") == redact.NOBODY
    assert redact.identities_in_text("/mnt/nfs/home/quinn/x").users == {"quinn"}


def test_a_password_in_a_list_of_arguments_goes() -> None:
    tree = {"argv": ["run.py", "--password", "bluebird", "--epochs", "3", "--api-key", "--fast"]}
    clean, count = redact.tree_without_secrets(tree)
    assert clean == {"argv": ["run.py", "--password", redact.SECRET, "--epochs", "3", "--api-key", "--fast"]}
    assert count == 1
    assert redact.tree_without_secrets(clean) == (clean, 0)
    assert redact.tree_without_secrets({"DB_PASS": "bluebird", "num_pass": 3, "pass": "fold"}) == (
        {"DB_PASS": redact.SECRET, "num_pass": 3, "pass": "fold"},
        1,
    )


def test_commands_pairs_and_headers_of_a_tree_go() -> None:
    tree = {
        "a": ["wandb", "login", HEX40],
        "b": ["/usr/bin/docker", "login", "-u", "a", "-p", "bluebird"],
        "c": ["mysql", "-pbluebird", "x"],
        "d": ["curl", "-u", "a:bluebird", "x"],
        "e": [["password", "bluebird"], ["lr", "0.1"]],
        "f": {"username": "a", "key": HEX32},
        "g": {"key": HEX32, "HF_TOKEN_READ": "bluebird", "Cookie": "a=bluebird"},
        "h": ["curl", "x", 3],
    }
    clean, count = redact.tree_without_secrets(tree)
    assert clean == {
        "a": ["wandb", "login", redact.SECRET],
        "b": ["/usr/bin/docker", "login", "-u", "a", "-p", redact.SECRET],
        "c": ["mysql", f"-p{redact.SECRET}", "x"],
        "d": ["curl", "-u", redact.SECRET, "x"],
        "e": [["password", redact.SECRET], ["lr", "0.1"]],
        "f": {"username": "a", "key": redact.SECRET},
        "g": {"key": HEX32, "HF_TOKEN_READ": redact.SECRET, "Cookie": redact.SECRET},
        "h": ["curl", "x", 3],
    }
    assert count == 8
    assert redact.tree_without_secrets(clean) == (clean, 0)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("password=x1, epochs=3", "password=[secret-removed], epochs=3"),
        ("password=x1,epochs=3", "password=[secret-removed],epochs=3"),
        ("?token=deadbeef&y=1", "?token=[secret-removed]&y=1"),
        ("f(token=abcdef, b'x')", "f(token=[secret-removed], b'x')"),
        ("{b'password': b'x1', 'n': 3}", "{b'password': b'[secret-removed]', 'n': 3}"),
        ('{"cmd": "--password=x1", "n": 3}', '{"cmd": "--password=[secret-removed]", "n": 3}'),
        ("postgresql://u:p@ss:w/x@h:5432/db?a=b", "postgresql://[secret-removed]@h:5432/db?a=b"),
        ("key=password=x1 next", "key=password=[secret-removed] next"),
    ],
)
def test_what_stands_behind_a_secret_stays(text: str, kept: str) -> None:
    assert redact.without_secrets(text) == (kept, 1)


def test_hosts_that_slurm_folds_are_known_one_by_one() -> None:
    for known in (
        redact.identities_in_text("SLURM_JOB_NODELIST=gpu[03-05,17],login1"),
        redact.identities_in_tree({"SLURM_JOB_NODELIST": "gpu[03-05,17],login1"}),
    ):
        assert known.hosts == {"gpu03", "gpu04", "gpu05", "gpu17", "login1"}
    assert len(redact.identities_in_text("nodelist=a[0-99999999999,7-9]").hosts) <= 1024


@pytest.mark.parametrize("name", ["ray", "nvidia", "jovyan", "run", "pin", "memory", "dali", "coder"])
def test_an_account_that_is_a_word_of_ours_or_a_package_is_not_taken_from_other_texts(name: str) -> None:
    assert redact.identities_in_text(f"/home/{name}/a/x.py").users == frozenset()
    assert redact.identities_in_tree({"user": name, "host": name}) == redact.NOBODY


def test_a_project_below_a_home_is_not_taken_from_other_texts() -> None:
    """In doubt the second directory gets a pseudonym too, but stays elsewhere."""
    text = "/home/alice/megaproject/core/x.py"
    known = redact.identities_in_text(text)
    assert known.users == {"alice"}
    names = redact.Pseudonyms(b"key", known)
    user, other = names.name("user", "alice"), names.name("user", "megaproject")
    assert names.apply(text) == f"/home/{user}/{other}/core/x.py"
    assert names.apply("megaproject of alice") == f"megaproject of {user}"
    assert names.apply("/home/alice/src/core/x/y.py") == f"/home/{user}/src/core/x/y.py"
    assert names.apply("/home/alice/Mega-LM/core/x/y.py") == f"/home/{user}/Mega-LM/core/x/y.py"
    assert redact.identities_in_text("/home/mila/a/alice/x").users == {"mila", "alice"}


def test_columns_of_numbers_are_left_as_they_are_and_every_string_is_still_found() -> None:
    """What may hold no string is not walked, so that a picture of a step costs no redaction."""
    from stepscope.model import report
    from stepscope.model.redact import map_strings, strings_of

    lane = report.Lane(kind="thread", what="input", thread="t", start_ns=(1, 2), dur_ns=(3, 4), name=(0, 1))
    timeline = report.Timeline(start_ns=0, dur_ns=9, resolution_ns=1, lanes=(lane,), names=("a", "b"))
    changed = map_strings(timeline, str.upper)
    assert changed.lanes[0].start_ns is lane.start_ns
    assert changed.names == ("A", "B")
    assert changed.lanes[0].thread == "T"
    assert sorted(strings_of(timeline)) == ["a", "b", "input", "t", "thread"]
    assert map_strings(timeline, lambda text: text) is timeline
