"""The report's contract, written by hand from its specification and not from the structs that write it.

`broken(report)` lists every way in which a report in JSON departs from `stepscope.report/1`: names, types,
units, absent against null, and the identities that must hold between numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

# An example of every part. A string with bars is one of those words; 0 is an integer, 0.0 a number; [0, 0] is
# a pair, [x] any number of x. A key that ends in ! must be there; all others are absent where not known.
PHASES = ("forward", "backward", "recompute", "optimizer", "other")
OPERATOR = {
    "name!": "…",
    "count!": 0,
    "device_ns!": 0,
    "rank": 0,
    "class": "…",
    "share": 0.0,
    "tensor_core": True,
    "flops": 0,
    "bytes": 0,
    "achieved_flops_per_second": 0.0,
    "achieved_bytes_per_second": 0.0,
    "peak_share": 0.0,
    "memory_peak_share": 0.0,
    "bound": "compute|memory|unknown",
    "total_ns": 0,
    "host_ns": 0,
    "mean_ns": 0,
    "p99_ns": 0,
    "launch_latency_ns": 0,
    "phases": {f"{phase}_ns!": 0 for phase in PHASES},
    "called_from": "…",
}
DEVICE = {"index": 0, "uuid": "…", "kind": "…", "name": "…"}
CAUSES = (
    "queued input preprocess host_sync copy_wait allocator gc compile checkpoint eval logging launch peer "
    "profiler python unknown"
).split()
COMPUTE = (
    "recompute optimizer layout copy gemm convolution attention normalization softmax elementwise reduction "
    "embedding triton other"
).split()
RULED_OUT = {"rule!": "…", "because!": "…"}
EVIDENCE = {
    "from!": "trace|telemetry|host|job|log|memory",
    "feature!": "…",
    "value!": 0.0,
    "unit!": "…",
    "op": ">=|<=|>|<",
    "threshold": 0.0,
    "reference": "…",
    "as_written": True,
    "overridden": True,
    "where": {"rank": 0, "start_ns": 0, "end_ns": 0, "span": 0, "name": "…"},
}
SIDE = {"holds": True, "evidence!": [EVIDENCE], "missing": ["…"]}
SHAPE: dict[str, Any] = {
    "schema!": "stepscope.report/1|stepscope.report/1",
    "tool!": {"name!": "…", "version!": "…", "native_loader": True},
    "lang": "en|zh",
    "verdict!": {
        "class!": "waiting-for-data|waiting-for-communication|computing-slowly|other-stall|healthy|undecided",
        "text!": "…",
        "row": 0,
    },
    "inputs!": [
        {
            "kind!": "trace|telemetry|log|steps|snapshot",
            "name!": "…",
            "format": "…",
            "bytes": 0,
            "sha256": "…",
            "rank": 0,
            "world_size": 0,
            "events": 0,
            "start_ns": 0,
            "end_ns": 0,
            "redacted": 0,
            "error": "…",
        }
    ],
    "health!": {
        "verdict!": "ok|degraded|unusable",
        "issues!": [
            {
                "code!": "…",
                "count!": 0,
                "effect!": "none|degraded|withheld",
                "detail!": "…",
                "rank": 0,
                "affects": ["…"],
            }
        ],
        "withheld!": [{"what!": "…", "why!": "…", "would_settle": "…"}],
    },
    "clocks": {
        "pivot_ns": 0,
        "reference_rank": 0,
        "ranks!": [
            {
                "rank!": 0,
                "method!": "collectives|given|none",
                "component": 0,
                "offset_ns": 0,
                "offset_error_ns": 0,
                "drift_ppm": 0.0,
                "drift_error_ppm": 0.0,
                "residual_ns": 0,
            }
        ],
        "telemetry!": [
            {
                "source!": "…",
                "status!": "found|ambiguous|declared|unknown",
                "window_ns": 0,
                "lag_ns": 0,
                "lag_range_ns": [0, 0],
            }
        ],
    },
    "window": {
        "start_ns": 0,
        "end_ns": 0,
        "steps": [0, 0],
        "representative": {"status!": "yes|no|unknown", "why!": "…"},
    },
    "steps!": [
        {
            "step!": 0,
            "start_ns!": 0,
            "end_ns!": 0,
            "dur_ns!": 0,
            "use!": "counted|partial|warm_up|no_device_data|marked|captured",
            "rank": 0,
            "why": "…",
            "input": 0,
        }
    ],
    "accounting!": [
        {
            "rank": 0,
            "device!": DEVICE,
            "scope!": "steps|trace",
            "window!": "host|device",
            "num_steps!": 0,
            "total_ns!": 0,
            "compute_ns!": 0,
            "communication_exposed_ns!": 0,
            "copy_exposed_ns!": 0,
            "idle_ns!": 0,
            "idle!": {f"{cause}_ns!": 0 for cause in CAUSES},
            "phases": {f"{phase}_ns!": 0 for phase in PHASES},
            "compute": {f"{kind}_ns!": 0 for kind in COMPUTE},
            "communication": {
                "total_ns!": 0,
                "hidden_ns!": 0,
                "transfer_ns": 0,
                "wait_ns": 0,
                "wait_exposed_ns": 0,
            },
            "host": {"loader_share": 0.0, "sync_share": 0.0, "copy_call_share": 0.0, "launch_share": 0.0},
            "variation": {
                "first_ns": 0,
                "median_ns": 0,
                "p95_ns": 0,
                "slow_steps!": [0],
                "period_steps": 0,
            },
            "input": 0,
            "status!": "ok|degraded|withheld",
            "by_step": [
                {
                    "step!": 0,
                    "total_ns!": 0,
                    "compute_ns!": 0,
                    "communication_exposed_ns!": 0,
                    "copy_exposed_ns!": 0,
                    "idle_ns!": 0,
                    "idle!": {f"{cause}_ns": 0 for cause in CAUSES},
                }
            ],
            "steps_left_out": 0,
        }
    ],
    "timelines!": [
        {
            "row": 0,
            "step": 0,
            "start_ns!": 0,
            "dur_ns!": 0,
            "resolution_ns!": 0,
            "lanes!": [
                {
                    "kind!": "stream|thread|idle",
                    "what!": "…",
                    "stream": 0,
                    "thread": "…",
                    "start_ns!": [0],
                    "dur_ns!": [0],
                    "busy_ns!": [0],
                    "count!": [0],
                    "name": [0],
                    "span": [0],
                }
            ],
            "names!": ["…"],
            "num_left_out": 0,
        }
    ],
    "operators!": [OPERATOR],
    "top_operators!": [OPERATOR],
    "operator_shapes!": [
        {
            "name!": "…",
            "shapes!": "…",
            "count!": 0,
            "device_ns!": 0,
            "rank": 0,
            "types": "…",
            "share": 0.0,
            "mean_ns": 0,
            "p99_ns": 0,
            "tensor_core": True,
            "flops": 0,
            "bytes": 0,
            "peak_share": 0.0,
            "memory_peak_share": 0.0,
            "bound": "compute|memory|unknown",
            "is_aligned": True,
        }
    ],
    "modules!": [
        {
            "path!": "…",
            "device_ns!": 0,
            "total_ns!": 0,
            "rank": 0,
            "share": 0.0,
            "forward_ns": 0,
            "backward_ns": 0,
        }
    ],
    "efficiency!": [
        {
            "device!": DEVICE,
            "total_ns!": 0,
            "rank": 0,
            "flops": 0,
            "recomputed_flops": 0,
            "known_share": 0.0,
            "model_flops": 0,
            "is_given": True,
            "hfu": 0.0,
            "mfu": 0.0,
            "precision": "…",
            "peak_flops_per_second": 0.0,
        }
    ],
    "kernels!": [
        {
            "name!": "…",
            "count!": 0,
            "device_ns!": 0,
            "rank": 0,
            "class": "…",
            "share": 0.0,
            "mean_ns": 0,
            "p99_ns": 0,
            "launch_latency_ns": 0,
            "after_idle_count": 0,
            "after_idle_ratio": 0.0,
        }
    ],
    "collectives!": [
        {
            "kind!": "…",
            "count!": 0,
            "group": "…",
            "bytes": 0,
            "transfer_ns": 0,
            "wait_ns": 0,
            "wait_exposed_ns": 0,
            "last_rank": 0,
            "skew_ns": 0,
            "num_ranks": 0,
            "num_unmatched": 0,
            "algorithm_bytes_per_second": 0.0,
            "bus_bytes_per_second": 0.0,
            "link_share": 0.0,
        }
    ],
    "stragglers!": [
        {
            "rank!": 0,
            "lateness_ns": 0,
            "lateness_share": 0.0,
            "cost_ns": 0,
            "share": 0.0,
            "persistence!": "persistent|moving|stage|unknown",
            "reason!": "|".join([*CAUSES, "slower_kernels", "more_work"]),
            "num_steps": 0,
            "num_late": 0,
            "late_steps!": [0],
            "culprit": "…",
            "is_confirmed": True,
            "stage": 0,
            "data_parallel_rank": 0,
        }
    ],
    "lateness": {
        "status!": "ok|degraded|withheld",
        "noise_ns": 0,
        "noise_share": 0.0,
        "why": "…",
        "num_collectives": 0,
        "steps!": [0],
        "rows!": [{"rank!": 0, "lateness_ns!": [0], "wait_ns!": [0]}],
    },
    "rank_map": {
        "start_ns!": 0,
        "cell_ns!": 0,
        "parts!": ["…"],
        "rows!": [{"rank!": 0, "cells!": [0]}],
    },
    "imbalance": {
        "class!": "bad_worker|sequence_length|stage|expert|none|unknown",
        "why!": "…",
        "slowdown": 0.0,
        "ranks!": [0],
        "stage": 0,
        "forward_backward_correlation": 0.0,
        "micro_batch_variation": 0.0,
        "bubble_share": 0.0,
    },
    "memory_estimates!": [
        {
            "num_parameters!": 0,
            "weights_bytes!": 0,
            "gradients_bytes!": 0,
            "optimizer_bytes!": 0,
            "states_bytes!": 0,
            "stage!": 0,
            "num_shards!": 0,
            "num_slices!": 0,
            "per_device_bytes!": 0,
            "device": DEVICE,
            "rank": 0,
            "used_bytes": 0,
            "present_bytes": 0,
            "unexplained_bytes": 0,
            "least_division": 0,
        }
    ],
    "replay": {
        "status!": "ok|degraded|withheld",
        "error_share!": 0.0,
        "num_steps!": 0,
        "what_if!": [{"remove!": "…", "step_ns!": 0, "predicted_ns!": 0, "gain_share!": 0.0, "ranks!": [0]}],
        "critical_path!": [{"part!": "…", "time_ns!": 0, "share!": 0.0, "rank": 0}],
        "why": "…",
    },
    "signals!": [
        {
            "device!": DEVICE,
            "signal!": "…",
            "unit!": "…",
            "mean": 0.0,
            "min": 0.0,
            "max": 0.0,
            "samples": 0,
            "coverage": 0.0,
            "by_step": [{"step!": 0, "value!": 0.0, "samples!": 0}],
            "rank": 0,
            "host": "…",
            "name": "…",
            "source": "…",
            "points": [[0, 0.0]],
        }
    ],
    "events!": [
        {
            "at_ns!": 0,
            "kind!": "xid|oom|error|checkpoint|start|exit|capture|change",
            "severity!": "info|warning|critical",
            "text!": "…",
            "code": 0,
            "device": DEVICE,
            "rank": 0,
        }
    ],
    "progress!": [
        {
            "source!": "…",
            "first_step!": 0,
            "last_step!": 0,
            "total_steps": 0,
            "start_ns": 0,
            "end_ns": 0,
            "step_ns": 0,
            "step_growth_ratio": 0.0,
            "tokens_per_second": 0.0,
            "samples_per_second": 0.0,
            "loss_first": 0.0,
            "loss_last": 0.0,
            "rank": 0,
        }
    ],
    "own_cost!": [
        {
            "rank": 0,
            "num_groups": 0,
            "step_ns": 0,
            "marks_ns": 0,
            "marks_low_ns": 0,
            "marks_high_ns": 0,
            "num_captures": 0,
            "stall_ns": 0,
        }
    ],
    "patterns!": [
        {
            "pattern!": "A|B|C|D",
            "title!": "…",
            "device": DEVICE,
            "rank": 0,
            "as_written!": SIDE,
            "effective!": SIDE,
            "advice": "…",
        }
    ],
    "walks!": [
        {
            "walk!": "low-utilisation|busy-low-power|six-causes",
            "title!": "…",
            "device": DEVICE,
            "rank": 0,
            "steps!": [{"text!": "…", "status!": "ok|suspect|unknown", "said!": "…"}],
        }
    ],
    "hints!": [{"hint!": "…", "text!": "…", "device": DEVICE, "rank": 0, "evidence!": [EVIDENCE]}],
    "memory!": [
        {
            "source!": "trace|snapshot",
            "device!": DEVICE,
            "basis!": "totals|changes",
            "num_events!": 0,
            "rank": 0,
            "input": 0,
            "unverified": True,
            "timeline!": [{"at_ns!": 0, "allocated_bytes!": 0, "reserved_bytes": 0}],
            "peak": {
                "at_ns!": 0,
                "allocated_bytes!": 0,
                "reserved_bytes": 0,
                "step": 0,
                "op": "…",
                "within": "…",
            },
            "reserve": {
                "at_ns!": 0,
                "reserved_bytes!": 0,
                "allocated_bytes!": 0,
                "unused_share!": 0.0,
                "grew!": True,
            },
            "steps!": [{"step!": 0, "peak_bytes!": 0}],
            "growth": {
                "bytes_per_step!": 0.0,
                "error_bytes_per_step!": 0.0,
                "certainty!": 0.0,
                "steady_share!": 0.0,
                "num_steps!": 0,
            },
            "categories!": [
                {
                    "kind!": "before|activations|gradients|optimizer_state|other",
                    "bytes!": 0,
                    "share!": 0.0,
                }
            ],
            "driver": {"num_allocations!": 0, "num_frees!": 0, "num_retries!": 0, "steps!": [0]},
            "held": {
                "reserved_bytes!": 0,
                "allocated_bytes!": 0,
                "requested_bytes!": 0,
                "pending_bytes!": 0,
                "free_bytes!": 0,
                "largest_free_bytes!": 0,
                "free_in_pieces_share": 0.0,
                "inactive_split_bytes!": 0,
                "num_segments!": 0,
                "num_blocks!": 0,
                "num_free_blocks!": 0,
                "expandable_segments": True,
            },
            "sites!": [{"bytes!": 0, "count!": 0, "share!": 0.0, "name!": "…", "stack!": ["…"]}],
            "out_of_memory!": [
                {
                    "requested_bytes!": 0,
                    "reason!": "fragmented|too_big|outside|unknown",
                    "is_estimate!": True,
                    "at_ns": 0,
                    "device_free_bytes": 0,
                    "reserved_bytes": 0,
                    "allocated_bytes": 0,
                    "unallocated_bytes": 0,
                    "num_free_blocks": 0,
                    "largest_free_bytes": 0,
                    "name": "…",
                    "stack!": ["…"],
                }
            ],
        }
    ],
    "findings!": [
        {
            "id!": "…",
            "rule!": "…",
            "cause!": "…",
            "layer!": "hardware|framework|model|business|scheduling|host",
            "severity!": "info|warning|critical",
            "confidence!": "low|medium|high",
            "title!": "…",
            "onset_ns": 0,
            "onset_step": 0,
            "onset_holds": True,
            "subject!": {"job": "…", "ranks!": [0], "devices!": ["…"], "steps": [0, 0], "row": 0},
            "cost": {
                "time_ns!": 0,
                "share!": 0.0,
                "of!": "…",
                "overlaps_with": ["…"],
                "num_steps": 0,
                "steps_share": 0.0,
                "is_bound": True,
            },
            "culprits": [
                {"name!": "…", "time_ns!": 0, "share!": 0.0, "start_ns!": 0, "end_ns!": 0, "span": 0}
            ],
            "evidence!": [EVIDENCE],
            "unknown!": ["…"],
            "ruled_out!": [RULED_OUT],
            "remedies!": [
                {
                    "id": "…",
                    "text!": "…",
                    "history": {
                        "num_tried!": 0,
                        "num_worked!": 0,
                        "success_share!": 0.0,
                        "realised_share": 0.0,
                        "gain_ratio!": 0.0,
                        "gain_share_before": [0.0, 0.0],
                    },
                    "patch": {"kind!": "env|code|config|command", "before": "…", "after!": "…"},
                    "gain_share": [0.0, 0.0],
                    "verify": "…",
                }
            ],
            "explained_by": "…",
        }
    ],
    "cards!": [
        {
            "id!": "…",
            "title!": "…",
            "explanation": "…",
            "findings!": ["…"],
            "onset_ns": 0,
            "onset_step": 0,
            "onset_holds": True,
            "checks!": ["…"],
            "top_operators!": [OPERATOR],
            "ruled_out!": [RULED_OUT],
            "unknown!": ["…"],
            "notes": ["…"],
        }
    ],
    "ruled_out!": [{"rule!": "…", "because!": "…"}],
    "undecided!": [{"rule!": "…", "why": "…", "missing!": ["…"], "would_settle": "…", "command": "…"}],
    "next": "…",
}
SECONDS_2100 = 4_102_444_800
_MAY_EXCEED_ONE = ("link_share",)
_MAY_BE_NEGATIVE = (
    "offset_ns",
    "lag_ns",
    "lag_range_ns",
    "lateness_ns",
    "marks_ns",
    "marks_low_ns",
    "marks_high_ns",
)
_MAY_BE_NULL = ("lateness_ns", "wait_ns")
"""Cells of these lists are null where a rank has no such step."""


def broken(written: Any) -> list[str]:
    """Every departure from the contract, with its place; empty where the report holds it."""
    return [*_shape(written, SHAPE, "report"), *(_relations(written) if isinstance(written, dict) else [])]


def _shape(value: Any, example: Any, at: str) -> Iterator[str]:
    if isinstance(example, dict):
        if not isinstance(value, dict):
            yield f"{at}: an object is wanted"
            return
        known = {key.removesuffix("!"): (key, each) for key, each in example.items()}
        yield from (f"{at}.{key}: is in no specification" for key in value if key not in known)
        for name, (key, each) in known.items():
            if name in value:
                yield from _shape(value[name], each, f"{at}.{name}")
            elif key.endswith("!"):
                yield f"{at}.{name}: is absent"
    elif isinstance(example, list):
        if not isinstance(value, list) or (len(example) == 2 and len(value) != 2):
            yield f"{at}: {'a pair' if len(example) == 2 else 'a list'} is wanted"
            return
        is_holed = at.rpartition(".")[2] in _MAY_BE_NULL
        for place, each in enumerate(value):
            if each is not None or not is_holed:
                yield from _shape(each, example[place % len(example)], f"{at}[{place}]")
    else:
        yield from _leaf(value, example, at)


def _leaf(value: Any, example: Any, at: str) -> Iterator[str]:
    if isinstance(example, bool):
        if not isinstance(value, bool):
            yield f"{at}: true or false is wanted, not {value!r}"
    elif isinstance(example, str):
        if not isinstance(value, str):
            yield f"{at}: a string is wanted, not {value!r}"
        elif "|" in example and value not in example.split("|"):
            yield f"{at}: {value!r} is none of {example}"
    elif isinstance(value, bool) or not isinstance(value, int if isinstance(example, int) else int | float):
        yield f"{at}: {'an integer' if isinstance(example, int) else 'a number'} is wanted, not {value!r}"
    elif not math.isfinite(value):
        yield f"{at}: {value!r} is not finite"
    else:
        yield from _unit(value, at)


def _unit(value: float, at: str) -> Iterator[str]:
    """What a name promises of its number."""
    name = at.rpartition(".")[2].partition("[")[0]
    if name.endswith(("_share", "share")) or name in ("coverage", "gain_share", "hfu", "mfu"):
        if value < 0 or (value > 1 and name not in _MAY_EXCEED_ONE):
            yield f"{at}: {value} is no share from 0 to 1"
    elif name.endswith("_ns") or name in ("count", "events", "bytes", "redacted", "num_steps", "span"):
        if value < 0 and name not in _MAY_BE_NEGATIVE:
            yield f"{at}: {value} is negative"
        if value > SECONDS_2100 * 10**9:
            yield f"{at}: {value} is no time in nanoseconds"


def _relations(r: dict[str, Any]) -> Iterator[str]:
    for place, row in enumerate(r.get("accounting", [])):
        yield from _row(row, f"report.accounting[{place}]")
    for place, timeline in enumerate(r.get("timelines", [])):
        yield from _timeline(timeline, r, f"report.timelines[{place}]")
    for place, step in enumerate(r.get("steps", [])):
        if step["end_ns"] - step["start_ns"] != step["dur_ns"]:
            yield f"report.steps[{place}]: dur_ns is not end_ns - start_ns"
    ids = [finding["id"] for finding in r["findings"]]
    if len(set(ids)) != len(ids):
        yield "report.findings: an id is not unique"
    for finding in r["findings"]:
        yield from _finding(finding, ids)
    for place, each in enumerate(r["operators"]):
        if "phases" in each and sum(each["phases"].values()) != each["device_ns"]:
            yield f"report.operators[{place}]: the phases do not sum to device_ns"
        if each.get("total_ns", each["device_ns"]) < each["device_ns"]:
            yield f"report.operators[{place}]: less with its inner ops than without"
    yield from _tables(r)
    yield from _job(r)
    yield from _telemetry(r)
    on_cards = [each for card in r["cards"] for each in card["findings"]]
    if sorted(on_cards) != sorted(ids):
        yield "report.cards: not every finding lies on one card"
    # What costs no time stands by its severity; of a bound half counts.
    own = [f["cost"] for f in r["findings"] if "explained_by" not in f and "cost" in f]
    costs = [cost["share"] * (0.5 if cost.get("is_bound") else 1.0) for cost in own]
    if costs != sorted(costs, reverse=True):
        yield "report.findings: not ordered by what could be won"
    if len(r["top_operators"]) > 5:
        yield "report.top_operators: more than five"
    if r["health"]["verdict"] == "ok" and any(i["effect"] != "none" for i in r["health"]["issues"]):
        yield "report.health: ok in spite of an issue with an effect"


def _job(r: dict[str, Any]) -> Iterator[str]:
    """What the parts about many ranks say of each other."""
    late = r.get("lateness", {"status": "withheld", "steps": [], "rows": []})
    for row in late["rows"]:
        if not len(row["lateness_ns"]) == len(row["wait_ns"]) == len(late["steps"]):
            yield f"report.lateness: rank {row['rank']} has not a cell a step"
    if late["status"] == "withheld" and r["stragglers"]:
        yield "report.stragglers: somebody is named though nobody can be"
    for each in r["stragglers"]:
        at = f"report.stragglers[rank {each['rank']}]"
        if each.get("num_late", 0) > each.get("num_steps", 0):
            yield f"{at}: late in more steps than there are"
        if len(each["late_steps"]) > each.get("num_late", 0):
            yield f"{at}: more late steps than it says"
    drawn = r.get("rank_map", {"parts": [], "rows": []})
    for row in drawn["rows"]:
        if any(not -1 <= cell < len(drawn["parts"]) for cell in row["cells"]):
            yield f"report.rank_map: rank {row['rank']} has a part that is not there"
    for place, each in enumerate(r["collectives"]):
        if each.get("wait_exposed_ns", 0) > each.get("wait_ns", 0):
            yield f"report.collectives[{place}]: more of the wait is exposed than there is"
    replay = r.get("replay", {"status": "withheld", "what_if": [], "critical_path": []})
    if replay["status"] == "withheld" and (replay["what_if"] or replay["critical_path"]):
        yield "report.replay: a withheld replay predicts"
    if sum(each["share"] for each in replay["critical_path"]) > 1 + 1e-6:
        yield "report.replay: the critical path is longer than itself"


def _telemetry(r: dict[str, Any]) -> Iterator[str]:
    """What the parts about telemetry and logs say of each other."""
    for place, each in enumerate(r["signals"]):
        at = f"report.signals[{place}] ({each['signal']})"
        known = [each[name] for name in ("min", "mean", "max") if name in each]
        # A mean is summed, and may differ from equal samples in its last digit.
        if any(a > b + 1e-9 * abs(b) for a, b in itertools.pairwise(known)):
            yield f"{at}: least, mean and largest are not in order"
        times = [time for time, _ in each.get("points", ())]
        if times != sorted(set(times)):
            yield f"{at}: points are not in order of time"
        if len(times) > 240:
            yield f"{at}: more than 240 points"
        if each.get("samples") == 0:
            yield f"{at}: is there without a sample"
    for each in r.get("clocks", {}).get("telemetry", ()):
        at = f"report.clocks.telemetry[{each['source']}]"
        if (each["status"] in ("found", "declared")) != ("lag_ns" in each):
            yield f"{at}: a lag is there where, and only where, it was found or declared"
        least, most = each.get("lag_range_ns", (0, 0))
        if not least <= each.get("lag_ns", least) <= most and "lag_range_ns" in each:
            yield f"{at}: the lag is not in its range"
    for each in r["patterns"]:
        if "advice" in each and each["effective"].get("holds") is not True:
            yield f"report.patterns[{each['pattern']}]: advice without the side that decides"
        for side in ("as_written", "effective"):
            if each[side].get("holds") is True and each[side].get("missing"):
                yield f"report.patterns[{each['pattern']}].{side}: holds though a number is missing"
    for each in r["progress"]:
        if each["first_step"] > each["last_step"]:
            yield f"report.progress[{each['source']}]: ends before it begins"


def _tables(r: dict[str, Any]) -> Iterator[str]:
    """What tables of one rank say of each other."""
    whole = {(each.get("rank"), each["path"]): each["total_ns"] for each in r["modules"]}
    for place, each in enumerate(r["modules"]):
        if each["total_ns"] < each["device_ns"]:
            yield f"report.modules[{place}]: less with its inner modules than without"
        outer = (each.get("rank"), each["path"].rpartition("/")[0])
        if whole.get(outer, each["total_ns"]) < each["total_ns"]:
            yield f"report.modules[{place}]: more than the module around it"
        if each.get("forward_ns", 0) + each.get("backward_ns", 0) > each["total_ns"]:
            yield f"report.modules[{place}]: forward and backward are more than all"
    by_op: dict[tuple[Any, str], int] = {}
    for each in r["operators"]:
        key = each.get("rank"), each["name"]
        by_op[key] = by_op.get(key, 0) + each["device_ns"]
    for each in r["operator_shapes"]:
        key = each.get("rank"), each["name"]
        if key in by_op:
            by_op[key] -= each["device_ns"]
    yield from (f"report.operator_shapes: more than {name}" for (_, name), left in by_op.items() if left < 0)
    for place, each in enumerate(r["efficiency"]):
        if not each.get("is_given") and each.get("mfu", 0.0) > each.get("hfu", 0.0):
            yield f"report.efficiency[{place}]: MFU beyond HFU"
        if each.get("recomputed_flops", 0) > each.get("flops", 0):
            yield f"report.efficiency[{place}]: more recomputed than done"


def _row(row: dict[str, Any], at: str) -> Iterator[str]:
    parts = ("compute_ns", "communication_exposed_ns", "copy_exposed_ns", "idle_ns")
    if sum(row[part] for part in parts) != row["total_ns"]:
        yield f"{at}: the parts do not sum to total_ns"
    if sum(row["idle"].values()) != row["idle_ns"]:
        yield f"{at}: the causes do not sum to idle_ns"
    if "compute" in row and sum(row["compute"].values()) != row["compute_ns"]:
        yield f"{at}: the kinds do not sum to compute_ns"
    if row["scope"] == "trace" and row["num_steps"] != 0:
        yield f"{at}: a row of the whole trace counts steps"
    yield from _steps(row, at)
    if not row["device"]:
        yield f"{at}: a device without a name"


def _steps(row: dict[str, Any], at: str) -> Iterator[str]:
    steps = row.get("by_step", [])
    if steps and len(steps) + row.get("steps_left_out", 0) != row["num_steps"]:
        yield f"{at}: by_step and steps_left_out are not all steps"
    for each in steps:
        parts = ("compute_ns", "communication_exposed_ns", "copy_exposed_ns", "idle_ns")
        if sum(each[part] for part in parts) != each["total_ns"]:
            yield f"{at}.by_step: the parts do not sum to total_ns"
        if sum(each["idle"].values()) != each["idle_ns"]:
            yield f"{at}.by_step: the causes do not sum to idle_ns"


def _timeline(timeline: dict[str, Any], r: dict[str, Any], at: str) -> Iterator[str]:
    if timeline.get("row", 0) >= max(1, len(r["accounting"])):
        yield f"{at}: is of no row"
    for lane in timeline["lanes"]:
        columns = [lane[name] for name in ("start_ns", "dur_ns", "busy_ns", "count")]
        columns += [lane[name] for name in ("name", "span") if name in lane]
        if len({len(column) for column in columns}) != 1:
            yield f"{at}.lanes: columns of several lengths"
        ends = [begin + length for begin, length in zip(lane["start_ns"], lane["dur_ns"], strict=False)]
        if any(begin < end for end, begin in zip(ends, lane["start_ns"][1:], strict=False)):
            yield f"{at}.lanes: pieces overlap"
        if ends and ends[-1] > timeline["dur_ns"]:
            yield f"{at}.lanes: a piece ends behind the window"
        if any(place >= len(timeline["names"]) for place in lane.get("name", [])):
            yield f"{at}.lanes: a name that is not there"


def _finding(finding: dict[str, Any], ids: list[str]) -> Iterator[str]:
    at = f"report.findings[{finding['id']}]"
    cost = finding.get("cost")
    others = {*(cost or {}).get("overlaps_with", []), finding.get("explained_by", finding["id"])}
    if not others <= set(ids):
        yield f"{at}: speaks of a finding that is not there"
    if "explained_by" in finding and finding["remedies"]:
        yield f"{at}: a consequence has remedies"
    for each in finding.get("culprits", []):
        if cost is None:
            yield f"{at}.culprits: of no cost"
        if each["end_ns"] < each["start_ns"]:
            yield f"{at}.culprits: a piece ends before it begins"
    for each in finding["evidence"]:
        if ("op" in each) != ("threshold" in each) or ("threshold" in each) != ("reference" in each):
            yield f"{at}.evidence: op, threshold and reference come together"
        if each["unit"] == "ratio" and not each["feature"].endswith(("_share", "_busy", "_mean")):
            yield f"{at}.evidence: {each['feature']} does not say that it is a share"
    for remedy in finding["remedies"]:
        least, most = remedy.get("gain_share", (0.0, 0.0))
        if least > most or (cost is not None and most > cost["share"] + 1e-4):
            yield f"{at}.remedies: a gain beyond the cost"
