"""Sentences on conditions of hosts and services that can explain slow or failed transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plimsoll.analyse.answer.reasons import figure
from plimsoll.analyse.answer.words import capital
from plimsoll.analyse.results.analysis import Analysis, RunResult
from plimsoll.analyse.results.components.conditions import Condition, ConditionKind
from plimsoll.analyse.results.verdicts import BottleneckVerdict, Finding, Topic
from plimsoll.analyse.results.wording import count, listing, number, percent, percent_range, plural, quantity

MAX_SENTENCES: Final = 4
"""Maximum number of sentences of the answer; the tables of the runs contain all conditions."""
OF_HOSTS: Final = (ConditionKind.RUN_QUEUE, ConditionKind.OUTSIDE)
"""Kinds of whole hosts. Hosts with the same condition share a sentence."""

Entries = list[tuple[RunResult, Condition]]


def of_conditions(analysis: Analysis) -> list[Finding]:
    """A sentence for each kind of condition and component, of several runs that of the run with the greatest figure.
    Hosts with the same condition share a sentence. Invalid runs are left out."""
    found: dict[tuple[ConditionKind, str], Entries] = {}
    for run in analysis.runs:
        for condition in run.conditions if run.valid else ():
            if not _is_repetition(condition, run):
                found.setdefault((condition.kind, condition.component), []).append((run, condition))
    order = {kind: rank for rank, kind in enumerate(ConditionKind)}
    together = _by_sentence(found)
    kinds = sorted(together, key=lambda key: order[key[0]])
    return [_finding(together[key], len(analysis.runs)) for key in kinds[:MAX_SENTENCES]]


def _by_sentence(
    found: dict[tuple[ConditionKind, str], Entries],
) -> dict[tuple[ConditionKind, str], list[Entries]]:
    """The components of each sentence, the one with the greatest figure first: of conditions of hosts all hosts."""
    together: dict[tuple[ConditionKind, str], list[Entries]] = {}
    for (kind, component), entries in found.items():
        together.setdefault((kind, "" if kind in OF_HOSTS else component), []).append(entries)
    for components in together.values():
        components.sort(key=lambda entries: -max(condition.severity for _, condition in entries))
    return together


def _is_repetition(condition: Condition, run: RunResult) -> bool:
    """A long run queue, and workers that are all in use, are consequences of a full CPU or disk, which the bottleneck
    already states."""
    is_known = run.bottleneck_verdict != BottleneckVerdict.NOT_RESOLVED
    return condition.kind in (ConditionKind.RUN_QUEUE, ConditionKind.WORKERS) and is_known


def _finding(components: Sequence[Entries], runs: int) -> Finding:
    """The sentence on the first of the components, which names the others."""
    entries, *others = components
    run, condition = max(entries, key=lambda entry: entry[1].severity)
    text = condition_text(condition)
    if runs > 1:
        most = f", most in run {run.id}" if len(entries) > 1 else f" (run {run.id})"
        text = f"in {count(len(entries))} of {plural(runs, 'run')}{most}: {text}"
    if others:
        hosts = listing(_host(each[0][1]) for each in others)
        text += f"; also of {hosts}, with lower or equal figures"
    return Finding(
        Topic.CONDITIONS,
        f"{capital(text)}.",
        verdict=condition.kind,
        values={"component": condition.component, "runs": len(entries), **condition.values},
        rule=condition.rule,
    )


def condition_text(condition: Condition) -> str:
    """A condition as a sentence without capital letter and full stop."""
    return _TEXTS[condition.kind](condition)


def _listen_queue(condition: Condition) -> str:
    values = condition.values
    drops = round(figure(values, "drops"))
    requests = f"{plural(drops, 'request')} for a connection"
    is_full = bool(values["overflowed"])
    if values.get("port") is not None:
        what = f"the listen queue of {condition.component} (port {values['port']})"
        size = (
            f" (up to {count(round(figure(values, 'queue')))} of {count(round(figure(values, 'backlog')))})"
        )
    else:
        where = _host(condition)
        what, size = f"a listen queue of a process on {where}", ""
        if not is_full:
            return f"the kernel of {where} dropped {requests}{_connects(condition)}"
    if is_full:
        return f"{what} was full{size}: the kernel dropped {requests}{_connects(condition)}"
    return f"the kernel dropped {requests} at {what}{size}{_connects(condition)}"


def _connects(condition: Condition) -> str:
    slow, failed = condition.values["slow"], round(figure(condition.values, "failed"))
    parts = [f"{plural(failed, 'connection')} failed"] if failed else []
    if isinstance(slow, int) and slow:
        parts.append(f"{plural(slow, 'connection')} took 1 s or longer, after which a client repeats a SYN")
    return f"; {listing(parts)}" if parts else ""


def _workers(condition: Condition) -> str:
    values = condition.values
    workers, worker = round(figure(values, "workers")), str(values["worker"])
    share, waiting = figure(values, "share"), figure(values, "waiting")
    if workers == 1:
        text = f"the only {worker} of {condition.component} was in use"
    else:
        text = f"the {plural(workers, worker)} of {condition.component} were all in use"
    if share < 1:
        text += f" in {percent(share, 2)} of the readings"
    waiters = f"{values['waiter']}s"
    return f"{text}, and on average {number(waiting, 2)} {waiters} waited for one" if waiting else text


def _ports(condition: Condition) -> str:
    failed = round(figure(condition.values, "failed"))
    used = percent(figure(condition.values, "used"), 2)
    text = f"up to {used} of the local ports of {_host(condition)} were in use toward one address"
    if failed:
        return f"{text}: {plural(failed, 'transaction')} found no free one"
    return f"{text}: a limit of the host, not of the target"


def _waiting_ports(condition: Condition) -> str:
    waiting = percent(figure(condition.values, "waiting"), 2)
    return (
        f"ended data connections (TIME-WAIT) occupied up to {waiting} of the local ports of {_host(condition)}: the "
        "kernel then needs much CPU time to find the port of the next data connection"
    )


def _packets(condition: Condition) -> str:
    values = condition.values
    parts = [
        f"{count(round(figure(values, way)))} {way} {'packet' if figure(values, way) == 1 else 'packets'} on "
        f"{values[f'{way}_interface']}"
        for way in ("received", "sent")
        if values.get(way) is not None
    ]
    if values.get("softnet") is not None:
        parts.append(
            f"{plural(round(figure(values, 'softnet')), 'packet')} for which the queue of a core was full"
        )
    return f"{_host(condition)} dropped {listing(parts)}"


def _disk(condition: Condition) -> str:
    values = condition.values
    busy, wait = percent(figure(values, "busy"), 2), quantity(figure(values, "wait_s") * 1e3, "ms")
    return (
        f"the disk {values['disk']} of {_host(condition)} was busy for only {busy} of the time, but a request of it "
        f"took {wait} on average ({number(figure(values, 'iops'))} requests/s, "
        f"{number(figure(values, 'queue'))} in progress)"
    )


def _run_queue(condition: Condition) -> str:
    values = condition.values
    tasks = number(figure(values, "tasks"))
    cores = round(figure(values, "cores"))
    low, high = (number(figure(values, end)) for end in ("low", "high"))
    # Each second is the mean of three whole numbers: in a short run, all seconds can have the same mean.
    band = "" if low == high else f" ({low} to {high})"
    return (
        f"on average, {tasks} tasks{band} ran or waited for the {plural(cores, 'core')} of {_host(condition)}"
    )


def _outside(condition: Condition) -> str:
    values = condition.values
    share = percent(figure(values, "share"), 2)
    band = percent_range(figure(values, "low"), min(1.0, figure(values, "high")), 2)
    return f"processes outside the experiment used {share} ({band}) of the CPU of {_host(condition)}"


def _late_packets(condition: Condition) -> str:
    late, delivered = figure(condition.values, "late"), figure(condition.values, "delivered")
    return (
        f"the emulated links delivered {percent(late / delivered, 2)} of the packets ({count(round(late))} of "
        f"{count(round(delivered))}) more than 1 ms later than specified, because the link emulator waited for a core "
        "or had too much work"
    )


def _host(condition: Condition) -> str:
    return condition.host or "the host"


_TEXTS: Final = {
    ConditionKind.LISTEN_QUEUE: _listen_queue,
    ConditionKind.WORKERS: _workers,
    ConditionKind.PORTS: _ports,
    ConditionKind.WAITING_PORTS: _waiting_ports,
    ConditionKind.PACKETS: _packets,
    ConditionKind.DISK: _disk,
    ConditionKind.RUN_QUEUE: _run_queue,
    ConditionKind.OUTSIDE: _outside,
    ConditionKind.LATE_PACKETS: _late_packets,
}
