"""Times, prefixes, encodings and discovery of logs, and that no text brings the reader down."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.model.error import InputError
from stepscope.model.log import PROGRESS_FIELDS
from stepscope.sources.formats.log_line import Text, head
from stepscope.sources.formats.log_time import Clock
from stepscope.sources.log import is_log, read_log

NOON = 1_714_564_800_000_000_000
"""2024-05-01 12:00:00 UTC."""
S = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "at_ns", "has_zone"),
    [
        ("2024-05-01T12:00:00Z", NOON, True),
        ("2024-05-01 12:00:00,123", NOON + 123_000_000, False),
        ("2024-05-01T14:00:00.123456789+02:00", NOON + 123_456_789, True),
        ("[2024-05-01 12:00:00.5]", NOON + S // 2, False),
        ("2024/05/01 12:00:00", NOON, False),
        ("2024-05-01-12:00:00", NOON, False),
        ("Wed May  1 12:00:00 2024", NOON, False),
        ("[May 01 2024 12:00:00]", NOON, False),
        ("05/01/2024 12:00:00", NOON, False),
        ("[05/01/24 12:00:00]", NOON, False),
        ("1714564800", NOON, True),
        ("1714564800.25", NOON + S // 4, True),
        ("1714564800250", NOON + S // 4, True),
        ("1714564800250000000", NOON + S // 4, True),
    ],
)
def test_a_time_is_read_to_the_nanosecond(text: str, at_ns: int, has_zone: bool) -> None:
    found = Clock().at(text)
    assert found is not None
    assert (found.at_ns, found.end, found.has_zone) == (at_ns, len(text), has_zone)


@pytest.mark.parametrize(
    "text", ["2024-13-01 12:00:00", "2024-02-30 12:00:00", "31/05/2024 12:00:00", "12:00:00", "1714"]
)
def test_what_is_no_time_gives_none(text: str) -> None:
    assert Clock().at(text) is None


def test_december_before_a_file_of_january_is_of_the_year_before() -> None:
    january = 1_704_110_400_000_000_000  # 2024-01-01 12:00:00
    found = Clock(latest_ns=january).at("Dec 31 12:00:00 node7 kernel: x")
    assert found is not None
    assert found.at_ns == january - 86_400 * S


@pytest.mark.parametrize(
    ("text", "rank", "host", "stream", "body"),
    [
        ("[rank3]: hello", 3, None, "[rank3]", "hello"),
        ("[default0]:[2024-05-01 12:00:00,000] [INFO] hello", None, None, "[default0]", "hello"),
        ("3: hello", None, None, "3", "hello"),
        ("[1,5]<stdout>:hello", 5, None, "[1,5]<stdout>", "hello"),
        ("(RayTrainWorker pid=12, ip=10.0.0.1) hello", None, None, "(RayTrainWorker pid=12, ip=10.0.0.1)",
            "hello"),
        ("worker-0  | 2024-05-01 12:00:00 INFO hello", None, None, "worker-0", "hello"),
        ("2024-05-01T12:00:00.1Z stdout F hello", None, None, "", "hello"),
        ("2024-05-01 12:00:00.9 | INFO     | __main__:log:54 - [Rank 2] hello", 2, None, "", "hello"),
        ("05/01/2024 12:00:00 - INFO - __main__ - hello", None, None, "", "hello"),
        ("[2024-05-01 12:00:00,000][train][INFO] - hello", None, None, "", "hello"),
        ("[100/1000] loss: 2", None, None, "", "[100/1000] loss: 2"),
        ("[step 10] loss: 2", None, None, "", "[step 10] loss: 2"),
    ],
)  # fmt: skip
def test_prefixes_of_launchers_and_loggers_come_off(
    text: str, rank: int | None, host: str | None, stream: str, body: str
) -> None:
    found = head(text, Clock())
    assert (found.rank, found.host, found.stream, found.body) == (rank, host, stream, body)


def test_a_line_that_was_drawn_over_is_many_lines_of_one_number() -> None:
    text = Text(b"\x1b[32mone\x1b[0m\rtwo\x08\x08three\n\nfour\r\n")
    assert list(text) == [(1, "one"), (1, "two"), (1, "three"), (3, "four")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_logs_of_other_encodings_and_gzip_are_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "train.log.gz"
    path.write_bytes(gzip.compress("step 1 loss 2.5\nstep 2 loss 2.25\n".encode(encoding)))
    log = read_log(str(path))
    assert log.progress is not None
    assert log.progress.values["loss"].tolist() == [2.5, 2.25]


def test_bytes_that_are_no_text_do_not_hide_the_rest() -> None:
    log = read_log("x", data=b"\xff\xfe\xfd\x00\nstep 1 loss 2.5 \xc3\x28\n"[1:])
    assert log.progress is not None
    assert log.progress.step.tolist() == [1]


@pytest.mark.parametrize(
    ("name", "start", "is_one"),
    [
        ("train.log", b"anything", True),
        ("slurm-12.out", b"anything", True),
        ("dmesg.txt", b"[    0.000000] Linux version", True),
        ("messages", b"May  1 12:00:00 node7 kernel: hello\n", True),
        ("nccl.0.txt", b"node1:1:1 [0] NCCL INFO Bootstrap", True),
        ("notes.txt", b"buy milk\n", False),
        ("metrics.prom", b"# HELP DCGM_FI_DEV_GPU_UTIL x\n", False),
        ("train.log", b'{"schemaVersion": 1, "traceEvents": [', False),
        ("log.json", b'{"traceEvents": [', False),
        ("steps.csv", b"rank,step,duration\n", False),
        ("wandb.jsonl", b'{"_step": 1, "loss": 2.5}\n', True),
        ("other.jsonl", b'{"name": "x"}\n', False),
        ("core.log", b"\x7fELF\x00\x00", False),
    ],
)
def test_a_log_is_known_by_name_and_beginning(name: str, start: bytes, is_one: bool) -> None:
    assert is_log(name, start) is is_one


# Words that tables look for, between them anything.
_WORDS = st.sampled_from(
    "step iteration loss: epoch [ ] { } : = / % | 5%| ━━ nan inf 1,234 1e400 999999999999999999999 tok/s "
    "NCCL INFO via Channel "
    "NVRM: Xid (PCI:0000:05:00): 79 CUDA out of memory. Tried to allocate GiB Traceback Error: 2024-05-01 "
    "12:00:00 [  1.000000] "
    "50/1000 [00:25<07:55, it/s, Epoch {'loss': eval_loss \x1b[31m \r \x08 \t audit( [batch=1/2]: "
    "skipped= rank busId".split(" ")
)
_TEXT = st.lists(st.one_of(_WORDS, st.text(max_size=8)), max_size=60).map(" ".join)


@settings(max_examples=300, deadline=None)
@given(_TEXT)
def test_no_text_brings_the_reader_down_and_every_number_is_finite(text: str) -> None:
    try:
        log = read_log("made.log", data=text.encode("utf-8", "surrogatepass"))
    except InputError:
        return
    if log.progress is not None:
        assert set(log.progress.values) <= set(PROGRESS_FIELDS)
        assert (log.progress.step >= 0).all()
        for name in log.progress.values:
            _, _, values = log.progress.column(name)
            assert len(values) > 0
            assert abs(values).max() < float("inf")
    assert all(event.line >= 1 and "\n" not in event.text for event in log.events)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_no_bytes_bring_the_reader_down(data: bytes) -> None:
    try:
        read_log("made.log", data=data)
    except InputError:
        return


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 10**9), st.floats(0, 1e6), st.floats(0, 1e9)),
        min_size=1,
        max_size=20,
        unique_by=lambda row: row[0],
    )
)
def test_what_is_written_is_what_is_read(rows: list[tuple[int, float, float]]) -> None:
    rows = sorted(rows)
    text = "".join(f"step {step:,} | loss {loss!r} | {rate!r} tok/s\n" for step, loss, rate in rows)
    progress = read_log("made.log", data=text.encode()).progress
    assert progress is not None
    assert progress.step.tolist() == [step for step, _, _ in rows]
    assert progress.values["loss"].tolist() == [loss for _, loss, _ in rows]
    assert progress.values["tokens_per_second"].tolist() == [rate for _, _, rate in rows]
