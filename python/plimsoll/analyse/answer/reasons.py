"""Texts of the reasons why a run is invalid or doubtful, and of the reason for its bottleneck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plimsoll.analyse.results.components.hosts import LostAgent
from plimsoll.analyse.results.verdicts import BottleneckReason, Reason, RunReason, Severity, Value
from plimsoll.analyse.results.wording import count, listing, number, p_words, percent, plural, quantity
from plimsoll.plan.source.units import about_size

SHOWN_PRESSURE = 0.01
"""The least pressure that is stated in addition to killed processes."""
MAX_AGENTS = 5
"""Maximum number of agents that a reason names."""


def run_reason(reason: Reason) -> str:
    """The text of one reason against a run."""
    values = reason.values
    match reason.code:
        case RunReason.NOT_FINISHED if reason.severity == Severity.DOUBTFUL:
            return "it was interrupted, and its figures cover the time until then"
        case RunReason.NOT_FINISHED:
            return f"the run did not finish: {values['status']}"
        case RunReason.NOTHING_ENDED:
            return "no transaction ended in the measured window"
        case RunReason.TESTER_CPU:
            if reason.severity == Severity.DOUBTFUL:
                return (
                    f"the load generator was nearly full: {_demand(values)}; the target may serve more, and response "
                    "times may include delays of the load generator"
                )
            return f"the load generator was the limit: {_demand(values)} (tester_cpu: {_limit(values)} %)"
        case RunReason.STARTED:
            return (
                f"only {percent(figure(values, 'share'))} of the planned transactions were started "
                f"(started: {_limit(values)} %)"
            )
        case RunReason.LATENESS:
            at = f"p{100 * figure(values, 'quantile'):g}"
            late = quantity(1e3 * figure(values, "own_s"), "ms")
            limits = (
                f"lateness_share: {100 * figure(values, 'limit_share'):g} %, "
                f"lateness_floor: {1e3 * figure(values, 'limit_s'):g} ms"
            )
            return (
                f"the load generator started transactions late: {at} of its own lateness, {late}, is "
                f"{percent(figure(values, 'share'))} of the {at} of the response time ({limits})"
            )
        case RunReason.GAPS:
            return (
                f"the load generator did not run for {percent(figure(values, 'share'))} of the window "
                f"(gaps: {_limit(values)} %)"
            )
        case RunReason.DAMAGED:
            return f"the record is damaged: {values['lost_records']} transactions lost, or the counts do not add up"
        case RunReason.LOST_RECORDS:
            return (
                f"{_lost_words(values)}, and only {percent(figure(values, 'on_record'))} of the transactions that are "
                f"known to have been started are on record (started: {_limit(values)} %): `plimsoll collect` fetches "
                "the segments that are still on the hosts"
            )
        case RunReason.UNKNOWN_LOAD:
            return (
                f"{_lost_words(values)}, and for {percent(figure(values, 'unknown'))} of the planned time of all "
                f"testers the load is unknown (limit: {_limit(values)} %): `plimsoll collect` fetches the segments "
                "that are still on the hosts"
            )
        case RunReason.TREND:
            return f"not steady after the warm-up: {_trend(values)}"
        case RunReason.STEAL:
            return (
                f"the hypervisor assigned {100 * figure(values, 'share'):.0f} % of this host's processor time to other "
                f"guests (steal: {_limit(values)} %)"
            )
        case RunReason.LOST_AGENTS:
            return f"{_lost_words(values)}; from then on the load was lower than planned"
        case RunReason.UNKNOWN_CLOCKS:
            return (
                f"the clock offset of {listing(names(values, 'agents')[:MAX_AGENTS])} is unknown: its times cannot be "
                "compared with those of other agents"
            )
        case RunReason.REQUESTS:
            return _requests(values)
        case _:
            return reason.code


def _requests(values: Mapping[str, Value]) -> str:
    """A service that counted more or fewer requests than the tier before it sent."""
    sent, counted = (count(int(figure(values, name))) for name in ("sent", "counted"))
    share = figure(values, "share")
    by = f"{100 * abs(share):.1f} % " if share == share else ""
    return _requests_text(values, by, f" ({counted} instead of {sent})")


def requests_of_runs(reasons: Sequence[Reason]) -> str:
    """The same doubt about several runs, whose figures differ. `reasons`: at least two, of the same service and
    direction."""
    shares = sorted(abs(100 * figure(reason.values, "share")) for reason in reasons)
    by = f"{shares[0]:.1f} to {shares[-1]:.1f} % " if shares[-1] == shares[-1] else ""
    return _requests_text(reasons[0].values, by, f" in {plural(len(reasons), 'run')}")


def _requests_text(values: Mapping[str, Value], by: str, figures: str) -> str:
    through = names(values, "through")
    senders = listing(["the testers" if name == "testers" else name for name in names(values, "before")])
    way = f" through {listing(through)}" if through else ""
    more, why = (
        ("more", "a proxy or retries in between, or other clients")
        if figure(values, "difference") > 0
        else (
            "fewer",
            "they were answered by something in front of the service, such as a cache, or were lost",
        )
    )
    return (
        f"{values['service']} counted {by}{more} requests than {senders} sent{way}{figures}: {why} "
        f"(requests: {_limit(values)} %)"
    )


def _demand(values: Mapping[str, Value]) -> str:
    used, demand = figure(values, "busiest_thread"), figure(values, "demand")
    if demand <= used or demand != demand:
        return f"an agent's busiest thread used {100 * used:.1f} % of a core"
    waited = f"a thread of an agent used or waited for {100 * demand:.1f} % of a core"
    return f"{waited} (its busiest thread used {100 * used:.1f} %)"


def figure(values: Mapping[str, Value], name: str) -> float:
    """A number behind a verdict; NaN if the value is no number."""
    value = values.get(name)
    return float(value) if isinstance(value, (int, float)) else float("nan")


def names(values: Mapping[str, Value], name: str) -> list[str]:
    """The names behind a verdict; empty if the value is no list."""
    value = values.get(name)
    return [str(item) for item in value] if isinstance(value, tuple) else []


def _limit(values: Mapping[str, Value]) -> str:
    return f"{100 * figure(values, 'limit'):g}"


def _trend(values: Mapping[str, Value]) -> str:
    moves = f"{values['metric']} changes by {100 * figure(values, 'change'):+.1f} % of its mean"
    if not values["noise"]:
        return f"{moves}, without noise"
    return f"{moves} over the window ({p_words(figure(values, 'p'))})"


def _lost_words(values: Mapping[str, Value]) -> str:
    times, are_fetched = values["lost_s"], values["brought_in"]
    assert isinstance(times, tuple) and isinstance(are_fetched, tuple)  # both by agent
    agents = names(values, "agents")
    agent_texts = [
        f"{agent}{'' if at is None else f' at {number(float(at))} s'}"
        f"{'' if brought_in else ' (none of its transactions were fetched)'}"
        for agent, at, brought_in in zip(agents, times, are_fetched, strict=True)
    ]
    more = f" and {count(len(agents) - MAX_AGENTS)} more" if len(agents) > MAX_AGENTS else ""
    of_all = plural(int(figure(values, "of")), "agent")
    return f"{count(len(agents))} of {of_all} lost: {listing(agent_texts[:MAX_AGENTS])}{more}"


def lost_words(agent: LostAgent) -> str:
    """The time at which an agent was lost, and the part of its record that exists, as text."""
    when = "at an unknown time" if agent.lost_s is None else f"at {number(agent.lost_s)} s"
    if agent.transactions is None:
        return f"lost {when}; the whole seconds that it had reported are counted"
    if agent.transactions == 0:
        return f"lost {when}, and none of its segments were fetched: its transactions until then are unknown"
    until = "" if agent.last_s is None else f", the last of which ended at {number(agent.last_s)} s"
    return f"lost {when}; {count(agent.transactions)} of its transactions are on disk{until}"


def bottleneck_reason(reason: Reason) -> str:
    """The reason for the bottleneck of a run, as text. It does not repeat the component, which is shown next to it."""
    values = reason.values
    match reason.code:
        case BottleneckReason.LOAD_GENERATOR_FULL:
            return f"the load generator itself: {_busy(values)}"
        case BottleneckReason.FULL:
            return _busy(values)
        case BottleneckReason.MEMORY:
            return f"memory: {memory_words(values)}"
        case BottleneckReason.NOTHING_FULL:
            return f"no watched component is full; the busiest is {values['component']}: {_busy(values)}"
        case BottleneckReason.NOT_TOLD_APART:
            texts = (
                f"{values['component']} ({_busy(values)})",
                f"{values['second_component']} ({_busy(values, 'second_')})",
            )
            return f"no difference detected between {texts[0]} and {texts[1]}"
        case _:
            return "no utilization was measured"


def memory_words(values: Mapping[str, Value]) -> str:
    """The evidence that memory was the limit, as text."""
    limit, kills = figure(values, "limit"), figure(values, "oom_kills")
    at = f" at its limit of {about_size(limit)}" if limit == limit else ""
    texts = []
    if kills > 0:
        texts.append(f"the kernel killed {plural(round(kills), 'process', 'processes')}{at}")
    pressure = figure(values, "mean")
    if pressure > 0 and (not kills > 0 or pressure >= SHOWN_PRESSURE):
        low, high = figure(values, "low"), figure(values, "high")
        interval = f" ({100 * low:.0f} to {100 * high:.0f} %)" if high > low else ""
        who = "its tasks waited" if values.get("role") == "service" else "tasks waited"
        where = "" if texts or not at else f",{at}"
        texts.append(f"{who} for memory for {100 * pressure:.0f} % of the time{interval}{where}")
    return " and ".join(texts)


def _busy(values: Mapping[str, Value], prefix: str = "") -> str:
    mean, low, high = (values[f"{prefix}{name}"] for name in ("mean", "low", "high"))
    interval = ""
    if isinstance(low, (int, float)) and isinstance(high, (int, float)):
        ends = [f"{100 * end:.0f}" for end in (low, high)]
        interval = f" ({ends[0]} to {ends[1]} %)" if ends[0] != ends[1] else ""
    return f"{values[f'{prefix}resource']} {100 * figure({'mean': mean}, 'mean'):.0f} % busy{interval}"
