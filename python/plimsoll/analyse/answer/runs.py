"""What must be known about the runs behind the answer: thresholds failed, runs left out, doubts, no interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from plimsoll.analyse.answer.reasons import figure, run_reason
from plimsoll.analyse.results.analysis import Analysis, RunResult
from plimsoll.analyse.results.verdicts import Finding, RunReason, Severity, Topic
from plimsoll.analyse.results.wording import count, describe, listing, plural, quantity
from plimsoll.analyse.run.validity import is_lower_bound


def about_the_runs(analysis: Analysis) -> list[Finding]:
    """What a reader must know before the figures are believed."""
    said: list[Finding] = []
    failed = [each for each in analysis.verdicts if not each.passed and each.judged]
    if failed:
        tests = listing(dict.fromkeys(f"{describe(each.metric).title} {each.test}" for each in failed))
        judged = sum(each.judged for each in analysis.verdicts)
        text = f"{count(len(failed))} of {plural(judged, 'threshold')} failed: {tests}."
        said.append(Finding(Topic.THRESHOLDS, text))
    invalid = [run for run in analysis.runs if not run.valid]
    if invalid:
        are = "is invalid and left out" if len(invalid) == 1 else "are invalid and left out"
        text = f"{_of_runs(invalid, analysis)} {are}: {_reasons(invalid)}."
        said.append(Finding(Topic.VALIDITY, text))
    doubtful = [run for run in analysis.runs if run.valid and run.doubtful_reasons]
    if doubtful:
        are = "is doubtful" if len(doubtful) == 1 else "are doubtful"
        reasons = _doubts(doubtful)
        which = "The run" if len(analysis.runs) == 1 else _of_runs(doubtful, analysis)
        said.append(Finding(Topic.VALIDITY, f"{which} {are}: {reasons}."))
    if not any(each.low is not None for cell in analysis.cells for each in cell.responses.values()):
        said.append(Finding(Topic.REPETITIONS, _no_interval(analysis)))
    elif analysis.experiment.shared_services:
        which = listing(analysis.experiment.shared_services)
        text = f"Intervals hold for this one instance of {which}: all runs shared it (`fresh: experiment`)."
        said.append(Finding(Topic.REPETITIONS, text))
    return said


def _of_runs(some: Sequence[RunResult], analysis: Analysis) -> str:
    return f"{count(len(some))} of {plural(len(analysis.runs), 'run')}"


def _no_interval(analysis: Analysis) -> str:
    once = analysis.experiment.repetitions == 1
    why = "one repetition" if once else "no cell has two valid repetitions yet"
    if len(analysis.runs) == 1 and analysis.runs[0].traffic.throughput_interval is None:
        return f"Run-to-run variation unknown: {why}."
    if len(analysis.runs) == 1:
        return f"± holds within this run; run-to-run variation unknown: {why}."
    return f"No interval: {why}."


def _reasons(runs: Sequence[RunResult]) -> str:
    return _grouped(reason for run in runs for reason in run.invalid_reasons or (f"it {run.status}",))


def _doubts(runs: Sequence[RunResult]) -> str:
    """Trends of several runs in one part, as each has figures of its own."""
    doubts = [each for run in runs for each in run.reasons if each.severity == Severity.DOUBTFUL]
    trends = [each for each in doubts if each.code == RunReason.TREND]
    if len(trends) < 2:
        return _grouped(reason for run in runs for reason in run.doubtful_reasons)
    changes = sorted(100 * figure(each.values, "change") for each in trends)
    what = listing(dict.fromkeys(str(each.values["metric"]) for each in trends), last="or")
    not_steady = (
        f"{count(len(trends))} not steady after the warm-up ({what} changes by {changes[0]:+.1f} to "
        f"{changes[-1]:+.1f} % of its mean over the window)"
    )
    others = [run_reason(each) for each in doubts if each.code != RunReason.TREND]
    return "; ".join(filter(None, (not_steady, _grouped(others))))


def _grouped(reasons: Iterable[str]) -> str:
    found = Counter(reasons)
    shown = [text if times == 1 else f"{text} ({times} times)" for text, times in found.most_common(3)]
    more = len(found) - 3
    return "; ".join(shown) + (f"; and {plural(more, 'other reason')}" if more > 0 else "")


def nothing_valid(analysis: Analysis) -> str:
    """Why there is no answer, where no run is valid."""
    runs = analysis.runs
    none = "the one run is not valid" if len(runs) == 1 else f"none of the {count(len(runs))} runs is valid"
    bounds = [run.traffic.throughput_per_s for run in runs if is_lower_bound(run.reasons)]
    if not bounds:
        return f"Nothing can be said about the target: {none} ({_reasons(runs)})."
    least = quantity(max(bounds), "rate", "requests/s")
    return f"The target serves at least {least}. No more can be said about it: {none} ({_reasons(runs)})."
