"""How soon each simulated fault is an alarm, how many a healthy job makes, and what a thousand devices cost.

    python -m bench.alerts [FAULT…] [--minutes N]

One process: a simulated job of 4 ranks with steps of 500 ms whose time is turned by hand, scraped each
second, with the agent's own sources and packer (values wait up to 5 s, marks up to 1 s) and the watch, four
looks a second. Each fault is switched on in a job of its own after 70 healthy seconds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from stepscope.detect.alert.budget import Budget
from stepscope.detect.watch import Watch
from stepscope.model.batch import BatchOwner, BatchSeries, Samples
from tests.detect.alert.node import Node

FAULTS = (
    "straggler#1", "straggler-python#1", "moving-straggler", "loader-stall#1", "page-cache-miss:severe",
    "page-cache-thrash", "host-sync:severe", "pageable-copy", "cpu-contention", "unfused", "no-tensor-core",
    "misaligned", "slow-link", "wrong-transport", "pcie-downgrade#1", "sequence-imbalance",
    "thermal-throttle#1", "power-cap", "power-brake", "clock-lock", "foreign-process#1", "ecc#1", "hot#1",
    "fragmentation", "memory-leak", "gc", "checkpoint", "eval",
)  # fmt: skip
SHAPE = {"ranks": 4, "layers": 1, "step_ms": 500.0}
LEARN_S, AFTER_S = 70.0, 60.0
NS = 1_000_000_000
SIGNALS = (
    "compute_busy_ratio", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio", "memory_used_bytes",
    "memory_free_bytes", "power_watts", "temperature_celsius", "sm_clock_hertz", "clock_event_reasons",
    "pcie_link_gen", "pcie_link_width", "row_remap_pending", "row_remap_failed", "power_limit_watts",
    "slowdown_temperature_celsius", "sm_clock_max_hertz", "ecc_uncorrected_total", "nvlink_error_total",
    "xid",
)  # fmt: skip


def delays(fault: str) -> str:
    """Every condition that was told after a fault, with its delay; what is explained in brackets."""
    with tempfile.TemporaryDirectory() as folder:
        node = Node(Path(folder) / "run", seed=11, watch=Watch(budget=Budget(num_pages=1000)), **SHAPE)
        before = node.run(LEARN_S)
        since = node.job.seconds
        node.job.service.switch(f"{fault} on")
        told = node.run(AFTER_S)
        node.close()
    first: dict[str, float] = {}
    newest = {alarm.id: alarm for _, alarm in told}
    for at, alarm in told:
        first.setdefault(alarm.id, at - since)
    parts = [f"BEFORE IT: {alarm.condition}" for _, alarm in before]
    for id_, alarm in newest.items():
        ranks = f" ranks {','.join(map(str, alarm.about.ranks))}" if alarm.about.ranks else ""
        text = f"{alarm.condition} {first[id_]:.1f} s{ranks} {alarm.severity}"
        parts.append(f"({text})" if alarm.inhibited_by or not alarm.pages else text)
    return "; ".join(parts) or "none"


def healthy(minutes: float) -> str:
    """Alarms of a healthy job with evaluations, checkpoints, learning rates and restarts of its exporter."""
    with tempfile.TemporaryDirectory() as folder:
        node = Node(Path(folder) / "run", seed=12, events=True, **SHAPE)
        told = node.run(60 * minutes)
        node.close()
    return f"{len(told)} alarms {[alarm.condition for _, alarm in told]}"


def load(num_hosts: int = 125, seconds: int = 60) -> float:
    """CPU seconds a second of 8 devices a host with 20 signals at 1 Hz, in batches of five seconds."""
    watch, spent, start = Watch(), 0.0, 1_700_000_000
    owners = [
        [BatchOwner(uuid=f"GPU-{host}-{n}", index=n, host=f"h{host}") for n in range(8)]
        for host in range(num_hosts)
    ]
    for second in range(seconds):
        batches = []
        for host in range(second % 5, num_hosts, 5):
            at_ns = [(start + second - 4 + n) * NS for n in range(5)]
            batches.append(Samples("a", second, f"h{host}", "nvml", [
                BatchSeries(signal, owner, at_ns, [0.5 + 0.001 * ((second + n) % 7) for n in range(5)],
                            {"job": f"j{host // 2}", "run": "r", "rank": str(host % 2 * 8 + number)})
                for number, owner in enumerate(owners[host])
                for signal in SIGNALS
            ]))  # fmt: skip
        began = time.process_time()
        watch.take(batches)
        for quarter in range(4):
            watch.tick((start + second) * NS + quarter * NS // 4)
        spent += time.process_time() - began if second >= seconds // 2 else 0.0
    return spent / (seconds - seconds // 2)


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("faults", nargs="*")
    parser.add_argument("--minutes", type=float, default=20.0)
    asked = parser.parse_args()
    print(f"1,000 devices x {len(SIGNALS)} signals x 1 Hz: {load():.3f} CPU s a second")
    print(f"{'fault':24}  first told after switching it on; (explained, or a hint)")
    for fault in asked.faults or FAULTS:
        print(f"{fault:24}  {delays(fault)}", flush=True)
    if asked.minutes:
        print(f"healthy, {asked.minutes:g} minutes with events: {healthy(asked.minutes)}")


if __name__ == "__main__":
    main()
