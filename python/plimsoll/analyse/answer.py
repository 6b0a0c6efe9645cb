"""The answer to the experiment's question, in sentences a person would say, with intervals.

Pure: reads what the other modules of this room found and says it; computes nothing but a ratio. What cannot be said
is said to be so: one repetition has no interval, a bracket is never finer than the levels, "not resolved" is an answer.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from plimsoll.analyse.answer_caches import of_caches
from plimsoll.analyse.answer_consistency import of_consistency
from plimsoll.analyse.answer_hosts import of_hosts
from plimsoll.analyse.explained import explained
from plimsoll.analyse.metrics import canonical
from plimsoll.analyse.results import (
    Analysis,
    Capacity,
    CellResult,
    Interval,
    RunResult,
    Saturation,
    Utilization,
)
from plimsoll.analyse.wording import (
    UNKNOWN,
    count,
    describe,
    factor_word,
    level_words,
    listing,
    number,
    percent,
    percent_range,
    plural,
    plus_minus,
    quantity,
)

MOST_SENTENCES: Final = 8
"""Combinations (or cells) that get a sentence of their own; of more, the best and the worst are named."""
NOT_RESOLVED: Final = "not resolved"
DOUBT: Final = "cannot be excluded"
"""Stands in the text of a bracket whose upper level is not surely flat."""
NOT_REACHED: Final = "not reached"
CANNOT_SAY: Final = "cannot be said"


def with_answer(analysis: Analysis) -> Analysis:
    """The same analysis with its answer filled in."""
    return replace(analysis, answer=sentences(analysis))


def sentences(analysis: Analysis) -> tuple[str, ...]:
    """The answer, the most important sentence first; `analysis.answer` itself is not read."""
    info = analysis.experiment
    said: list[str] = []
    if not info.complete:
        said.append(f"So far: {count(info.finished_runs)} of {plural(info.planned_runs, 'run')}.")
    if not analysis.runs:
        return (*said, "Nothing has been measured yet.")
    if not any(run.valid for run in analysis.runs):
        return (*said, _nothing_valid(analysis))
    said += of_consistency(analysis) or of_caches(analysis)
    leading = [found for found in analysis.saturation if found.metric == _leading_metric(analysis)]
    said += _of_saturation(analysis, leading) if leading else _of_cells(analysis)
    said += _of_stages(analysis)
    said += of_hosts(analysis)
    said += explained(analysis)
    said += _about_the_runs(analysis)
    return tuple(said)


def _leading_metric(analysis: Analysis) -> str:
    """The first response of the experiment that has a saturation, else the first metric that has one."""
    metrics = [found.metric for found in analysis.saturation]
    wanted = [canonical(name) for name in analysis.experiment.responses]
    return next((name for name in wanted if name in metrics), None) or (metrics[0] if metrics else "")


def _response(analysis: Analysis) -> str:
    """The canonical name of the response that leads."""
    names = [canonical(name) for name in analysis.experiment.responses]
    return next((name for name in names if name is not None), "throughput_per_s")


# -- where combinations saturate


def _of_saturation(analysis: Analysis, found: Sequence[Saturation]) -> list[str]:
    ranked = sorted(found, key=lambda each: -(_mean(_capacity(each, "nominal")) or -math.inf))
    said = _comparison([each for each in ranked if not _one_load(analysis, each)])
    if len(found) <= MOST_SENTENCES:
        return said + [_saturation_sentence(analysis, each) for each in found]
    said += [_saturation_sentence(analysis, each) for each in (ranked[0], ranked[-1])]
    return [
        *said,
        f"The other {plural(len(found) - 2, 'combination')} lie between these two; the table has them all.",
        *_what_stops(analysis),
    ]


def _what_stops(analysis: Analysis) -> list[str]:
    """At the highest load, the component that gave way at each level of the first factor, and in how many of its runs:
    those in which it was the load generator are invalid, and say so here."""
    info = analysis.experiment
    loads = [cell.load for cell in analysis.cells if cell.load is not None]
    varied = (name for name, levels in info.factors.items() if name != info.load_factor and len(levels) > 1)
    first = next(varied, None)
    if first is None or info.load_factor is None or not loads:
        return []
    top = [cell.cell for cell in analysis.cells if cell.load == max(loads)]
    parts = []
    for level in info.factors[first]:
        runs = [run for run in analysis.runs if run.cell in top and run.cell.get(first) == level]
        named = Counter(run.bottleneck for run in runs if run.bottleneck != NOT_RESOLVED)
        if named:
            ((most, times),) = named.most_common(1)
            seen = [each for run in runs for each in run.utilization if each.component == most]
            used = f" ({used})" if (used := _most_used(seen)) else ""
            stopped = f"{_component(most, seen)}{used} in {times} of {plural(len(runs), 'run')}"
            parts.append(f"{factor_word(first)} {level} by {stopped}")
    if not parts:
        return []
    load = _loads(
        _load_label(analysis, info.load_factor, max(loads)) or UNKNOWN, factor_word(info.load_factor)
    )
    return [f"At {load}, {listing(parts).replace(' by ', ' is stopped by ', 1)}."]


def _capacity(found: Saturation, kind: str) -> Capacity | None:
    return next((each for each in found.capacities if each.kind == kind), None)


def _mean(capacity: Capacity | None) -> float | None:
    return capacity.value.mean if capacity is not None and capacity.value is not None else None


def _comparison(ranked: Sequence[Saturation]) -> list[str]:
    """Which combination carries most, and how much more than the least; nothing for a single one. Those of which one
    load was tried, as in a design that varies one factor at a time, may carry more: they are not compared."""
    known = [
        (each, capacity.value)
        for each in ranked
        if (capacity := _capacity(each, "nominal")) and capacity.value
    ]
    if len(known) < 2 or not known[0][0].combination:
        return []
    (best, most), (second, next_most), (worst, least) = known[0], known[1], known[-1]
    name = _start(level_words(best.combination))
    if _overlap(most, next_most):
        return [f"{name} and {level_words(second.combination)} carry most, and cannot be told apart."]
    certain = most.low is not None and next_most.high is not None
    times = (
        f"{number(most.mean / least.mean, 2)} times as much as {level_words(worst.combination)}"
        if least.mean > 0
        else ""
    )
    tail = "" if certain else "; without intervals, that is one observation"
    return [f"{name} carries most{', ' + times if times else ''}{tail}."]


def _start(text: str) -> str:
    """With a capital, and nothing else of the text changed: levels are shown as people wrote them."""
    return text[:1].upper() + text[1:]


def _overlap(one: Interval, other: Interval) -> bool:
    if one.low is None or other.high is None:
        return False
    return one.low <= other.high


def _saturation_sentence(analysis: Analysis, found: Saturation) -> str:
    metric = describe(found.metric)
    capacity = _capacity(found, "nominal")
    head = f"With {level_words(found.combination)} the target" if found.combination else "The target"
    if capacity is None or capacity.value is None:
        return f"{head}: no valid run says what it carries."
    cell = _cell_at(analysis, found, capacity.load)
    carried = plus_minus(capacity.value, metric.kind, metric.unit) + _payload(cell, found.metric)
    if _one_load(analysis, found):
        load = _load_label(analysis, found.load_factor, capacity.load) or UNKNOWN
        return f"{head} carried {carried} at {_loads(load, factor_word(found.load_factor))}, the only load tried."
    carries = "carries at least" if found.verdict == NOT_REACHED else "carries at most"
    if found.verdict != NOT_REACHED and (found.upper is None or DOUBT in found.text):
        carries = "carried up to"  # "at most" would claim what the bracket cannot
    text = f"{head} {carries} {carried}; {_where(analysis, found)}"
    limit = _limit(analysis, found, capacity.load)
    return f"{text}{limit}.{_bounded(analysis, found)}"


def _payload(cell: CellResult | None, metric: str) -> str:
    payload = cell.responses.get("payload_bytes_per_s") if cell else None
    if payload is None or metric == "payload_bytes_per_s" or payload.mean <= 0:
        return ""
    return f" ({quantity(payload.mean, 'bytes_rate')} of payload)"


def _where(analysis: Analysis, found: Saturation) -> str:
    lower, upper = (_load_label(analysis, found.load_factor, load) for load in (found.lower, found.upper))
    word = factor_word(found.load_factor)
    if found.verdict == NOT_REACHED:
        highest = upper or lower
        return (
            f"it is not saturated at {_loads(highest, word)}, the highest load tried"
            if highest
            else "it is not saturated"
        )
    if upper is None:
        return found.text or "between which loads it saturates cannot be said"
    falls = ", carries less beyond" if found.verdict == "retrograde" else ""
    doubt = "".join(re.findall(r" \([^()]*cannot be excluded\)", found.text))
    if lower is None:
        return f"it is saturated already at the lowest load tried ({_loads(upper, word)}){falls}{doubt}"
    return f"it saturates between {lower} and {upper} {word}{falls}{doubt}"


def _load_label(analysis: Analysis, factor: str, load: float | None) -> str | None:
    """The level of a load as people wrote it."""
    if load is None:
        return None
    found = (cell.cell[factor] for cell in analysis.cells if cell.load == load and factor in cell.cell)
    return next(found, number(load))


def _loads(label: str, word: str) -> str:
    """`4 testers`, `1 tester`."""
    return f"{label} {word.removesuffix('s') if label == '1' else word}"


def _limit(analysis: Analysis, found: Saturation, load: float | None) -> str:
    if found.upper is None:
        return ""
    if not found.bottleneck or found.bottleneck == NOT_RESOLVED:
        return ", and what saturates it is not resolved"
    runs = [
        run
        for run in analysis.runs
        if run.valid and _is_at(run.cell, found) and load is not None and _load_of(analysis, run) == load
    ]
    seen = [each for run in runs for each in run.utilization if each.component == found.bottleneck]
    return f", and what saturates it is {_component(found.bottleneck, seen)}{_evidence(seen)}"


def _component(name: str, seen: Sequence[Utilization]) -> str:
    role = seen[0].role if seen else ""
    if role == "service":
        return name if "service" in name else f"the {name} service"
    if role == "testers":
        return "the load generator itself"
    return f"the host {name}" if role == "host" and "host" not in name else f"the {name}"


def _evidence(seen: Sequence[Utilization]) -> str:
    """The utilization behind a bottleneck, as a range over the runs; a warning where it was the testers."""
    if not seen:
        return ""
    shown = percent_range(min(one.mean for one in seen), max(one.mean for one in seen), 2)
    resource = seen[0].resource
    said = (
        f" (its busiest thread at {shown} of a core)"
        if resource == "busiest thread"
        else f" ({resource.replace('cpu', 'CPU', 1)} at {shown})"
    )
    if used := _most_used(seen):
        said = f"{said[:-1]}, {used})"
    return said + (": the target may carry more" if seen[0].role == "testers" else "")


def _most_used(seen: Sequence[Utilization]) -> str:
    """Of cores that services share: who used most of them; empty for anything else."""
    if seen[0].role != "cores" or not seen[0].detail:
        return ""
    most = max(seen[0].detail, key=lambda name: sum(one.detail.get(name, 0.0) for one in seen))
    shares = [one.detail.get(most, 0.0) for one in seen]
    return f"{percent_range(min(shares), max(shares), 2)} by {most}"


def _is_at(cell: Mapping[str, str], found: Saturation) -> bool:
    return all(cell.get(name) == level for name, level in found.combination.items())


def _cell_at(analysis: Analysis, found: Saturation, load: float | None) -> CellResult | None:
    return next((cell for cell in analysis.cells if cell.load == load and _is_at(cell.cell, found)), None)


def _one_load(analysis: Analysis, found: Saturation) -> bool:
    """Whether nothing can be said because one load was tried, as in a design that varies one factor at a time."""
    tried = sum(cell.valid > 0 and _is_at(cell.cell, found) for cell in analysis.cells)
    return found.verdict == CANNOT_SAY and tried == 1


def _load_of(analysis: Analysis, run: RunResult) -> float | None:
    return next((cell.load for cell in analysis.cells if cell.cell == run.cell), None)


def _bounded(analysis: Analysis, found: Saturation) -> str:
    """What the rules of `capacity:` leave of the nominal one; nothing where they never bind."""
    said = []
    metric = describe(found.metric)
    for kind in ("usable", "error-limited"):
        capacity = _capacity(found, kind)
        if capacity is None or not capacity.reached:
            continue
        if capacity.value is None:
            said.append(f"it has no {kind} capacity: {capacity.remark or 'the rule is held at no load'}")
            continue
        load = _load_label(analysis, found.load_factor, capacity.load)
        at = f" at {_loads(load, factor_word(found.load_factor))}" if load else ""
        carried = plus_minus(capacity.value, metric.kind, metric.unit)
        said.append(f"its {kind} capacity ({capacity.definition}) is {carried}{at}")
    return f" {_start('; '.join(said))}." if said else ""


# -- without a load to vary


def _of_cells(analysis: Analysis) -> list[str]:
    measured = [cell for cell in analysis.cells if cell.valid]
    if len(measured) <= MOST_SENTENCES:
        return [_cell_sentence(analysis, cell) for cell in measured]
    metric = _response(analysis)
    known = sorted(
        (cell for cell in measured if metric in cell.responses), key=lambda cell: cell.responses[metric].mean
    )
    if not known:
        return [f"{plural(len(measured), 'cell')} were measured; the table has them all."]
    said = [_cell_sentence(analysis, cell) for cell in (known[-1], known[0])]
    return [
        *said,
        f"The other {plural(len(known) - 2, 'cell')} lie between these two; the table has them all.",
    ]


def _cell_sentence(analysis: Analysis, cell: CellResult) -> str:
    name = _response(analysis)
    metric = describe(name)
    runs = [run for run in analysis.runs if run.valid and run.cell == cell.cell]
    one = runs[0] if len(runs) == 1 else None
    interval = cell.responses.get(name)
    if one is not None and name == "throughput_per_s" and one.traffic.throughput_interval is not None:
        interval = (
            one.traffic.throughput_interval
        )  # of the one run, by batch means: better than none, and said below
    head = f"With {level_words(cell.cell)} the target" if cell.cell else "The target"
    if interval is None:
        return f"{head}: {metric.title} cannot be said."
    does = "carried" if metric.kind in {"rate", "bytes_rate"} else f"had a {metric.title} of"
    text = f"{head} {does} {plus_minus(interval, metric.kind, metric.unit)}{_payload(cell, name)}"
    if one is not None and metric.kind != "ms":
        times = one.traffic.response_ms
        shown = [
            f"{word} {quantity(value, 'ms')}"
            for word, value in (("median", times.p50), ("p95", times.p95), ("p99", times.p99))
            if value is not None
        ]
        text += f", with response times of {listing(shown)}" if shown else ""
    return f"{text}{_bottleneck(cell, runs)}.{_failures(cell)}"


def _of_stages(analysis: Analysis) -> list[str]:
    """Stage by stage, where there is one run of a staged load: its mean over all stages answers little."""
    stages = analysis.runs[0].stages if len(analysis.runs) == 1 else ()
    if not 2 <= len(stages) <= MOST_SENTENCES:
        return []
    parts = []
    for stage in stages:
        carried = quantity(stage.traffic.throughput_per_s, "rate", "requests/s")
        p95 = stage.traffic.response_ms.p95
        failed = f", {percent(stage.traffic.error_rate)} failed" if stage.traffic.error_rate else ""
        slow = f" with p95 {quantity(p95, 'ms')}" if p95 is not None else ""
        parts.append(f"{stage.name or f'stage {stage.stage}'} {carried}{slow}{failed}")
    return [f"Stage by stage: {'; '.join(parts)}."]


def _bottleneck(cell: CellResult, runs: Sequence[RunResult]) -> str:
    if not cell.bottleneck or cell.bottleneck == NOT_RESOLVED:
        return ""
    seen = [each for run in runs for each in run.utilization if each.component == cell.bottleneck]
    return f"; its limit is {_component(cell.bottleneck, seen)}{_evidence(seen)}"


def _failures(cell: CellResult) -> str:
    return f" {percent(cell.error_rate)} of all requests failed." if cell.error_rate else ""


# -- what must be known about the runs


def _about_the_runs(analysis: Analysis) -> list[str]:
    said = []
    failed = [each for each in analysis.verdicts if not each.passed and each.judged]
    if failed:
        tests = listing(dict.fromkeys(f"{describe(each.metric).title} {each.test}" for each in failed))
        judged = sum(each.judged for each in analysis.verdicts)
        said.append(f"{count(len(failed))} of {plural(judged, 'threshold')} failed: {tests}.")
    invalid = [run for run in analysis.runs if not run.valid]
    if invalid:
        are = "is invalid and left out" if len(invalid) == 1 else "are invalid and left out"
        said.append(f"{_of_runs(invalid, analysis)} {are}: {_reasons(invalid)}.")
    doubtful = [run for run in analysis.runs if run.valid and run.doubtful_reasons]
    if doubtful:
        are = "is doubtful" if len(doubtful) == 1 else "are doubtful"
        reasons = _grouped(reason for run in doubtful for reason in run.doubtful_reasons)
        which = "The run" if len(analysis.runs) == 1 else _of_runs(doubtful, analysis)
        said.append(f"{which} {are}: {reasons}.")
    if not any(each.low is not None for cell in analysis.cells for each in cell.responses.values()):
        said.append(_no_interval(analysis))
    return said


def _of_runs(some: Sequence[RunResult], analysis: Analysis) -> str:
    return f"{count(len(some))} of {plural(len(analysis.runs), 'run')}"


def _no_interval(analysis: Analysis) -> str:
    once = analysis.experiment.repetitions == 1
    why = "one repetition" if once else "no cell has two valid repetitions yet"
    if len(analysis.runs) == 1 and analysis.runs[0].traffic.throughput_interval is None:
        return f"How much runs differ cannot be said: {why}."
    if len(analysis.runs) == 1:
        return f"± holds within this run; how much runs differ cannot be said: {why}."
    return f"No interval: {why}."


def _reasons(runs: Sequence[RunResult]) -> str:
    return _grouped(reason for run in runs for reason in run.invalid_reasons or (f"it {run.status}",))


def _grouped(reasons: Iterable[str]) -> str:
    found = Counter(reasons)
    shown = [text if times == 1 else f"{text} ({times} times)" for text, times in found.most_common(3)]
    more = len(found) - 3
    return "; ".join(shown) + (f"; and {plural(more, 'other reason')}" if more > 0 else "")


def _nothing_valid(analysis: Analysis) -> str:
    runs = analysis.runs
    none = "the one run is not valid" if len(runs) == 1 else f"none of the {count(len(runs))} runs is valid"
    return f"Nothing can be said about the target: {none} ({_reasons(runs)})."
