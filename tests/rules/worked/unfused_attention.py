"""Worked runs of unfused-attention."""

from tests.rules.worked_runs import Run

RUNS = (
    Run("scores of 3,137 by 3,137", {"attention_scores_share": "0.22x3"}, "findingx3"),
    Run("fused attention", {"attention_scores_share": "0.00x3"}, "clearx3"),
    Run("just under, and just met", {"attention_scores_share": "0.0499 0.05 _"}, "clear finding undecided"),
    Run(
        "a softmax over a large vocabulary is no attention",
        {"attention_scores_share": "0.02x2", "softmax_share": "0.20x2"},
        "clearx2",
        is_near_miss=True,
    ),
)
