"""One row of the table of alerts: what is looked at, from when on it counts, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stepscope.model.alarm import AlarmSeverity, AlertLevel
from stepscope.model.text import Text

How = Literal["level", "edge", "gate", "peer", "event", "task", "elsewhere"]
"""`level`: a number of a device that stays beyond its threshold. `edge`: a counter that grew. `gate`: a
series that left its own normal (`detect.stream`). `peer`: a rank that left its peers (`detect.peer`).
`event`: an instant that an agent told. `task`: what the loop itself says, or no longer says. `elsewhere`:
another watch makes the alarm, and the row says how it is shown and explained (`detect.hang`)."""
Side = Literal["above", "below"]
Group = Literal["default", "specification-literal"]
SECOND_NS = 1_000_000_000
MINUTE_NS = 60 * SECOND_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition. It holds while `feature` is at or beyond `threshold` on the `side`; it is an alarm when
    it held for `for_ns`, and over when it was back beyond `clear` for `clear_for_ns`.

    `severity` is that of the alarm; `None`: by how far it went (5, 10 and 20 % are info, warning and
    critical) or by a table of codes. `threshold` is `None` where the baseline of the series decides.
    `needs_stillness`: only an alarm where the job's steps are known to stand still, a hint where they advance
    or nothing is known of them, and nothing in evaluation, checkpoint or start-up.
    """

    id: str
    level: AlertLevel
    how: How
    title: Text
    text: Text
    """One line: `{who}`, `{value}`, `{threshold}`, `{normal}` and `{effect}` are filled in."""
    feature: str
    """A signal, a step series, or a number made of them (`detect.alert.feature`)."""
    unit: str
    needs: str
    """What must be measured for it; where it is not, the condition is unknown."""
    reference: str
    severity: AlarmSeverity | None = None
    side: Side = "above"
    threshold: float | None = None
    clear: float | None = None
    for_ns: int = 0
    clear_for_ns: int = 30 * SECOND_NS
    over_ns: int = 0
    """Of what the feature looks back on: what it says began so long before."""
    needs_stillness: bool = False
    pages: bool = True
    """False of a hint: shown, never told to anybody."""
    group: Group = "default"
    is_on: bool = True

    @property
    def is_bound_by_budget(self) -> bool:
        """Whether a job's budget of pages counts it: performance does, what ends jobs does not."""
        return self.level == "performance"
