"""One exposition series: what Prometheus text, its HTTP API and PromQL answers all come down to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stepscope.model.sample import F64
from stepscope.model.trace import I64


@dataclass(frozen=True, slots=True)
class Metric:
    """One series as it was exposed: vendor's name, vendor's unit, sentinels and NaN still in it.

    `at_ns` ascending; where the same instant stands twice, the later line is the later row. `type` is what
    `# TYPE` declares (`gauge`, `counter`, `untyped`, …), `None` where nothing does; it is often wrong, so
    no unit and no rate follows from it. A family that is declared and has no sample is one `Metric` without
    labels and of length 0.
    """

    name: str
    labels: Mapping[str, str]
    at_ns: I64
    value: F64
    type: str | None = None

    def __len__(self) -> int:
        return len(self.at_ns)
