"""`stepscope notify`: what would be sent is shown without a secret; wrong configurations are one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SECRET = "TIiajkdnlazkcOXrIdevi7FQ"
CONFIG = """
[[channel]]
kind = "apprise"
name = "team"
url_env = "TEAM_URL"
lang = "zh"
[[channel]]
kind = "webhook"
url = "http://127.0.0.1:1/hook"
secret_env = "HOOK"
"""


def notify(tmp_path: Path, *words: str, config: str = CONFIG):  # type: ignore[no-untyped-def]
    path = tmp_path / "channels.toml"
    path.write_text(config)
    return subprocess.run(
        [sys.executable, "-m", "stepscope", "notify", "--config", str(path), *words],
        capture_output=True, text=True, timeout=120,
        env={**os.environ, "TEAM_URL": f"slack://T1JJ3T3L2/A1BRTD4JD/{SECRET}", "HOOK": "h00k-s3cret"},
    )  # fmt: skip


def test_a_dry_run_prints_each_channel_in_its_language_and_no_secret(tmp_path: Path) -> None:
    done = notify(tmp_path, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "── team (apprise, slack://…) ──" in done.stdout
    assert "设备在等待下一个批次" in done.stdout
    assert '"title": "The device waits for its next batch"' in done.stdout
    for secret in (SECRET, "h00k-s3cret", "/hook"):
        assert secret not in done.stdout + done.stderr


def test_a_test_that_cannot_be_sent_ends_with_4_and_says_why(tmp_path: Path) -> None:
    only_webhook = CONFIG[CONFIG.index('[[channel]]\nkind = "webhook"') :]
    done = notify(tmp_path, "--test", config=only_webhook)
    assert done.returncode == 4
    assert "not sent: connection refused" in done.stdout


@pytest.mark.parametrize(
    ("words", "config", "code", "line"),
    [
        ((), CONFIG, 2, "choose one of --dry-run and --test"),
        (("--dry-run",), "", 2, "no [[channel]]; add one"),
        (("--dry-run",), "[[channel]", 2, "--config takes TOML"),
        (("--dry-run",), '[[channel]]\nkind = "pager"', 2, "kind 'pager' is none of"),
        (("--dry-run", "/nowhere.json"), CONFIG, 3, "cannot be read: no such file"),
    ],
    ids=["neither", "empty", "no-toml", "kind", "no-report"],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, words: tuple[str, ...], config: str, code: int, line: str
) -> None:
    done = notify(tmp_path, *words, config=config)
    assert done.returncode == code
    assert line in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
