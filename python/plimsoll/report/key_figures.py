"""The key figures above the answer: at most seven, each with its unit and the cell or load that it is from. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from plimsoll.analyse.answer.load.search import amount, load_of
from plimsoll.analyse.answer.words import loads
from plimsoll.analyse.components.bottleneck import NOT_RESOLVED
from plimsoll.analyse.results.analysis import Capacity, CellResult, RunResult, Saturation
from plimsoll.analyse.results.load.search import FoundCapacity, SearchResult
from plimsoll.analyse.results.run import Latency
from plimsoll.analyse.results.verdicts import CapacityKind
from plimsoll.analyse.results.wording import (
    UNKNOWN,
    count,
    describe,
    level_words,
    percent,
    percentile,
    plural,
    plus_minus,
    quantity,
)
from plimsoll.analyse.run.validity.validity import is_lower_bound
from plimsoll.plan.source.units import NS, about_duration
from plimsoll.report.labels import ONLY, Labels
from plimsoll.report.tables import analysis as tables
from plimsoll.report.tables.capacities import capacity_of
from plimsoll.search.verdict import Ending

PERCENTILES = ("p50", "p95", "p99")
MAX_GOALS = 4
ENDINGS: Mapping[str, str] = {
    Ending.LOWEST_FAILS: "the lowest load already fails",
    Ending.HIGHEST_HOLDS: "the highest load still holds",
    Ending.GENERATOR: "the load generator was the limit",
    Ending.TIME: "the time was used up",
    Ending.INVALID: "trials were invalid repeatedly",
}
"""Why a search ended without a bracket."""


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A figure with its name. `note`: its cell or load, or why it is missing. `kind`: good, warn, bad, or empty."""

    name: str
    value: str
    note: str = ""
    kind: str = ""


def key_figures(labels: Labels) -> list[KeyFigure]:
    """Throughput or capacity, response times, errors, bottleneck and validity. With several cells, those of the cell
    with the highest throughput. Of a search: the capacities."""
    if not labels.analysis.runs:
        return []
    if labels.analysis.search is not None:
        return [*_found(labels.analysis.search), _validity(labels)]
    best, (cell, bottleneck) = _best(labels), shown_cell(labels)
    if best is not None:
        return [*_capacities(labels, best), *_of_cell(labels, cell, bottleneck)]
    if cell is None:
        return [_validity(labels)]
    return [_throughput(labels, cell), *_of_cell(labels, cell, bottleneck)]


def _found(search: SearchResult) -> list[KeyFigure]:
    """The capacity for each of the first goals, in the cell with the highest one, and what the search took."""
    figures = []
    for goal in search.goals[:MAX_GOALS]:
        answers = [(cell, one) for cell in search.cells for one in cell.capacities if one.goal == goal.name]
        if answers:
            cell, best = max(answers, key=lambda answer: _highest(answer[1]))
            where = level_words(cell.cell) if len(answers) > 1 else ""
            value, note, kind = _capacity_found(search, best)
            notes = ", ".join(part for part in (where, note) if part)
            figures.append(KeyFigure(f"Capacity, {goal.name}", value, notes, kind))
    trials = sum(len(cell.trials) for cell in search.cells)
    spent = about_duration(sum(cell.spent_s for cell in search.cells) * NS["s"])
    return [*figures, KeyFigure("Trials", count(trials), spent)]


def _highest(found: FoundCapacity) -> float:
    """The capacity, or what is known of it, as a key by which cells are ordered."""
    known = [found.estimate, *(one.lower.load for one in found.searches if one.lower is not None)]
    return max((load for load in known if load is not None), default=0.0)


