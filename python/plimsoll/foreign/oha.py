"""oha: `--output-format json` and `--output-format csv`. Source: src/printer.rs and schema.json of hatoo/oha, version
1.15. Times are in seconds. The CSV has no rows of requests without a response, so their number is unknown."""

from __future__ import annotations

from pydantic import Field

from plimsoll.foreign.model import (
    QUANTILES,
    ForeignRun,
    Lines,
    Record,
    Transactions,
    csv_rows,
    json_of,
    number,
    record,
    supported,
)


class _Summary(Record):
    total: float


class _Report(Record):
    summary: _Summary
    percentiles: dict[str, float | None] = Field(alias="latencyPercentiles")
    statuses: dict[str, int] = Field(alias="statusCodeDistribution")
    lost: dict[str, int] = Field(alias="errorDistribution")


def parse_json(text: str, file: str) -> ForeignRun:
    """The report. A response with a status of 400 or above is an error, as in Plimsoll; oha counts it as success. The
    percentiles are those of all responses."""
    report = record(_Report, json_of(text, file), file)
    statuses, lost = report.statuses, sum(report.lost.values())
    answered = sum(statuses.values())
    failed = sum(count for status, count in statuses.items() if not status.startswith(("1", "2", "3")))
    seconds = {name: report.percentiles.get(f"p{round(100 * q)}") for name, q in QUANTILES.items()}
    milliseconds = {name: None if value is None else 1000 * value for name, value in seconds.items()}
    return ForeignRun(
        requests=answered + lost,
        errors=failed + lost,
        throughput=(answered - failed) / report.summary.total if report.summary.total > 0 else None,
        times_ms=supported(milliseconds, answered),
        is_summary=True,
    )


def parse_csv(lines: Lines, file: str) -> ForeignRun:
    """A row for each response."""
    found = Transactions()
    for line, row in csv_rows(lines, file, ("request-start", "request-duration", "status")):
        start, took, status = (
            number(row[name], name, file, line) for name in ("request-start", "request-duration", "status")
        )
        found.add(start, 1000 * took, ok=status < 400)
    return found.run(file)
