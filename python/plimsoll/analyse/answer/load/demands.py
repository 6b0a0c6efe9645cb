"""What a transaction costs, in sentences: the cost in money, and the fan-out of requests."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.load.demands import FanOut
from plimsoll.analyse.results.verdicts import Finding, Topic, Value
from plimsoll.analyse.results.wording import level_words, listing, number, plus_minus
from plimsoll.plan.services.table import SERVICE_KINDS

MIN_FAN_OUT: Final = 1.5
"""A smaller ratio does not explain a load: the services differ by less than a request for every two."""
MAX_COMPONENTS: Final = 4
"""Components whose costs the sentence lists; the table of the report has all."""


def of_demands(analysis: Analysis) -> list[Finding]:
    """The sentences on the fan-out and on the cost, at most one each."""
    return [*_fan_out(analysis), *_cost(analysis)]


def _fan_out(analysis: Analysis) -> list[Finding]:
    """The greatest fan-out, if it is great enough."""
    highest = max(analysis.fan_out, key=lambda fan_out: fan_out.ratio.mean, default=None)
    if highest is None or highest.ratio.mean <= MIN_FAN_OUT:
        return []
    values: dict[str, Value] = {
        "service": highest.service,
        "ratio": highest.ratio.mean,
        "low": highest.ratio.low,
        "high": highest.ratio.high,
    }
    return [Finding(Topic.FAN_OUT, fan_out_sentence(highest), values=values)]


def fan_out_sentence(fan_out: FanOut) -> str:
    """The sentence on the fan-out of one service."""
    section = SERVICE_KINDS.get(fan_out.kind)
    is_database = section is not None and section.database_kind is not None
    what = "database statements" if is_database else "requests"
    verb = "sends" if len(fan_out.before) == 1 else "send"
    where = f" (with {level_words(fan_out.cell)})" if fan_out.cell else ""
    has_width = fan_out.ratio.low is not None and fan_out.ratio.low < fan_out.ratio.mean
    ratio = plus_minus(fan_out.ratio, "number") if has_width else number(fan_out.ratio.mean, 2)
    return (
        f"Fan-out: {listing(fan_out.before)} {verb} {ratio} {what} to {fan_out.service} per client request{where}, by "
        "their counters."
    )


def _cost(analysis: Analysis) -> list[Finding]:
    """The cost of a million transactions in the cell with the highest throughput, if there are prices."""
    highest = next((demand for demand in analysis.demands if demand.is_highest), None)
    if highest is None or highest.cost_per_million is None:
        return []
    known = [(entry.component, cost) for entry in highest.components if (cost := entry.cost_per_million)]
    known.sort(key=lambda pair: -pair[1].mean)
    parts = [f"{plus_minus(cost, 'number')} for {name}" for name, cost in known[:MAX_COMPONENTS]]
    rest = len(known) - len(parts)
    parts += [f"the rest for {rest} more"] if rest else []
    split = f": {listing(parts)}" if len(known) > 1 else f" for {known[0][0]}"
    where = f" with {level_words(highest.cell)}" if highest.cell else ""
    total = f"{plus_minus(highest.cost_per_million, 'number')} {highest.currency}"
    values: dict[str, Value] = {
        "cost": highest.cost_per_million.mean,
        "low": highest.cost_per_million.low,
        "high": highest.cost_per_million.high,
        "currency": highest.currency,
    }
    text = f"At the highest throughput{where}, a million transactions cost {total}{split}."
    return [Finding(Topic.COST, text, values=values)]
