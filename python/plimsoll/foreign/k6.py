"""k6: the summary export, and the samples of `--out json` and `--out csv`.

grafana.com/docs/k6: results-output/end-of-test (`--summary-export`, and `data` of handleSummary), results-output/
real-time/json and csv. Times are in ms. Samples of `http_req_duration` are the requests; their timestamp is the end.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from plimsoll.foreign.model import (
    ForeignRun,
    Lines,
    Record,
    Transactions,
    csv_rows,
    json_line,
    json_of,
    number,
    record,
    refuse,
    supported,
)

DURATION = "http_req_duration"
_TIMES = {"response_p50": ("med", "p(50)"), "response_p95": ("p(95)",), "response_p99": ("p(99)",)}


class _Summary(Record):
    metrics: dict[str, dict[str, Any]]


class _Tags(Record):
    expected_response: str = "true"


class _Sample(Record):
    time: datetime
    value: float
    tags: _Tags = _Tags()


def parse_summary(text: str, file: str) -> ForeignRun:
    """A summary export (`metrics.NAME.avg`), or the data of handleSummary (`metrics.NAME.values.avg`). Without
    `summaryTrendStats` a summary has no p99."""
    found = record(_Summary, json_of(text, file), file).metrics
    metrics = {name: values.get("values", values) for name, values in found.items()}
    for name in (DURATION, "http_reqs"):
        if name not in metrics:
            refuse(file, None, f"metrics: has no {name}; only summaries of HTTP tests can be compared")
    counts, times = metrics["http_reqs"], metrics[DURATION]
    requests, rate = (_value(counts, name, file, "http_reqs") for name in ("count", "rate"))
    failed = metrics.get("http_req_failed", {})
    share = next(
        (_value(failed, name, file, "http_req_failed") for name in ("rate", "value") if name in failed), None
    )
    quantiles = {
        name: next((_value(times, key, file, DURATION) for key in keys if key in times), None)
        for name, keys in _TIMES.items()
    }
    return ForeignRun(
        requests=None if requests is None else round(requests),
        errors=None if share is None or requests is None else round(share * requests),
        throughput=None if rate is None else rate * (1 - (share or 0)),
        times_ms=supported(quantiles, None if requests is None else round(requests)),
        is_summary=True,
    )


def parse_json(lines: Lines, file: str) -> ForeignRun:
    """A JSON object per line; those of type Point are samples."""
    found = Transactions()
    for line, text in lines:
        if f'"{DURATION}"' not in text:
            continue
        value = json_line(text, file, line)
        if not isinstance(value, dict) or value.get("type") != "Point" or value.get("metric") != DURATION:
            continue
        sample = record(_Sample, value.get("data"), file, line)
        ended = sample.time.timestamp()
        found.add(ended - sample.value / 1000, sample.value, ok=sample.tags.expected_response != "false")
    return found.run(file)


def parse_csv(lines: Lines, file: str) -> ForeignRun:
    """A row per sample. The timestamp is in seconds unless K6_CSV_TIME_FORMAT is set. Its unit follows from its size,
    because no date from 2001 to 2286 is ambiguous."""
    found = Transactions()
    for line, row in csv_rows(lines, file, ("metric_name", "timestamp", "metric_value", "expected_response")):
        if row["metric_name"] != DURATION:
            continue
        ms = number(row["metric_value"], "metric_value", file, line)
        ended = _seconds(row["timestamp"], file, line)
        found.add(ended - ms / 1000, ms, ok=row["expected_response"] != "false")
    return found.run(file)


def _seconds(text: str, file: str, line: int) -> float:
    if "T" in text:
        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError:
            refuse(file, line, f'timestamp: expected a time, got "{text[:40]}"')
    value = number(text, "timestamp", file, line)
    while value > 1e10:
        value /= 1000
    return value


def _value(values: dict[str, Any], key: str, file: str, metric: str) -> float | None:
    value = values.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        refuse(file, None, f"metrics.{metric}.{key}: expected a number, got {value!r}")
    return float(value)
