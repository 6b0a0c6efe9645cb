"""Why a run is invalid or doubtful, and why its bottleneck is what it is, in words."""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll.analyse.results.hosts import LostAgent
from plimsoll.analyse.results.verdicts import BottleneckReason, Reason, RunReason, Severity, Value
from plimsoll.analyse.results.wording import count, listing, number, p_words, percent, plural, quantity

MAX_AGENTS = 5
"""Agents that a reason names."""


def run_reason(reason: Reason) -> str:
    """One reason against a run."""
    told = reason.values
    match reason.code:
        case RunReason.NOT_FINISHED if reason.severity == Severity.DOUBTFUL:
            return "it was interrupted, and its figures cover the time until then"
        case RunReason.NOT_FINISHED:
            return f"the run did not finish: {told['status']}"
        case RunReason.NOTHING_ENDED:
            return "no transaction ended in the measured window"
        case RunReason.TESTER_CPU:
            if reason.severity == Severity.DOUBTFUL:
                return (
                    f"the load generator was nearly full: {_demand(told)}; the target may serve more, and response "
                    "times may include delays of the load generator"
                )
            return f"the load generator was the limit: {_demand(told)} (tester_cpu: {_limit(told)} %)"
        case RunReason.STARTED:
            return (
                f"only {percent(figure(told, 'share'))} of the planned transactions were started "
                f"(started: {_limit(told)} %)"
            )
        case RunReason.LATENESS:
            at = f"p{100 * figure(told, 'quantile'):g}"
            late = quantity(1e3 * figure(told, "own_s"), "ms")
            limits = (
                f"lateness_share: {100 * figure(told, 'limit_share'):g} %, "
                f"lateness_floor: {1e3 * figure(told, 'limit_s'):g} ms"
            )
            return (
                f"the load generator started transactions late: {at} of its own lateness, {late}, is "
                f"{percent(figure(told, 'share'))} of the {at} of the response time ({limits})"
            )
        case RunReason.GAPS:
            return (
                f"the load generator did not run for {percent(figure(told, 'share'))} of the window "
                f"(gaps: {_limit(told)} %)"
            )
        case RunReason.DAMAGED:
            return f"the record is damaged: {told['lost_records']} transactions lost, or the counts do not add up"
        case RunReason.LOST_RECORDS:
            return (
                f"{_lost(told)}, and only {percent(figure(told, 'on_record'))} of the transactions that are known to "
                f"have been started are on record (started: {_limit(told)} %): `plimsoll collect` fetches what the "
                "hosts still have"
            )
        case RunReason.UNKNOWN_LOAD:
            return (
                f"{_lost(told)}, and for {percent(figure(told, 'unknown'))} of the planned time of all testers the "
                f"load is unknown (limit: {_limit(told)} %): `plimsoll collect` fetches what the hosts still have"
            )
        case RunReason.TREND:
            return f"not steady after the warm-up: {_trend(told)}"
        case RunReason.STEAL:
            return (
                f"the hypervisor gave {100 * figure(told, 'share'):.0f} % of this host's processor time to other "
                f"guests (steal: {_limit(told)} %)"
            )
        case RunReason.LOST_AGENTS:
            return f"{_lost(told)}; from then on the load was lower than planned"
        case RunReason.UNKNOWN_CLOCKS:
            return (
                f"the clock offset of {listing(names(told, 'agents')[:MAX_AGENTS])} is unknown: its times cannot be "
                "compared with those of other agents"
            )
        case _:
            return reason.code


def _demand(told: Mapping[str, Value]) -> str:
    used, demand = figure(told, "busiest_thread"), figure(told, "demand")
    if demand <= used or demand != demand:
        return f"an agent's busiest thread used {100 * used:.1f} % of a core"
    waited = f"a thread of an agent used or waited for {100 * demand:.1f} % of a core"
    return f"{waited} (its busiest thread used {100 * used:.1f} %)"


def figure(told: Mapping[str, Value], name: str) -> float:
    """A number behind a verdict; NaN where it is none."""
    value = told.get(name)
    return float(value) if isinstance(value, (int, float)) else float("nan")


def names(told: Mapping[str, Value], name: str) -> list[str]:
    """Several names behind a verdict."""
    value = told.get(name)
    return [str(each) for each in value] if isinstance(value, tuple) else []


def _limit(told: Mapping[str, Value]) -> str:
    return f"{100 * figure(told, 'limit'):g}"


def _trend(told: Mapping[str, Value]) -> str:
    moves = f"{told['metric']} changes by {100 * figure(told, 'change'):+.1f} % of its mean"
    if not told["noise"]:
        return f"{moves}, without noise"
    return f"{moves} over the window ({p_words(figure(told, 'p'))})"


def _lost(told: Mapping[str, Value]) -> str:
    times, there = told["lost_s"], told["brought_in"]
    assert isinstance(times, tuple) and isinstance(there, tuple)  # both by agent
    agents = names(told, "agents")
    said = [
        f"{agent}{'' if at is None else f' at {number(float(at))} s'}"
        f"{'' if brought_in else ' (none of its transactions were fetched)'}"
        for agent, at, brought_in in zip(agents, times, there, strict=True)
    ]
    more = f" and {count(len(agents) - MAX_AGENTS)} more" if len(agents) > MAX_AGENTS else ""
    of = plural(int(figure(told, "of")), "agent")
    return f"{count(len(agents))} of {of} lost: {listing(said[:MAX_AGENTS])}{more}"


def lost_words(one: LostAgent) -> str:
    """When an agent was lost, and how much of its record exists."""
    when = "at an unknown time" if one.lost_s is None else f"at {number(one.lost_s)} s"
    if one.transactions is None:
        return f"lost {when}; the whole seconds that it had reported are counted"
    if one.transactions == 0:
        return f"lost {when}, and none of its segments were fetched: its transactions until then are unknown"
    until = "" if one.last_s is None else f", the last of which ended at {number(one.last_s)} s"
    return f"lost {when}; {count(one.transactions)} of its transactions are on disk{until}"


def bottleneck_reason(reason: Reason) -> str:
    """What led to the bottleneck of a run. The text does not repeat the component that is shown beside it."""
    told = reason.values
    match reason.code:
        case BottleneckReason.LOAD_GENERATOR_FULL:
            return f"the load generator itself: {_busy(told)}"
        case BottleneckReason.FULL:
            return _busy(told)
        case BottleneckReason.NOTHING_FULL:
            return f"no watched component is full; the busiest is {told['component']}: {_busy(told)}"
        case BottleneckReason.NOT_TOLD_APART:
            both = (
                f"{told['component']} ({_busy(told)})",
                f"{told['second_component']} ({_busy(told, 'second_')})",
            )
            return f"no difference detected between {both[0]} and {both[1]}"
        case _:
            return "no utilization was measured"


def _busy(told: Mapping[str, Value], prefix: str = "") -> str:
    mean, low, high = (told[f"{prefix}{name}"] for name in ("mean", "low", "high"))
    interval = ""
    if isinstance(low, (int, float)) and isinstance(high, (int, float)):
        ends = [f"{100 * end:.0f}" for end in (low, high)]
        interval = f" ({ends[0]} to {ends[1]} %)" if ends[0] != ends[1] else ""
    return f"{told[f'{prefix}resource']} {100 * figure({'mean': mean}, 'mean'):.0f} % busy{interval}"
