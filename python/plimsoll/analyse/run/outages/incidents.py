"""The effects of the actions of a run: groups actions into incidents, and computes outages, recoveries and phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from plimsoll.analyse.results.actions import (
    ActionResult,
    ActionsResult,
    Incident,
    Outage,
    Phase,
    Recovery,
    RecoveryReason,
    RecoveryVerdict,
)
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.run.outages.outages import outage_limit_s, outages
from plimsoll.analyse.run.outages.recovery import recovery
from plimsoll.analyse.run.outages.success_bins import SuccessBins
from plimsoll.analyse.window.transactions import Window

DEFAULT_LIMIT_NS: Final = 1_000_000_000
"""The response time up to which a start counts as available, if the experiment has no rule on response times."""
LimitSource = Literal["capacity", "threshold", "default"]
NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class AvailabilityLimit:
    """The response time up to which a start counts as available, and its origin."""

    ns: int = DEFAULT_LIMIT_NS
    source: LimitSource = "default"


@dataclass(frozen=True, slots=True)
class Span:
    """Actions that belong together, ns from the run's zero. `release`: the last action; for a pause its end."""

    actions: tuple[int, ...]
    start: int
    release: int


def spans(actions: Sequence[ActionResult]) -> tuple[Span, ...]:
    """The incidents of a run, in order of time. A kill lasts until the restart of its service. Actions that overlap in
    time belong to one incident. Actions that did not begin belong to none."""
    found: list[Span] = []
    open_kills: dict[str, int] = {}
    for number, action in enumerate(actions):
        if action.began_s is None:
            continue
        start, release = _ns(action.began_s), _release(action)
        if action.kind == "kill":
            open_kills[action.service] = number
        killed = open_kills.pop(action.service, None) if action.kind == "restart" else None
        joined = [
            span
            for span in found
            if killed in span.actions or (killed is None and span.start <= start <= span.release)
        ]
        if killed is not None:  # what happened between the kill and the restart belongs to them
            since = min(span.start for span in joined)
            joined = [span for span in found if span.release >= since]
        members = tuple(sorted({number, *(each for span in joined for each in span.actions)}))
        merged = Span(
            members,
            min([start, *(span.start for span in joined)]),
            max([release, *(span.release for span in joined)]),
        )
        found = [*(span for span in found if span not in joined), merged]
    return tuple(sorted(found, key=lambda span: span.start))


def phases(found: Sequence[Span], measured: Window) -> tuple[Window | None, Window | None, Window | None]:
    """The measured window before the first action, from it to the last one, and after that. None: no time."""
    if not found:
        return None, None, None
    first = min(max(found[0].start, measured.start), measured.end)
    last = min(max(max(span.release for span in found), measured.start), measured.end)
    windows = Window(measured.start, first), Window(first, last), Window(last, measured.end)
    before, during, after = (window if window.end > window.start else None for window in windows)
    return before, during, after


def actions_result(
    actions: Sequence[ActionResult],
    bins: SuccessBins,
    measured: Window,
    limit: AvailabilityLimit,
    codes: Sequence[str],
    *,
    never_started: int = 0,
    load_changes: bool = False,
) -> ActionsResult:
    """The result, without the traffic of the phases. `never_started`: planned starts of the window without a
    transaction; `codes`: texts of the codes of failures, by number; `load_changes`: whether it changes by plan."""
    found = spans(actions)
    first = found[0].start if found else measured.end
    start = measured.start if first > measured.start else 0
    limit_s = outage_limit_s(bins, Window(start, min(first, measured.end)), measured.end)
    all_outages = () if limit_s is None else outages(bins, limit_s, start, measured.end, codes)
    incidents = _incidents(found, bins, Window(start, measured.end), all_outages, load_changes)
    if limit_s is None:
        all_outages = ()
    planned = bins.planned + never_started
    lengths = [outage.length_s for outage in all_outages]
    times = [incident.recovery.recovery_s for incident in incidents]
    known = [time for time in times if time is not None]
    return ActionsResult(
        actions=tuple(actions),
        incidents=incidents,
        outages=all_outages,
        outage_ms=None if limit_s is None else sum(lengths) * 1e3,
        longest_outage_ms=None if limit_s is None else max(lengths, default=0.0) * 1e3,
        outage_limit_s=limit_s,
        availability=bins.in_time / planned if planned else None,
        planned_starts=planned,
        succeeded_in_time=bins.in_time,
        availability_limit_ms=limit.ns / 1e6,
        availability_limit_from=limit.source,
        recovery_ms=max(known) * 1e3 if known and len(known) == len(times) else None,
        outage_rule=rule(RuleName.OUTAGE),
    )


def _incidents(
    found: Sequence[Span],
    bins: SuccessBins,
    window: Window,
    all_outages: Sequence[Outage],
    load_changes: bool,
) -> tuple[Incident, ...]:
    incidents = []
    since = window.start
    for number, span in enumerate(found):
        if span.start >= window.end:
            continue
        until = min([window.end, *(later.start for later in found[number + 1 :])])
        own = tuple(
            outage for outage in all_outages if _ns(outage.end_s) > span.start and _ns(outage.start_s) < until
        )
        release = min(span.release, until)
        if own and not own[-1].has_ended:
            back = Recovery(RecoveryVerdict.NOT_RECOVERED, rule=rule(RuleName.RECOVERY))
        elif load_changes:
            back = Recovery(RecoveryVerdict.UNDECIDED, reason=RecoveryReason.LOAD_CHANGES)
        else:
            not_before = _ns(own[-1].end_s) if own else 0
            back = recovery(bins, (since, span.start), (release, until), not_before)
        incidents.append(
            Incident(
                actions=span.actions,
                start_s=span.start / NS,
                release_s=release / NS,
                outages=own,
                outage_s=sum(outage.length_s for outage in own),
                recovery=back,
                before=phase(bins, since, span.start),
                during=phase(bins, span.start, release) if release > span.start else None,
                after=phase(bins, release, until),
            )
        )
        since = _ns(back.at_s) if back.at_s is not None else until
    return tuple(incidents)


def phase(bins: SuccessBins, start: int, end: int) -> Phase:
    """The figures of a part of a run (ns), to a bin."""
    part = slice(start // bins.bin_ns, max(start // bins.bin_ns, end // bins.bin_ns))
    done, failed = int(bins.done[part].sum()), int(bins.failed[part].sum())
    seconds = (end - start) / NS
    return Phase(
        start / NS,
        end / NS,
        done / seconds if seconds > 0 else None,
        float(bins.response[part].sum()) / done / 1e6 if done else None,
        failed / (done + failed) if done + failed else None,
    )


def _release(action: ActionResult) -> int:
    assert action.began_s is not None
    lasts = action.planned_for_s > 0 and action.ended_s is not None
    return _ns(action.ended_s if lasts and action.ended_s is not None else action.began_s)


def _ns(seconds: float) -> int:
    return round(seconds * NS)
