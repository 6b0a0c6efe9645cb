"""Sentences on changes during runs that no plan of the load explains."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from plimsoll.analyse.answer.words import capital
from plimsoll.analyse.results.analysis import Analysis, RunResult
from plimsoll.analyse.results.run import OutsideCpu, RunChange
from plimsoll.analyse.results.verdicts import ChangedSeries, Finding, Topic
from plimsoll.analyse.results.wording import count, listing, number, percent, plural

MAX_SENTENCES: Final = 3
"""Maximum number of sentences on the changes of one run; the table of the run contains all changes."""
MAX_RUNS: Final = 3
"""Maximum number of runs that are named."""
TOGETHER_S: Final = 3.0
"""Changes of throughput and response time within this time are one sentence."""


def of_changes(analysis: Analysis) -> list[Finding]:
    """The findings about changes: of a single run, a sentence for each of the most important ones; of several runs, one
    sentence. Invalid runs are left out."""
    runs = [run for run in analysis.runs if run.valid and run.changes]
    if not runs:
        return []
    if len(analysis.runs) == 1:
        return _of_one(runs[0])
    return _of_several(runs, analysis)


def change_text(change: RunChange) -> str:
    """One change as a sentence without capital letter and full stop: `throughput fell by 30 % at 41 s`."""
    text = f"{_moved(change)} at {_second(change.at_s)}"
    return "; ".join([text, *_outside(change.outside)])


def _of_one(run: RunResult) -> list[Finding]:
    changes = run.changes or ()
    traffic = _grouped([change for change in changes if change.series != ChangedSeries.CPU])
    cpu = [[change] for change in changes if change.series == ChangedSeries.CPU]
    shown = [*traffic, *cpu]
    findings = [_finding(_sentence(group), group) for group in shown[:MAX_SENTENCES]]
    left = sum(map(len, shown[MAX_SENTENCES:]))
    if left:
        others = f"{plural(left, 'further change')} of the run {'is' if left == 1 else 'are'} listed in the report."
        findings.append(Finding(Topic.CHANGES, capital(others)))
    return findings


def _of_several(runs: Sequence[RunResult], analysis: Analysis) -> list[Finding]:
    """One sentence on the runs with changes of the traffic: changes of CPU alone are only in the report."""
    with_traffic = [
        (run, traffic)
        for run in runs
        if (traffic := [change for change in run.changes or () if change.series != ChangedSeries.CPU])
    ]
    if not with_traffic:
        return []
    examples = [f"{run.id}: {_first(changes)}" for run, changes in with_traffic[:MAX_RUNS]]
    more = len(with_traffic) - MAX_RUNS
    examples += [f"and {plural(more, 'other run')}"] if more > 0 else []
    text = (
        f"Throughput or response time changed during {count(len(with_traffic))} of "
        f"{plural(len(analysis.runs), 'run')} without a planned change of the load ({'; '.join(examples)})."
    )
    explained = sum(any(change.outside for change in changes) for _, changes in with_traffic)
    if explained:
        text += (
            f" In {count(explained)} of them, processes outside the experiment changed their use of CPU at the same "
            "time."
        )
    return [_finding(text, with_traffic[0][1])]


def _finding(text: str, changes: Sequence[RunChange]) -> Finding:
    return Finding(Topic.CHANGES, text, verdict="changed", rule=changes[0].rule)


def _grouped(changes: Sequence[RunChange]) -> list[list[RunChange]]:
    """Changes of different series at about the same time, together."""
    groups: list[list[RunChange]] = []
    for change in changes:
        last = groups[-1] if groups else []
        is_new = all(change.series != other.series for other in last)
        if last and is_new and change.at_s - last[0].at_s <= TOGETHER_S:
            last.append(change)
        else:
            groups.append([change])
    return groups


def _sentence(changes: Sequence[RunChange]) -> str:
    first = changes[0]
    if any(second.at_s != before.at_s for before, second in pairwise(changes)):
        text = listing(f"{_moved(change)} at {_second(change.at_s)}" for change in changes)
    else:
        text = f"{listing(map(_moved, changes))} at {_second(first.at_s)}"
    outside = dict.fromkeys(other for change in changes for other in change.outside)
    return capital("; ".join([text, *_outside(list(outside))])) + "."


def _first(changes: Sequence[RunChange]) -> str:
    """The first change of a run, without its explanation."""
    return f"{_moved(changes[0])} at {_second(changes[0].at_s)}"


def _moved(change: RunChange) -> str:
    """`throughput fell by 30 %`; CPU in cores, because shares of a small use are large."""
    verb = "rose" if change.after > change.before else "fell"
    if change.series == ChangedSeries.CPU:
        of = " on ".join(filter(None, (change.component, change.host))) or "the host"
        return f"the CPU use of {of} {verb} from {number(change.before)} to {number(change.after)} cores"
    name = "the mean response time" if change.series == ChangedSeries.RESPONSE else "throughput"
    if change.ratio is None:
        return f"{name} rose from 0 to {number(change.after)} {change.unit}"
    return f"{name} {verb} by {percent(abs(change.ratio), 2)}"


def _outside(changes: Sequence[OutsideCpu]) -> list[str]:
    """`processes outside the experiment used 38 % of the CPU of db1 from 40 s on`."""
    texts = []
    for change in changes:
        until = change.after < change.before
        when = f"until {_second(change.at_s)}" if until else f"from {_second(change.at_s)} on"
        used = change.before if until else change.after
        on = change.host or "the host"
        texts.append(f"processes outside the experiment used {percent(used, 2)} of the CPU of {on} {when}")
    return texts


def _second(at_s: float) -> str:
    """A time of a change, which is the start of a second."""
    return f"{count(round(at_s))} s"
