"""What there is: runs, ranks, devices, nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import msgspec

from stepscope.model.alarm import About, Alarm
from stepscope.model.incident import Incident
from stepscope.model.xid import xid
from stepscope.store.contract import DeviceRow, NodeRow, RankRow, RunRow
from stepscope.store.name import device_name
from stepscope.store.piece import Piece
from stepscope.store.ring import Ring
from stepscope.store.row import Rows
from stepscope.store.schema import KINDS
from stepscope.store.who import Asked, names_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Cursor

SHARED = ("namespace", "pod", "container", "scheduler_job", "task", "user", "framework", "script")
"""Labels of a run, where all its ranks have one value."""
FAILED = frozenset(
    ("xid", "device_vanished", "row_remap", "oom", "nvswitch_error", "nvlink_error", "pcie_error")
)  # fmt: skip
"""Events by which a node failed; of Xids only those that tell of the hardware or its driver."""
HARDWARE = ("fatal", "degrade")
"""Effects of such Xids: the others are faults of programs, or tell of what was repaired."""
SLOW_LEVELS = ("performance", "task")
_MOST_ALARMS = 100_000


@dataclass(slots=True)
class _Node:
    first_ns: int
    last_ns: int
    jobs: set[str] = field(default_factory=set)
    slow: list[int] = field(default_factory=list)
    slow_jobs: set[str] = field(default_factory=set)
    failed: list[int] = field(default_factory=list)
    failed_jobs: set[str] = field(default_factory=set)

    def seen(self, first_ns: int, last_ns: int) -> None:
        self.first_ns, self.last_ns = min(self.first_ns, first_ns), max(self.last_ns, last_ns)


class Inventory:
    """Answers from what is remembered of rings, and from who had which labels when."""

    def __init__(self, rows: Rows) -> None:
        self._rows, self._keeper = rows, rows.keeper

    def _stretches(self) -> list[tuple[str, int, int, int, int]]:
        """(kind, owner, labels, first_ns, last_ns) over all that is known, sealed or not."""

        def read(cursor: Cursor, asked: list[Piece]) -> list[tuple[str, int, int, int, int]]:
            live = " UNION ALL ".join(
                f"SELECT '{kind}' AS kind, owner, labels, min(at_ns) AS first_ns, max(at_ns) AS last_ns "
                f"FROM raw_{kind} GROUP BY owner, labels"
                for kind in KINDS
            )
            return cursor.execute(
                "SELECT kind, owner, labels, min(first_ns), max(last_ns) FROM "
                f"(SELECT kind, owner, labels, first_ns, last_ns FROM stretch UNION ALL {live}) "
                "GROUP BY kind, owner, labels"
            ).fetchall()

        return self._rows.look(read, [])

    def runs(self, job: str | None) -> tuple[RunRow, ...]:
        """As `contract.Store.runs`. A run that no rank marks is known by the labels of its samples; whether
        such a one is over nobody says."""
        of: dict[tuple[str, str], list[Ring]] = {}
        for ring in Asked(job).rings(self._keeper):
            name = ring.text("job")
            if name is not None and ring.first_ns is not None:
                of.setdefault((name, ring.text("run") or ""), []).append(ring)
        found = {key: _run(*key, rings) for key, rings in of.items()}
        labels, owners = self._keeper.names.labels(), self._keeper.names.owners()
        for _, owner, number, first_ns, last_ns in self._stretches():
            mine = labels[number]
            for name in names_of(mine.get("job")):
                runs = names_of(mine.get("run")) or [""]
                if (job is not None and name != job) or len(names_of(mine.get("job"))) > 1:
                    continue
                for run in runs:
                    if (name, run) not in of:
                        host = owners[owner][0]
                        found[name, run] = _seen(found.get((name, run)), name, run, host, first_ns, last_ns)
        came = {  # a run did not begin after it came: where it says so, its clock is ahead
            key: min(
                (ring.came_ns for ring in rings if ring.came_ns is not None), default=found[key].start_ns
            )
            for key, rings in of.items()
        }

        def newest_first(key: tuple[str, str]) -> tuple[int, str, str]:
            return -min(found[key].start_ns, came.get(key, found[key].start_ns)), *key

        return tuple(found[key] for key in sorted(found, key=newest_first))

    def ranks(self, job: str, run: str) -> tuple[RankRow, ...]:
        """As `contract.Store.ranks`, by rank; a ring whose rank is not known is left out."""
        devices = self._devices_of_ranks(job, run)
        found = []
        for ring in Asked(job, run).rings(self._keeper):
            rank = ring.number("rank")
            if rank is None:
                continue
            uuids = ring.device_uuids
            device = devices.get(rank) or (uuids[0] if len(uuids) == 1 else None)
            found.append(
                RankRow(
                    rank, ring.host, ring.ring, ring.agent, device, ring.number("pid"), ring.last_step,
                    ring.last_ns, False if ring.exit_ns is not None else ring.is_alive,
                )
            )  # fmt: skip
        return tuple(sorted(found, key=lambda each: (each.rank, each.last_ns or 0)))

    def _devices_of_ranks(self, job: str, run: str) -> dict[int, str]:
        """Rank -> its device, where labels name one device with that rank alone."""
        labels, owners = self._keeper.names.labels(), self._keeper.names.owners()
        mine = set(Asked(job, run).labels(self._keeper) or ())
        found: dict[int, set[str]] = {}
        for kind, owner, number, _, _ in self._stretches():
            rank = labels[number].get("rank", "")
            if kind == "device" and number in mine and rank.isdigit():
                found.setdefault(int(rank), set()).add(device_name(*owners[owner]))
        return {rank: devices.pop() for rank, devices in found.items() if len(devices) == 1}

    def devices(self) -> tuple[DeviceRow, ...]:
        """As `contract.Store.devices`, by host and number."""
        owners = self._keeper.names.owners()
        found: dict[str, DeviceRow] = {}
        for kind, number, _, first_ns, last_ns in self._stretches():
            if kind != "device":
                continue
            host, owner = owners[number]
            name, before = device_name(host, owner), found.get(device_name(host, owner))
            if before is not None:
                first_ns, last_ns = min(first_ns, before.first_ns), max(last_ns, before.last_ns)
            model, index = owner.model or (before.model if before else None), owner.index
            found[name] = DeviceRow(name, owner.host or host, model, index, first_ns, last_ns)
        return tuple(sorted(found.values(), key=lambda each: (each.host, each.index or 0, each.device)))

    def nodes(self) -> tuple[NodeRow, ...]:
        """As `contract.Store.nodes`, the ones that were slow or failed most often first."""
        labels, owners = self._keeper.names.labels(), self._keeper.names.owners()
        nodes: dict[str, _Node] = {}
        hosts: dict[str, str] = {}
        for kind, number, who, first_ns, last_ns in self._stretches():
            host, owner = owners[number]
            nodes.setdefault(host, _Node(first_ns, last_ns)).seen(first_ns, last_ns)
            nodes[host].jobs.update(names_of(labels[who].get("job")))
            if kind == "device":
                hosts[device_name(host, owner)] = host
        ranks: dict[tuple[str | None, str | None, int | None], str] = {}
        for ring in list(self._keeper.rings.values()):
            ranks[ring.text("job"), ring.text("run"), ring.number("rank")] = ring.host
            if ring.first_ns is not None and ring.last_ns is not None:
                node = nodes.setdefault(ring.host, _Node(ring.first_ns, ring.last_ns))
                node.seen(ring.first_ns, ring.last_ns)
                node.jobs.update(filter(None, [ring.text("job")]))
        self._tell_failed(nodes)
        self._tell_slow(nodes, hosts, ranks)
        rows = [
            NodeRow(
                host, each.first_ns, each.last_ns, len(each.jobs), len(each.slow), len(each.slow_jobs),
                len(each.failed), len(each.failed_jobs), max(each.slow, default=None),
                max(each.failed, default=None),
            )
            for host, each in nodes.items()
        ]  # fmt: skip
        return tuple(sorted(rows, key=lambda each: (-each.num_failed - each.num_slow, each.host)))

    def _tell_failed(self, nodes: dict[str, _Node]) -> None:
        names = ", ".join(f"'{each}'" for each in sorted(FAILED))

        def read(cursor: Cursor, asked: list[Piece]) -> list[tuple[str, int, int, str, int | None]]:
            sql = f"SELECT host, at_ns, labels, what, code FROM event WHERE what IN ({names}) ORDER BY at_ns"
            return cursor.execute(sql).fetchall()

        labels = self._keeper.names.labels()
        for host, at_ns, number, what, code in self._rows.look(read, []):
            if what == "xid" and code is not None and xid(code).effect not in HARDWARE:
                continue
            node = nodes.setdefault(host, _Node(at_ns, at_ns))
            node.failed.append(at_ns)
            node.failed_jobs.update(names_of(labels[number].get("job")))
        # Ranks of one run that are killed on one node are one failure: the launcher kills the others.
        killed: dict[tuple[str, str | None, str | None], int] = {}
        for ring in list(self._keeper.rings.values()):
            if ring.is_alive is False and ring.exit_ns is None and ring.last_ns is not None:
                run = (ring.host, ring.text("job"), ring.text("run"))
                killed[run] = min(killed.get(run, ring.last_ns), ring.last_ns)
        for (host, job, _), at_ns in killed.items():
            nodes[host].failed.append(at_ns)
            nodes[host].failed_jobs.update(filter(None, [job]))

    def _tell_slow(
        self,
        nodes: dict[str, _Node],
        hosts: Mapping[str, str],
        ranks: Mapping[tuple[str | None, str | None, int | None], str],
    ) -> None:
        def read(cursor: Cursor, asked: list[Piece]) -> tuple[list[tuple[bytes]], list[tuple[bytes]]]:
            of = "SELECT body FROM document WHERE kind = '{}' ORDER BY at_ns DESC LIMIT {}"
            alarms = cursor.execute(of.format("alarm", _MOST_ALARMS)).fetchall()
            return alarms, cursor.execute(of.format("incident", _MOST_ALARMS)).fetchall()

        nothing: tuple[list[tuple[bytes]], list[tuple[bytes]]] = ([], [])
        alarm_rows, incident_rows = self._rows.look(read, nothing)
        alarms = {each.id: each for each in _decoded(alarm_rows, Alarm)}
        # Once an incident and node: what its card names counts like what its alarms name.
        told: dict[tuple[str, str], tuple[int, int, str | None]] = {}
        incident_of: dict[str, str] = {}
        for incident in _decoded(incident_rows, Incident):
            incident_of |= dict.fromkeys(incident.alarms, incident.id)
            mine = [alarms[each] for each in incident.alarms if each in alarms]
            if any(_is_slow(each) for each in mine):
                seen_ns = max(each.seen_ns for each in mine)
                for host in _hosts_of(incident.about, hosts, ranks):
                    told[incident.id, host] = (incident.onset_ns, seen_ns, incident.about.job)
        for alarm in alarms.values():
            if _is_slow(alarm):
                for host in _hosts_of(alarm.about, hosts, ranks):
                    key = (incident_of.get(alarm.id, alarm.id), host)
                    told.setdefault(key, (alarm.onset_ns, alarm.seen_ns, alarm.about.job))
        for (_, host), (onset_ns, seen_ns, job) in told.items():
            node = nodes.setdefault(host, _Node(onset_ns, seen_ns))
            node.slow.append(onset_ns)
            node.slow_jobs.update(filter(None, [job]))


_T = TypeVar("_T", Alarm, Incident)


def _decoded(rows: Sequence[tuple[bytes]], kind: type[_T]) -> Iterator[_T]:
    for (body,) in rows:
        with contextlib.suppress(msgspec.MsgspecError):  # of another version
            yield msgspec.json.decode(body, type=kind)


def _is_slow(alarm: Alarm) -> bool:
    return alarm.level in SLOW_LEVELS and alarm.pages and alarm.inhibited_by is None


def _hosts_of(
    about: About,
    hosts: Mapping[str, str],
    ranks: Mapping[tuple[str | None, str | None, int | None], str],
) -> set[str]:
    """Nodes that it names, or whose ranks or devices it names."""
    named = {*about.hosts, *(hosts[each] for each in about.devices if each in hosts)}
    return named | {ranks[key] for rank in about.ranks if (key := (about.job, about.run, rank)) in ranks}


def _run(job: str, run: str, rings: list[Ring]) -> RunRow:
    starts = [each.first_ns for each in rings if each.first_ns is not None]
    ends = [each.last_ns for each in rings if each.last_ns is not None]
    sizes = [size for each in rings if (size := each.number("world_size")) is not None]
    labels = {}
    for name in SHARED:
        values = {each.text(name) for each in rings}
        value = values.pop()
        if not values and value is not None:
            labels[name] = value
    return RunRow(
        job=job,
        run=run,
        start_ns=min(starts),
        last_ns=max(ends, default=min(starts)),
        is_over=all(each.is_over for each in rings),
        world_size=max(sizes, default=None),
        hosts=tuple(sorted({each.host for each in rings})),
        labels=labels,
    )


def _seen(before: RunRow | None, job: str, run: str, host: str, first_ns: int, last_ns: int) -> RunRow:
    hosts = {host}
    if before is not None:
        first_ns, last_ns = min(first_ns, before.start_ns), max(last_ns, before.last_ns)
        hosts |= set(before.hosts)
    return RunRow(job, run, first_ns, last_ns, False, None, tuple(sorted(hosts)), {})
