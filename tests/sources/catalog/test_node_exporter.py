"""node-exporter: counters to ratios and rates, told at the end of their interval."""

from __future__ import annotations

import pytest

from stepscope.model.sample import Telemetry
from tests.sources.reading import note, read, series, values

S = 1_000_000_000
T0 = 1_700_000_000 * S


def scrapes(*bodies: str, at_s: tuple[int, ...] = ()) -> Telemetry:
    at_s = at_s or tuple(15 * step for step in range(len(bodies)))
    return read(
        "".join(f"# scraped_at_ns {T0 + s * S}\n{body}" for s, body in zip(at_s, bodies, strict=True))
    )


def cpu(core: int, **modes: float) -> str:
    return "".join(
        f'node_cpu_seconds_total{{cpu="{core}",mode="{mode}"}} {value}\n' for mode, value in modes.items()
    )


def test_processor_time_is_a_share_of_all_that_passed_over_all_cores() -> None:
    telemetry = scrapes(
        cpu(0, user=10, nice=0, system=5, irq=0, softirq=0, iowait=0, idle=100, steal=0)
        + cpu(1, user=10, nice=0, system=5, irq=0, softirq=0, iowait=0, idle=100, steal=0),
        cpu(0, user=22, nice=1, system=6, irq=0.5, softirq=0.5, iowait=0, idle=100, steal=0)
        + cpu(1, user=10, nice=0, system=5, irq=0, softirq=0, iowait=9, idle=106, steal=0),
    )
    assert values(telemetry, "cpu_user_ratio", kind="host") == [pytest.approx(13 / 30)]
    assert values(telemetry, "cpu_system_ratio") == [pytest.approx(2 / 30)]
    assert values(telemetry, "cpu_iowait_ratio") == [pytest.approx(9 / 30)]
    assert values(telemetry, "cpu_steal_ratio") == [0]
    assert values(telemetry, "cpu_cores") == [2, 2]
    assert series(telemetry, "cpu_user_ratio").at_ns.tolist() == [T0 + 15 * S]
    assert telemetry.window_ns == 15 * S


def test_an_interval_in_which_a_counter_fell_says_nothing() -> None:
    bodies = [cpu(0, user=u, idle=i) for u, i in ((100, 900), (110, 905), (1, 2), (7, 11))]
    telemetry = scrapes(*bodies)
    assert values(telemetry, "cpu_user_ratio") == [pytest.approx(10 / 15), pytest.approx(6 / 15)]
    faults = scrapes(*(f"node_vmstat_pgmajfault {n}\n" for n in (3000, 3150, 30, 60)))
    assert values(faults, "major_page_faults_per_second") == [10, 2]
    assert faults.missing == ()


def test_a_gap_between_scrapes_has_no_rate_and_is_said() -> None:
    bodies = [f"node_vmstat_pgmajfault {n}\n" for n in (0, 15, 30, 45, 100000)]
    telemetry = scrapes(*bodies, at_s=(0, 15, 30, 45, 4000))
    assert values(telemetry, "major_page_faults_per_second") == [1, 1, 1]
    assert note(telemetry, "telemetry_gap") == 1


def test_stacked_disks_and_interfaces_do_not_count_twice() -> None:
    def body(n: int) -> str:
        disks = "".join(
            f'node_disk_read_bytes_total{{device="{device}"}} {n * 1500}\n'
            f'node_disk_io_time_seconds_total{{device="{device}"}} {n * busy}\n'
            for device, busy in (
                ("nvme0n1", 3.0),
                ("nvme1n1", 9.0),
                ("dm-0", 12.0),
                ("nvme0n1p1", 3.0),
                ("md0", 9),
            )
        )
        return disks + "".join(
            f'node_network_receive_bytes_total{{device="{device}"}} {n * 3000}\n'
            for device in ("eth0", "eth1", "bond0", "lo", "veth12", "eth0.100", "docker0")
        )

    telemetry = scrapes(body(1), body(2))
    assert values(telemetry, "disk_read_bytes_per_second") == [200]
    assert values(telemetry, "disk_busy_ratio") == [pytest.approx(9 / 15)]
    assert values(telemetry, "network_rx_bytes_per_second") == [400]


def test_a_host_that_two_jobs_scrape_counts_once() -> None:
    def body(n: int) -> str:
        line = 'node_disk_read_bytes_total{{device="sda",Hostname="a",job="{}"}} {}\n'
        return line.format("node", n * 1500) + line.format("kubelet", n * 1500)

    assert values(scrapes(body(1), body(2)), "disk_read_bytes_per_second") == [100]


def test_gauges_need_no_second_scrape_and_no_time() -> None:
    telemetry = read(
        "node_memory_MemAvailable_bytes 5e+11\nnode_memory_MemTotal_bytes 2e+12\n"
        "node_load1 3.5\nnode_procs_running 12\n"
        'node_filesystem_avail_bytes{mountpoint="/ckpt",fstype="ext4"} 1e12\n'
        'node_filesystem_avail_bytes{mountpoint="/run",fstype="tmpfs"} 1e9\n' + cpu(0, user=5, idle=7)
    )
    assert values(telemetry, "memory_available_bytes") == [5e11]
    assert values(telemetry, "cpu_run_queue") == [12]
    assert values(telemetry, "filesystem_available_bytes", kind="disk", name="/ckpt") == [1e12]
    assert telemetry.of("cpu_user_ratio") == ()


def test_rdma_ports_add_up_and_their_errors_are_each_ports_own() -> None:
    def body(n: int) -> str:
        return "".join(
            f'node_infiniband_port_data_received_bytes_total{{device="mlx5_{d}",port="1"}} {n * 15000}\n'
            f'node_infiniband_symbol_error_total{{device="mlx5_{d}",port="1"}} {d}\n'
            f'node_infiniband_link_downed_total{{device="mlx5_{d}",port="1"}} 2\n'
            for d in (0, 1)
        )

    telemetry = scrapes(body(1), body(2))
    assert values(telemetry, "rdma_rx_bytes_per_second", kind="host") == [2000]
    assert values(telemetry, "rdma_error_total", kind="link", name="mlx5_1:1") == [3, 3]


def test_hosts_of_one_answer_stay_apart() -> None:
    telemetry = scrapes(*('node_load1{instance="a:9100"} 1\nnode_load1{instance="b:9100"} 2\n',) * 2)
    assert values(telemetry, "cpu_run_queue", host="a") == [1, 1]
    assert values(telemetry, "cpu_run_queue", host="b") == [2, 2]
