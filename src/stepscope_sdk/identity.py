"""Who marks: rank, job, run, pod and devices, from what launchers put into the environment.

Tables first: a new launcher or scheduler is a row. Pure but for `read`, `host` and the numbers given.
Values come from outside: each is cut, freed of control characters, and left out where it looks like a secret.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from stepscope_sdk import ring_abi as abi

Env = Mapping[str, str]
Read = Callable[[str], "str | None"]
"""A file's text, None where it cannot be read."""


class Launcher(NamedTuple):
    """The names that one launcher sets. The first row whose `rank` is a number gives all four."""

    rank: str
    world_size: str
    local_rank: str
    restart: str


LAUNCHERS = (
    Launcher(
        "RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT"
    ),  # torchrun, Ray Train, MPI jobs
    Launcher("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", ""),
    Launcher("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", ""),
    Launcher("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", ""),
    Launcher("PMIX_RANK", "", "", ""),
    # SLURM_NTASKS is the allocation's and set in a batch script as well, where there is one process.
    Launcher("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_RESTART_COUNT"),
    Launcher("JOB_COMPLETION_INDEX", "", "", ""),  # an indexed Kubernetes job of one process a pod
)
RESTARTS = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT", "RAY_RESTART_COUNT")
TASK_LIST = "STEPSCOPE_TASK_ENV"
"""Names of environment variables, joined by commas, that may hold the platform's own task id: the first one
that is set counts."""
JOBS = (  # the first that is set; {task} is what TASK_LIST found
    "STEPSCOPE_JOB", "{task}", "SLURM_JOB_ID", "JOB_NAME", "TORCHELASTIC_RUN_ID", "RAY_JOB_ID", "PBS_JOBID",
    "LSB_JOBID", "FLUX_JOB_ID", "PMIX_NAMESPACE",
)  # fmt: skip
SCHEDULER_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "RAY_JOB_ID")
NO_JOB = ("none", "None", "null")  # what torchrun writes where no id was given
RUNS = (  # what one launch has in common on all its ranks, and the next has not
    "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
    "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "RAY_JOB_ID", "MASTER_ADDR", "MASTER_PORT",
)  # fmt: skip
POD = {  # Kubernetes sets none of these by itself: names in use for the downward API
    "pod_uid": ("POD_UID", "K8S_POD_UID", "MY_POD_UID"),
    "pod": ("POD_NAME", "K8S_POD_NAME", "MY_POD_NAME"),
    "namespace": ("POD_NAMESPACE", "K8S_NAMESPACE", "MY_POD_NAMESPACE", "NAMESPACE"),
    "container": ("CONTAINER_NAME", "K8S_CONTAINER_NAME", "MY_CONTAINER_NAME"),
}
DEVICES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
_UUID = re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]{4,80}")
_POD = re.compile(
    r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})"
)
_POD_MOUNT = re.compile(r"/pods/([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/")
_CONTAINER = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?:/|$)", re.MULTILINE)
_CONTAINER_MOUNT = re.compile(r"/containers/([0-9a-f]{64})/")  # a cgroup namespace hides the path, not this
_SECRET_NAME = re.compile(r"token|secret|passw|passphrase|credential|api_?key|private|auth", re.IGNORECASE)
_SECRET = re.compile(
    r"^(gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox|AKIA|ASIA|eyJ|AIza|-----BEGIN)|://[^/\s]*@|[?&][^=]*(token|key|sig)"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
MOST_CHARACTERS = 1000


def identify(
    env: Env,
    read: Read,
    *,
    host: str,
    argv: Sequence[str] = (),
    pid: int,
    parent: int,
    now_ns: int,
    given: Mapping[str, str | int | None] | None = None,
) -> dict[str, str | int]:
    """Fields of a ring's header. What is not known is left out, or `ABSENT` where it is a number."""
    said = {name: value for name, value in (given or {}).items() if value is not None}
    cgroup, mounts = (read(f"/proc/self/{at}") or "" for at in ("cgroup", "mountinfo"))
    boot = safe((read("/proc/sys/kernel/random/boot_id") or "").strip())
    task = _task(env)
    numbers = _numbers(env)
    numbers |= {name: value for name in numbers if isinstance(value := said.get(name), int)}
    texts: dict[str, str | None] = {
        "host": host,
        "boot_id": boot,
        "task": task,
        "scheduler_job": _slurm(env) or _first(env, SCHEDULER_JOBS),
        "job": _job(env, task),
        "container_id": _found(_CONTAINER, cgroup) or _found(_CONTAINER_MOUNT, mounts),
        "script": os.path.basename(argv[0]) if argv else None,
        "device_uuids": ",".join(device_uuids(env)),
    } | {field: _first(env, names) for field, names in POD.items()}
    texts["pod_uid"] = texts["pod_uid"] or pod_uid_of(f"{cgroup}\n{mounts}")
    texts |= {name: str(value) for name, value in said.items() if name in texts}
    own = f"{boot} {pid} {now_ns}"
    named = said.get("run") or _first(env, ("STEPSCOPE_RUN",))
    # A name that the environment keeps over a restart is not yet the name of one run.
    texts["run"] = _with_restart(str(named), numbers) if named else _run(env, read, numbers, parent, own)
    return {**{name: safe(text) for name, text in texts.items() if text}, **numbers}


def safe(text: str) -> str:
    """A value as it may be stored: one line, cut; empty where it looks like a secret."""
    text = _CONTROL.sub(" ", text[:MOST_CHARACTERS]).strip()
    return "" if _SECRET.search(text) else text


def whole(text: str | None) -> int | None:
    """A rank or count of the environment; None for what is none."""
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def device_uuids(env: Env) -> tuple[str, ...]:
    """UUIDs among the visible devices. Indices say nothing: they count what a container left over."""
    for name in DEVICES:
        value = env.get(name)
        if value:
            found = [part.strip() for part in value.split(",")]
            return tuple(part for part in found if _UUID.fullmatch(part))
    return ()


def pod_uid_of(cgroup: str) -> str | None:
    """The pod's UID in the lines of /proc/self/cgroup and mountinfo; None outside of Kubernetes."""
    for line in cgroup.splitlines():
        if "kubepods" in line and (found := _POD.search(line)):
            return found[1].replace("_", "-")
        if "kubelet" in line and (found := _POD_MOUNT.search(line)):
            return found[1]
    return None


def _numbers(env: Env) -> dict[str, int]:
    for row in LAUNCHERS:
        rank = whole(env.get(row.rank))
        if rank is not None:
            told = [whole(env.get(name)) for name in (row.world_size, row.local_rank, row.restart)]
            break
    else:
        rank, told = None, [None, None, None]
    world, local, restart = told
    if restart is None:
        restart = next((n for name in RESTARTS if (n := whole(env.get(name))) is not None), None)
    found = {"rank": rank, "local_rank": local, "world_size": world, "restart": restart}
    return {name: abi.ABSENT if value is None else value for name, value in found.items()}


def _first(env: Env, names: Sequence[str]) -> str | None:
    return next(
        (value for name in names if (value := env.get(name, "").strip()) and value not in NO_JOB), None
    )


def _task(env: Env) -> str | None:
    names = [name.strip() for name in env.get(TASK_LIST, "").split(",")]
    return _first(env, [name for name in names if name and not _SECRET_NAME.search(name)])


def _slurm(env: Env) -> str | None:
    """An array's job as Slurm's own tools write it."""
    array, task = env.get("SLURM_ARRAY_JOB_ID"), env.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else None


def _job(env: Env, task: str | None) -> str | None:
    values = {"{task}": task or "", "SLURM_JOB_ID": _slurm(env) or env.get("SLURM_JOB_ID", "")}
    return _first({**env, **values}, JOBS)


def _run(env: Env, read: Read, numbers: Mapping[str, int], parent: int, own: str) -> str:
    """Equal on all ranks of one launch, another after each restart; a digest, since it holds an address.

    A job within one node has its launcher as parent, which no other launch has. One process alone is its
    own run. Where several nodes share nothing but a fixed address, launches cannot be told apart by it:
    `STEPSCOPE_RUN` says.
    """
    world = numbers["world_size"]
    shared = [f"{name}={env[name]}" for name in RUNS if env.get(name) and env[name] not in NO_JOB]
    if (world == abi.ABSENT and numbers["rank"] == abi.ABSENT) or world == 1:
        shared.append(own)
    elif whole(env.get("LOCAL_WORLD_SIZE")) == world or not shared:
        shared.append(f"{parent} {_started(read(f'/proc/{parent}/stat'))}")
    return _with_restart(hashlib.blake2s("\n".join(shared).encode(), digest_size=6).hexdigest(), numbers)


def _with_restart(run: str, numbers: Mapping[str, int]) -> str:
    return f"{run}-r{numbers['restart']}" if numbers["restart"] > 0 else run


def _started(stat: str | None) -> str:
    """When a process began, in the kernel's ticks: field 22, counted behind the name in brackets."""
    return stat.rpartition(")")[2].split()[19] if stat and len(stat.rpartition(")")[2].split()) > 19 else ""


def _found(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[1] if found else None
