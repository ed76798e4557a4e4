"""Which host an address is, and which of several copies counts."""

from __future__ import annotations

import numpy as np

from stepscope.sources.formats.metric import Metric
from stepscope.sources.prometheus.label import with_hosts, without_replicas


def metric(name: str, num_samples: int = 3, **labels: str) -> Metric:
    at_ns = np.arange(num_samples, dtype=np.int64) * 1_000_000_000
    return Metric(name, labels, at_ns, np.zeros(num_samples))


def test_an_address_has_the_name_that_another_exporter_gives_it() -> None:
    named, bare, other = with_hosts(
        [
            metric("DCGM_FI_DEV_GPU_TEMP", instance="10.0.0.7:9400", Hostname="gpu-1"),
            metric("node_load1", instance="10.0.0.7:9100"),
            metric("node_load1", instance="10.0.0.8:9100"),
        ]
    )
    assert named.labels == {"instance": "10.0.0.7:9400", "Hostname": "gpu-1"}
    assert bare.labels == {"instance": "10.0.0.7:9100", "hostname": "gpu-1"}
    assert other.labels == {"instance": "10.0.0.8:9100"}


def test_an_address_with_two_names_has_none() -> None:
    # Agents that push say `localhost` on every host.
    metrics = [
        metric("node_uname_info", instance="localhost:9100", nodename="a"),
        metric("node_uname_info", instance="localhost:9100", nodename="b"),
        metric("node_load1", instance="localhost:9100"),
    ]
    assert with_hosts(metrics)[2].labels == {"instance": "localhost:9100"}


def test_an_address_in_a_hosts_label_is_no_name() -> None:
    metrics = [
        metric("up", instance="10.0.0.7:9100", node="10.0.0.7"),
        metric("node_load1", instance="10.0.0.7:9100"),
    ]
    assert "hostname" not in with_hosts(metrics)[1].labels


def test_of_two_servers_the_one_with_more_samples_of_a_target_is_kept_for_all_its_metrics() -> None:
    where = {"instance": "n1:9400", "gpu": "0"}
    metrics = [
        metric("power", 9, replica="a", **where),
        metric("power", 10, replica="b", **where),
        metric("clock", 8, replica="a", **where),
        metric("clock", 2, replica="b", **where),
    ]
    kept, num_left_out = without_replicas(metrics)
    assert [(m.name, m.labels["replica"]) for m in kept] == [("power", "a"), ("clock", "a")]
    assert num_left_out == 2


def test_two_jobs_that_scrape_one_address_are_copies_and_two_devices_are_none() -> None:
    metrics = [
        metric("power", instance="n1:9400", job="gpus", gpu="0"),
        metric("power", instance="n1:9400", job="all-pods", gpu="0"),
        metric("power", instance="n1:9400", job="gpus", gpu="1"),
    ]
    kept, num_left_out = without_replicas(metrics)
    assert [m.labels["gpu"] for m in kept] == ["0", "1"]
    assert num_left_out == 1


def test_jobs_that_push_without_an_address_are_not_copies() -> None:
    metrics = [metric("power", job="a", gpu="0"), metric("power", job="b", gpu="0")]
    assert without_replicas(metrics) == (metrics, 0)
