"""From analyses to a report."""

from __future__ import annotations

import json
import shlex

import pytest
from msgspec import structs

from stepscope.cli.diagnose import exit_code
from stepscope.model import report
from stepscope.model.analysis import Culprit, RankAnalysis
from stepscope.model.report import encode
from stepscope.model.text import LANGS, Lang
from stepscope.rules import Broken
from stepscope.rules.load import Catalog
from stepscope.views.markdown import render as as_markdown
from stepscope.views.phrase import undecided_lines
from tests.diagnose.build import (
    CATALOG,
    MS,
    OPERATORS,
    healthy,
    input_starved,
    late_peer,
    rank,
    row,
    several_files,
    told,
    trace,
    unrecorded,
)
from tests.views.show import shown


def rules(answer: report.Report) -> list[str]:
    return [finding.rule for finding in answer.findings]


def test_a_slow_loader_is_waiting_for_data_with_its_numbers() -> None:
    answer = input_starved()
    assert answer.verdict.class_ == "waiting-for-data"
    assert answer.verdict.text == (
        "Waiting for data, 33.0 % of the step (8.25 ms of 25.0 ms a step, rank 0): "
        "the device waits for its next batch."
    )
    (finding,) = answer.findings
    assert finding.id == "input-starvation:rank0:device0"
    assert finding.severity == "critical"
    assert finding.confidence == "medium"
    assert finding.cost == report.Cost(time_ns=33 * MS, share=0.33, of="idle.input", num_steps=4)
    assert finding.evidence[0].where == report.Where(
        rank=0,
        start_ns=1000,
        end_ns=2000,
        span=77,
        name="enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    )
    assert answer.next == (
        "stepscope diagnose NEW_TRACE  # after the change, with the same steps recorded again"
    )


def test_who_was_running_is_named_largest_first_over_the_parts_of_the_cost() -> None:
    def named(number: int, time: int) -> Culprit:
        return Culprit(f"call {number}", time, number, 10 * number, 10 * number + 5)

    answer = told(
        rank(
            row(copy=4 * MS, copy_wait=6 * MS, launch=5 * MS),
            culprits={
                "other_copy": (named(1, 3 * MS), named(2, 1 * MS)),
                "copy_wait": tuple(named(3 + place, (6 - place) * MS // 2) for place in range(6)),
                "launch": (named(99, 5 * MS),),
            },
        )
    )
    (finding,) = answer.findings
    assert [each.name for each in finding.culprits] == [f"call {n}" for n in (1, 3, 4, 5, 6, 2)]
    assert finding.culprits[0] == report.Named(
        name="call 1", time_ns=3 * MS, share=0.3, span=1, start_ns=10, end_ns=15
    )


def test_a_name_never_covers_more_than_the_time_it_is_named_for() -> None:
    # Two streams at once: their activities sum to more than the time in which nothing else ran.
    answer = told(
        rank(
            row(communication=20 * MS),
            culprits={"communication_exposed": (Culprit("ncclKernel", 25 * MS, None, 1, 2),)},
        )
    )
    (named,) = answer.findings[0].culprits
    assert (named.time_ns, named.share) == (20 * MS, 1.0)
    assert "span" not in report.encode(answer).decode().partition('"culprits"')[2].partition("]")[0]


def test_the_onset_is_the_first_step_at_the_threshold() -> None:
    (finding,) = input_starved().findings
    assert (finding.onset_step, finding.onset_ns) == (6, 6 * 25 * MS)
    assert finding.subject.steps == (6, 8)
    (card,) = input_starved().cards
    assert (card.onset_step, card.onset_ns) == (6, 6 * 25 * MS)


def test_the_gain_runs_from_the_proof_to_the_whole_cost_and_never_beyond() -> None:
    (finding,) = input_starved().findings
    assert finding.remedies[0].gain_share == (0.28, 0.33)
    assert finding.remedies[0].verify == "Record the same steps again: idle_input_share <= 5.0 % (now 33.0 %)"


def test_one_rank_of_eight_at_a_hundredth_of_the_link_is_undecided_in_its_cause() -> None:
    answer = late_peer()
    assert answer.verdict.class_ == "waiting-for-communication"
    assert "late peer or wrong transport, undecided from one rank" in answer.verdict.text
    question = answer.undecided[0]
    assert question.rule == "exposed-communication"
    assert question.command == "stepscope diagnose run"
    assert answer.next == "stepscope diagnose run  # record all 8 ranks first"
    assert [i.code for i in answer.health.issues] == ["rank_missing"]
    assert answer.health.issues[0].count == 7
    assert "bucket" not in json.dumps(json.loads(encode(answer))["findings"])


def test_a_rank_left_out_on_request_is_not_missing_yet_not_compared_either() -> None:
    one = rank(row(communication=40 * MS), world_size=2, numbers={"bus_bandwidth_link_share": 0.01})
    answer = told(one, inputs=[trace("run/rank0.json.gz", 0), trace("run/rank1.json.gz", 1)])
    assert answer.health.issues == ()
    assert answer.undecided[0].rule == "exposed-communication"
    # All traces were given: what else there is to look at is the transport.
    assert answer.next.startswith("NCCL_DEBUG=INFO ")
    alone = told(one, inputs=[trace("run/rank0.json.gz", 0)])
    assert [i.code for i in alone.health.issues] == ["rank_missing"]
    unread = report.Input(kind="trace", name="run/rank1.json.gz", rank=1, error="cannot be read")
    assert [i.code for i in told(one, inputs=[trace(), unread]).health.issues] == ["rank_missing"]


def test_with_all_ranks_given_the_next_command_is_not_the_one_just_run() -> None:
    both = [rank(row(rank=n, communication=40 * MS), world_size=2) for n in range(2)]
    assert told(*both).next == "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET python train.py"
    alone = told(rank(row(communication=40 * MS), world_size=None))
    assert alone.next == "stepscope diagnose run  # record all ranks first"


def test_with_all_ranks_given_nothing_asks_for_the_traces_of_all_ranks() -> None:
    def one(n: int, lasts: int) -> RankAnalysis:
        account = structs.replace(
            row(rank=n, communication=40 * MS),
            communication=report.Communication(total_ns=lasts, hidden_ns=0),
        )
        return rank(
            account,
            world_size=2,
            numbers={"bus_bandwidth_link_share": 0.01},
            withheld=late_peer().health.withheld,
        )

    for lang in LANGS:
        answer = told(one(0, 44 * MS), one(1, 40 * MS), lang=lang)
        said = " ".join([shown(answer, lang), as_markdown(answer, lang)])
        flat = " ".join(said.split())
        for gone in ("traces of all ranks", "one rank", "所有 rank 的 trace", "一个 rank"):
            assert gone not in flat
    text = " ".join(shown(told(one(0, 44 * MS), one(1, 40 * MS)), "en").split())
    assert "the collectives of the ranks could not be matched" in text
    assert "undecided: the ranks could not be joined" in text
    assert "Look which rank spends the least time in the collective" in text
    assert "least on rank 1 (10.0 ms a step), most on rank 0 (11.0 ms a step)" in text
    assert "one rank cannot tell" in " ".join(shown(late_peer(), "en").split())


def test_an_unknown_bandwidth_gives_no_overlap_advice_and_says_what_is_missing() -> None:
    answer = told(rank(row(communication=40 * MS)))
    assert "bucket" not in encode(answer).decode()
    assert "bus_bandwidth_link_share" in answer.undecided[0].missing
    assert any(line.startswith("bus_bandwidth_link_share") for line in answer.cards[0].unknown)


def test_idle_time_behind_issued_work_is_undecided_and_copies_are_its_consequence() -> None:
    answer = unrecorded()
    assert answer.verdict.class_ == "undecided"
    assert rules(answer) == ["unrecorded-work", "exposed-copy"]
    copies = answer.findings[1]
    assert copies.explained_by == "unrecorded-work:rank0:device0"
    assert copies.remedies == ()
    (card,) = answer.cards
    assert card.findings == ("unrecorded-work:rank0:device0", "exposed-copy:rank0:device0")
    assert "pin" not in " ".join(r.text for f in answer.findings for r in f.remedies)
    assert answer.next is not None
    assert answer.next.startswith("nsys profile")


def test_what_cannot_be_told_is_at_most_a_warning_however_much_time_it_takes() -> None:
    finding = unrecorded().findings[0]
    assert finding.rule == "unrecorded-work"
    assert finding.cost is not None
    assert finding.cost.share >= 0.20
    assert finding.severity == "warning"
    assert exit_code(unrecorded(), "critical") == 0
    assert exit_code(unrecorded(), "warning") == 1
    assert exit_code(input_starved(), "critical") == 1


def test_a_small_cause_does_not_explain_a_large_one_away() -> None:
    answer = told(rank(row(copy=30 * MS, queued=15 * MS), numbers={"queued_or_unlaunched_idle_share": 1.0}))
    assert rules(answer) == ["exposed-copy", "unrecorded-work"]
    assert answer.findings[0].explained_by is None
    assert answer.verdict.class_ == "other-stall"


def test_a_busy_device_is_a_real_answer() -> None:
    answer = healthy()
    assert answer.verdict.class_ == "healthy"
    assert "98.0 % of the step" in answer.verdict.text
    assert [(f.rule, f.severity, f.cost) for f in answer.findings] == [("compute-bound", "info", None)]


def test_nothing_at_its_threshold_is_not_health() -> None:
    answer = told(rank(row(python=14 * MS)))
    assert answer.verdict.class_ == "undecided"
    assert "14.0 % (idle, Python code without ops)" in answer.verdict.text
    assert answer.findings == ()


OF_A_TRACE = {
    rule.id for rule in CATALOG if all(c.feature.origin in ("trace", "memory") for c in rule.when)
} - {"out-of-memory"}
"""Rules that a trace decides; what needs counters or logs is no open question without any."""


def test_a_device_that_was_not_seen_gets_no_verdict() -> None:
    answer = told(rank(row(device=report.Device(kind="cpu"), input=40 * MS), accelerator="cuda"))
    assert answer.verdict.class_ == "undecided"
    assert "no device activity was recorded" in answer.verdict.text
    assert answer.findings == ()
    # Only a run that failed has a reason to take a memory snapshot.
    assert {each.rule for each in answer.undecided} == OF_A_TRACE


def test_a_run_without_accelerator_may_wait_for_data_but_is_never_told_of_a_device_that_computes() -> None:
    cpu = report.Device(kind="cpu")
    waiting = told(rank(row(device=cpu, input=40 * MS), accelerator="cpu"))
    assert waiting.verdict.class_ == "waiting-for-data"
    assert waiting.verdict.text.endswith("no accelerator work was recorded.")
    computing = told(rank(row(device=cpu), accelerator="cpu"))
    assert computing.verdict.class_ == "undecided"
    assert computing.findings == ()


def test_a_withheld_row_gives_no_idle_cause_and_no_health() -> None:
    issue = report.HealthIssue(
        code="missing_launch",
        count=9,
        effect="withheld",
        detail="most launches are missing",
        affects=("idle",),
    )
    answer = told(rank(row(unknown=30 * MS, status="withheld"), issues=(issue,)))
    assert answer.verdict.class_ == "undecided"
    assert "why is withheld" in answer.verdict.text
    assert answer.health.verdict == "degraded"
    assert rules(answer) == []
    busy = told(rank(row(unknown=1 * MS, status="withheld"), issues=(issue,)))
    assert busy.verdict.class_ == "undecided"


def test_communication_is_still_known_where_idle_causes_are_withheld() -> None:
    answer = told(rank(row(communication=40 * MS, unknown=8 * MS, status="withheld")))
    assert answer.verdict.class_ == "waiting-for-communication"
    assert answer.findings[0].confidence == "medium"


def test_degraded_idle_causes_lower_the_confidence_of_what_rests_on_them_only() -> None:
    answer = told(rank(row(input=20 * MS, communication=20 * MS, status="degraded")))
    assert {f.rule: f.confidence for f in answer.findings} == {
        "input-starvation": "low",
        "exposed-communication": "medium",
    }
    assert answer.health.verdict == "degraded"


@pytest.mark.parametrize("ranks", [(), (rank(row(total=0)),)])
def test_without_timed_work_the_data_are_unusable(ranks: tuple[object, ...]) -> None:
    answer = told(*ranks)  # type: ignore[arg-type]
    assert answer.health.verdict == "unusable"
    assert answer.verdict.class_ == "undecided"
    assert answer.findings == ()
    assert answer.next == "stepscope doctor"


def test_one_card_holds_one_cause_on_all_its_ranks() -> None:
    answer = told(
        rank(row(rank=0, input=20 * MS), world_size=2), rank(row(rank=1, input=30 * MS), world_size=2)
    )
    (card,) = answer.cards
    assert card.title == "The device waits for its next batch (ranks 0, 1)"
    assert card.findings == ("input-starvation:rank1:device0", "input-starvation:rank0:device0")
    assert "rank 1" in answer.verdict.text


def test_several_devices_of_one_rank_keep_their_ids_apart() -> None:
    both = rank(row(input=20 * MS), row(input=20 * MS, device=report.Device(index=1)))
    assert [f.id for f in told(both).findings] == [
        "input-starvation:rank0:device0",
        "input-starvation:rank0:device1",
    ]
    twice = [f.id for f in told(rank(row(input=20 * MS)), rank(row(input=20 * MS))).findings]
    assert len(set(twice)) == 2


def test_findings_are_ordered_by_the_time_that_could_be_won() -> None:
    answer = told(rank(row(input=12 * MS, launch=30 * MS, host_sync=6 * MS)))
    assert rules(answer) == ["launch-bound", "input-starvation", "hidden-sync"]
    assert [f.severity for f in answer.findings] == ["critical", "warning", "warning"]


def test_the_five_hottest_operators_are_of_the_rank_in_question() -> None:
    top = input_starved().top_operators
    assert [o.name for o in top] == [o.name for o in OPERATORS[:5]]
    assert input_starved().cards[0].top_operators == top


def test_thresholds_of_the_site_are_told_on_the_card() -> None:
    own = CATALOG.with_thresholds({"input-starvation": {"idle_input_share": 0.02}})
    answer = told(rank(row(input=3 * MS)), catalog=own)
    assert answer.cards[0].notes == ("Threshold set by this site: idle_input_share >= 2.0 %",)
    # 3 % of the step is a finding then, but no answer to why the step is slow.
    assert answer.findings[0].severity == "info"
    assert answer.verdict.class_ == "healthy"


def test_without_steps_the_confidence_is_low_and_the_card_says_why() -> None:
    answer = told(rank(row(allocator=30 * MS, communication=30 * MS, scope="trace"), steps=()))
    assert {f.rule: f.confidence for f in answer.findings} == {
        "allocator-thrash": "low",
        "exposed-communication": "medium",
    }
    notes = {card.id: card.notes for card in answer.cards}
    assert "warm-up cannot be told from steady state" in notes["allocator-thrash"][0]
    assert notes["exposed-communication"] == ()
    assert "of the trace" in answer.verdict.text


def test_a_part_without_a_rule_is_told_with_who_holds_it() -> None:
    held = Culprit("train.py(12): decode", 14 * MS, 3, 1, 2)
    answer = told(rank(row(python=14 * MS), culprits={"python": (held,)}))
    assert "mostly in train.py(12): decode" in answer.verdict.text


def test_a_broken_rule_of_another_package_is_a_note() -> None:
    answer = told(rank(row()), catalog=Catalog(CATALOG.rules, (Broken("theirs", "ImportError: no"),)))
    assert [(i.code, i.detail) for i in answer.health.issues] == [("rule_broken", "theirs: ImportError: no")]
    assert answer.health.verdict == "ok"


@pytest.mark.parametrize(
    "name", ["my runs/rank 0.json.gz", "it's/x.json", "-x/y.json", "$(rm)/a.json", "{x}/a.json"]
)
def test_the_next_command_quotes_the_real_name(name: str) -> None:
    answer = told(rank(row(communication=40 * MS), world_size=8), inputs=[trace(name)])
    assert answer.next is not None
    words = shlex.split(answer.next, comments=True)
    folder = name.rpartition("/")[0]
    assert words == ["stepscope", "diagnose", f"./{folder}" if folder.startswith("-") else folder]


def test_chinese_reports_have_chinese_sentences() -> None:
    answer = input_starved("zh")
    assert (
        answer.verdict.text
        == "等待数据，占每步的 33.0 %（每步 25.0 ms 中的 8.25 ms，rank 0）：设备在等待下一个批次。"
    )
    sentences = [
        answer.cards[0].title,
        answer.cards[0].explanation or "",
        *answer.cards[0].checks,
        *answer.cards[0].unknown,
        *(r.text for r in answer.findings[0].remedies),
        *(r.verify or "" for r in answer.findings[0].remedies),
        *(u.would_settle or "" for u in answer.undecided),
    ]
    assert all(any("\u4e00" <= c <= "\u9fff" for c in sentence) for sentence in sentences)


def test_the_same_inputs_give_the_same_bytes() -> None:
    assert encode(input_starved()) == encode(input_starved())


def test_what_stays_open_says_why_and_what_would_settle_it() -> None:
    def lines(answer: report.Report) -> list[str]:
        return undecided_lines(answer.undecided, "en")

    assert lines(late_peer()) == [
        "exposed-communication, expert-imbalance, sequence-imbalance, slow-group, slow-rank, slow-transfer, "
        "stage-imbalance, waiting-for-peers: needs the traces of all ranks over the same steps",
        "periodic-stall: 4 steps are too few; needs 30 recorded steps (schedule(active=30)) to judge",
        "memory-creep, memory-fragmentation: needs 10 recorded steps with profile_memory=True",
    ]
    unmarked = told(rank(row(scope="trace", num_steps=0)))
    assert lines(unmarked)[-2].startswith("periodic-stall: no steps are marked; needs 30 recorded steps")
    unseen = told(rank(row(device=report.Device(kind="cpu")), accelerator="cuda"))
    (line,) = lines(unseen)
    assert all(rule in line for rule in OF_A_TRACE)
    assert line.endswith(
        "no device work in this trace; needs the accelerator's activity beside the host's "
        "(its ProfilerActivity)"
    )
    assert unseen.next == "stepscope doctor"


def test_what_would_give_withheld_causes_would_settle_the_rules_that_need_them() -> None:
    answer = told(
        rank(
            row(unknown=40 * MS, status="withheld"),
            withheld=(
                report.Withheld(
                    what="idle causes", why="most launches are missing", would_settle="host calls"
                ),
            ),
        )
    )
    assert "launch-bound" in undecided_lines(answer.undecided, "en")[0]
    assert undecided_lines(answer.undecided, "en")[0].endswith("withheld; needs host calls")


def test_the_question_of_the_largest_finding_comes_first() -> None:
    both = told(
        rank(
            row(communication=20 * MS, queued=50 * MS),
            numbers={"queued_or_unlaunched_idle_share": 0.98},
        )
    )
    assert [f.rule for f in both.findings] == ["unrecorded-work", "exposed-communication"]
    assert [u.rule for u in both.undecided][:2] == ["unrecorded-work", "exposed-communication"]


def test_more_steps_are_no_next_command_where_nothing_was_found() -> None:
    answer = told(rank(row(python=12 * MS)))
    assert [u.rule for u in answer.undecided] == ["periodic-stall", "memory-creep", "memory-fragmentation"]
    assert answer.next == "stepscope rules"


def test_a_loader_that_could_not_be_seen_is_not_ruled_out() -> None:
    calls_only = report.HealthIssue(code="no_host_rows", count=1, effect="none", detail="")
    answer = told(rank(row(launch=20 * MS, unknown=10 * MS), issues=(calls_only,)))
    assert [f.rule for f in answer.findings] == ["launch-bound"]
    out = {each.rule for each in answer.findings[0].ruled_out}
    assert not {"input-starvation", "host-preprocessing"} & out
    assert any(
        line.startswith(
            "checkpoint-stall, compile-in-window, eval-stall, garbage-collection, host-preprocessing, "
            "input-starvation, logging-stall, unfused-optimizer: the host's own work was not recorded; needs "
            "both"
        )
        for line in undecided_lines(answer.undecided, "en")
    )


def test_of_several_files_without_rank_the_answer_and_its_card_speak_of_one_row_by_its_file() -> None:
    answer = several_files()
    assert "82.8 % of the step (32.5 ms of 39.2 ms a step, file host_7.22.pt.trace.json.gz)" in (
        answer.verdict.text
    )
    assert answer.verdict.row == 1
    assert answer.findings[0].subject.row == 1
    assert [each.input for each in answer.accounting] == [0, 1, 2]
    assert {step.input for step in answer.steps} == {0, 1, 2}
    (card,) = answer.cards
    assert card.title.endswith("(3 files)")
    assert [operator.name for operator in card.top_operators] == ["op 157"]
    assert answer.top_operators == card.top_operators


def test_files_of_one_name_are_told_by_their_folders_and_one_file_alone_needs_no_name() -> None:
    both = [rank(row(rank=None, input=(20 + n) * MS)) for n in range(2)]
    answer = told(*both, inputs=[trace("a/t.json", None), trace("b/t.json", None)])
    assert "file b/t.json" in answer.verdict.text
    alone = told(both[0], inputs=[trace("a/t.json", None)])
    assert "file" not in alone.verdict.text
    assert alone.accounting[0].input is None


def test_a_file_of_two_processes_is_found_by_the_time_of_its_steps() -> None:
    def at(name: str, start_ms: int, end_ms: int) -> report.Input:
        return report.Input(kind="trace", name=name, start_ns=start_ms * MS, end_ns=end_ms * MS)

    early, late = range(1, 3), range(10, 12)
    ranks = [rank(row(rank=None, input=20 * MS), steps=steps) for steps in (early, early, late)]
    answer = told(*ranks, inputs=[at("a", 0, 100), at("b", 200, 400)])
    assert [each.input for each in answer.accounting] == [0, 0, 1]
    unclear = told(*ranks, inputs=[at("a", 0, 400), at("b", 0, 400)])
    assert [each.input for each in unclear.accounting] == [None, None, None]


def test_ranks_in_a_row_are_told_as_a_range() -> None:
    many = [rank(row(rank=n, input=20 * MS), world_size=9) for n in (0, 1, 2, 3, 7, 8)]
    assert told(*many).cards[0].title.endswith("(ranks 0–3, 7, 8)")


def on_host(lang: Lang = "en", **idle: int) -> report.Report:
    """A run without an accelerator."""
    return told(rank(row(device=report.Device(kind="cpu"), **idle), accelerator="cpu"), lang=lang)


@pytest.mark.parametrize("cause", ["input", "preprocess"])
def test_a_run_without_accelerator_is_told_nothing_of_devices(cause: str) -> None:
    answer = on_host(**{cause: 40 * MS})
    (finding,) = answer.findings
    assert finding.remedies
    said = " ".join([shown(answer), as_markdown(answer)])
    for gone in ("device waits", "pin_memory", "pin memory", "CUDA", "sm_active", "pcie", "on the device"):
        assert gone not in said
    *first, line = undecided_lines(answer.undecided, "en")
    assert line == "GPU causes: no device work was recorded"
    # Here nothing names what the host did before it computed.
    assert [each.partition(":")[0] for each in first] == (
        ["host-preprocessing"] if cause == "preprocess" else []
    )
    if cause == "input":
        assert finding.title == "The training loop waits for its next batch"
    else:
        assert finding.title == "The training process prepares the batch before it computes"
    assert "设备在等待" not in shown(on_host("zh", **{cause: 40 * MS}), "zh")
    assert "doctor" not in str(answer.next)


def test_a_run_of_ops_without_accelerator_names_their_share_and_is_not_sent_to_the_doctor() -> None:
    answer = on_host(python=6 * MS)
    assert "ops take 94.0 % of the host's time" in answer.verdict.text
    assert "the largest other part is 6.0 % (Python code without ops)" in answer.verdict.text
    assert answer.next == "stepscope rules"


def test_a_site_moves_the_proof_of_a_run_without_accelerator_too() -> None:
    own = CATALOG.with_thresholds({"input-starvation": {"idle_input_share": 0.2}})
    cpu = rank(row(device=report.Device(kind="cpu"), input=40 * MS), accelerator="cpu")
    assert "idle_input_share <= 10.0 %" in str(told(cpu, catalog=own).findings[0].remedies[0].verify)


@pytest.mark.parametrize(("stall", "gain"), [(20, (0.15, 0.20)), (57, (0.52, 0.57)), (90, (0.85, 0.90))])
def test_work_that_moves_into_any_number_of_workers_may_gain_all_of_it(
    stall: int, gain: tuple[float, float]
) -> None:
    (finding,) = told(rank(row(preprocess=stall * MS))).findings
    assert finding.remedies[0].gain_share == pytest.approx(gain)


def test_a_finding_of_one_step_says_so() -> None:
    answer = told(rank(row(input=40 * MS, num_steps=1)))
    assert answer.cards[0].notes == ("From one step: other steps may differ; record several.",)
    assert answer.findings[0].confidence == "medium"
    assert input_starved().cards[0].notes == ()


def test_a_run_that_infers_is_offered_no_training_loop() -> None:
    def offered(*names: str) -> str:
        operators = tuple(report.Operator(rank=0, name=name, count=1, device_ns=5) for name in names)
        return " ".join(shown(told(rank(row(preprocess=30 * MS), operators=operators))).split())

    infers = offered("aten::mm")
    assert "for batch in loader" not in infers
    assert "In serving, let another process or thread prepare the next request" in infers
    trains = offered("aten::mm", "MmBackward0")
    assert "for batch in loader" in trains
    assert "In serving" not in trains


def test_what_is_withheld_is_printed_once() -> None:
    why = "9 device activities have no recorded launch (all of them copies)"
    issue = report.HealthIssue(
        code="missing_launch", count=9, effect="withheld", detail=why, affects=("idle",)
    )
    withheld = report.Withheld(what="idle causes", why=why)
    ranks = [
        rank(row(rank=n, unknown=30 * MS, status="withheld"), issues=(issue,), withheld=(withheld,))
        for n in range(3)
    ]
    for lang, said in (("en", why), ("zh", "9 个设备活动没有下发记录（都是拷贝）")):
        answer = told(*ranks, lang=lang)
        for text in (shown(answer, lang), as_markdown(answer, lang)):
            assert text.count(said) == 1


def in_one_gap() -> report.Report:
    return told(
        rank(row(scope="trace", num_steps=0, allocator=60 * MS), largest_gap_ns={"allocator": 50 * MS})
    )


def test_what_lies_in_one_gap_of_a_trace_without_steps_may_be_start_up() -> None:
    answer = in_one_gap()
    [finding] = answer.findings
    assert (finding.rule, finding.severity, finding.confidence) == ("allocator-thrash", "warning", "low")
    assert all(remedy.gain_share is None for remedy in finding.remedies)
    assert "most of it once, so it may be start-up" in answer.verdict.text
    assert any(note.startswith("Most of it is one single gap") for note in answer.cards[0].notes)


def test_one_gap_in_counted_steps_or_half_of_the_time_in_it_is_no_start_up() -> None:
    steps = told(rank(row(allocator=60 * MS), largest_gap_ns={"allocator": 60 * MS}))
    half = told(
        rank(row(scope="trace", num_steps=0, allocator=60 * MS), largest_gap_ns={"allocator": 30 * MS})
    )
    for answer in (steps, half):
        assert answer.findings[0].severity == "critical"
        assert "start-up" not in answer.verdict.text


def test_work_that_starts_long_after_its_launch_is_not_launch_bound() -> None:
    late = told(rank(row(launch=60 * MS), numbers={"late_start_ns": 45e6}))
    assert [f.rule for f in late.findings] == ["late-start"]
    assert (late.verdict.class_, late.findings[0].severity) == ("undecided", "warning")
    assert late.findings[0].cost is not None
    assert late.findings[0].cost.time_ns == 45 * MS
    assert late.next.startswith("stepscope diagnose ")
    assert "# after recording both sides" in late.next
    soon = told(rank(row(launch=60 * MS), numbers={"late_start_ns": 2e6}))
    assert [f.rule for f in soon.findings] == ["launch-bound"]


def test_without_any_launch_nobody_says_that_the_host_is_not_the_cause() -> None:
    withheld = {"queued_or_unlaunched_idle_share": 1.0, "unlaunched_device_share": 1.0}
    answer = told(rank(row(unknown=60 * MS, status="withheld"), numbers=withheld))
    assert answer.findings == ()
    assert "why is withheld" in answer.verdict.text
    some = {"queued_or_unlaunched_idle_share": 1.0, "unlaunched_device_share": 0.2}
    assert [f.rule for f in told(rank(row(queued=60 * MS), numbers=some)).findings] == ["unrecorded-work"]


@pytest.mark.parametrize(("num_ranks", "each"), [(1, 50), (4, 50), (8, 25), (64, 10)])
def test_many_ranks_have_fewer_rows_each(num_ranks: int, each: int) -> None:
    rows = tuple(report.Operator(name=f"op{n}", count=1, device_ns=100 - n) for n in range(50))
    ranks = [rank(row(rank=number), world_size=num_ranks, operators=rows) for number in range(num_ranks)]
    answer = told(*ranks, inputs=[trace(f"r{number}", number) for number in range(num_ranks)])
    assert len(answer.operators) == num_ranks * each
    assert answer.operators[0].name == "op0"
