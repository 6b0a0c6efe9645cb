"""Tables of the actions of a run and of their effects."""

from __future__ import annotations

from plimsoll.analyse.answer.actions import outage_words, recovery_words, what_happened
from plimsoll.analyse.results.actions import ActionsResult, Incident, Phase
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.wording import (
    UNKNOWN,
    fixed,
    number,
    percent,
    quantity,
    tied,
    with_unit,
)
from plimsoll.report.tables.table import Table, table_of

LIMITS = {
    "capacity": "the rule of `capacity`",
    "threshold": "a threshold on the response time",
    "default": "the default",
}
MAX_KINDS = 3
"""Maximum number of kinds of errors that are shown for an outage."""


def action_tables(run: RunResult) -> list[Table]:
    """The actions, their effects, and the figures before, during and after; none without actions."""
    result = run.actions
    if result is None or not result.actions:
        return []
    return [
        _actions(run, result),
        *([_effects(run, result), _phases(run, result)] if result.incidents else []),
    ]


def _actions(run: RunResult, result: ActionsResult) -> Table:
    rows = [
        (
            action.label,
            action.outcome + (f": {action.error}" if action.error else ""),
            _seconds(action.planned_s),
            _seconds(action.began_s, 3),
            UNKNOWN
            if action.began_s is None or action.ended_s is None
            else with_unit(number(action.ended_s - action.began_s), "s"),
        )
        for action in result.actions
    ]
    note = "Times are from the start of the run. A restart takes until the service is ready."
    return table_of(f"Actions of run {run.id}", "Action|Outcome", "Planned|Actual|Duration", rows, note)


def _effects(run: RunResult, result: ActionsResult) -> Table:
    rows = [
        (
            tied(what_happened(incident, result.actions)),
            tied(outage_words(incident)),
            _errors(incident),
            tied(recovery_words(incident, result.actions)),
        )
        for incident in result.incidents
    ]
    return table_of(
        f"Effects of the actions of run {run.id}", "Incident|Outage|Errors in it|Why", "", rows, _note(result)
    )


def _note(result: ActionsResult) -> str:
    share = percent(result.availability, 4)
    limit = quantity(result.availability_limit_ms, "ms")
    source = LIMITS[result.availability_limit_from]
    availability = f"Availability: {share} of the planned starts succeeded within {limit} ({source})."
    if result.outage_limit_s is None:
        return (
            f"Too few requests succeeded before the first action to tell an outage from a gap. {availability}"
        )
    gap = with_unit(number(result.outage_limit_s, 2), "s")
    return f"An outage is a time without success of more than {gap}. {availability}"


def _errors(incident: Incident) -> str:
    counts: dict[str, int] = {}
    for outage in incident.outages:
        for error in outage.errors:
            name = f"{error.outcome} {error.code}".strip()
            counts[name] = counts.get(name, 0) + error.count
    shown = sorted(counts.items(), key=lambda entry: -entry[1])[:MAX_KINDS]
    return ", ".join(f"{count} {name}" for name, count in shown) or UNKNOWN


def _phases(run: RunResult, result: ActionsResult) -> Table:
    rows = []
    for incident in result.incidents:
        for name, phase in (
            ("before", incident.before),
            ("during", incident.during),
            ("after", incident.after),
        ):
            if phase is not None:
                rows.append((tied(what_happened(incident, result.actions)), name, *_figures(phase)))
    heads = "From|To|Throughput|Mean response time|Error rate"
    return table_of(f"Before, during and after the actions of run {run.id}", "Incident|Part", heads, rows)


def _figures(phase: Phase) -> tuple[str, ...]:
    return (
        _seconds(phase.start_s),
        _seconds(phase.end_s),
        quantity(phase.throughput_per_s, "rate", "/s"),
        quantity(phase.response_ms_mean, "ms"),
        percent(phase.error_rate),
    )


def _seconds(value: float | None, decimals: int = 1) -> str:
    return UNKNOWN if value is None else with_unit(fixed(value, -decimals), "s")
