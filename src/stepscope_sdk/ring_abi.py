"""The layout of a step ring and of its control file: one table, from which all readers and writers are made.

A ring is one memory-mapped file a rank: a header, then `num_records` records of 64 bytes that are reused in
turn. All numbers are little-endian; every field lies on a multiple of its size. The C header
`docs/reference/step_ring.h` is generated from this module.
"""

from __future__ import annotations

from typing import NamedTuple

MAGIC = b"STEPRING"
CONTROL_MAGIC = b"STEPCTRL"
VERSION = 1
HEADER_BYTES = 8192
RECORD_BYTES = 64
NUM_RECORDS = 16384
"""By default: 1 MiB, and an hour of steps of one second with four marks each."""
CONTROL_BYTES = 4096
SUFFIX, CONTROL_SUFFIX = ".ring", ".control"
ABSENT = -1
"""A rank, step or count that is not known."""


class Field(NamedTuple):
    """One field: `kind` is a struct letter (`Q q I i H d`), or `s` for text of `size` bytes, UTF-8, ended by
    a zero byte where it is shorter."""

    name: str
    kind: str
    offset: int
    size: int
    meaning: str


HEADER = (
    Field("magic", "s", 0, 8, "STEPRING; written last: a file without it is not ready"),
    Field("version", "I", 8, 4, "of this layout"),
    Field("header_bytes", "I", 12, 4, "where the first record lies"),
    Field("record_bytes", "I", 16, 4, "size of one record"),
    Field("num_records", "I", 20, 4, "records in the ring, a power of two"),
    Field("created_mono_ns", "q", 24, 8, "CLOCK_MONOTONIC when it was made"),
    Field("created_real_ns", "q", 32, 8, "CLOCK_REALTIME at the same moment"),
    Field("pid", "i", 40, 4, "of the writer, in its own pid namespace"),
    Field("rank", "i", 44, 4, "-1 where not known"),
    Field("local_rank", "i", 48, 4, "-1 where not known"),
    Field("world_size", "i", 52, 4, "-1 where not known"),
    Field("restart", "i", 56, 4, "how often the job was restarted, -1 where not known"),
    Field("has_crc", "I", 60, 4, "1 where records carry a CRC, else 0"),
    Field("num_written", "Q", 64, 8, "records written since the start: a hint, written after each record"),
    Field("num_names", "Q", 72, 8, "entries of `names` in use; grows after its entry is written"),
    Field("job", "s", 128, 128, "job id"),
    Field("run", "s", 256, 128, "run id; a restart is a new run"),
    Field("host", "s", 384, 64, "host name as the training process sees it"),
    Field("boot_id", "s", 448, 64, "of the kernel: clocks of another boot do not compare"),
    Field("pod_uid", "s", 512, 64, "Kubernetes pod, empty elsewhere"),
    Field("pod", "s", 576, 128, "its name"),
    Field("namespace", "s", 704, 64, "its namespace"),
    Field("container", "s", 768, 64, "its container's name"),
    Field("container_id", "s", 832, 96, "of the container runtime, where the cgroup tells"),
    Field("scheduler_job", "s", 928, 64, "Slurm or another scheduler's job id"),
    Field("task", "s", 992, 128, "the platform's own task id, by a configured environment name"),
    Field("framework", "s", 1120, 64, "such as torch 2.13.0, once it is known"),
    Field("script", "s", 1184, 128, "the file name of the training script, without its folder"),
    Field(
        "device_uuids", "s", 1312, 1024, "UUIDs joined by commas: of visible devices, later of the one in use"
    ),
    Field("names", "s", 4096, 4096, "64 names of 64 bytes: of values, custom phases and modules"),
)
NAME_BYTES, MAX_NAMES = 64, 64

RECORD = (
    Field("seq", "Q", 0, 8, "2n+2 for the n-th record (from 0); odd while it is being written; stored last"),
    Field("kind", "H", 8, 2, "a row of KINDS"),
    Field("flags", "H", 10, 2, "bits of FLAGS"),
    Field("crc", "I", 12, 4, "CRC-32 of seq, kind and flags, then bytes 16 to 63; 0 where has_crc is 0"),
    Field("step", "q", 16, 8, "step number, -1 outside of steps"),
    Field("mono_ns", "q", 24, 8, "CLOCK_MONOTONIC"),
    Field("real_ns", "q", 32, 8, "CLOCK_REALTIME: may jump, `mono_ns` does not"),
    Field("a", "q", 40, 8, "see KINDS"),
    Field("b", "d", 48, 8, "see KINDS; NaN where absent"),
    Field("c", "d", 56, 8, "see KINDS; NaN where absent"),
)


