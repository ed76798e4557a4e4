"""Who marks, from what launchers set: real sets of names, one a launcher."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope_sdk import ring_abi as abi
from stepscope_sdk.identity import device_uuids, identify, pod_uid_of, safe, whole

UID = "0b8a3c5e-1111-2222-3333-444455556666"
CONTAINER = "4f" * 32


def who(
    env: Mapping[str, str], files: Mapping[str, str] | None = None, **more: object
) -> dict[str, str | int]:
    given: dict[str, object] = {
        "host": "h1",
        "pid": 7,
        "parent": 3,
        "now_ns": 5,
        "argv": ["/a/b/train.py", "--x"],
    }
    return identify(env, (files or {}).get, **{**given, **more})  # type: ignore[arg-type]


TORCHRUN = {
    "RANK": "5", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1",
    "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "exp-12",
    "TORCHELASTIC_RESTART_COUNT": "2",
}  # fmt: skip
SLURM = {
    "SLURM_JOB_ID": "9001", "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_LOCALID": "3",
    "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "4",
}  # fmt: skip
SLURM_ARRAY = {"SLURM_ARRAY_JOB_ID": "8990", "SLURM_ARRAY_TASK_ID": "11"}
OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "PMIX_RANK": "1", "PMIX_NAMESPACE": "prterun-77@1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (TORCHRUN, (5, 16, 1, 2, "exp-12", None)),
        (SLURM, (3, 4, 3, -1, "9001", "9001")),
        ({**SLURM, **SLURM_ARRAY}, (3, 4, 3, -1, "8990_11", "8990_11")),
        ({**SLURM, **TORCHRUN}, (5, 16, 1, 2, "9001", "9001")),
        ({"SLURM_JOB_ID": "9001", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, (0, -1, -1, -1, "9001", "9001")),
        (OPENMPI, (1, 2, 1, -1, "prterun-77@1", None)),
        ({"PMI_RANK": "1", "PMI_SIZE": "4"}, (1, 4, -1, -1, None, None)),
        ({"PMIX_RANK": "6", "PMIX_NAMESPACE": "n"}, (6, -1, -1, -1, "n", None)),
        ({"JOB_COMPLETION_INDEX": "2", "JOB_NAME": "tune"}, (2, -1, -1, -1, "tune", None)),
        ({"RAY_JOB_ID": "02000000", "RANK": "0", "WORLD_SIZE": "2"}, (0, 2, -1, -1, "02000000", "02000000")),
        ({"RANK": "x", "WORLD_SIZE": "2"}, (-1, -1, -1, -1, None, None)),
        ({"RANK": "-1"}, (-1, -1, -1, -1, None, None)),
        ({"TORCHELASTIC_RUN_ID": "none", "RANK": "0", "WORLD_SIZE": "2"}, (0, 2, -1, -1, None, None)),
        ({}, (-1, -1, -1, -1, None, None)),
    ],
)  # fmt: skip
def test_rank_and_job_of_each_launcher(env: dict[str, str], expected: tuple[object, ...]) -> None:
    found = who(env)
    names = ("rank", "world_size", "local_rank", "restart", "job", "scheduler_job")
    assert tuple(found.get(name) for name in names) == expected


def test_the_order_of_job_ids_is_given_own_platform_scheduler_launcher() -> None:
    env = {"STEPSCOPE_TASK_ENV": "MISSING, PLATFORM_TASK", "PLATFORM_TASK": "task-4", **SLURM, **TORCHRUN}
    assert who(env)["job"] == "task-4"
    assert who(env)["task"] == "task-4"
    assert who({**env, "STEPSCOPE_JOB": "mine"})["job"] == "mine"
    assert who({**env, "STEPSCOPE_JOB": "mine"}, given={"job": "said", "rank": 9})["job"] == "said"
    assert who(env, given={"rank": 9})["rank"] == 9
    assert who({k: v for k, v in env.items() if k != "PLATFORM_TASK"})["job"] == "9001"


def test_ranks_of_a_run_share_its_id_and_a_restart_has_another() -> None:
    ranks = [
        who({**TORCHRUN, "RANK": str(r)}, pid=100 + r, parent=50 + r // 4, now_ns=r)["run"] for r in range(16)
    ]
    assert len(set(ranks)) == 1
    again = who({**TORCHRUN, "TORCHELASTIC_RESTART_COUNT": "3"})["run"]
    assert str(ranks[0]).endswith("-r2")
    assert str(again).endswith("-r3")
    assert "10.0.0.1" not in str(ranks[0])
    assert who({**SLURM, "SLURM_STEP_ID": "1"})["run"] != who(SLURM)["run"]
    assert who({**TORCHRUN, "STEPSCOPE_RUN": "mine"})["run"] == "mine-r2"


def test_two_launches_on_one_node_with_one_address_are_two_runs() -> None:
    env = {
        "RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
    }

    def run(parent: int, started: int, rank: int) -> object:
        stat = f"{parent} (a (b) c) S " + " ".join(str(n) for n in range(4, 22)) + f" {started} 23 24"
        return who({**env, "RANK": str(rank)}, {f"/proc/{parent}/stat": stat}, parent=parent)["run"]

    assert run(50, 900, 0) == run(50, 900, 1)
    assert run(50, 900, 0) != run(50, 901, 0)
    assert run(50, 900, 0) != run(51, 900, 0)


def test_a_process_alone_is_a_run_of_its_own() -> None:
    assert who({}, pid=1)["run"] != who({}, pid=2)["run"]
    assert who({}, now_ns=1)["run"] != who({}, now_ns=2)["run"]
    assert (
        who({"RANK": "0", "WORLD_SIZE": "1"}, now_ns=1)["run"] != who({"RANK": "0", "WORLD_SIZE": "1"})["run"]
    )


@pytest.mark.parametrize(
    "line",
    [
        f"11:devices:/kubepods/burstable/pod{UID}/{CONTAINER}",
        f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope",
        f"0::/kubelet.slice/kubelet-kubepods-pod{UID.replace('-', '_')}.slice/crio-{CONTAINER}.scope",
    ],
)
def test_pod_and_container_are_in_the_path_of_the_cgroup(line: str) -> None:
    found = who({}, {"/proc/self/cgroup": line})
    assert found["pod_uid"] == UID
    assert found["container_id"] == CONTAINER


def test_where_a_namespace_hides_the_cgroup_the_mounts_tell() -> None:
    mounts = (
        f"600 500 0:5 / / rw - overlay overlay rw,upperdir=/var/lib/docker/overlay2/{'ab' * 32}/diff\n"
        f"612 599 254:1 /var/lib/kubelet/pods/{UID}/etc-hosts /etc/hosts rw - ext4 /dev/vda1 rw\n"
        f"613 599 254:1 /var/lib/docker/containers/{CONTAINER}/hostname /etc/hostname rw - ext4 /dev/vda1 rw"
    )
    found = who({}, {"/proc/self/cgroup": "0::/", "/proc/self/mountinfo": mounts})
    assert found["pod_uid"] == UID
    assert found["container_id"] == CONTAINER
    assert pod_uid_of("0::/user.slice/user-0.slice") is None


def test_the_downward_api_goes_before_the_cgroup() -> None:
    env = {"POD_UID": "u-1", "POD_NAME": "train-0", "POD_NAMESPACE": "ml", "CONTAINER_NAME": "main"}
    found = who(env, {"/proc/self/cgroup": f"0::/kubepods/pod{UID}/{CONTAINER}"})
    assert [found[name] for name in ("pod_uid", "pod", "namespace", "container")] == [
        "u-1",
        "train-0",
        "ml",
        "main",
    ]


@pytest.mark.parametrize(
    ("env", "uuids"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, ()),
        ({"CUDA_VISIBLE_DEVICES": "GPU-8932f937-d72c, MIG-aa11-22"}, ("GPU-8932f937-d72c", "MIG-aa11-22")),
        ({"CUDA_VISIBLE_DEVICES": "0", "NVIDIA_VISIBLE_DEVICES": "GPU-aaaa1111"}, ()),  # which of them is 0?
        ({"NVIDIA_VISIBLE_DEVICES": "GPU-aaaa1111,GPU-bbbb2222"}, ("GPU-aaaa1111", "GPU-bbbb2222")),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, ()),
        ({"CUDA_VISIBLE_DEVICES": ""}, ()),
        ({}, ()),
    ],
)
def test_only_uuids_name_a_device(env: dict[str, str], uuids: tuple[str, ...]) -> None:
    assert device_uuids(env) == uuids


def test_no_secret_is_taken() -> None:
    env = {"STEPSCOPE_TASK_ENV": "API_TOKEN,TASK_URL", "API_TOKEN": "abc", "TASK_URL": "https://u:p@host/1"}
    assert "task" not in {name for name, value in who(env).items() if value}
    assert not any("abc" in str(value) or "u:p" in str(value) for value in who(env).values())
    for secret in ("ghp_abcdef", "hf_abcdef", "eyJhbGciOi", "sk-1234", "x?token=1", "AKIA1234"):
        assert safe(secret) == ""
    assert who({})["script"] == "train.py"


@given(st.text())
def test_a_value_is_one_line_and_short(text: str) -> None:
    found = safe(text)
    assert len(found) <= 1000
    assert not any(ord(c) < 32 for c in found)
    found.encode("utf-8")
    assert safe(found) == found


@given(st.text())
def test_a_rank_is_a_small_natural_number_or_none(text: str) -> None:
    found = whole(text)
    assert found is None or 0 <= found < 10**9


def test_every_field_is_one_of_the_headers() -> None:
    names = {field.name for field in abi.HEADER}
    assert set(who({**TORCHRUN, **SLURM, "POD_UID": "u"})) <= names
