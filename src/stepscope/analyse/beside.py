"""The table of one device, or of the host of a run without one, for the join with other ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepscope.analyse import collective, host, peer
from stepscope.analyse.account import Parts
from stepscope.analyse.idle import IdlePieces
from stepscope.analyse.process import Process, Scope
from stepscope.model.analysis import DeviceAnalysis
from stepscope.model.interval import intersect
from stepscope.model.peer import PeerTable
from stepscope.model.trace import I64, Trace
from stepscope.trace.link import Activities


def _has_peers(p: Process, num_collectives: int) -> bool:
    """Whether other ranks may have to be held against this one."""
    return num_collectives > 0 or (p.world_size is not None and p.world_size > 1)


def peer_of_device(
    p: Process,
    analysis: DeviceAnalysis,
    scopes: Sequence[Scope],
    activities: Activities,
    found: collective.Collectives,
    parts: Parts,
    idle: IdlePieces,
    owner: I64,
    link: float | None,
    *,
    device: int,
) -> PeerTable | None:
    """What the join with other ranks needs of this device."""
    if not _has_peers(p, len(found.at)):
        return None
    texts, is_withheld = peer.Texts(), analysis.accounting.status == "withheld"
    first = min(int(scope.windows.start_ns.min()) for scope in scopes)
    numbers = np.append(p.used.steps.number, -1)[owner] if len(p.used.steps) else np.full(len(owner), -1)
    is_in_scope = (owner >= 0) & np.append(p.used.in_scope, False)[owner]
    whole = scopes[-1].windows
    return PeerTable(
        rank=p.rank,
        world_size=p.world_size,
        device=device,
        host=host_name(p.trace),
        anchor=p.trace.anchor,
        collectives=peer.collective_table(
            p.trace,
            activities,
            found,
            parts,
            idle,
            numbers.astype(np.int64),
            first,
            texts,
            is_withheld=is_withheld,
        ),
        steps=peer.step_table(p.used, scopes[0].windows) if scopes[0].name == "steps" else peer.no_steps(),
        kernels=peer.kernel_table(
            p.trace,
            p.kinds,
            activities,
            is_in_scope if is_in_scope.any() else np.ones(len(owner), bool),
            texts,
        ),
        hidden=intersect(parts.communication, parts.compute),
        program=analysis.program,
        culprits=_named(analysis),
        link_bytes_per_second=link,
        strip=peer.strip(int(whole.start_ns[0]), int(whole.end_ns[0]), parts, idle, is_withheld=is_withheld),
        texts=texts.all(),
    )


def peer_of_host(
    p: Process, analysis: DeviceAnalysis, scopes: Sequence[Scope], account: host.CpuAccount
) -> PeerTable | None:
    """What the join with other ranks needs of a run without a device."""
    if not _has_peers(p, len(account.parts.communication)) or analysis.accounting.status == "withheld":
        return None
    texts, whole, steps = peer.Texts(), scopes[-1].windows, p.used.steps
    return PeerTable(
        rank=p.rank,
        world_size=p.world_size,
        device=None,
        host=host_name(p.trace),
        anchor=p.trace.anchor,
        collectives=peer.host_collective_table(
            p.trace,
            list(p.threads.rows.values()),
            p.facts,
            account.parts,
            account.idle,
            (steps.number, steps.start_ns, steps.end_ns),
            min(int(scope.windows.start_ns.min()) for scope in scopes),
            texts,
        ),
        steps=peer.step_table(p.used, scopes[0].windows) if scopes[0].name == "steps" else peer.no_steps(),
        kernels=peer.no_kernels(),
        hidden=intersect(account.parts.communication, account.parts.compute),
        culprits=_named(analysis),
        strip=peer.strip(
            int(whole.start_ns[0]), int(whole.end_ns[0]), account.parts, account.idle, is_withheld=False
        ),
        texts=texts.all(),
    )


def _named(analysis: DeviceAnalysis) -> dict[str, str]:
    """Idle cause -> what ran on the host for most of it."""
    return {cause: found[0].name for cause, found in analysis.culprits.items() if found}


def host_name(trace: Trace) -> str | None:
    """The machine that a trace says it is of, `None` where it does not say."""
    for key in ("hostname", "host_name", "hostName"):
        name = trace.metadata.get(key)
        if isinstance(name, str) and name:
            return name
    return None