def _capacity_found(search: SearchResult, found: FoundCapacity) -> tuple[str, str, str]:
    """The capacity for a goal as text, what is to be known about it, and its kind."""
    if found.low is not None and found.high is not None and found.estimate is not None:
        return load_of(search, found.estimate), f"{amount(found.low)} to {amount(found.high)}", ""
    both = [one for one in found.searches if one.lower is not None and one.upper is not None]
    one = both[0] if both else found.searches[-1]
    if one.lower is not None and one.upper is not None:
        return f"{amount(one.lower.load)} to {load_of(search, one.upper.load)}", "bracket of one search", ""
    note = ENDINGS.get(one.ending, "")
    if one.lower is not None:
        return f"at least {load_of(search, one.lower.load)}", note, "warn"
    return UNKNOWN if one.upper is None else f"below {load_of(search, one.upper.load)}", note, "bad"


def shown_cell(labels: Labels) -> tuple[CellResult | None, str]:
    """The cell of the key figures, with the highest throughput, and the bottleneck there; empty without a cell."""
    best = _best(labels)
    if best is not None:
        return _cell_of(labels, best), best.bottleneck
    cell = _best_cell(labels)
    return cell, cell.bottleneck if cell is not None else ""


def _nominal(saturation: Saturation) -> float:
    capacity = capacity_of(saturation, CapacityKind.NOMINAL)
    return capacity.value.mean if capacity is not None and capacity.value is not None else -1.0


def _best(labels: Labels) -> Saturation | None:
    """The saturation with the highest nominal capacity, of the leading throughput if that has one."""
    saturations = [saturation for saturation in labels.analysis.saturation if _nominal(saturation) >= 0]
    leading = [
        saturation for saturation in saturations if saturation.metric == labels.throughput.name
    ] or saturations
    return max(leading, key=_nominal, default=None)


def _cell_of(labels: Labels, saturation: Saturation) -> CellResult | None:
    capacity = capacity_of(saturation, CapacityKind.NOMINAL)
    where = labels.combination(saturation.combination)
    cells = (cell for cell in labels.analysis.cells if labels.combination(cell.cell) == where)
    return next((cell for cell in cells if capacity is not None and cell.load == capacity.load), None)


def _best_cell(labels: Labels) -> CellResult | None:
    name = labels.throughput.name
    measured = [cell for cell in labels.analysis.cells if cell.valid]

    def height(cell: CellResult) -> float:
        interval = cell.responses.get(name)
        return interval.mean if interval is not None else -1.0

    return max(measured, key=height, default=None)


def _capacities(labels: Labels, saturation: Saturation) -> list[KeyFigure]:
    """Nominal capacity, or the highest throughput if it was not reached; usable capacity if there is a rule."""
    metric = describe(saturation.metric)
    where = labels.combination(saturation.combination)
    head = "" if where == ONLY else f"{where}, "

    def figure(name: str, kind: CapacityKind) -> KeyFigure | None:
        capacity = capacity_of(saturation, kind)
        if capacity is None:
            return None
        at = loads(labels.load_label(capacity.load), labels.load_word)
        if capacity.value is None:
            return KeyFigure(name, "none", capacity.remark or "no load meets the rule", "bad")
        if not capacity.reached and kind == CapacityKind.USABLE:
            return KeyFigure(name, "not limited", f"no load broke {_rules(capacity)}")
        text = plus_minus(capacity.value, metric.kind, metric.unit)
        return KeyFigure(name, text, f"{head}at {at}")

    reached = capacity_of(saturation, CapacityKind.NOMINAL)
    name = "Nominal capacity" if reached is not None and reached.reached else f"Highest {metric.title}"
    shown = (figure(name, CapacityKind.NOMINAL), figure("Usable capacity", CapacityKind.USABLE))
    return [key_figure for key_figure in shown if key_figure is not None]


def _rules(capacity: Capacity) -> str:
    if capacity.also:
        return "a rule"
    is_response = capacity.asked_metric in ("", "response")  # empty in results of older versions
    return f"the rule on {'the response time' if is_response else capacity.asked_metric}"


