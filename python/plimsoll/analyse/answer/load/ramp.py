"""Sentences on a rising load: the load from which each rule fails, and the consequence for constant loads."""

from __future__ import annotations

from dataclasses import asdict

from plimsoll.analyse.results.analysis import Analysis, RunResult
from plimsoll.analyse.results.run import Ramp, RampRule
from plimsoll.analyse.results.verdicts import Finding, RampVerdict, Topic
from plimsoll.analyse.results.wording import count, describe, number, with_unit

MAX_SENTENCES = 6
NOTE = (
    "A ramp is not a search: the service lags behind the load, so a rule can fail at lower constant loads, and a rule "
    "that held in the ramp may fail at a constant load."
)


def load_words(low: float, high: float, unit: str) -> str:
    """A load, or its range: `120 to 136/s`, `9 to 16 testers`."""
    shown = number(low) if unit == "rate" else count(round(low))
    last = number(high) if unit == "rate" else count(round(high))
    text = shown if shown == last else f"{shown} to {last}"
    if unit == "rate":
        return f"{text}/s"
    return with_unit(text, "tester" if text == "1" else "testers")


def rule_words(rule: RampRule, ramp: Ramp) -> str:
    """The result of one rule, as a sentence without full stop."""
    name = f"{describe(rule.metric).title} {rule.test}"
    match rule.verdict:
        case RampVerdict.FAILED_FROM | RampVerdict.FAILED_THROUGHOUT:
            at = _at(rule, ramp)
            lowest = ", the lowest load," if rule.verdict == RampVerdict.FAILED_THROUGHOUT else ""
            below = load_words(rule.load_high or 0.0, rule.load_high or 0.0, ramp.unit)
            return f"{name} failed from {at}{lowest} on and stayed failed; a constant load of {below} fails it too"
        case RampVerdict.LAST_ONLY:
            return f"{name} failed at the end of the ramp only ({_at(rule, ramp)}), which can be chance"
        case RampVerdict.RECOVERED:
            return f"{name} failed in the ramp, but held again at a higher load"
        case RampVerdict.HELD:
            top = max(bin_.load_high for bin_ in ramp.bins[slice(*ramp.rising)])
            return f"{name} held up to {load_words(top, top, ramp.unit)}, the highest load"
        case _:
            return f"{name} cannot be judged: too few transactions per bin"


def _at(rule: RampRule, ramp: Ramp) -> str:
    return load_words(rule.load_low or 0.0, rule.load_high or 0.0, ramp.unit)


def of_ramps(analysis: Analysis) -> list[Finding]:
    """One finding for each rule of each valid run with a rising load, and the note that a ramp is not a search."""
    runs = [run for run in analysis.runs if run.ramp is not None and run.ramp.rules]
    findings = [
        _finding(run, rule, named=len(analysis.runs) > 1)
        for run in runs
        if run.ramp is not None
        for rule in run.ramp.rules
        if run.ramp.rising[0] < run.ramp.rising[1]
    ][:MAX_SENTENCES]
    return [*findings, Finding(Topic.RAMP, NOTE)] if findings else []


def _finding(run: RunResult, rule: RampRule, *, named: bool) -> Finding:
    assert run.ramp is not None
    text = rule_words(rule, run.ramp)
    head = f"In run {run.id}, {text}" if named else text[0].upper() + text[1:]
    fields = asdict(rule)
    names = ("metric", "test", "load_low", "load_high", "held_up_to")
    values = {"run": run.id, "unit": run.ramp.unit, **{name: fields[name] for name in names}}
    return Finding(Topic.RAMP, f"{head}.", rule.verdict, values, rule.rule)
