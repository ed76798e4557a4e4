"""Secrets never leave; identities leave as pseudonyms; what the field writes stays as it is."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.model import redact, report

# Built from parts, so that no scanner takes this file for a leak.
SECRETS = {
    "hugging face": "hf" + "_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567",
    "github": "gh" + "p_" + "0123456789abcdefghijABCDEFGHIJ012345",
    "github fine": "github" + "_pat_" + "11ABCDEFG0123456789_abcdefghijklmnopqrstuvwxyz",
    "gitlab": "glpat" + "-" + "AbCdEfGhIjKlMnOpQrSt",
    "aws id": "AKIA" + "IOSFODNN7EXAMPLE",
    "openai": "sk" + "-proj-" + "AbCdEfGhIjKlMnOpQrStUvWx0123456789",
    "slack": "xox" + "b-" + "123456789012-AbCdEfGhIjKl",
    "google": "AIza" + "SyA0123456789abcdefghijklmnopqrstuv",
    "jwt": "eyJ"
    + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
}
# (text, the part that must be gone)
CARRIERS = [
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfi", "wJalrXUtnFEMI/K7MDENG/bPxRfi"),
    ("password=hunter2", "hunter2"),
    ('{"api_key": "correct horse battery"}', "correct horse battery"),
    ('{\\"client_secret\\": \\"correct-horse\\"}', "correct-horse"),
    ("WANDB_API_KEY: 0123456789abcdef0123456789abcdef01234567", "0123456789abcdef0123456789abcdef01234567"),
    ("Authorization: Bearer q1w2e3r4t5y6", "q1w2e3r4t5y6"),
    ("proxy-authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA=="),
    ("curl -H 'bearer abcdef0123456789'", "abcdef0123456789"),
    ("s3 from https://bob:s3cr3t-pass@store.example/x", "s3cr3t-pass"),
    ("postgres://train:s3cr3t-pass@db/x", "s3cr3t-pass"),
    ("GET /x?access_token=deadbeefcafe&y=1", "deadbeefcafe"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----", "MIIEpAIBAAKCAQEA"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA", "b3BlbnNzaC1rZXktdjEA"),
    ("PATH=/usr/bin HOME=/opt/u LANG=C TERM=dumb VERY_PRIVATE=bluebird", "bluebird"),
    *((f"value {secret} end", secret) for secret in SECRETS.values()),
]
IDENTITIES = [
    ("/home/alice/train.py(12): main", "alice"),
    ("/Users/alice/train.py(12): main", "alice"),
    ("/data/home/alice/x", "alice"),
    (r"C:\Users\alice\train.py", "alice"),
    ("~alice/run", "alice"),
    ("mail alice.b@example.org", "alice.b@example.org"),
    ("alice@gpu-17:/x", "alice"),
    ("alice@gpu-17:/x", "gpu-17"),
    ("user=alice", "alice"),
    ("hostname: trainer17", "trainer17"),
    ("peer 10.12.0.7:29500", "10.12.0.7"),
    ("192.168.4.5", "192.168.4.5"),
    ("host 8.8.4.4", "8.8.4.4"),
    ("203.0.113.77 answered", "203.0.113.77"),
    ("fe80::1ff:fe23:4567:890a", "fe80::1ff:fe23:4567:890a"),
    ("2001:db8::12 up", "2001:db8::12"),
    ("link 00:1a:2b:3c:4d:5e", "00:1a:2b:3c:4d:5e"),
    ("ip-10-0-3-4.ec2.internal", "ip-10-0-3-4"),
    ("gpu017.cluster.local", "gpu017"),
    ("gpu017_4242.1700000000000000000.pt.trace.json.gz", "gpu017"),
]
# What must come out as it went in: the field's own spellings.
KEPT = [
    "12.4.0.1",
    "nvidia-cublas-cu12==12.4.5.8",
    "nvidia-curand-cu12==192.0.2.147",
    "driver 535.104.12.1",
    "libcudnn.so.9.1.0.70",
    "127.0.0.1:9400",
    "num_tokens=4096 max_tokens: 2048 tokens/s: 51200 pad_token='<pad>' next_token=1234567",
    "ProfilerStep#12",
    "aten::_scaled_dot_product_flash_attention",
    "void at::native::(anonymous namespace)::softmax_warp_forward<float, ::add>(int, token)",
    "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_stage3_warpsize2x2x1_tensor16x8x16_kernel",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
    "[[16, 3, 224, 224], [64, 3, 7, 7], []]",
    "transformers/models/llama/tokenization_llama.py(88): tokenize",
    "threading.local",
    "GPU-8f6d1e0a-1111-2222-3333-444455556666",
    "00000000:3B:00.0",
    "Optimizer.step#Adam.step",
    "memcpy@@GLIBC_2.17",
    "cat(tokens, key=value_cache) at 12:30:45",
    "/usr/lib/python3.11/site-packages/torch/nn/modules/module.py(1501): _call_impl",
    "Basic operations and bearer of news",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
]


@pytest.mark.parametrize(("text", "gone"), CARRIERS)
def test_a_secret_goes_and_is_counted(text: str, gone: str) -> None:
    clean, count = redact.without_secrets(text)
    assert gone not in clean
    assert count == 1
    assert redact.without_secrets(clean) == (clean, 0)


@pytest.mark.parametrize(("text", "gone"), IDENTITIES)
def test_an_identity_becomes_a_pseudonym_that_stays(text: str, gone: str) -> None:
    names = redact.Pseudonyms(b"key")
    changed = names.apply(text)
    assert gone not in changed
    assert names.apply(changed) == changed
    assert changed == redact.Pseudonyms(b"key").apply(text)
    assert changed != redact.Pseudonyms(b"other").apply(text)


@pytest.mark.parametrize("text", KEPT)
def test_the_words_of_the_field_stay(text: str) -> None:
    assert redact.without_secrets(text) == (text, 0)
    assert redact.Pseudonyms(b"key").apply(text) == text


def test_one_host_has_one_name_however_it_is_written() -> None:
    names = redact.Pseudonyms(b"key", redact.Identities(hosts=frozenset({"gpu017"})))
    short = names.apply("gpu017")
    assert names.apply("gpu017.cluster.local and gpu017_12.pt") == f"{short} and {short}_12.pt"


def test_an_environment_in_metadata_goes_whole_and_counts_its_secrets() -> None:
    tree = {"system": {"env": {"HF_TOKEN": SECRETS["hugging face"], "LANG": "C"}, "env_vars": {"LANG": "C"}}}
    assert redact.tree_without_secrets(tree) == (
        {"system": {"env": redact.ENVIRONMENT, "env_vars": redact.ENVIRONMENT}},
        2,
    )


def test_a_value_under_a_secret_name_goes_whatever_it_looks_like() -> None:
    tree = {
        "password": "blue",
        "apiKey": 12345,
        "tokens": 7,
        "access_token": None,
        "nested": [{"secret": "x y"}],
    }
    assert redact.tree_without_secrets(tree) == (
        {
            "password": redact.SECRET,
            "apiKey": redact.SECRET,
            "tokens": 7,
            "access_token": None,
            "nested": [{"secret": redact.SECRET}],
        },
        3,
    )


# ── whole reports ─────────────────────────────────────────────────────────────────────────────────────
def _filled(cls: Any, text: str) -> Any:
    """An instance of a report part with `text` in every field of free text."""
    values: dict[str, Any] = {}
    for f in msgspec.structs.fields(cls):
        filled = _filled_type(f.type, text, f.name)
        if filled is not None:
            values[f.name] = filled
    return cls(**values)


def _filled_type(kind: Any, text: str, name: str) -> Any:
    import types
    import typing

    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _filled_type(next(a for a in arguments if a is not type(None)), text, name)
    if origin is typing.Literal:
        return arguments[0]
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return (_filled_type(arguments[0], text, name),)
        return tuple(_filled_type(a, text, name) for a in arguments)
    if kind is str and name in ("findings", "overlaps_with", "explained_by"):
        return "id-1"  # these name findings by their id
    if kind is str:
        return f"{name}-1" if name in ("id", "sha256", "rule", "code", "feature", "unit", "reason") else text
    if kind in (int, float, bool):
        return kind(1)
    return _filled(kind, text)


def _formats(made: report.Report) -> list[str]:
    """The report in every format there is."""
    texts = [report.encode(made).decode()]
    try:
        import io

        from rich.console import Console

        from stepscope.views import markdown, terminal
    except ImportError:
        return texts
    for lang in ("en", "zh"):
        sink = io.StringIO()
        terminal.render_report(made, Console(file=sink, width=100), lang)
        texts += [sink.getvalue(), markdown.render(made, lang)]
    return texts


@settings(max_examples=150, deadline=None)
@given(
    carrier=st.sampled_from(CARRIERS),
    identity=st.sampled_from(IDENTITIES),
    glue=st.sampled_from([" ", "\n", " | ", "; "]),
)
def test_nothing_planted_in_any_field_appears_in_any_format(
    carrier: tuple[str, str], identity: tuple[str, str], glue: str
) -> None:
    made = _filled(report.Report, f"{identity[0]}{glue}{carrier[0]}")
    clean = redact.redact_report(made, key=b"key")
    for text in _formats(clean):
        for secret in (carrier[1], identity[1]):
            for line in secret.split("\n"):
                assert line not in text
    assert redact.redact_report(clean, key=b"key") == clean
    assert clean.inputs[0].redacted is not None
    assert clean.inputs[0].redacted > 1

    kept = redact.redact_report(made, key=b"key", keep_identities=True)
    text = report.encode(kept).decode()
    assert carrier[1] not in text
    if redact.ENVIRONMENT not in text:  # which takes in the assignments beside it
        assert json.dumps(identity[1])[1:-1] in text


def test_names_stated_in_one_field_are_replaced_in_every_other() -> None:
    made = _filled(report.Report, "trainer17 of alice at /home/alice/x")
    clean = redact.redact_report(made, key=b"key", known=redact.Identities(hosts=frozenset({"trainer17"})))
    text = report.encode(clean).decode()
    assert "trainer17" not in text
    assert "alice" not in text


def test_ids_and_digests_stay() -> None:
    made = _filled(report.Report, "cuda 12.4.0.1")
    assert redact.redact_report(made, key=b"key") == made


@pytest.mark.parametrize(
    "name", ["Qwen_Qwen1.5-0.5B-Chat__1016005", "facebook_timesformer-base-finetuned-k400__1016002"]
)
def test_a_public_trace_with_a_live_token_gives_one_secret_its_host_and_its_user(
    shared_data: Any, name: str
) -> None:
    with gzip.open(shared_data / "traces" / "tracelens" / "h100" / f"{name}.json.gz") as file:
        metadata = json.load(file)
    events = metadata.pop("traceEvents")
    token = metadata["metadata"]["system"]["env"]["HF_TOKEN"]
    clean, count = redact.tree_without_secrets(metadata)
    assert count == 1
    assert token not in json.dumps(clean)
    known = redact.identities_in_tree(metadata)
    assert known.hosts == {metadata["metadata"]["system"]["uname"]["node"]}
    assert known.users == {metadata["metadata"]["started_by"]}
    # nothing that the profiler wrote is bent
    names = redact.Pseudonyms(b"key")
    for text in {event["name"] for event in events if "name" in event}:
        assert redact.without_secrets(text) == (text, 0)
        assert names.apply(text) == text


ENEMY_SECONDS = 3
"""Processor time for 100,000 characters: in proportion they take half a second with the start of Python, and
six seconds with the mildest pattern that tries every pair of places."""


def ended_in_time(program: str, text: str) -> bool:
    """Whether a program is through with a text before the system ends it for its processor time."""
    limited = (
        f"import resource; resource.setrlimit(resource.RLIMIT_CPU, ({ENEMY_SECONDS}, {ENEMY_SECONDS}))\n"
        f"import sys; text = sys.stdin.read()\n{program}\nprint('through', len(text))"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, -9, -24), done.stderr  # SIGKILL, SIGXCPU
    return done.stdout.split() == ["through", str(len(text))]


REDACTING = (
    "from stepscope.model import redact\nredact.without_secrets(text)\nredact.Pseudonyms(b'key').apply(text)"
)


@pytest.mark.parametrize(
    "unit", ["a", "a.", "1.1.1.", "a@", "a:", "token=", 'password="', "PATH=x A=b,c;d ", "https://a:"]
)
def test_a_long_text_of_an_enemy_takes_time_in_proportion(unit: str) -> None:
    assert ended_in_time(REDACTING, "PATH= ://" + unit * (100_000 // len(unit)))


def test_a_pattern_that_tries_every_pair_of_places_is_ended() -> None:
    """That the limit above can fail at all: the shape of an address, with nothing that bounds the name."""
    assert not ended_in_time("import re; re.sub('[a-z]+@', '', text)", "a" * 100_000)


def test_a_word_in_a_file_name_is_no_host_and_our_own_words_stay() -> None:
    """`worker0_step_12.<time>.pt.trace.json` names no host: only what stands first in a file's name does."""
    name = "kineto/worker0_step_12.1694128201545.pt.trace.json.gz"
    assert redact.identities_in_text(name).hosts == frozenset()
    assert redact.identities_in_text("runs/gpu17a_4242.1694128201545.pt.trace.json").hosts == {"gpu17a"}
    assert redact.identities_in_text("runs/step_12.1694128201545.pt.trace.json").hosts == frozenset()
