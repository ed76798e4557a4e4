"""Features of one device, and what withholds or degrades them."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.analyse import features as f
from stepscope.analyse.variation import period_steps
from stepscope.model import report
from stepscope.model.analysis import Culprit
from stepscope.model.feature import Facts, Feature, Observed
from tests.diagnose.build import MS, rank, row

ALL = [value for value in vars(f).values() if isinstance(value, Feature)]


def facts(*rows: report.Accounting, **around: object) -> Facts:
    whole = rank(*rows, **around)  # type: ignore[arg-type]
    return f.facts(Observed(whole, whole.devices[0]), ALL)


def issue(effect: report.Effect, *affects: str) -> report.HealthIssue:
    return report.HealthIssue(code="x", count=1, effect=effect, detail="", affects=affects)


def test_a_features_name_is_the_name_it_is_imported_by() -> None:
    assert {name for name, value in vars(f).items() if isinstance(value, Feature)} == {x.name for x in ALL}


def test_shares_are_of_the_rows_total_and_add_up() -> None:
    known = facts(row(communication=20 * MS, copy=5 * MS, input=10 * MS, launch=15 * MS))
    assert known.get(f.busy_share) == 0.5
    assert known.get(f.exposed_communication_share) == 0.2
    assert known.get(f.copy_exposed_share) == 0.05
    assert known.get(f.idle_share) == 0.25
    assert known.get(f.idle_input_share) == 0.1
    assert known.get(f.idle_launch_share) == 0.15
    assert known.get(f.idle_gc_share) == 0.0


def test_every_idle_cause_has_a_feature() -> None:
    assert {f"idle_{cause}_share" for cause in report.IDLE_CAUSES} <= {x.name for x in ALL}


def test_what_was_not_measured_is_absent() -> None:
    known = facts(row())
    for feature in (
        f.bus_bandwidth_link_share,
        f.periodic_stall_share,
        f.host_loader_share,
        f.sm_active_mean,
    ):
        assert known.get(feature) is None
    assert facts(row(total=0)).get(f.busy_share) is None


def test_a_withheld_row_has_its_partition_but_no_idle_causes() -> None:
    known = facts(
        row(unknown=40 * MS, copy=6 * MS, status="withheld"), numbers={"queued_or_unlaunched_idle_share": 0.9}
    )
    assert known.get(f.idle_share) == 0.4
    assert known.get(f.busy_share) == 0.54
    assert known.get(f.idle_unknown_share) is None
    assert known.get(f.idle_input_share) is None
    assert known.get(f.copy_stall_share) is None
    assert known.get(f.unexplained_idle_share) == pytest.approx(0.36)


@pytest.mark.parametrize(
    ("affects", "lost"),
    [
        (("idle",), {f.idle_input_share}),
        (("idle.input",), {f.idle_input_share}),
        (("communication_exposed",), {f.exposed_communication_share}),
        (("accounting",), {f.idle_input_share, f.exposed_communication_share, f.busy_share}),
        (("launch_delay", "kernels"), set()),
    ],
)
def test_an_issue_touches_the_parts_it_names(affects: tuple[str, ...], lost: set[Feature]) -> None:
    watched = {f.idle_input_share, f.exposed_communication_share, f.busy_share}
    withheld = facts(row(input=MS), issues=(issue("withheld", *affects),))
    assert {x for x in watched if withheld.get(x) is None} == lost
    degraded = facts(row(input=MS), issues=(issue("degraded", *affects),))
    assert degraded.degraded & watched == lost


def test_a_note_touches_nothing() -> None:
    assert facts(row(), issues=(issue("none", "accounting"),)).degraded == frozenset()


def test_a_number_that_is_no_number_never_decides() -> None:
    assert (
        facts(row(), numbers={"bus_bandwidth_link_share": float("nan")}).get(f.bus_bandwidth_link_share)
        is None
    )


def test_an_unseen_device_has_no_shares_and_a_run_without_one_has_those_of_its_host() -> None:
    cpu = row(device=report.Device(kind="cpu"), input=10 * MS)
    unseen = facts(cpu, accelerator="cuda")
    assert unseen.get(f.busy_share) is unseen.get(f.idle_input_share) is None
    without = facts(cpu, accelerator="cpu")
    assert without.get(f.busy_share) is None
    assert without.get(f.idle_input_share) == 0.1


def test_a_feature_points_at_its_largest_culprit() -> None:
    culprits = {
        "copy_wait": (Culprit("cudaMemcpy", 2 * MS, 11, 5, 6),),
        "copy_exposed": (Culprit("Memcpy HtoD (Pageable -> Device)", 3 * MS, 12, 7, 9),),
    }
    known = facts(row(copy=3 * MS, copy_wait=2 * MS), culprits=culprits)
    assert known.where[f.copy_stall_share] == report.Where(
        rank=0, start_ns=7, end_ns=9, span=12, name="Memcpy HtoD (Pageable -> Device)"
    )
    assert known.where[f.idle_copy_wait_share].span == 11


def test_a_few_steps_without_a_period_rule_nothing_out() -> None:
    # Slow steps 4, 14 and 24 are the three that show a period: two of them, in 20 steps, do not.
    number = np.arange(30)
    slow = np.where(number % 10 == 4, 10 * MS, MS)
    assert period_steps(number[:20][slow[:20] > MS]) is None
    assert period_steps(number[slow > MS]) == 10
    few, many = row(num_steps=29), row(num_steps=30)
    assert facts(few, numbers={"periodic_stall_share": 0.0}).get(f.periodic_stall_share) is None
    assert facts(few, numbers={"periodic_stall_share": 0.2}).get(f.periodic_stall_share) == 0.2
    assert facts(many, numbers={"periodic_stall_share": 0.0}).get(f.periodic_stall_share) == 0.0


def test_a_backward_pass_and_compiled_regions_are_told_by_their_names() -> None:
    def operator(name: str, time: int) -> report.Operator:
        return report.Operator(rank=0, name=name, count=1, device_ns=time)

    known = facts(
        row(launch=20 * MS),
        operators=(operator("aten::mm", 3 * MS), operator("aten::Convolution_Backward", 1 * MS)),
        culprits={
            "launch": (
                Culprit("CompiledFunctionBackward", 8 * MS, 1, 0, 1),
                Culprit("CompiledFunction", 4 * MS, 1, 0, 1),
                Culprit("aten::mm", 12 * MS, 1, 0, 1),
            )
        },
    )
    assert known.get(f.backward_share) == 0.25
    assert known.get(f.compiled_launch_share) == 0.4
    bare = facts(row(launch=20 * MS))
    assert bare.get(f.backward_share) is None
    assert bare.get(f.compiled_launch_share) is None
    infers = facts(row(), operators=(operator("aten::mm", MS),), culprits={"launch": ()})
    assert infers.get(f.backward_share) == 0.0


def test_calls_alone_do_not_tell_what_the_host_did() -> None:
    calls_only = report.HealthIssue(code="no_host_rows", count=1, effect="none", detail="")
    shares = report.HostShares(loader_share=0.0, launch_share=0.1)
    known = facts(row(launch=20 * MS, unknown=10 * MS, host=shares), issues=(calls_only,))
    for feature in (f.idle_input_share, f.idle_preprocess_share, f.idle_compile_share, f.host_loader_share):
        assert known.get(feature) is None
    assert known.get(f.idle_launch_share) == 0.2
    assert known.get(f.host_launch_share) == 0.1
    assert known.get(f.idle_share) == 0.3
