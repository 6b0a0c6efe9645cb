"""Verdicts that newer rules changed, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plimsoll.analyse.answer.words import capital
from plimsoll.analyse.results.verdict_rules import RuleName
from plimsoll.analyse.results.verdicts import Stated, Superseded, Value
from plimsoll.analyse.results.wording import describe, level_words, listing, number

_NAMES: Final[Mapping[str, str]] = {
    RuleName.VALIDITY: "validity",
    RuleName.BOTTLENECK: "bottleneck",
    RuleName.COMMON_BOTTLENECK: "common bottleneck",
    RuleName.SATURATION: "saturation",
    RuleName.NOMINAL: "nominal capacity",
    RuleName.USABLE: "usable capacity",
    RuleName.ERROR_LIMITED: "error-limited capacity",
    RuleName.RANKING: "ranking of the capacities",
    RuleName.THRESHOLD: "threshold",
    RuleName.CHEAPEST: "cheapest consistency",
    RuleName.SITES: "fairness of the sites",
    RuleName.VARIANCES: "difference of the variances",
    RuleName.DRIFT: "drift with run order",
    RuleName.SCALE: "advice to use a logarithmic scale",
    RuleName.OUTLIERS: "runs far from their cells",
}


def superseded_text(each: Superseded) -> str:
    """Both verdicts, with the versions of their rules."""
    earlier, now = (f"{stated_words(one)} ({version_words(one)}" for one in (each.earlier, each.now))
    others = [name for name in each.changed if name != each.now.rule]
    after = f"; changed: {listing(others)}" if others else ""
    return f"{subject_words(each)}: {what_words(each)} was {earlier}) and is {now}{after})."


def what_words(each: Superseded) -> str:
    """What was judged."""
    return _NAMES.get(each.what, each.what)


def subject_words(each: Superseded) -> str:
    """Of what it was judged."""
    told = each.subject
    if told.get("run"):
        return f"Run {told['run']}"
    if told.get("response"):
        return f"The {told.get('scale', '')} model of the {describe(str(told['response'])).title}"
    levels = told.get("cell", told.get("combination"))
    metric = describe(str(told["metric"])).title if told.get("metric") else ""
    test = f"{metric} {told['test']}" if told.get("test") else metric
    where = capital(level_words(levels)) if isinstance(levels, dict) and levels else "The target"
    return f"{where} ({test})" if test else where


def stated_words(one: Stated) -> str:
    """A verdict with the levels or names that belong to it."""
    shown = [f"{name} {_shown(value)}" for name, value in one.values.items() if value is not None]
    return f"{one.verdict}, {', '.join(shown)}" if shown else one.verdict


def version_words(one: Stated) -> str:
    """Which rule stated it."""
    return "no rule recorded" if one.rule is None else f"rule {one.rule}, version {one.version}"


def _shown(value: Value) -> str:
    if isinstance(value, tuple):
        return listing(str(each) for each in value)
    return number(value) if isinstance(value, (int, float)) else str(value)


def earlier_note(why: str) -> str:
    """That the verdicts of an earlier analysis could not be compared."""
    return f"The earlier analysis.json was not compared with this one: {why}."
