"""Telemetry out of a Prometheus, VictoriaMetrics or Thanos that has it already, asked by PromQL.

`url` reads the address, `http` asks within bounds, `answer` reads what comes back, `plan` cuts questions to
a size that servers take, `fetch` asks for raw samples, `read` makes telemetry of them.
"""

from __future__ import annotations

from stepscope.sources.prometheus.http import Limits
from stepscope.sources.prometheus.read import read_parts_of_prometheus, read_prometheus
from stepscope.sources.prometheus.url import Endpoint, endpoint_of, is_prometheus_url

__all__ = [
    "Endpoint",
    "Limits",
    "endpoint_of",
    "is_prometheus_url",
    "read_parts_of_prometheus",
    "read_prometheus",
]
