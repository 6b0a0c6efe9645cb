"""Texts of verdicts that newer rules changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plimsoll.analyse.answer.words import capital
from plimsoll.analyse.results.verdict_rules import RuleName
from plimsoll.analyse.results.verdicts import StatedVerdict, SupersededVerdict, Value
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
    RuleName.REGRESSION: "fit of its form",
}


def superseded_text(superseded: SupersededVerdict) -> str:
    """The sentence on both verdicts, with the versions of their rules."""
    earlier, now = (
        f"{stated_words(stated)} ({version_words(stated)}" for stated in (superseded.earlier, superseded.now)
    )
    others = [name for name in superseded.changed if name != superseded.now.rule]
    after = f"; changed: {listing(others)}" if others else ""
    return f"{subject_words(superseded)}: {what_words(superseded)} was {earlier}) and is {now}{after})."


def what_words(superseded: SupersededVerdict) -> str:
    """Words for the judged property, such as `saturation`."""
    return _NAMES.get(superseded.what, superseded.what)


def subject_words(superseded: SupersededVerdict) -> str:
    """Words for the subject of the verdict: a run, a model, or a combination with its metric."""
    subject = superseded.subject
    if subject.get("run"):
        return f"Run {subject['run']}"
    if subject.get("factors"):
        return f"The regression of the {describe(str(subject['response'])).title} on {subject['factors']}"
    if subject.get("response"):
        return f"The {subject.get('scale', '')} model of the {describe(str(subject['response'])).title}"
    levels = subject.get("cell", subject.get("combination"))
    metric = describe(str(subject["metric"])).title if subject.get("metric") else ""
    test = f"{metric} {subject['test']}" if subject.get("test") else metric
    where = capital(level_words(levels)) if isinstance(levels, dict) and levels else "The target"
    return f"{where} ({test})" if test else where


def stated_words(stated: StatedVerdict) -> str:
    """A verdict with the levels or names that belong to it."""
    shown = [f"{name} {_shown(value)}" for name, value in stated.values.items() if value is not None]
    return f"{stated.verdict}, {', '.join(shown)}" if shown else stated.verdict


def version_words(stated: StatedVerdict) -> str:
    """The rule that stated a verdict, with its version."""
    return "no rule recorded" if stated.rule is None else f"rule {stated.rule}, version {stated.version}"


def _shown(value: Value) -> str:
    if isinstance(value, tuple):
        return listing(str(item) for item in value)
    return number(value) if isinstance(value, (int, float)) else str(value)


def earlier_note(why: str) -> str:
    """The note that the verdicts of an earlier analysis could not be compared."""
    return f"The earlier analysis.json was not compared with this one: {why}."
