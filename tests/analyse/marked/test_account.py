"""Where the time of steps went by their marks: exact sums, on worked lines and on any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyse.marked import analyse_marks
from stepscope.model.mark import PHASES, Phases, RankMarks
from tests.analyse.marked.made import BEGIN_NS, MS, job, judged


def parts(ranks, rank=0, step=None):
    """Parts in milliseconds that are not 0, of one step or of the row."""
    device = analyse_marks(ranks).analyses[rank].devices[0]
    row = device.accounting
    found = (
        device.by_step[step]
        if step is not None
        else {
            "total_ns": row.total_ns,
            "compute_ns": row.compute_ns,
            "communication_exposed_ns": row.communication_exposed_ns,
            "idle_ns": row.idle_ns,
            **{f"idle.{name}": getattr(row.idle, name) for name in row.idle.__struct_fields__},
        }
    )
    return {name.removesuffix("_ns"): ns / MS for name, ns in found.items() if ns and name != "idle_ns"}


def test_a_step_is_its_phases_and_what_lies_between_them():
    assert parts(job([["d5 f10 b20 o3 _2"]]), step=0) == {
        "total": 40,
        "compute": 33,
        "idle.input": 5,
        "idle.python": 2,
    }


def test_what_lies_between_two_marked_steps_belongs_to_the_second():
    told = job([["| f10 b20", "d5 _1 | f10 b20 o1"]])
    assert parts(told, step=0) == {"total": 30, "compute": 30}
    assert parts(told, step=1) == {"total": 37, "compute": 31, "idle.input": 5, "idle.python": 1}


def test_host_work_between_the_batch_and_the_model_is_preprocessing_from_a_twentieth_of_the_step():
    assert parts(job([["d5 _4 f10 b20"]]), step=0)["idle.preprocess"] == 4
    assert parts(job([["d5 _1 f10 b20"]]), step=0)["idle.python"] == 1


def test_of_nested_phases_the_innermost_counts():
    assert parts(job([["d5 f10(g4) b20 o5"]]), step=0) == {
        "total": 40, "compute": 31, "idle.input": 5, "idle.gc": 4,
    }  # fmt: skip


def test_an_evaluation_and_a_checkpoint_win_over_what_runs_inside():
    assert parts(job([["f10 b20", "f10 b20 e30(d12) c5(g2)"]]), step=1) == {
        "total": 65, "compute": 30, "idle.eval": 30, "idle.checkpoint": 5,
    }  # fmt: skip


def test_without_forward_and_backward_marked_the_rest_may_be_either():
    assert parts(job([["d5 _30"]]), step=0) == {"total": 35, "idle.input": 5, "idle.unknown": 30}
    assert analyse_marks(job([["d5 _30"]])).analyses[0].devices[0].tells == {"idle.input"}


def test_a_phase_around_whole_steps_says_nothing_of_them():
    (told,) = job([["d5 f10 b20"] * 3])
    of = told.phases
    whole = Phases(
        phase=np.append(of.phase, PHASES.index("checkpoint")).astype(np.int32),
        name=np.append(of.name, -1).astype(np.int32),
        step=np.append(of.step, -1),
        start_ns=np.append(of.start_ns, BEGIN_NS),
        end_ns=np.append(of.end_ns, BEGIN_NS + 105 * MS),
        is_sync=np.append(of.is_sync, False),
    )
    order = np.lexsort((-whole.end_ns, whole.start_ns))
    columns = {
        name: getattr(whole, name)[order]
        for name in ("phase", "name", "step", "start_ns", "end_ns", "is_sync")
    }
    assert parts([replace(told, phases=Phases(**columns))]) == {"total": 105, "compute": 90, "idle.input": 15}


def test_waiting_in_backward_for_a_later_rank_is_no_computing():
    told = job([["f10 b20"], ["f10 _50 b20"]])
    assert parts(told, 0, 0) == {"total": 80, "compute": 30, "communication_exposed": 50}
    assert parts(told, 1, 0) == {"total": 80, "compute": 30, "idle.python": 50}


def test_ends_that_do_not_wait_are_no_meetings():
    marked = analyse_marks(job([["f10 b20"] * 9, ["f10 _50 b20"] * 9], meets=""))
    assert all(not each.peers for each in marked.analyses)
    assert "does not wait" in marked.withheld[0].why


def test_a_phase_that_is_none_leaves_the_other_meetings_as_they_are():
    lines = ["f10 m3 b20"] * 9, ["f10 _50 m3 b20"] * 9
    whole, alone = analyse_marks(job(lines)), analyse_marks(job(lines, meets="b"))
    for told, phase in ((whole, "m"), (alone, "b")):
        wait = told.analyses[0].devices[0].accounting.communication_exposed_ns
        assert wait >= 9 * 50 * MS, phase


def test_captured_stalled_and_shadow_steps_are_in_no_sum():
    told = job([["f10 b20"] * 12], flags={5: "captured", 6: "stalled", 7: "shadow"})
    (analysis,) = analyse_marks(told).analyses
    assert [step.use for step in analysis.steps[5:8]] == ["captured", "captured", "partial"]
    assert analysis.devices[0].accounting.num_steps == 9


def test_a_step_that_one_rank_captures_is_left_out_on_all():
    told = job([["f10 b20"] * 12] * 2)
    one = replace(told[1], steps=replace(told[1].steps, is_captured=told[1].steps.step == 4))
    for analysis in analyse_marks([told[0], one]).analyses:
        assert [step.step for step in analysis.steps if step.use == "captured"] == [4]


def test_numbers_that_begin_again_go_on():
    (analysis,) = analyse_marks(job([["f10 b20"] * 6], numbers=[0, 1, 2, 0, 1, 2])).analyses
    assert [step.step for step in analysis.steps] == [0, 1, 2, 3, 4, 5]
    assert [issue.code for issue in analysis.issues] == ["steps_renumbered"]


def test_the_first_steps_of_a_process_are_warm_up_where_they_are_long():
    (analysis,) = analyse_marks(job([["f900 b200", "f40 b20"] + ["f10 b20"] * 10])).analyses
    assert [step.use for step in analysis.steps[:3]] == ["warm_up", "warm_up", "counted"]


def test_a_range_of_steps_is_judged_alone():
    (analysis,) = analyse_marks(job([["f10 b20"] * 10]), (3, 5)).analyses
    assert [step.step for step in analysis.steps] == [3, 4, 5]


# ── laws ──

TOKEN = st.tuples(st.sampled_from("dfoclge_"), st.integers(0, 30)).map(lambda each: f"{each[0]}{each[1]}")
LINE = st.tuples(
    st.lists(TOKEN, max_size=5), st.integers(1, 20), st.lists(TOKEN, max_size=4), st.booleans()
).map(lambda each: " ".join([*each[0], *(["|"] if each[3] else []), f"f1 b{each[1]}", *each[2]]))


@st.composite
def jobs(draw):
    num_ranks, num_steps = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    return [[draw(LINE) for _ in range(num_steps)] for _ in range(num_ranks)]


def table(ranks):
    """Rank -> step -> parts, of all ranks."""
    return {
        each.rank: {step: dict(parts) for step, parts in each.devices[0].by_step.items()}
        for each in analyse_marks(ranks).analyses
    }


@settings(max_examples=60, deadline=None)
@given(jobs())
def test_the_parts_of_every_step_are_its_time_exactly(lines):
    for steps in table(job(lines)).values():
        for of in steps.values():
            idle = sum(ns for name, ns in of.items() if name.startswith("idle."))
            assert idle == of["idle_ns"]
            assert (
                of["compute_ns"] + of["communication_exposed_ns"] + of["copy_exposed_ns"] + idle
                == of["total_ns"]
            )


@settings(max_examples=40, deadline=None)
@given(jobs(), st.randoms(use_true_random=False))
def test_the_order_of_ranks_changes_nothing(lines, random):
    ranks = job(lines)
    shuffled = ranks[:]
    random.shuffle(shuffled)
    assert table(shuffled) == table(ranks)


@settings(max_examples=40, deadline=None)
@given(jobs(), st.lists(st.integers(-(10**12), 10**12), min_size=4, max_size=4), st.booleans())
def test_clocks_that_are_apart_change_nothing(lines, apart, is_one_host):
    """Of one host the offsets of the rings tell, of several hosts the ends of their meetings."""
    num = len(lines)
    hosts = ["one"] * num if is_one_host else [f"h{n}" for n in range(num)]
    moved = job(lines, apart_ns=apart[:num], hosts=hosts)
    assert table(moved) == table(job(lines, hosts=hosts))


def tiled(marks: RankMarks) -> RankMarks:
    """The same marks, of steps that were found by the optimizer."""
    return replace(marks, steps=replace(marks.steps, is_tiled=np.ones(len(marks.steps), dtype=bool)))


def test_host_code_between_the_optimizer_and_the_next_forward_is_of_neither_step():
    ours = [tiled(each) for each in job([["_12 f2 b4 o1"] * 8])]
    assert parts(ours, step=3) == {"total": 19, "compute": 7, "idle.python": 12}
    device = analyse_marks(ours).analyses[0].devices[0]
    assert "idle.preprocess" not in device.tells
    assert device.numbers["between_steps_ns"] == 8 * 12 * MS
    assert device.numbers["python_stall_ns"] == 0
    told = judged(ours)
    assert [each.rule for each in told.findings] == ["between-steps"]
    assert told.verdict.class_ == "other-stall"
    assert "after the step or before the next" in told.verdict.text
    assert "waiting" not in told.verdict.text.lower()


def test_a_wait_for_the_loader_parts_what_is_after_the_step_from_preparing_the_next_batch():
    ours = [tiled(each) for each in job([["_12 d1 _6 f2 b4 o1"] * 8])]
    assert parts(ours, step=3) == {
        "total": 26, "compute": 7, "idle.input": 1, "idle.preprocess": 6, "idle.python": 12,
    }  # fmt: skip
    assert {each.rule for each in judged(ours).findings} == {"python-stall", "host-preprocessing"}


def test_a_step_that_the_loop_marks_itself_says_what_it_begins_with():
    assert parts(job([["_5 | _12 f2 b4 o1"] * 8]), step=3) == {
        "total": 24, "compute": 7, "idle.preprocess": 12, "idle.python": 5,
    }  # fmt: skip
