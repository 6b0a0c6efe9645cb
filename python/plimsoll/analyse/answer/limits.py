"""Capacities and thresholds: what was asked, and what must be known about the verdict, in words."""

from __future__ import annotations

from plimsoll.analyse.answer.reasons import figure
from plimsoll.analyse.results import Capacity
from plimsoll.analyse.results_verdicts import CapacityKind, CapacityReason, Reason, ThresholdReason
from plimsoll.analyse.wording import number, percent, quantity


def capacity_definition(found: Capacity) -> str:
    """What the capacity is."""
    match found.kind:
        case CapacityKind.NOMINAL:
            return "highest mean throughput of all load levels"
        case CapacityKind.USABLE:
            return f"highest mean throughput at a load where {found.asked_metric} {found.asked} is held"
        case _:
            return f"highest load whose upper 95 % bound of the error rate holds {found.asked}"


def capacity_reason(reason: Reason) -> str:
    """What must be known about a capacity."""
    told = reason.values
    match reason.code:
        case CapacityReason.NO_THROUGHPUT:
            return "no level has a throughput"
        case CapacityReason.STILL_RISES:
            return "throughput still rises at the highest level: the capacity is higher"
        case CapacityReason.HELD_NOWHERE:
            return "the rule is held at no level"
        case CapacityReason.BOUND_HELD_NOWHERE:
            return f"held at no level; the least bound is {figure(told, 'least'):.2g}"
        case CapacityReason.NOTHING_ENDED:
            return "nothing ended"
        case CapacityReason.HELD_AT_BOUND:
            return f"held at the {told['side']} bound too"
        case CapacityReason.HELD_AT_ESTIMATE:
            return f"held at the estimate, not at its {told['side']} bound"
        case CapacityReason.NO_BOUND:
            return "held at the estimate; one repetition gives no bound"
        case CapacityReason.ERROR_RATE:
            rate, upper = figure(told, "rate"), figure(told, "upper")
            return f"error rate {100 * rate:.3g} %, upper bound {100 * upper:.3g} %"
        case CapacityReason.LIMIT_NOT_REACHED:
            return "no level breaks the rule: the limit was not reached"
        case _:
            return reason.code


def threshold_reason(reason: Reason, test: str) -> str:
    """What led to the verdict on a threshold. `test`: as written."""
    told = reason.values
    match reason.code:
        case ThresholdReason.BROKEN:
            return f"{_shown(reason)} where {test} was asked"
        case ThresholdReason.NO_VALID_RUN:
            return "failed: no valid run"
        case ThresholdReason.NO_SAMPLE:
            return "failed: no sample"
        case ThresholdReason.NO_CELL:
            return "failed: no cell of this experiment is meant by its `where`"
        case ThresholdReason.NOT_YET:
            return "not judged yet: no valid run so far"
        case ThresholdReason.NOTHING_STALE:
            return "no answer was stale"
        case ThresholdReason.FEW_BEYOND:
            return f"only {told['beyond']} of {told['of']} values lie beyond it"
        case _:
            return reason.code


def _shown(reason: Reason) -> str:
    observed = figure(reason.values, "observed")
    match reason.values["kind"]:
        case "time":  # one digit more than elsewhere: it may lie just beyond the rule
            return quantity(observed * 1e3, "ms", digits=4)
        case "fraction":
            return percent(observed)
        case _:
            return number(observed, 5)
