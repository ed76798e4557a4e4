"""Captures of a running job, agreed over its ranks: what to ask for, within which budget, and the asking."""

from stepscope.act.capture.agreement import Limits, Outcome, RankOutcome, Request
from stepscope.act.capture.budget import Budget, Spent, refusal
from stepscope.act.capture.live import capture
from stepscope.act.capture.need import least

__all__ = ["Budget", "Limits", "Outcome", "RankOutcome", "Request", "Spent", "capture", "least", "refusal"]
