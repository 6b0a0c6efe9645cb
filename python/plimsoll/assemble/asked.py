"""What plan.json asks of the analysis, parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plimsoll.analyse.design.across import Design
from plimsoll.analyse.effects.fits import ResponseModel
from plimsoll.analyse.results.wording import listing
from plimsoll.analyse.stats.quantiles import STANDARD
from plimsoll.errors import DamagedResults
from plimsoll.plan.metrics.rules import Rule, RuleError, parse_rule
from plimsoll.plan.model import CapacityRules, Threshold, Validity


class AnalysisRequest:
    """What plan.json asks of the analysis, parsed."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        try:
            self.responses = [ResponseModel(one["metric"], one["scale"]) for one in plan["responses"]]
            self.validity = Validity(**plan["validity"])
            self.capacity = _capacity(plan["capacity"])
            self.thresholds = [_threshold(one) for one in plan["thresholds"]]
            self.design = _design(plan)
            asked = [each.rule for each in self.thresholds]
            asked += [each for each in (self.capacity.response,) if each is not None]
            self.quantiles = (*STANDARD, *(each.arg / 100 for each in asked if each.arg is not None))
        except (KeyError, TypeError, RuleError) as error:
            raise DamagedResults(
                f"plan.json does not have the form that this release writes: {error}"
            ) from error


def _design(plan: Mapping[str, Any]) -> Design:
    load = plan["load_factor"]
    values: dict[str, float] = {}
    for run in plan["runs"]:
        if load is not None and load in run["values"]:
            values[run["cell"][load]] = float(run["values"][load])
    levels = {factor["name"]: factor["levels"] for factor in plan["factors"]}
    return Design(levels, load, values, bool(plan["design"].get("loop")))


def _capacity(told: Mapping[str, Any]) -> CapacityRules:
    response, errors = told["response"], told["errors"]
    parts = {kind: tuple(names) for kind, names in told.get("parts", {}).items()}
    of = "".join(f" ({kind} {listing(names)})" for kind, names in parts.items())

    def rule(text: str, metric: str) -> Rule | None:
        return replace(parse_rule(text, metric), text=text + of) if text else None

    return CapacityRules(rule(response, "response"), rule(errors, "errors"), response, errors, parts)


def _threshold(told: Mapping[str, Any]) -> Threshold:
    where, parts = (
        {name: tuple(labels) for name, labels in told.get(key, {}).items()} for key in ("where", "parts")
    )
    return Threshold(told["metric"], parse_rule(told["test"], told["metric"]), told["test"], where, parts)
