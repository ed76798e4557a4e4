"""Captures of a running job, agreed over its ranks: what to ask for, within which budget, and the asking."""

from stepscope.act.capture.budget import Budget, Spent, refusal
from stepscope.act.capture.live import capture
from stepscope.act.capture.need import least
from stepscope.act.capture.request import Limits, Outcome, RankOutcome, Request, Seen

__all__ = [
    "Budget",
    "Limits",
    "Outcome",
    "RankOutcome",
    "Request",
    "Seen",
    "Spent",
    "capture",
    "least",
    "refusal",
]
