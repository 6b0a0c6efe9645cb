"""Texts of runs, terms and transactions that are left out of the figures, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from plimsoll.analyse.answer.reasons import figure
from plimsoll.analyse.results.verdicts import LeftOutPart, LeftOutReason, Value

MAX_CELLS = 10
"""Maximum number of cells that are named."""


def worded_left_out(entry: LeftOutPart) -> LeftOutPart:
    """The entry with its texts `what` and `why`."""
    return replace(entry, what=_what(entry), why=_why(entry))


def _what(entry: LeftOutPart) -> str:
    values = entry.values
    match entry.code:
        case LeftOutReason.EXCLUDED:
            return f"{len(entry.cells)} cells of the design"
        case LeftOutReason.HOST:
            return f"the host {values['host']} (site {values['site']})"
        case LeftOutReason.NOT_ESTIMABLE:
            return str(values["term"])
        case LeftOutReason.INVALID:
            cell = _cells(entry)
            return f"run {values['run']} ({cell})" if cell else f"run {values['run']}"
        case LeftOutReason.DROPPED:
            return f"{values['count']} arrivals of run {values['run']}"
        case LeftOutReason.MISSED:
            return f"{values['count']} slots of run {values['run']}"
        case LeftOutReason.IN_PROGRESS:
            return f"{values['count']} transactions of run {values['run']}"
        case LeftOutReason.NO_VALUE:
            return f"the {'metric' if values.get('section') == 'charts' else 'response'} {values['metric']}"
        case LeftOutReason.NO_METRIC | LeftOutReason.NO_FIT:
            return f"effects on {values['metric']}"
        case LeftOutReason.MEASURED_NOTHING | LeftOutReason.WITHIN_WARMUP:
            return f"run {values['run']}"
        case _:
            return entry.what


def _why(entry: LeftOutPart) -> str:
    values = entry.values
    match entry.code:
        case LeftOutReason.EXCLUDED:
            return f"excluded by the experiment file: {_cells(entry)}"
        case LeftOutReason.NOT_ESTIMABLE:
            return "the design cannot estimate it"
        case LeftOutReason.MEASURED_NOTHING:
            return f"measured nothing ({values['status']}): {values['reason'] or 'no reason is recorded'}"
        case LeftOutReason.WITHIN_WARMUP:
            return f"ended within its warm-up of {figure(values, 'warmup_s'):g} s{_status_words(values)}"
        case LeftOutReason.DROPPED:
            return "found no free slot and were never started"
        case LeftOutReason.MISSED:
            return "missed during a transaction (late: skip), or due when the run ended"
        case LeftOutReason.IN_PROGRESS:
            return "in progress when the run ended"
        case LeftOutReason.NO_METRIC:
            names = values["known"]
            assert isinstance(names, tuple)  # all metrics
            return f"unknown metric; the metrics are {', '.join(map(str, names))}"
        case LeftOutReason.NO_VALUE:
            near = values["near"]
            return "no valid run has a value" + (f"; did you mean {near}?" if near else "")
        case LeftOutReason.HOST | LeftOutReason.INVALID | LeftOutReason.NO_FIT:
            return str(values["reason"])
        case _:
            return entry.why


def _cells(entry: LeftOutPart) -> str:
    shown = (", ".join(f"{name} {label}" for name, label in cell.items()) for cell in entry.cells[:MAX_CELLS])
    more = f" and {len(entry.cells) - MAX_CELLS} more" if len(entry.cells) > MAX_CELLS else ""
    return "; ".join(shown) + more


def _status_words(values: Mapping[str, Value]) -> str:
    return f" ({values['status']}: {values['reason']})" if values["reason"] else f" ({values['status']})"
