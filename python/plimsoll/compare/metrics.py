"""The metrics that are compared: the only list of them, with the direction that is better."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

DEFAULT_MARGIN: Final = 0.03
SERVICE: Final = "{service}"


class Better(StrEnum):
    """The direction in which a metric becomes better."""

    HIGHER = "higher"
    LOWER = "lower"


class Scale(StrEnum):
    """How two sides are compared: by the ratio new / old, or by the difference new - old of shares of 1."""

    RATIO = "ratio"
    DIFFERENCE = "difference"


@dataclass(frozen=True, slots=True)
class ComparedMetric:
    """`metric`: its name in `plan/metrics/catalogue.py`, with the open part SERVICE for a metric of each service.
    `margin`: a share of the old value, of a difference an absolute share; None: the margin of the comparison.
    `trials`: path of the number of transactions; the metric is a share of them. `is_percentile`: of response times."""

    metric: str
    better: Better
    scale: Scale = Scale.RATIO
    margin: float | None = None
    trials: str = ""
    is_percentile: bool = False

    def of_service(self, service: str) -> ComparedMetric:
        """The metric of one service."""
        return replace(self, metric=self.metric.replace(SERVICE, service))


COMPARED: Final = (
    ComparedMetric("throughput", Better.HIGHER),
    ComparedMetric("response_p50", Better.LOWER, is_percentile=True),
    ComparedMetric("response_p95", Better.LOWER, is_percentile=True),
    ComparedMetric("response_p99", Better.LOWER, is_percentile=True),
    # 3 % of an error rate near 0 is no practical margin, so its margin is absolute: half a percentage point.
    ComparedMetric("errors", Better.LOWER, Scale.DIFFERENCE, 0.005, "traffic.response_ms.count"),
    ComparedMetric("wire_bytes_per_transaction = wire_bytes_per_s / throughput", Better.LOWER),
    ComparedMetric(f"cpu_per_transaction.{SERVICE}", Better.LOWER),
    ComparedMetric(f"memory.{SERVICE}", Better.LOWER),
    ComparedMetric(f"memory_peak.{SERVICE}", Better.LOWER),
)
GENERATOR: Final = (
    ComparedMetric("cpu_per_transaction.testers", Better.LOWER),
    ComparedMetric("cpu.testers", Better.LOWER),
)
"""The load generator is the same on both sides, so a change of its cost shows a change of the hosts. A part of its cost
is per transaction, the rest per second. If the change under test alters the throughput, these figures move in opposite
directions; if the hosts change, both move in the same direction."""
