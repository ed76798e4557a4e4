"""The host's counters, from a tree of files that is made up, turned on by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.agent import cgroup, process, storage
from stepscope.agent.catalog.host import HostSource
from stepscope.agent.clock import HandClock
from stepscope.agent.context import Context
from stepscope.agent.job import LiveRank
from stepscope.agent.source import NotHere
from stepscope.model.mark import Identity

S = 1_000_000_000
UID = "0f1e2d3c-1111-2222-3333-444455556666"
CONTAINER = "ab" * 32


class Node:
    """A node of files under a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = HandClock()
        self.context = Context(host="n1", clock=self.clock, root=str(root))
        self.source = HostSource(self.context)

    def write(self, path: str, text: str) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def look(self) -> dict[tuple[str, str | None], float]:
        """(signal, mount, port or pid) -> value."""
        found = {}
        for reading in self.source.read():
            for each in reading.samples:
                name = each.owner.name or (str(each.owner.pid) if each.owner.pid else None)
                found[each.signal, name] = each.value
        return found

    def second(self, n: int) -> None:
        """What the kernel would say after n seconds."""
        self.write(
            "proc/stat",
            f"cpu  {25 * n} 0 {10 * n} {155 * n} {10 * n} 0 0 0 0 0\ncpu0 1 0 0 0 0\ncpu1 1 0 0 0 0\n"
            "ctxt 5\nprocs_running 3\nprocs_blocked 0\n",
        )
        self.write("proc/vmstat", f"pgfault 9\npgmajfault {7 * n}\n")
        self.write("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    600 kB\n")
        self.write(
            "proc/diskstats",
            f"   8 0 sda {2 * n} 0 {16 * n} 0 {n} 0 {8 * n} 0 0 {250 * n} 0\n"
            f"   8 1 sda1 {2 * n} 0 {16 * n} 0 0 0 0 0 0 {250 * n} 0\n"
            f" 259 0 nvme0n1 {10 * n} 0 {2048 * n} 0 0 0 0 0 0 {900 * n} 0\n"
            f" 253 0 dm-0 {99 * n} 0 {9999 * n} 0 0 0 0 0 0 {1000 * n} 0\n",
        )
        self.write(
            "proc/net/dev",
            "Inter-| Receive | Transmit\n face |bytes\n"
            f"    lo: {5000 * n} 0 0 0 0 0 0 0 {5000 * n} 0 0 0 0 0 0 0\n"
            f"  eth0: {1000 * n} 0 0 0 0 0 0 0 {300 * n} 0 0 0 0 0 0 0\n",
        )
        self.write("proc/pressure/io", f"some avg10=0.00 total={400000 * n}\nfull avg10=0.00 total=0\n")
        port = "sys/class/infiniband/mlx5_0/ports/1/counters"
        self.write(f"{port}/port_xmit_data", f"{250 * n}\n")
        self.write(f"{port}/port_rcv_data", f"{500 * n}\n")
        self.write(f"{port}/symbol_error", "3\n")
        self.write(f"{port}/link_downed", "1\n")

    def job(self, n: int, throttled: int) -> None:
        """A rank of pid 70 and its loader 71, in a container with a quota, reading from /data."""
        usage = "S 1 1 1 0 -1 0 0 0 {faults} 0 {ticks} 0 0 0 20 0 {threads} 0 5 0 {pages}"
        for pid, ticks in ((70, 100 * n), (71, 50 * n)):
            said = usage.format(faults=4 * n, ticks=ticks, threads=12, pages=256) + " 0" * 30
            self.write(f"proc/{pid}/stat", f"{pid} (python (x) y) {said}\n")
            self.write(f"proc/{pid}/cgroup", f"0::/kubepods/pod{UID}/cri-{CONTAINER}.scope\n")
            self.write(
                f"proc/{pid}/mountinfo",
                "20 1 0:30 / / rw - overlay overlay rw\n"
                "21 20 259:1 / /data rw - ext4 /dev/nvme0n1p1 rw\n"
                "22 20 0:40 / /mnt/share rw - nfs4 server:/export rw\n",
            )
        place = f"sys/fs/cgroup/kubepods/pod{UID}"
        self.write(f"{place}/cpu.max", "400000 100000\n")
        self.write(f"{place}/cpu.stat", f"usage_usec 1\nnr_periods {10 * n}\nnr_throttled {throttled}\n")
        self.write(f"{place}/cri-{CONTAINER}.scope/cpu.max", "max 100000\n")

    def disk(self) -> None:
        """nvme0n1 with a partition."""
        disk = self.root / "sys/devices/pci/nvme0n1"
        (disk / "nvme0n1p1").mkdir(parents=True)
        (disk / "nvme0n1p1/partition").write_text("1")
        (self.root / "sys/dev/block").mkdir(parents=True)
        (self.root / "sys/dev/block/259:1").symlink_to(disk / "nvme0n1p1")
        for pid, target in ((70, "/mnt/share/a.tar"), (71, "/data/part-1.bin")):
            folder = self.root / f"proc/{pid}/fd"
            folder.mkdir(parents=True)
            (folder / "5").symlink_to(target)
            (folder / "6").symlink_to("socket:[77]")
            (folder / "7").symlink_to("/dev/nvidia0")

    def rank(self) -> None:
        self.context.jobs.put(LiveRank("a.ring", Identity(rank=0), 0, pid=70, pids=frozenset((70, 71))))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_the_first_look_tells_gauges_and_no_rate(node: Node) -> None:
    node.second(1)
    found = node.look()
    assert found["memory_available_bytes", None] == 600 * 1024
    assert found["cpu_run_queue", None] == 2.0  # without us
    assert not [signal for signal, _ in found if signal.endswith(("_per_second", "_ratio"))]


