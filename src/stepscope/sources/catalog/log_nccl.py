"""Logs of NCCL (`NCCL_DEBUG=INFO`, 2.4 to 2.27) and RCCL: how ranks are joined.

Lines of several processes in one file may be torn, so that every pattern ends at a boundary that a torn
number does not have.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from stepscope.model.log import Nccl
from stepscope.sources.formats.log_event import Row, clean, row

MAX_WARNINGS = 100

PREFIX = re.compile(
    r"(?P<host>[\w.\-]{1,255}):(?P<pid>\d{1,10}):(?P<tid>\d{1,10}) (?:\[(?P<device>\d{1,3})\] )"
    r"?(?:[\w./\-]{1,80}:\d{1,6} )?N?R?CCL "
    r"(?P<level>INFO|WARN|TRACE|ABORT|VERSION) ?"
)
_VERSION = re.compile(
    r"\b[NR]CCL version ?: ?(?P<version>\d[\w.+\-]{0,40})|\b[NR]CCL version (?P<plain>\d[\w.+\-]{0,40})"
)
_CHANNEL = re.compile(
    r"(?:Channel|Ring) \d{1,3}(?:/\d{1,3})? : (?P<from>\d{1,6})(?:\[\w{1,12}\])? -> (?P<to>\d{1,6})"
    r"(?:\[\w{1,12}\])?"
    r"(?: \[(?P<way>send|receive)\])? via (?P<via>[\w/ .()\-]{2,80}?)(?: comm 0x\w+.*)?$"
)
_NUM_CHANNELS = (
    re.compile(r"Channel \d{1,3}/(?P<n>\d{1,3}) : {1,4}\d"),
    re.compile(r"\b(?P<n>\d{1,3}) coll channels\b"),
)
_RANK = re.compile(
    r"\bcomm 0x[0-9a-f]+ rank (?P<rank>\d{1,7}) n[rR]anks (?P<num>\d{1,7})(?: cudaDev (?P<cuda>\d{1,3}))?"
    r"(?: nvmlDev (?P<nvml>\d{1,3}))?(?: busId (?P<bus>[0-9a-f]{3,12}))?(?= commId| - Init| nNodes"
    r"| localRanks|\s*$)"
)
_NODES = re.compile(r"\bn[rR]anks (?P<num>\d{1,7}) nNodes (?P<nodes>\d{1,6})\b")
_USING = re.compile(r"NET/(?P<net>IB|Socket|[\w .\-]{1,40}?) : Using (?P<list>\[0\].{1,4000})")
_NIC = re.compile(r"\[\d{1,3}\](?P<name>[\w.\-]{1,40}(?::\d{1,3}(?:/\w{2,8})?)?)")
_NETWORK = re.compile(r"Using network (?P<net>[\w .\-]{1,40}?)\s*$")
_VARIABLE = re.compile(r"\b(?P<name>N?R?CCL_[A-Z0-9_]{2,60}) set (?:by environment )?to (?P<value>\S{1,200})")
_GDR = re.compile(r"GPU Direct RDMA(?: \(\w+\))? (?P<is>[Ee]nabled|[Dd]isabled) for")
_NO_P2P = re.compile(r"P2P is disabled between connected GPUs|P2P is disabled between NVLINK connected GPUs")
_ALGORITHM = re.compile(
    r"-> Algo (?P<algo>\w{1,20}) proto (?P<proto>\w{1,12})\b|Algorithm (?P<algo2>[A-Z_]{3,20})\b"
)

# How a channel is joined: what of `via …` names the kind.
_VIA: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"P2P/(?:direct pointer|IPC|CUMEM|MNNVL|indirect)", ""),  # as it is written
        (r"P2P", "P2P"),
        (r"direct pointer", "P2P/direct pointer"),
        (r"SHM|direct shared memory", "SHM"),
        (r"NET/[^/]{1,40}", ""),
        (r"COLLNET|CollNet", "COLLNET"),
        (r"NVLS", "NVLS"),
    )
)

ROWS: tuple[Row, ...] = (
    row("error", "nccl_error", "critical", ("nccl warn", "completion"),
        r"NET/IB ?:? ?[^\n]{0,120}(?:Got completion|got (?:a )?completion)[^\n]{0,120}?(?:error"
        r"|status=?)[ =]?(?P<code>\d+)"),
    row("error", "nccl_error", "critical", ("nccl warn", "cuda failure"),
        r"Cuda failure (?:(?P<code>\d+) )?"),
    row("error", "nccl_error", "critical", ("nccl warn", "failed"), r"Call to \w+ (?:\([^)]*\) )?failed"),
    row("error", "nccl_error", "critical", ("nccl warn", "connection"),
        r"(?:Connection closed by remote peer|Connection refused|Connection reset|Connection timed out)"),
    row("error", "nccl_error", "critical", ("nccl warn", "timeout"), r"[Tt]imeout"),
    row("error", "nccl_error", "critical", ("nccl warn", "net/ib"), r"async (?:fatal )?event"),
    row("error", "nccl_error", "warning", ("nccl warn", "async event"), None),
)  # fmt: skip
"""WARN lines that say that something failed; others are kept as warnings only."""


def bus_id(number: str) -> str:
    """`0000:3b:00.0` of NCCL's number for it: its digits in hexadecimal without separators (`3b000`)."""
    digits = number.rjust(9, "0")
    return f"{digits[:-5].rjust(4, '0')[-8:]}:{digits[-5:-3]}:{digits[-3:-1]}.{digits[-1]}"


