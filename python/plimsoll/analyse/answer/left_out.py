"""What is left out of the figures, and why, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from plimsoll.analyse.answer.reasons import figure
from plimsoll.analyse.results.verdicts import LeftOut, LeftOutReason, Value

MAX_CELLS = 10
"""Cells that are named."""


def worded_left_out(found: LeftOut) -> LeftOut:
    """With `what` and `why`."""
    return replace(found, what=_what(found), why=_why(found))


def _what(found: LeftOut) -> str:
    told = found.values
    match found.code:
        case LeftOutReason.EXCLUDED:
            return f"{len(found.cells)} cells of the design"
        case LeftOutReason.HOST:
            return f"the host {told['host']} (site {told['site']})"
        case LeftOutReason.NOT_ESTIMABLE:
            return str(told["term"])
        case LeftOutReason.INVALID:
            cell = _cells(found)
            return f"run {told['run']} ({cell})" if cell else f"run {told['run']}"
        case LeftOutReason.DROPPED:
            return f"{told['count']} arrivals of run {told['run']}"
        case LeftOutReason.MISSED:
            return f"{told['count']} slots of run {told['run']}"
        case LeftOutReason.IN_PROGRESS:
            return f"{told['count']} transactions of run {told['run']}"
        case LeftOutReason.NO_METRIC | LeftOutReason.NO_FIT:
            return f"effects on {told['metric']}"
        case LeftOutReason.MEASURED_NOTHING | LeftOutReason.WITHIN_WARMUP:
            return f"run {told['run']}"
        case _:
            return found.what


def _why(found: LeftOut) -> str:
    told = found.values
    match found.code:
        case LeftOutReason.EXCLUDED:
            return f"excluded by the experiment file: {_cells(found)}"
        case LeftOutReason.NOT_ESTIMABLE:
            return "the design cannot estimate it"
        case LeftOutReason.MEASURED_NOTHING:
            return f"measured nothing ({told['status']}): {told['reason'] or 'no reason is recorded'}"
        case LeftOutReason.WITHIN_WARMUP:
            return f"ended within its warm-up of {figure(told, 'warmup_s'):g} s{_ended(told)}"
        case LeftOutReason.DROPPED:
            return "found no free slot and were never started"
        case LeftOutReason.MISSED:
            return "missed during a transaction (late: skip), or due when the run ended"
        case LeftOutReason.IN_PROGRESS:
            return "in progress when the run ended"
        case LeftOutReason.NO_METRIC:
            names = told["known"]
            assert isinstance(names, tuple)  # the metrics that there are
            return f"unknown metric; the metrics are {', '.join(map(str, names))}"
        case LeftOutReason.HOST | LeftOutReason.INVALID | LeftOutReason.NO_FIT:
            return str(told["reason"])
        case _:
            return found.why


def _cells(found: LeftOut) -> str:
    shown = (", ".join(f"{name} {label}" for name, label in cell.items()) for cell in found.cells[:MAX_CELLS])
    more = f" and {len(found.cells) - MAX_CELLS} more" if len(found.cells) > MAX_CELLS else ""
    return "; ".join(shown) + more


def _ended(told: Mapping[str, Value]) -> str:
    return f" ({told['status']}: {told['reason']})" if told["reason"] else f" ({told['status']})"
