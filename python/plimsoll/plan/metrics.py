"""The metrics, one row each: the only list of them. What a row states is in `metric_table`.

The order is that of the results. To add a metric, add a row; docs/metrics.md is generated from this file.
"""

from __future__ import annotations

from typing import Final

from plimsoll.plan.metric_table import (
    BYTES,
    Distribution,
    Kind,
    Metric,
    MetricTable,
    Part,
    Source,
    Total,
    Value,
)

_TIMES: Final = ("mean", "sd", "p50", "p90", "p95", "p99", "p999", "max")
_READERS: Final = "staleness.readers"
_LIVE: Final = {
    "p(50)": "response-p50",
    "p(95)": "response-p95",
    "p(99)": "response-p99",
    "med": "response-p50",
}

METRICS = MetricTable(
    (
        Metric(
            "throughput",
            "throughput",
            Kind.RATE,
            Value("traffic.throughput_per_s"),
            unit="requests/s",
            in_results="throughput_per_s",
            aliases=("throughput_per_s",),
            short=("transactions_per_s",),
            live={"rate": "throughput", "avg": "throughput"},
            capacity=True,
        ),
        Metric(
            "items_per_s",
            "throughput in items",
            Kind.RATE,
            Value("traffic.items_per_s"),
            unit="items/s",
            short=("items",),
            capacity=True,
        ),
        Metric(
            "payload_bytes_per_s",
            "payload throughput",
            Kind.RATE,
            Value("traffic.payload_bytes_per_s"),
            unit=BYTES,
            short=("payload",),
            capacity=True,
        ),
        Metric(
            "wire_bytes_per_s",
            "throughput on the wire",
            Kind.RATE,
            Value("traffic.wire_bytes_per_s"),
            unit=BYTES,
            short=("wire",),
            capacity=True,
        ),
        Metric(
            "offered_per_s",
            "offered rate",
            Kind.RATE,
            Value("traffic.offered_per_s"),
            unit="starts/s",
            short=("offered",),
        ),
        Metric("transactions", "transactions", Kind.COUNT, Total("traffic.transactions"), response=False),
        Metric("dropped", "dropped", Kind.COUNT, Total("counts.dropped"), Source.BOOKS, response=False),
        Metric("missed", "missed", Kind.COUNT, Total("counts.missed"), Source.BOOKS, response=False),
        Metric("concurrency", "concurrency", Kind.COUNT, Value("traffic.concurrency")),
        Metric(
            "errors",
            "error rate",
            Kind.SHARE,
            Part("traffic.error_rate", "traffic.errors", ("traffic.errors", "traffic.transactions")),
            in_results="error_rate",
            as_response=("error_rate",),
            live={"rate": "error-rate", "avg": "error-rate"},
        ),
        Metric("jain_index", "fairness (Jain's index)", Kind.INDEX, Value("jain_index")),
        Metric("share_cv", "share cv", Kind.INDEX, Value("share_cv")),
        Metric(
            "response",
            "response time",
            Kind.TIME,
            Distribution("traffic.response_ms", "response"),
            in_results="response_ms",
            statistics=_TIMES,
            live=_LIVE,
        ),
        Metric(
            "request",
            "request time",
            Kind.TIME,
            Distribution("traffic.request_ms", "request"),
            in_results="request_ms",
            statistics=_TIMES,
        ),
        Metric(
            "lateness",
            "lateness",
            Kind.TIME,
            Distribution("traffic.lateness_ms", "lateness"),
            in_results="lateness_ms",
            statistics=_TIMES,
        ),
        Metric(
            "reads_per_s",
            "reads",
            Kind.RATE,
            Value(f"{_READERS}.reads_per_s"),
            Source.NAMED,
            unit="reads/s",
        ),
        Metric(
            "writes_per_s",
            "acknowledged writes",
            Kind.RATE,
            Value("staleness.writes_per_s"),
            Source.NAMED,
            unit="writes/s",
        ),
        Metric(
            "stale_share",
            "share of stale answers",
            Kind.SHARE,
            Part(f"{_READERS}.stale_share.mean", f"{_READERS}.stale", (f"{_READERS}.answers",)),
            Source.NAMED,
        ),
        Metric(
            "stale_age",
            "age of stale answers",
            Kind.TIME,
            Distribution(
                f"{_READERS}.stale_age_ms",
                "stale_age",
                mean=f"{_READERS}.stale_age_ms_mean",
                weight=f"{_READERS}.answers",
                some=f"{_READERS}.stale",
                absent="no answer was stale",
            ),
            Source.NAMED,
            in_results="stale_age_ms",
            as_response=("stale_age_ms_mean", "stale_age_ms_p50", "stale_age_ms_p95", "stale_age_ms_max"),
            statistics=("mean", "p50", "p95", "max"),
            titles={
                "mean": "mean age of all answers",
                "p50": "median age of stale answers",
                "p95": "p95 of the age of stale answers",
                "max": "greatest age of stale answers",
            },
        ),
        Metric(
            "origin_share",
            "share of origin fetches",
            Kind.SHARE,
            Part(f"{_READERS}.origin_share", f"{_READERS}.fetches", (f"{_READERS}.answers",)),
            Source.NAMED,
        ),
        Metric(
            "needless_share",
            "share of needless fetches",
            Kind.SHARE,
            Part(f"{_READERS}.needless_share.mean", f"{_READERS}.needless", (f"{_READERS}.fetches",)),
            Source.NAMED,
        ),
    ),
    percentiles_of="response",
)