def test_rates_are_over_the_time_between_two_looks(node: Node) -> None:
    node.second(10)
    node.look()
    node.second(12)
    node.clock.turn(2 * S)
    found = node.look()
    assert found["cpu_user_ratio", None] == pytest.approx(25 / 200)
    assert found["cpu_system_ratio", None] == pytest.approx(10 / 200)
    assert found["cpu_iowait_ratio", None] == pytest.approx(10 / 200)
    assert found["major_page_faults_per_second", None] == 7.0
    # partitions and device mappers are on disks that are there already
    assert found["disk_read_bytes_per_second", None] == (16 + 2048) * 512
    assert found["disk_read_operations_per_second", None] == 12.0
    assert found["disk_write_bytes_per_second", None] == 8 * 512
    assert found["disk_busy_ratio", None] == pytest.approx(0.9)
    assert (found["network_rx_bytes_per_second", None], found["network_tx_bytes_per_second", None]) == (
        1000,
        300,
    )
    assert (found["rdma_rx_bytes_per_second", None], found["rdma_tx_bytes_per_second", None]) == (2000, 1000)
    assert found["rdma_error_total", "mlx5_0:1"] == 4.0
    assert found["io_pressure_ratio", None] == pytest.approx(0.4)


def test_the_window_is_the_one_that_passed(node: Node) -> None:
    node.second(1)
    node.look()
    node.second(2)
    node.clock.turn(1_300_000_000)
    _, rates = node.source.read()
    assert (rates.window_ns, rates.lag_ns) == (1_300_000_000, 0)


def test_a_counter_that_fell_tells_nothing_and_goes_on(node: Node) -> None:
    seen = []
    for second in (5, 6, 1, 2):
        node.second(second)
        seen.append(node.look().get(("major_page_faults_per_second", None)))
        node.clock.turn(S)
    assert seen == [None, 7.0, None, 7.0]


