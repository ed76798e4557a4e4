"""The table of alerts: every condition with its published defaults. A site changes them by
`threshold.with_thresholds`; `docs/reference/alerts.md` is made from here."""

from __future__ import annotations

from stepscope.detect.alert.condition import Condition
from stepscope.detect.alert.performance import PERFORMANCE
from stepscope.detect.alert.resource import RESOURCE
from stepscope.detect.alert.task import TASK

TABLE: tuple[Condition, ...] = (*RESOURCE, *PERFORMANCE, *TASK)
"""All of them. Ids are unique."""