@dataclass(slots=True)
class Reader:
    """Collects lines of NCCL: `feed` each, then `found`."""

    version: str | None = None
    transports: Counter[str] = field(default_factory=Counter)
    network: str | None = None
    nics: dict[str, None] = field(default_factory=dict)
    is_p2p_disabled: bool | None = None
    is_gdr_stated: bool | None = None
    num_gdr: int = 0
    num_net: int = 0
    nodes: dict[int, int] = field(default_factory=dict)
    """Number of ranks of a communicator -> of its nodes."""
    num_channels: int | None = None
    algorithms: Counter[str] = field(default_factory=Counter)
    variables: dict[str, str] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)
    ranks: dict[tuple[int, int], tuple[str | None, int | None]] = field(default_factory=dict)
    """(ranks of the communicator, rank) -> (bus id, nvmlDev): the first communicator of a size counts."""
    processes: dict[tuple[str, str], None] = field(default_factory=dict)
    num_known: int = 0
    num_redacted: int = 0

    def feed(self, text: str) -> bool:
        """Takes one line that holds NCCL or RCCL; whether it is a line of theirs."""
        prefix = PREFIX.search(text)
        version = _VERSION.search(text)
        if version is not None and (prefix is not None or text.startswith(("NCCL", "RCCL"))):
            self.version = self.version or (version["version"] or version["plain"]).rstrip("-.")
        elif prefix is None:
            return False
        self.num_known += 1
        if prefix is None:
            return True
        self.processes[prefix["host"], prefix["pid"]] = None
        said = text[prefix.end() :]
        if prefix["level"] == "WARN":
            kept, count = clean(said)
            if kept and len(self.warnings) < MAX_WARNINGS and kept not in self.warnings:
                self.warnings[kept] = None
                self.num_redacted += count
        self._said(said)
        return True

    def _said(self, said: str) -> None:
        if " via " in said:
            channel = _CHANNEL.search(said)
            if channel is not None:
                self._channel(channel["via"], channel["way"])
                return
        for pattern in _NUM_CHANNELS:
            if found := pattern.search(said):
                self.num_channels = max(self.num_channels or 0, int(found["n"]))
        if found := _RANK.search(said):
            key = int(found["num"]), int(found["rank"])
            bus, nvml = found["bus"], found["nvml"]
            known = self.ranks.get(key, (None, None))
            self.ranks[key] = (
                known[0] or (bus_id(bus) if bus else None),
                known[1] if known[1] is not None else (int(nvml) if nvml else None),
            )
        if found := _NODES.search(said):
            self.nodes[int(found["num"])] = int(found["nodes"])
        if found := _NETWORK.search(said):
            self.network = found["net"]
        if found := _USING.search(said):
            listed = found["list"].partition("OOB")[0]
            names = [nic["name"] for nic in _NIC.finditer(listed)]
            if found["net"] == "Socket":  # an address follows the interface's name
                names = [each.partition(":")[0] for each in names]
            self.nics.update(dict.fromkeys(names))
        if found := _VARIABLE.search(said):
            value, count = clean(f"{found['name']}={found['value'].rstrip('.')}")
            self.variables[found["name"]] = value.partition("=")[2]
            self.num_redacted += count
        if found := _GDR.search(said):
            self.is_gdr_stated = bool(self.is_gdr_stated) or found["is"].lower() == "enabled"
        if _NO_P2P.search(said):
            self.is_p2p_disabled = True
        if found := _ALGORITHM.search(said):
            self.algorithms[f"{found['algo']}/{found['proto']}" if found["algo"] else found["algo2"]] += 1

    def _channel(self, via: str, way: str | None) -> None:
        is_net = via.startswith("NET")
        if is_net:
            self.num_net += 1
            self.num_gdr += "GDRDMA" in via
        if way == "receive":
            return  # its sender counts it
        for pattern, kind in _VIA:
            if found := pattern.match(via):
                self.transports[kind or found[0]] += 1
                return

    def found(self) -> Nccl | None:
        """What the lines say together, `None` where there was none."""
        if not self.num_known:
            return None
        # The largest communicator is the job's: ranks of smaller ones count from 0 within a group.
        num_ranks = max((num for num, _ in self.ranks), default=None)
        if num_ranks is None and self.nodes:
            num_ranks = max(self.nodes)
        of_job = {rank: each for (num, rank), each in self.ranks.items() if num == num_ranks}
        is_off = self.variables.get("NCCL_P2P_DISABLE") == "1"
        uses_p2p = any(kind.startswith("P2P") for kind in self.transports)
        return Nccl(
            version=self.version,
            transports=dict(self.transports.most_common()),
            network=self.network,
            nics=tuple(self.nics),
            is_p2p_disabled=True if is_off or self.is_p2p_disabled else (False if uses_p2p else None),
            has_gdr=self.num_gdr > 0 if self.num_net else self.is_gdr_stated,
            num_nodes=self.nodes.get(num_ranks) if num_ranks is not None else None,
            num_ranks=num_ranks,
            num_channels=self.num_channels,
            algorithms=tuple(name for name, _ in self.algorithms.most_common()),
            variables=dict(self.variables),
            warnings=tuple(self.warnings),
            devices={rank: bus for rank, (bus, _) in sorted(of_job.items()) if bus is not None},
            device_index={rank: nvml for rank, (_, nvml) in sorted(of_job.items()) if nvml is not None},
        )

    def rank(self) -> int | None:
        """The rank of the process that wrote the file, `None` where several did."""
        if len(self.processes) != 1 or not self.ranks:
            return None
        num_ranks = max(num for num, _ in self.ranks)
        ranks = {rank for num, rank in self.ranks if num == num_ranks}
        return ranks.pop() if len(ranks) == 1 else None

    def host(self) -> str | None:
        """The host that wrote the file, `None` where several did."""
        hosts = {host for host, _ in self.processes}
        return hosts.pop() if len(hosts) == 1 else None