def test_a_job_has_its_processes_its_quota_and_the_medium_of_its_data(node: Node) -> None:
    node.disk()
    node.rank()
    node.second(1)
    node.job(1, throttled=0)
    first = node.look()
    assert first["process_resident_bytes", "71"] == 256 * 4096
    assert first["process_threads", "70"] == 12.0
    assert first["cgroup_cpu_quota_cores", None] == 4.0
    node.clock.turn(2 * S)
    node.second(3)
    node.job(3, throttled=5)
    found = node.look()
    assert found["process_cpu_cores", "70"] == pytest.approx(1.0)
    assert found["process_cpu_cores", "71"] == pytest.approx(0.5)
    assert found["process_major_faults_per_second", "71"] == 4.0
    assert found["cgroup_throttled_ratio", None] == pytest.approx(5 / 20)
    assert found["storage_medium", "/data"] == storage.MEDIA["nvme"]
    assert found["storage_medium", "/mnt/share"] == storage.MEDIA["network"]
    assert found["disk_busy_ratio", "/data"] == pytest.approx(0.9)
    assert ("disk_busy_ratio", "/mnt/share") not in found


def test_a_machine_without_proc_is_not_here(tmp_path: Path) -> None:
    with pytest.raises(NotHere):
        HostSource(Context(host="n1", root=str(tmp_path))).read()


def test_this_machine_can_be_read() -> None:
    source = HostSource(Context(host="here"))
    source.read()
    signals = {each.signal for reading in source.read() for each in reading.samples}
    assert {"cpu_cores", "memory_present_bytes", "network_rx_bytes_per_second"} <= signals


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        (
            f"0::/kubepods.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice/"
            f"cri-containerd-{CONTAINER}.scope",
            {"pod_uid": UID, "container_id": CONTAINER},
        ),
        (
            f"12:cpu,cpuacct:/kubepods/besteffort/pod{UID}/{CONTAINER}\n11:memory:/x",
            {"pod_uid": UID, "container_id": CONTAINER},
        ),
        (f"0::/docker/{CONTAINER}", {"container_id": CONTAINER}),
        ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", {"scheduler_job": "4711"}),
        ("7:cpu:/slurm/uid_1000/job_99/step_batch", {"scheduler_job": "99"}),
        ("0::/user.slice/user-1000.slice/session-3.scope", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_a_control_group_tells_pod_container_and_slurm_job(text: str, labels: dict[str, str]) -> None:
    assert cgroup.labels_of(text) == labels


def test_the_quota_of_version_1_is_read_too_and_the_narrowest_counts(tmp_path: Path) -> None:
    inner = tmp_path / "cpu,cpuacct/a/b"
    inner.mkdir(parents=True)
    for place, quota in ((inner, "800000"), (inner.parent, "200000")):
        (place / "cpu.cfs_quota_us").write_text(quota)
        (place / "cpu.cfs_period_us").write_text("100000")
        (place / "cpu.stat").write_text(f"nr_periods 8\nnr_throttled {quota[0]}\nthrottled_time 1\n")
    assert cgroup.cpu("4:cpu,cpuacct:/a/b\n3:memory:/a/b", str(tmp_path)) == (2.0, (8, 2))
    assert cgroup.cpu("0::/../../outside", str(tmp_path)) == (None, None)


def test_of_an_environment_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    (tmp_path / "5").mkdir()
    (tmp_path / "5/environ").write_bytes(b"TOKEN=secret\0NCCL_DEBUG_FILE=/tmp/n.%p\0XNCCL_DEBUG_FILE=no\0")
    assert process.environment(str(tmp_path), 5, ("NCCL_DEBUG_FILE",)) == {"NCCL_DEBUG_FILE": "/tmp/n.%p"}
    assert process.environment(str(tmp_path), 6, ("NCCL_DEBUG_FILE",)) == {}


def test_a_path_lies_on_the_innermost_mount() -> None:
    there = storage.mounts(
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /data rw - xfs /dev/sda2 rw\n"
        "3 2 0:9 / /data/my\\040set rw shared:1 - tmpfs none rw\n"
    )
    found = storage.mounts_of(["/data/x/y", "/data/my set/z", "/database/q"], there)
    assert {each.point for each in found} == {"/data", "/data/my set", "/"}
