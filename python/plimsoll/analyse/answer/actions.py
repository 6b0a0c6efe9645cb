"""Sentences on the actions of a run: what was done, how long nothing succeeded, and when the service had recovered."""

from __future__ import annotations

from plimsoll.analyse.answer.words import capital
from plimsoll.analyse.results.actions import (
    ActionResult,
    Incident,
    RecoveryReason,
    RecoveryVerdict,
)
from plimsoll.analyse.results.analysis import Analysis, RunResult
from plimsoll.analyse.results.verdicts import Finding, Topic, Value
from plimsoll.analyse.results.wording import fixed, listing, number, plural
from plimsoll.analyse.run.outages.recovery import THROUGHPUT

MAX_SENTENCES = 6
FAILED = "failed"
UNDECIDED = {
    RecoveryReason.NO_BASELINE: "too few requests succeeded, or too little time passed, before",
    RecoveryReason.TOO_SHORT: "the next action or the end of the run followed too soon",
    RecoveryReason.TOO_NOISY: "throughput varied too much before",
    RecoveryReason.LOAD_CHANGES: "the load changes by plan",
}
LAST_WORDS = {
    "kill": "the kill",
    "restart": "the restart",
    "pause": "the end of the pause",
    "link": "the end of the change of the link",
    "cut": "the end of the cut",
}


def seconds(value: float) -> str:
    """A time of a run to a tenth of a second: `10.0 s`."""
    return f"{fixed(value, -1)} s"


def action_words(action: ActionResult) -> str:
    """`killed at 10.0 s`, `paused at 20.0 s for 5 s`, as it was carried out."""
    at = seconds(action.began_s or 0.0)
    match action.kind:
        case "kill":
            return f"killed at {at}"
        case "restart":
            return f"restarted at {at}"
        case "pause":
            return f"paused at {at}{_lasted(action)}"
        case "cut":
            return f"{action.label} at {at}{_lasted(action)}"
        case "link":
            return f"{action.label} from {at} on{_lasted(action)}"
        case "run":
            return f"`{action.label}` ran at {at}"
        case _:
            return f"{action.label} at {at}"


def _lasted(action: ActionResult) -> str:
    """` for 5 s`; empty for an action without a planned end."""
    if not action.planned_for_s:
        return ""
    return f" for {number((action.ended_s or 0.0) - (action.began_s or 0.0))} s"


def what_happened(incident: Incident, actions: tuple[ActionResult, ...]) -> str:
    """The actions of an incident: `db was killed at 10.0 s and restarted at 15.0 s`."""
    own = [actions[number] for number in incident.actions]
    services = dict.fromkeys(action.service for action in own)
    parts = []
    for service in services:
        done = listing(action_words(action) for action in own if action.service == service)
        parts.append(f"{service} was {done}" if service else done)
    return ", ".join(parts)


def outage_words(incident: Incident) -> str:
    """`no success for 5.3 s`, `no outage`."""
    if not incident.outages:
        return "no outage"
    still = "" if incident.outages[-1].has_ended else ", to the end of the run"
    several = f" in {plural(len(incident.outages), 'outage')}" if len(incident.outages) > 1 else ""
    return f"no success for {number(incident.outage_s, 2)} s{several}{still}"


def recovery_words(incident: Incident, actions: tuple[ActionResult, ...]) -> str:
    """The verdict on the recovery, as a clause."""
    recovery = incident.recovery
    match recovery.verdict:
        case RecoveryVerdict.NOT_RECOVERED:
            return "throughput and response time did not come back to those before"
        case RecoveryVerdict.UNDECIDED:
            why = UNDECIDED.get(recovery.reason, "") if recovery.reason else ""
            return f"whether the service recovered cannot be decided: {why}"
    margin = number(100 * (recovery.throughput_margin or 0.0), 2)
    window = f"windows of {number(recovery.window_s, 2)} s, in which {margin} % less can be chance"
    if (recovery.throughput_margin or 0.0) <= 1 - THROUGHPUT:
        window = f"windows of {number(recovery.window_s, 2)} s"
    if not incident.outages and recovery.recovery_s == 0:
        return f"no change of throughput or response time was seen ({window})"
    first, latest = (fixed(time or 0.0, -1) for time in (recovery.recovery_s, recovery.latest_s))
    when = f"{first} s" if first == latest else f"{first} to {latest} s"
    return (
        f"throughput was back to 95 % of before, and response time to 105 %, {when} after "
        f"{_last_word(incident, actions)} ({window})"
    )


def _last_word(incident: Incident, actions: tuple[ActionResult, ...]) -> str:
    last = max((actions[number] for number in incident.actions), key=lambda action: action.began_s or 0.0)
    if last.kind in ("link", "cut") and not last.planned_for_s:
        return "the change of the link"
    return LAST_WORDS.get(last.kind, "the action")


def of_actions(analysis: Analysis) -> list[Finding]:
    """One finding for each incident of each valid run, the first MAX_SENTENCES of them, and one for actions that
    failed."""
    runs = [run for run in analysis.runs if run.valid and run.actions is not None]
    named = len(analysis.runs) > 1
    findings = [
        _finding(run, incident, named=named)
        for run in runs
        if run.actions is not None
        for incident in run.actions.incidents
    ]
    more = len(findings) - MAX_SENTENCES
    findings = findings[:MAX_SENTENCES]
    if more > 0:
        findings.append(Finding(Topic.ACTIONS, f"The report lists {plural(more, 'more incident')}."))
    return findings + [
        Finding(Topic.ACTIONS, f"In run {run.id}, an action failed: {action.error}.")
        for run in runs
        if run.actions is not None
        for action in run.actions.actions
        if action.outcome == FAILED
    ]


def _finding(run: RunResult, incident: Incident, *, named: bool) -> Finding:
    assert run.actions is not None
    actions = run.actions.actions
    text = (
        f"{what_happened(incident, actions)}: {outage_words(incident)}; {recovery_words(incident, actions)}"
    )
    # The name of a service keeps its letters.
    begins_with_name = bool(actions[incident.actions[0]].service)
    head = f"In run {run.id}, {text}" if named else text if begins_with_name else capital(text)
    recovery = incident.recovery
    values: dict[str, Value] = {
        "run": run.id,
        "start_s": incident.start_s,
        "outage_s": incident.outage_s,
        "recovery_s": recovery.recovery_s,
        "window_s": recovery.window_s,
    }
    return Finding(Topic.ACTIONS, f"{head}.", recovery.verdict, values, recovery.rule)
