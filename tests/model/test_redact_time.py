"""Texts of an enemy cost the time that their length does."""

from __future__ import annotations

import subprocess
import sys

import pytest

# What a pattern that goes back might trip over, repeated.
# fmt: off
UNITS = [
    "home/", "home/a/", "/home", "/home/a b c", "/home/al", "home//", "home\\", "/mnt/nfs", "users/x ",
    "/", "\\", "\\\\a", "\\\\a\\", "a1.", "a-1.b.edu", "a-", "tcp://", "tcp://a@", "torchinductor_",
    "Bearer ", "Bearer a", "--password ", "--a", "-", "--a\", ", "PASS=", "pass=> ", "DB_PASS",
    "<password>", "<a></", "SG.", "SG.a1", "r8_", "r8_a", "ya29.", "tskey-auth-", "_pass", "user=",
    "/home/a.py", "/home/.", " ", "PASSWORD_a", "key=", "\"key\": \"", "password='", "password=\"\\\"",
    "password=\\\"", "password=a,", "password=(a", "wandb login ", "docker login ", "docker login -p ",
    "mysql -", "curl -u ", "curl a ", "login a password ", "password a", "cookie: a",
    "Authorization: a ", "Authorization: Digest a=b, ", "(\"password\", \"", "://a:", "://a:b@",
    "/home/a/b", "/home/ab/cd/", "/users/ab/", "a-home/", "/home-a", "user@lib.so", "a@1.",
    "--host a,", "--host ", "nodelist=a[1-9],", "gpu:1:", "connect to (a", "[a", "uid=1(", "fe80::",
    "host[1,", "trt 1.1.", "a_", "-H a:1",
]
# fmt: on

PROGRAM = """
import resource; resource.setrlimit(resource.RLIMIT_CPU, (3, 3))
import sys; text = sys.stdin.read()
from stepscope.model import redact
redact.without_secrets(text); redact.identities_in_text(text); redact.Pseudonyms(b'key').apply(text)
print('through', len(text))
"""


@pytest.mark.parametrize("unit", UNITS)
def test_a_long_text_of_an_enemy_takes_time_in_proportion(unit: str) -> None:
    text = "PATH= --password ://</Bearer home/ login .local " + unit * (100_000 // len(unit)) + "!"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=text, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["through", str(len(text))], done.stderr