class Kind(NamedTuple):
    """What a record says, and what its payload means."""

    number: int
    name: str
    a: str
    b: str
    c: str
    meaning: str


KINDS = (
    Kind(1, "start", "0", "-", "-", "the monitor began in this process"),
    Kind(2, "step_begin", "tokens, -1 absent", "samples", "sequence length", "a step begins"),
    Kind(3, "step_end", "tokens, -1 absent", "samples", "sequence length", "a step ends"),
    Kind(4, "phase_begin", "place in PHASES", "name, or -1", "-", "a phase begins; phases nest"),
    Kind(
        5, "phase_end", "place in PHASES", "name, or -1", "its start's mono_ns less its end's", "a phase ends"
    ),
    Kind(6, "value", "name", "value", "-", "a number that the loop logged"),
    Kind(7, "activation", "name", "mean", "largest absolute value", "a sampled module's output"),
    Kind(8, "activation_share", "name", "share of zeros", "share not finite", "the same, second part"),
    Kind(9, "answer", "capture id", "place in ANSWERS", "first step", "what the SDK says to a capture"),
    Kind(10, "capture_begin", "capture id", "place in MODES", "-", "the profiler starts in this step"),
    Kind(11, "capture_end", "capture id", "stall in ns", "bytes of its trace, once written", "it ended"),
    Kind(12, "world", "world size", "rank", "local rank", "the process group is known now"),
    Kind(
        13,
        "exit",
        "0 in order, 1 by an exception, 2 by Ctrl-C",
        "-",
        "-",
        "the process ends; absent after a kill",
    ),
)
FLAGS = {
    "shadow": 1,  # of a step whose inner marks are left out, to measure what marks cost
    "captured": 2,  # the profiler ran in this step
    "stalled": 4,  # the step was held up by our own capture: never a finding
    "sync": 8,  # of a phase in which all ranks meet (backward of a data-parallel model, a collective)
    "error": 16,  # it ended by an exception
    "aside": 32,  # marked in another thread than the one that marks the steps: the step does not wait for it
    "tiled": 64,  # of a step found by the end of an optimizer: where the loop's body begins is not known
}
PHASES = (
    "init", "data", "forward", "backward", "optimizer", "checkpoint", "eval", "logging", "other", "gc",
    "compile", "communication", "profiler",
)  # fmt: skip

CONTROL = (
    Field("magic", "s", 0, 8, "STEPCTRL"),
    Field("version", "I", 8, 4, "of this layout"),
    Field("seq", "Q", 16, 8, "even: the words below are whole; odd: being written. Stored first and last"),
    Field("command", "q", 24, 8, "a place in COMMANDS"),
    Field("capture", "q", 32, 8, "capture id, ascending"),
    Field("first_step", "q", 40, 8, "the step T of the agreement"),
    Field("num_steps", "q", 48, 8, "active steps"),
    Field("mode", "q", 56, 8, "a place in MODES"),
    Field("flags", "q", 64, 8, "bits of CAPTURE_FLAGS"),
    Field("crc", "Q", 72, 8, "CRC-32 of bytes 24 to 71"),
    Field("agent_mono_ns", "q", 80, 8, "CLOCK_MONOTONIC of the agent's last look: it is alive"),
    Field(
        "trace_dir", "s", 1024, 1024, "written by the training process: its folder of traces, as it sees it"
    ),
)
COMMANDS = ("none", "propose", "commit", "cancel")
ANSWERS = ("armed", "too_late", "busy", "refused", "cancelled", "done", "failed")
MODES = ("full", "light")
CAPTURE_FLAGS = {"stacks": 1, "shapes": 2, "memory": 4}
TRACES = "traces"
"""Folder of traces beside the rings, where `trace_dir` is not to be seen (another mount namespace)."""


def control_path(ring_path: str) -> str:
    """The control file of a ring."""
    return ring_path.removesuffix(SUFFIX) + CONTROL_SUFFIX


def trace_place(ring_path: str, capture: int) -> str:
    """Where a capture's trace of the process of this ring lies in the folder of traces: a folder a capture,
    a file a rank, as the ring's own name tells it."""
    stem = ring_path.rsplit("/", 1)[-1].removesuffix(SUFFIX)
    return f"capture-{capture}/{stem}.json.gz"


def place(fields: tuple[Field, ...], name: str) -> Field:
    """A field by its name."""
    return next(each for each in fields if each.name == name)


def kind_number(name: str) -> int:
    """The number of a kind of record."""
    return next(each.number for each in KINDS if each.name == name)