def _throughput(labels: Labels, cell: CellResult) -> KeyFigure:
    metric = labels.throughput
    runs = _runs(labels, cell)
    interval = cell.responses.get(metric.name)
    note = _where(labels, cell)
    if interval is None:
        return KeyFigure(metric.title.capitalize(), UNKNOWN, note)
    if any(is_lower_bound(run.reasons) for run in runs):
        text = f"at least {quantity(interval.mean, metric.kind, metric.unit)}"
        return KeyFigure(metric.title.capitalize(), text, "the load generator was the limit")
    if len(runs) == 1 and metric.name == "throughput_per_s" and runs[0].traffic.throughput_interval:
        interval = runs[0].traffic.throughput_interval
    return KeyFigure(metric.title.capitalize(), plus_minus(interval, metric.kind, metric.unit), note)


def _where(labels: Labels, cell: CellResult) -> str:
    return "" if len(labels.analysis.cells) == 1 else labels.cell(cell.cell)


def _runs(labels: Labels, cell: CellResult) -> list[RunResult]:
    return [run for run in labels.analysis.runs if run.cell == cell.cell and run.valid]


def _of_cell(labels: Labels, cell: CellResult | None, bottleneck: str) -> list[KeyFigure]:
    if cell is None:
        return [_validity(labels)]
    runs = _runs(labels, cell)
    times = [(name, _time(runs, name)) for name in PERCENTILES if runs]
    figures = [
        KeyFigure(f"Response time, {name}", text, _time_note(labels, cell, text)) for name, text in times
    ]
    figures = [figure for figure in figures if figure.value != UNKNOWN]
    return [*figures, _errors(cell), _bottleneck(bottleneck), _validity(labels)]


def _time_note(labels: Labels, cell: CellResult, text: str) -> str:
    """The load, if there are several, and the remark that two values are the range of the runs."""
    is_one = labels.load_factor is None or len(labels.analysis.cells) == 1
    at = "" if is_one else f"at {loads(labels.load_label(cell.load), labels.load_word)}"
    return ", ".join(filter(None, (at, "range of the runs" if "–" in text else "")))


def _time(runs: Sequence[RunResult], name: str) -> str:
    """A percentile of the cell. With several runs, their range, because percentiles are not averaged."""
    times: list[Latency] = [run.traffic.response_ms for run in runs]
    if len(times) == 1:
        return percentile(times[0], name)
    value: Callable[[Latency], float | None] = lambda latency: getattr(latency, name)  # noqa: E731
    known = sorted(
        (quantile, percentile(latency, name)) for latency in times if (quantile := value(latency)) is not None
    )
    if len(known) < len(times) or not known:
        beyond = [shown for latency in times if (shown := percentile(latency, name)).startswith(">")]
        return beyond[0] if beyond else UNKNOWN
    low, high = known[0][1], known[-1][1]
    return low if low == high else _range(low, high)


def _range(low: str, high: str) -> str:
    """`8.1–39 ms`: if both ends have the same unit, it is written once."""
    value, _, unit = low.rpartition("\u00a0")
    return f"{value if high.endswith(unit) else low}–{high}"


def _errors(cell: CellResult) -> KeyFigure:
    if cell.error_rate is None:
        return KeyFigure("Errors", UNKNOWN)
    upper = "" if cell.error_rate_upper is None else f"at most {percent(cell.error_rate_upper, 2)}"
    return KeyFigure("Errors", percent(cell.error_rate, 2), upper, "bad" if cell.error_rate else "")


def _bottleneck(name: str) -> KeyFigure:
    known = bool(name) and name != NOT_RESOLVED
    return KeyFigure("Bottleneck", name if known else "not identified")


def _validity(labels: Labels) -> KeyFigure:
    runs = labels.analysis.runs
    invalid = sum(not run.valid for run in runs)
    doubtful = sum(run.valid and bool(run.doubtful_reasons) for run in runs)
    kind = "bad" if invalid else "warn" if doubtful else "good"
    note = f"{count(doubtful)} doubtful" if doubtful and len(runs) > 1 else ""
    if len(runs) == 1:
        return KeyFigure("Validity", tables.verdict(runs[0]), kind=kind)
    return KeyFigure(
        "Validity", f"{count(len(runs) - invalid)} of {plural(len(runs), 'run')} valid", note, kind
    )
