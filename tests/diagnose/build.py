"""Analyses made by hand: an accounting row from its parts, and a rank around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepscope.diagnose import Options, diagnose
from stepscope.model import report
from stepscope.model.analysis import Culprit, DeviceAnalysis, RankAnalysis
from stepscope.model.text import Lang
from stepscope.rules import Catalog, load_catalog

MS = 1_000_000
CATALOG = load_catalog(others=())
PLAIN = {
    "late_start_ns": 0.0,
    "kernel_gap_ns": 0.0,
    "short_kernel_share": 0.0,
    "num_ops": 1.0,
    "elementwise_kernel_share": 0.1,
    "normalization_kernel_share": 0.0,
    "attention_scores_ns": 0.0,
    "optimizer_loop_ns": 0.0,
    "python_stall_ns": 0.0,
    "long_pause_ns": 0.0,
    "gradient_syncs_per_update": 0.0,
    "small_of_communication_share": 0.0,
    "unrecorded_graph_share": 0.0,
    "pageable_upload_share": 0.0,
}
"""Numbers of a device that leaves nothing to win."""


def row(
    *,
    total: int = 100 * MS,
    communication: int = 0,
    copy: int = 0,
    rank: int | None = 0,
    device: report.Device | None = None,
    num_steps: int = 4,
    scope: report.Scope = "steps",
    status: report.RowStatus = "ok",
    host: report.HostShares | None = None,
    variation: report.Variation | None = None,
    **idle: int,
) -> report.Accounting:
    """A row in nanoseconds; what is in no given part is compute."""
    idle_ns = sum(idle.values())
    compute_ns = total - communication - copy - idle_ns
    is_host = device is not None and device.kind == "cpu"
    return report.Accounting(
        rank=rank,
        device=device or report.Device(index=0),
        scope=scope,
        window="device",
        num_steps=num_steps,
        total_ns=total,
        compute_ns=compute_ns,
        compute=None if is_host else report.Compute(other_ns=compute_ns),
        communication_exposed_ns=communication,
        copy_exposed_ns=copy,
        idle_ns=idle_ns,
        idle=report.Idle(**{f"{cause}_ns": time for cause, time in idle.items()}),
        status=status,
        host=host,
        variation=variation,
    )


def rank(
    *rows: report.Accounting,
    world_size: int | None = 1,
    numbers: Mapping[str, float] | None = None,
    largest_gap_ns: Mapping[str, int] | None = None,
    culprits: Mapping[str, tuple[Culprit, ...]] | None = None,
    by_step: Mapping[int, Mapping[str, int]] | None = None,
    issues: tuple[report.HealthIssue, ...] = (),
    withheld: tuple[report.Withheld, ...] = (),
    operators: tuple[report.Operator, ...] = (),
    accelerator: str = "cuda",
    steps: Sequence[int] = range(5, 9),
) -> RankAnalysis:
    """One rank with a device for each row, and steps of 25 ms."""
    number = rows[0].rank if rows else 0
    return RankAnalysis(
        rank=number,
        world_size=world_size,
        issues=issues,
        withheld=withheld,
        steps=tuple(
            report.Step(
                rank=number,
                step=n,
                start_ns=n * 25 * MS,
                end_ns=(n + 1) * 25 * MS,
                dur_ns=25 * MS,
                use="counted",
            )
            for n in steps
        ),
        accounting=rows,
        devices=tuple(
            DeviceAnalysis(
                accounting=each,
                culprits=culprits or {},
                by_step=by_step or {},
                numbers={**(PLAIN if each.device.kind != "cpu" else {}), **(numbers or {})},
                largest_gap_ns=largest_gap_ns or {},
            )
            for each in rows
        ),
        operators=operators,
        kernels=(),
        collectives=(),
        accelerator=accelerator,
    )


def trace(name: str = "run/rank0.json.gz", number: int | None = 0) -> report.Input:
    return report.Input(kind="trace", format="kineto", name=name, rank=number, events=1000)


def told(
    *ranks: RankAnalysis,
    inputs: Sequence[report.Input] | None = None,
    lang: Lang = "en",
    catalog: Catalog = CATALOG,
) -> report.Report:
    """The report of these ranks."""
    given = [trace(f"run/rank{r.rank}.json.gz", r.rank) for r in ranks] if inputs is None else inputs
    return diagnose(ranks, given, Options(catalog=catalog, lang=lang))


LOADER = Culprit("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 33 * MS, 77, 1000, 2000)

OPERATORS = tuple(
    report.Operator(rank=0, name=name, class_=class_, count=count, device_ns=time, share=time / (60 * MS))
    for name, class_, count, time in (
        ("aten::mm", "gemm", 48, 30 * MS),
        ("aten::_scaled_dot_product_flash_attention", "attention", 12, 12 * MS),
        ("aten::add_", "elementwise", 240, 9 * MS),
        ("aten::native_layer_norm", "normalization", 24, 5 * MS),
        ("aten::copy_", "elementwise", 96, 3 * MS),
        ("aten::fill_", "elementwise", 10, 1 * MS),
        ("aten::view", None, 500, 0),
    )
)


def input_starved(lang: Lang = "en") -> report.Report:
    """A loader that is too slow."""
    return told(
        rank(
            row(
                input=33 * MS,
                launch=4 * MS,
                queued=2 * MS,
                host=report.HostShares(loader_share=0.4, sync_share=0.0),
            ),
            culprits={"input": (LOADER,)},
            by_step={
                5: {"total_ns": 25 * MS, "idle.input_ns": 1 * MS},
                6: {"total_ns": 25 * MS, "idle.input_ns": 10 * MS},
                7: {"total_ns": 25 * MS, "idle.input_ns": 12 * MS},
                8: {"total_ns": 25 * MS, "idle.input_ns": 10 * MS},
            },
            numbers={"queued_or_unlaunched_idle_share": 0.05},
            operators=OPERATORS,
        ),
        lang=lang,
    )


def late_peer(lang: Lang = "en") -> report.Report:
    """One rank of eight, waiting in a collective at a hundredth of the link."""
    return told(
        rank(
            row(communication=40 * MS, launch=3 * MS),
            world_size=8,
            numbers={"bus_bandwidth_link_share": 0.01, "bus_bytes_per_second": 4.5e9},
            operators=OPERATORS,
            withheld=(
                report.Withheld(
                    what="transfer and wait of collectives",
                    why="one rank cannot tell a slow link from a late peer",
                    would_settle="the traces of all ranks of the same steps",
                ),
            ),
        ),
        lang=lang,
    )


def unrecorded(lang: Lang = "en") -> report.Report:
    """Idle time behind work already issued, with the host in blocking copies."""
    return told(
        rank(
            row(copy=6 * MS, queued=40 * MS, host=report.HostShares(copy_call_share=0.8)),
            numbers={"queued_or_unlaunched_idle_share": 0.98},
            operators=OPERATORS,
        ),
        lang=lang,
    )


def healthy(lang: Lang = "en") -> report.Report:
    """A device that computes nearly all the time."""
    return told(rank(row(queued=2 * MS), operators=OPERATORS), lang=lang)


def several_files(lang: Lang = "en") -> report.Report:
    """Three recordings of one process: none names a rank, and the second is the slow one."""
    nothing = report.HealthIssue(code="no_steps", count=1, effect="none", detail="no device activity")
    analyses = [
        rank(
            row(rank=None, input=input_ms * MS, total=total * MS),
            issues=(nothing,),
            operators=(report.Operator(name=f"op {total}", count=1, device_ns=5),),
        )
        for input_ms, total in ((30, 290), (130, 157), (20, 100))
    ]
    names = [f"run/host_7.{n}.pt.trace.json.gz" for n in (11, 22, 33)]
    return told(*analyses, inputs=[trace(name, None) for name in names], lang=lang)
