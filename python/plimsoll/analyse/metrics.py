"""The metrics that can be a response of the experiment: how each is read from a run's result.

A metric has one canonical name (that of the field in the results, `response_ms_p95`); short forms that people write
(`throughput`, `response`, `response_p95`, `p95`) are understood. How metrics are worded stands in `wording`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from plimsoll.analyse.results import Latency, Readers, RunResult

Reader = Callable[[RunResult], float | None]
"""Value of a metric in one run: per second, bytes per second, ms, a fraction, a plain number. None: cannot be said."""

THROUGHPUTS: Final = ("throughput_per_s", "items_per_s", "payload_bytes_per_s", "wire_bytes_per_s")
"""Metrics of which a saturation and a capacity can be given."""

_STATISTICS: Final = ("mean", "sd", "p50", "p90", "p95", "p99", "p999", "max")
_DURATIONS: Final = ("response", "request", "lateness")


def _rates() -> dict[str, Reader]:
    return {
        "throughput_per_s": lambda run: run.traffic.throughput_per_s,
        "items_per_s": lambda run: run.traffic.items_per_s,
        "payload_bytes_per_s": lambda run: run.traffic.payload_bytes_per_s,
        "wire_bytes_per_s": lambda run: run.traffic.wire_bytes_per_s,
        "offered_per_s": lambda run: run.traffic.offered_per_s,
        "concurrency": lambda run: run.traffic.concurrency,
        "error_rate": lambda run: run.traffic.error_rate,
        "jain_index": lambda run: run.jain_index,
        "share_cv": lambda run: run.share_cv,
    }


def latency(run: RunResult, duration: str) -> Latency:
    """The distribution of `response`, `request` or `lateness` in a run."""
    match duration:
        case "response":
            return run.traffic.response_ms
        case "request":
            return run.traffic.request_ms
        case _:
            return run.traffic.lateness_ms


def _duration(duration: str, statistic: str) -> Reader:
    def read(run: RunResult) -> float | None:
        value: float | None = getattr(latency(run, duration), statistic)
        return value

    return read


def _of_readers(read: Callable[[Readers], float | None]) -> Reader:
    return lambda run: None if run.staleness is None else read(run.staleness.readers)


def _consistency() -> dict[str, Reader]:
    return {
        "reads_per_s": _of_readers(lambda got: got.reads_per_s),
        "writes_per_s": lambda run: None if run.staleness is None else run.staleness.writes_per_s,
        "stale_share": _of_readers(lambda got: got.stale_share.mean if got.stale_share else None),
        "stale_age_ms_mean": _of_readers(lambda got: got.stale_age_ms_mean),
        "stale_age_ms_p50": _of_readers(lambda got: got.stale_age_ms.p50),
        "stale_age_ms_p95": _of_readers(lambda got: got.stale_age_ms.p95),
        "stale_age_ms_max": _of_readers(lambda got: got.stale_age_ms.max),
        "origin_share": _of_readers(lambda got: got.origin_share),
        "needless_share": _of_readers(lambda got: got.needless_share.mean if got.needless_share else None),
    }


METRICS: Final[dict[str, Reader]] = {
    **_rates(),
    **{f"{d}_ms_{s}": _duration(d, s) for d in _DURATIONS for s in _STATISTICS},
    **_consistency(),
}
"""Readers by canonical name."""

_ALIASES: Final[dict[str, str]] = {
    "throughput": "throughput_per_s",
    "transactions_per_s": "throughput_per_s",
    "items": "items_per_s",
    "payload": "payload_bytes_per_s",
    "wire": "wire_bytes_per_s",
    "offered": "offered_per_s",
    "errors": "error_rate",
    **{short: f"{d}_ms_mean" for d in _DURATIONS for short in (d, f"{d}_ms")},
    **{f"{d}_{s}": f"{d}_ms_{s}" for d in _DURATIONS for s in _STATISTICS},
    **{f"{d}_{s}_ms": f"{d}_ms_{s}" for d in _DURATIONS for s in _STATISTICS},
    **{s: f"response_ms_{s}" for s in _STATISTICS if s.startswith("p")},
    "stale_age": "stale_age_ms_mean",
    **{f"stale_age_{s}": f"stale_age_ms_{s}" for s in ("mean", "p50", "p95", "max")},
}


def canonical(name: str) -> str | None:
    """The canonical name of a metric as people write it; None if there is no such metric."""
    return name if name in METRICS else _ALIASES.get(name)
