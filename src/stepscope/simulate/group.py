"""Process groups and what is exchanged in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from stepscope.simulate.config import Config

COMPUTE_STREAM = 7
_REDUCE_STREAM, _EXCHANGE_STREAM, _LANE_STREAM = 20, 24, 28
MOST_NAMED_RANKS = 30
"""The profiler writes no longer list of ranks."""
LATENCY_NS = 8_000
"""What an exchange takes on top of moving its bytes."""


@dataclass(frozen=True, slots=True)
class Group:
    """A process group: the name that the framework gives it, and its ranks."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One kind of collective or transfer: everything but when. `lane` is the queue in which its members take
    the same order; `source` and `target` are of a transfer between two, `None` else."""

    kind: str
    kernel: str
    annotation: str
    group: Group
    lane: str
    stream: int
    members: tuple[int, ...]
    num_in: int
    num_out: int
    moved_bytes: float
    """Over the wire, per rank."""
    source: int | None = None
    target: int | None = None

    def transfer_ns(self, rate: float) -> float:
        """How long it takes once all have come, at so many bytes per second."""
        return LATENCY_NS + 1e9 * self.moved_bytes / rate

    @property
    def written(self) -> str:
        """What the framework records of it, JSON without braces."""
        text = (
            f'"Collective name": "{self.kind}", "In msg nelems": {self.num_in}, '
            f'"Out msg nelems": {self.num_out}, '
            f'"Group size": {len(self.group.ranks)}, "dtype": "BFloat16", "In split size": "[]", '
            f'"Out split size": "[]", "Process Group Name": "{self.group.name}", '
            f'"Process Group Description": "{self.group.description}", '
            f'"Process Group Ranks": "{ranks_text(self.group.ranks)}"'
        )
        if self.source is not None:
            text += f', "Src Rank": {self.source}, "Dst Rank": {self.target}'
        return text


def ranks_text(ranks: tuple[int, ...]) -> str:
    """A list of ranks as the profiler writes it: a long one without its middle."""
    if len(ranks) <= MOST_NAMED_RANKS:
        return f"[{', '.join(map(str, ranks))}]"
    return f"[{', '.join(map(str, ranks[: MOST_NAMED_RANKS - 1]))}, ..., {ranks[-1]}]"


@dataclass(frozen=True)
class Groups:
    """The groups of one rank. `reduce` is `None` where nobody shares its gradients, `pipe` without a
    pipeline, `experts` without experts on other ranks."""

    rank: int
    stage: int
    replica: int
    num_stages: int
    whole: Group
    reduce: Group | None
    pipe: Group | None
    experts: Group | None

    @property
    def all(self) -> list[Group]:
        """Every group, the whole job's first."""
        found = {g.name: g for g in (self.whole, self.reduce, self.pipe, self.experts) if g is not None}
        return list(found.values())


@lru_cache(maxsize=8192)
def groups_of(ranks: int, stages: int, has_experts: bool, rank: int) -> Groups:
    """The groups of a rank: stages lie outermost, so that the ranks of a stage are neighbours."""
    replicas = ranks // stages
    stage, replica = divmod(rank, replicas)
    whole = Group("0", "default_pg", tuple(range(ranks)))
    mates = tuple(range(stage * replicas, (stage + 1) * replicas))
    reduce = whole if stages == 1 else Group(str(1 + stage), "DATA_PARALLEL_GROUP", mates)
    column = tuple(range(replica, ranks, replicas))
    pipe = Group(str(1 + stages + replica), "PIPELINE_MODEL_PARALLEL_GROUP", column) if stages > 1 else None
    experts = Group(str(1 + stages + replicas + stage), "EXPERT_MODEL_PARALLEL_GROUP", mates)
    is_shared = replicas > 1
    return Groups(
        rank=rank,
        stage=stage,
        replica=replica,
        num_stages=stages,
        whole=whole,
        reduce=reduce if is_shared else None,
        pipe=pipe,
        experts=experts if is_shared and has_experts else None,
    )


def groups_in(config: Config, rank: int) -> Groups:
    """The groups of a rank of this run."""
    return groups_of(config.ranks, config.pipeline_stages, config.model == "moe", rank)


@lru_cache(maxsize=4096)
def all_reduce(group: Group, num_elements: int) -> Exchange:
    """A bucket of gradients."""
    n = len(group.ranks)
    return Exchange(
        kind="allreduce",
        kernel="ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        annotation="nccl:all_reduce",
        group=group,
        lane=f"reduce {group.name}",
        stream=_REDUCE_STREAM,
        members=group.ranks,
        num_in=num_elements,
        num_out=num_elements,
        moved_bytes=2 * num_elements * 2 * (n - 1) / n,
    )


@lru_cache(maxsize=4096)
def reduce_scatter(group: Group, num_elements: int) -> Exchange:
    """A bucket of gradients, of which each rank keeps its share."""
    n = len(group.ranks)
    return Exchange(
        kind="_reduce_scatter_base",
        kernel="ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        annotation="nccl:_reduce_scatter_base",
        group=group,
        lane=f"reduce {group.name}",
        stream=_REDUCE_STREAM,
        members=group.ranks,
        num_in=num_elements,
        num_out=num_elements // n,
        moved_bytes=2 * num_elements * (n - 1) / n,
    )


@lru_cache(maxsize=4096)
def all_gather(group: Group, num_elements: int) -> Exchange:
    """Parameters, of which each rank has updated its share."""
    n = len(group.ranks)
    return Exchange(
        kind="_allgather_base",
        kernel="ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        annotation="nccl:_all_gather_base",
        group=group,
        lane=f"reduce {group.name}",
        stream=_REDUCE_STREAM,
        members=group.ranks,
        num_in=num_elements // n,
        num_out=num_elements,
        moved_bytes=2 * num_elements * (n - 1) / n,
    )


@lru_cache(maxsize=4096)
def all_to_all(group: Group, num_elements: int) -> Exchange:
    """Tokens to the ranks of their experts, or back."""
    n = len(group.ranks)
    return Exchange(
        kind="all_to_allv",
        kernel="ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
        annotation="nccl:all_to_all",
        group=group,
        lane=f"experts {group.name}",
        stream=_EXCHANGE_STREAM,
        members=group.ranks,
        num_in=num_elements,
        num_out=num_elements,
        moved_bytes=2 * num_elements * (n - 1) / n,
    )


@lru_cache(maxsize=4096)
def transfer(groups: Groups, num_elements: int, is_forward: bool, is_send: bool) -> Exchange:
    """An activation to the next stage, or its gradient to the one before: this rank's end of it."""
    pipe = groups.pipe
    if pipe is None:
        raise ValueError("no pipeline")
    ahead = groups.stage + (1 if is_forward else -1) * (1 if is_send else -1)
    other = pipe.ranks[ahead]
    source, target = (groups.rank, other) if is_send else (other, groups.rank)
    # Each direction of each pair has a queue of its own: one queue for both would have to agree on an order
    # in which each end waits for the other.
    number = 2 * min(groups.stage, ahead) + (not is_forward)
    own = 2 * (ahead > groups.stage) + (not is_forward)
    return Exchange(
        kind="send" if is_send else "recv",
        kernel="ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
        annotation=f"nccl:{'send' if is_send else 'recv'} {source}->{target}",
        group=pipe,
        lane=f"pipe {pipe.name} {number}",
        stream=_LANE_STREAM + 4 * own,
        members=(source, target),
        num_in=num_elements,
        num_out=num_elements,
        moved_bytes=2 * num_elements,
        source=source,
        target=target,
    )
