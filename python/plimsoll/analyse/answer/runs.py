"""Sentences on the runs behind the answer: failed thresholds, runs that are left out, doubts, missing intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from plimsoll.analyse.answer.reasons import figure, requests_of_runs, run_reason
from plimsoll.analyse.results.analysis import Analysis, RunResult
from plimsoll.analyse.results.verdicts import Finding, Reason, RunReason, Severity, Topic
from plimsoll.analyse.results.wording import count, describe, listing, plural, quantity
from plimsoll.analyse.run.validity.validity import is_lower_bound

MERGED: Final = (RunReason.TREND, RunReason.REQUESTS, RunReason.STEAL)
"""Doubts whose texts contain figures of the run."""
MAX_REASONS: Final = 3
Kind: TypeAlias = tuple[object, ...]
"""Reasons of one kind differ in their figures only."""


def run_findings(analysis: Analysis) -> list[Finding]:
    """Findings that limit the figures of the answer."""
    findings: list[Finding] = []
    failed = [verdict for verdict in analysis.verdicts if not verdict.passed and verdict.judged]
    if failed:
        tests = listing(
            dict.fromkeys(f"{describe(verdict.metric).title} {verdict.test}" for verdict in failed)
        )
        judged = sum(verdict.judged for verdict in analysis.verdicts)
        text = f"{count(len(failed))} of {plural(judged, 'threshold')} failed: {tests}."
        findings.append(Finding(Topic.THRESHOLDS, text))
    invalid = [run for run in analysis.runs if not run.valid]
    if invalid:
        predicate = "is invalid and left out" if len(invalid) == 1 else "are invalid and left out"
        text = f"{_share_of_runs(invalid, analysis)} {predicate}: {_reasons(invalid)}."
        findings.append(Finding(Topic.VALIDITY, text))
    doubtful = [run for run in analysis.runs if run.valid and run.doubtful_reasons]
    if doubtful:
        predicate = "is doubtful" if len(doubtful) == 1 else "are doubtful"
        reasons = _doubts(doubtful)
        which = "The run" if len(analysis.runs) == 1 else _share_of_runs(doubtful, analysis)
        findings.append(Finding(Topic.VALIDITY, f"{which} {predicate}: {reasons}."))
    if not any(interval.low is not None for cell in analysis.cells for interval in cell.responses.values()):
        findings.append(Finding(Topic.REPETITIONS, _no_interval(analysis)))
    elif analysis.experiment.shared_services:
        which = listing(analysis.experiment.shared_services)
        text = f"Intervals hold for this one instance of {which}: all runs shared it (`fresh: experiment`)."
        findings.append(Finding(Topic.REPETITIONS, text))
    return findings


def _share_of_runs(selected: Sequence[RunResult], analysis: Analysis) -> str:
    return f"{count(len(selected))} of {plural(len(analysis.runs), 'run')}"


def _no_interval(analysis: Analysis) -> str:
    once = analysis.experiment.repetitions == 1
    why = "one repetition" if once else "no cell has two valid repetitions yet"
    if len(analysis.runs) == 1 and analysis.runs[0].traffic.throughput_interval is None:
        return f"Run-to-run variation unknown: {why}."
    if len(analysis.runs) == 1:
        return f"± holds within this run; run-to-run variation unknown: {why}."
    return f"No interval: {why}."


def _reasons(runs: Sequence[RunResult]) -> str:
    return _grouped(each for run in runs for each in _against(run, Severity.INVALID, run.invalid_reasons))


def _against(run: RunResult, severity: Severity, texts: Sequence[str]) -> list[tuple[Kind, str]]:
    """The reasons against a run. Results of older versions contain only the texts."""
    found = [(_kind(each), run_reason(each)) for each in run.reasons if each.severity == severity]
    return found or [((text,), text) for text in texts or (f"it {run.status}",)]


def _kind(reason: Reason) -> Kind:
    named = sorted((name, str(value)) for name, value in reason.values.items() if not _is_figure(value))
    return reason.code, *named


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _doubts(runs: Sequence[RunResult]) -> str:
    """The doubts about runs. Trends of several runs are one part of the text, and so are differences of the requests of
    a service and stolen processor time, because each run has its own figures."""
    doubts = [reason for run in runs for reason in run.reasons if reason.severity == Severity.DOUBTFUL]
    alike: dict[Kind, list[Reason]] = {}
    for reason in doubts:
        alike.setdefault(_kind_of_doubt(reason), []).append(reason)
    merged = {kind: alike.pop(kind) for kind in list(alike) if kind[0] in MERGED and len(alike[kind]) > 1}
    if not merged:
        return _grouped(
            each for run in runs for each in _against(run, Severity.DOUBTFUL, run.doubtful_reasons)
        )
    texts = [_merged(RunReason(str(kind[0])), reasons) for kind, reasons in merged.items()]
    others = _grouped((_kind(reason), run_reason(reason)) for reasons in alike.values() for reason in reasons)
    return "; ".join(filter(None, (*texts, others)))


def _kind_of_doubt(reason: Reason) -> Kind:
    """Doubts of the same kind differ only in their figures."""
    if reason.code != RunReason.REQUESTS:
        return (reason.code,)
    return reason.code, reason.values["service"], figure(reason.values, "difference") > 0


def _merged(code: RunReason, reasons: Sequence[Reason]) -> str:
    if code == RunReason.TREND:
        return _trends(reasons)
    return _steals(reasons) if code == RunReason.STEAL else requests_of_runs(reasons)


def _steals(reasons: Sequence[Reason]) -> str:
    shares = sorted(100 * figure(reason.values, "share") for reason in reasons)
    between = " to ".join(dict.fromkeys(f"{share:.0f}" for share in (shares[0], shares[-1])))
    return (
        f"in {count(len(reasons))}, the hypervisor assigned {between} % of this host's processor time to other guests"
        f" (steal: {figure(reasons[0].values, 'limit') * 100:g} %)"
    )


def _trends(trends: Sequence[Reason]) -> str:
    changes = sorted(100 * figure(reason.values, "change") for reason in trends)
    metrics = listing(dict.fromkeys(str(reason.values["metric"]) for reason in trends), last="or")
    return (
        f"{count(len(trends))} not steady after the warm-up ({metrics} changes by {changes[0]:+.1f} to "
        f"{changes[-1]:+.1f} % of its mean over the window)"
    )


def _grouped(reasons: Iterable[tuple[Kind, str]]) -> str:
    """The most frequent kinds of reasons, each with the text of its first."""
    alike: dict[Kind, list[str]] = {}
    for kind, text in reasons:
        alike.setdefault(kind, []).append(text)
    by_count = sorted(alike.values(), key=len, reverse=True)
    shown = [_counted(texts) for texts in by_count[:MAX_REASONS]]
    more = len(by_count) - MAX_REASONS
    return "; ".join(shown) + (f"; and {plural(more, 'other reason')}" if more > 0 else "")


def _counted(texts: Sequence[str]) -> str:
    if len(texts) == 1:
        return texts[0]
    figures = "" if len(set(texts)) == 1 else ", with similar figures"
    return f"{texts[0]} ({count(len(texts))} times{figures})"


def nothing_valid(analysis: Analysis) -> str:
    """The reason why there is no answer if no run is valid."""
    runs = analysis.runs
    none_valid = (
        "the one run is not valid" if len(runs) == 1 else f"none of the {count(len(runs))} runs is valid"
    )
    bounds = [run.traffic.throughput_per_s for run in runs if is_lower_bound(run.reasons)]
    if not bounds:
        return f"Nothing can be said about the target: {none_valid} ({_reasons(runs)})."
    least = quantity(max(bounds), "rate", "requests/s")
    return (
        f"The target serves at least {least}. No more can be said about it: {none_valid} ({_reasons(runs)})."
    )
