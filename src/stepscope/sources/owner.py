"""Whose a series is: exporters' labels, in any spelling, to an `Owner` and the labels of its job."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stepscope.model.sample import Owner

UUIDS = ("uuid", "gpu_uuid", "vdie_id", "hw_id")
INDICES = ("gpu", "gpu_id", "minor_number", "id", "index", "card")
BUSES = ("pci_bus_id", "pci.bus_id", "pcie_bus_info", "pci_bdf", "pcie_bus_id", "busid", "bdf")
MIGS = ("gpu_i_id", "gpu_instance_id", "mig_instance_id", "gpu_partition_id", "partition_id")
MODELS = ("modelname", "model_name", "gpu_model", "card_series", "gpu_name", "card_model")
HOSTS = ("hostname", "node", "host", "nodename", "kubernetes_node", "instance")
"""Of several labels the first that says something; `instance` is `host:port` of the scraped process."""

JOB_LABELS = {
    "pod": ("exported_pod", "pod_name", "pod"),
    "namespace": ("exported_namespace", "namespace", "pod_namespace"),
    "container": ("exported_container", "container_name", "container"),
    "job": ("exported_job", "job_id", "jobid", "hpc_job", "slurm_job_id", "job_name", "job"),
    "rank": ("rank", "global_rank"),
    "user": ("userid", "user", "job_user", "user_id"),
}
"""Labels that say for whom a device works, those of a scrape that renamed them first."""

_PCI = re.compile(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-9a-fA-F])")
_DIGITS = re.compile(r"\d{1,6}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# `localhost` is what dcgm-exporter prints beside a remote host engine (dcgm-exporter#572).
_NONE = frozenset(
    ("", "n/a", "na", "none", "null", "unknown", "[n/a]", "4294967295", "65535", "-1", "localhost")
)


def pci_bus_id(text: str | None) -> str | None:
    """`0000:3b:00.0`, from any spelling of it; `None` where it is none."""
    found = _PCI.fullmatch((text or "").strip())
    if not found:
        return None
    domain = int(found[1] or "0", 16)
    return f"{domain:04x}:{found[2]}:{found[3]}.{found[4]}".lower()


def nvidia_uuid(text: str) -> str:
    """With its prefix: some exporters print `GPU-…` without."""
    return f"GPU-{text}" if _UUID.fullmatch(text) else text


def first(lower: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """The first of the labels that says something; names in lower case."""
    for name in names:
        value = lower.get(name)
        if value is not None and value.strip().lower() not in _NONE:
            return value.strip()
    return None


def lowered(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels by their names in lower case: `Hostname` became `hostname` in one release
    (dcgm-exporter#655)."""
    return {name.lower(): value for name, value in labels.items()}


def host(lower: Mapping[str, str]) -> str | None:
    """Where it runs; `instance` loses its port."""
    found = first(lower, HOSTS)
    if found and found == lower.get("instance", "").strip():
        name, colon, port = found.rpartition(":")
        return name if colon and port.isdigit() and name else found
    return found


def index(lower: Mapping[str, str], names: tuple[str, ...] = INDICES) -> int | None:
    """The driver's number of the device; `nvidia3` counts as 3."""
    found = first(lower, names)
    if found is None and (device := lower.get("device", "")).startswith("nvidia"):
        found = device.removeprefix("nvidia")
    return int(found) if found and _DIGITS.fullmatch(found) else None


def device(labels: Mapping[str, str], *, is_nvidia: bool = True) -> Owner:
    """The device of a series. All zeros are no UUID where the vendor says so
    (device-metrics-exporter#233)."""
    lower = lowered(labels)
    uuid = first(lower, UUIDS)
    if uuid is not None and not is_nvidia and not uuid.strip("0-"):
        uuid = None
    if uuid is None and (given := lower.get("gpu_id", "")).startswith("GPU-"):
        uuid = given
    mig = first(lower, MIGS)
    return Owner(
        kind="device",
        uuid=nvidia_uuid(uuid) if uuid and is_nvidia else uuid,
        mig=mig,
        index=index(lower),
        pci_bus_id=pci_bus_id(first(lower, BUSES)),
        model=first(lower, MODELS),
        host=host(lower),
    )


def job_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """For whom the device works. A pod that is the exporter's own is nobody's, and `job` beside `instance`
    is the name of a scrape (dcgm-exporter#27, #340)."""
    lower = lowered(labels)
    was_renamed = any(name.startswith("exported_") for name in lower)
    is_exporter = not was_renamed and "exporter" in (lower.get("container", "") or lower.get("pod", ""))
    found: dict[str, str] = {}
    for name, spellings in JOB_LABELS.items():
        own = name in ("pod", "namespace", "container")
        if own and is_exporter:
            continue
        if own and was_renamed:
            spellings = spellings[:1]
        if name == "job" and "instance" in lower:
            spellings = tuple(each for each in spellings if each != "job")
        value = first(lower, spellings)
        if value is not None:
            found[name] = value
    return found
