"""Pages of studies from templates: the prose is in the template, each figure comes from a stored summary.

A template is studies/FOLDER/page.md.j2; `study` returns the summary of that name as `Study`:

    {{ study("02-gateway").figure("payload_bytes_per_s", zip=0, testers=7) }}

`is_stored` returns whether there is a summary of that name, so that a template can have the row of a study that has not
been measured yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import jinja2
from studies.summary import Cell, Summary

from plimsoll.analyse.results import wording
from plimsoll.analyse.stats.interval import Interval
from plimsoll.errors import BadInput


class NoCell(BadInput):
    """No cell with a valid run has the levels."""


@dataclass(frozen=True, slots=True)
class Study:
    """A summary as a template sees it. Levels are given by the names of factors; they must select what they name."""

    summary: Summary

    def cells(self, **levels: object) -> list[Cell]:
        """Cells with these levels. A list of levels selects any of them. A level over several cells (a policy of
        consistency) is left out if its cells are there. Raises NoCell if there is none."""
        wanted = {
            name: [str(each) for each in level] if isinstance(level, list) else [str(level)]
            for name, level in levels.items()
        }
        found = [
            cell
            for cell in self.summary.cells
            if cell.runs and all(cell.levels.get(name) in allowed for name, allowed in wanted.items())
        ]
        if not found:
            raise NoCell(f"{self.summary.study}: no cell with a valid run has the levels {levels}")
        factors = max(len(cell.levels) for cell in found)
        return [cell for cell in found if len(cell.levels) == factors]

    def cell(self, **levels: object) -> Cell:
        """The only cell with these levels, or the level over several cells that has these alone."""
        exact = {name: str(level) for name, level in levels.items()}
        for cell in self.summary.cells:
            if cell.runs and cell.levels == exact:
                return cell
        found = self.cells(**levels)
        if len(found) > 1:
            raise BadInput(f"{self.summary.study}: {len(found)} cells have the levels {levels}; expected one")
        return found[0]

    def interval(self, metric: str, **levels: object) -> Interval:
        return _interval(self.summary.study, self.cell(**levels), metric)

    def figure(self, metric: str, **levels: object) -> str:
        """`176 ± 11 MB/s`; a dash if the cell has no such figure and another cell has it."""
        shown = wording.describe(metric)
        if self.has(metric) and metric not in self.cell(**levels).figures:
            return wording.UNKNOWN
        return wording.plus_minus(self.interval(metric, **levels), shown.kind, shown.unit)

    def mean(self, metric: str, **levels: object) -> str:
        """The mean with three digits, without its interval: for figures whose runs differ by less than that."""
        shown = wording.describe(metric)
        return wording.quantity(self.interval(metric, **levels).mean, shown.kind, shown.unit, digits=3)

    def has_level(self, factor: str, level: object) -> bool:
        """Whether a cell with a valid run has this level."""
        return any(cell.runs and cell.levels.get(factor) == str(level) for cell in self.summary.cells)

    def has(self, metric: str) -> bool:
        """Whether a cell has this figure."""
        return any(metric in cell.figures for cell in self.summary.cells)

    def row(self, metric: str, factor: str, *order: object, **levels: object) -> str:
        """The figures at levels of one factor, in this order: `176 ± 11, 72.0 ± 4.0 MB/s`."""
        return _with_one_unit([self.figure(metric, **levels, **{factor: level}) for level in order], ", ")

    def per_minute(self, unit: str, factor: str, *order: object, **levels: object) -> str:
        """Throughputs at levels of one factor, per minute instead of per second: `95.0 ± 1.2, 193 ± 11 jobs/min`."""
        rates = [self.interval("throughput_per_s", **levels, **{factor: level}) for level in order]
        return _with_one_unit(
            [wording.plus_minus(_times(rate, 60.0), "number", unit) for rate in rates], ", "
        )

    def table(self, metric: str, down: str, across: str, *, means: bool = False, **levels: object) -> str:
        """A Markdown table of a metric: the levels of `down` by those of `across`, in the order of the design.

        The unit is in the first field if all figures have the same. A dash: no valid run, or not in the design.
        `means`: means without intervals. Raises BadInput if `levels` leave more than one cell for a field.
        """
        known = self.cells(**levels)
        rows, columns = (self._order(name, {cell.levels[name] for cell in known}) for name in (down, across))
        show = self.mean if means else self.figure
        fields = [
            [self._field(show, metric, {**levels, down: row, across: column}) for column in columns]
            for row in rows
        ]
        units = {
            field.rpartition(wording.SPACE)[2] for line in fields for field in line if wording.SPACE in field
        }
        unit = units.pop() if len(units) == 1 else ""
        lines = [[f"{down}{unit and f' ({unit})'}", *(f"{across} {column}" for column in columns)]]
        lines += [
            [row, *(_without(field, unit) for field in line)] for row, line in zip(rows, fields, strict=True)
        ]
        lines.insert(1, ["---"] * len(lines[0]))
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def stages(self, metric: str, **levels: object) -> str:
        """The means of `throughput_per_s` or `response_ms_mean` in the stages of one cell, in their order, without
        intervals: `5.01, 55.2, 5.02 s`. Raises BadInput if the load has no stages."""
        means = self.cell(**levels).stages.get(metric)
        if not means:
            raise BadInput(f"{self.summary.study}: no stage with the figure {metric!r} is stored")
        shown = wording.describe(metric)
        return _with_one_unit(
            [wording.quantity(mean, shown.kind, shown.unit) for mean in means.values()], ", "
        )

    def _order(self, factor: str, levels: set[str]) -> list[str]:
        """These levels in the order of the design. Cells without a valid run count for the order, too."""
        order = dict.fromkeys(cell.levels[factor] for cell in self.summary.cells if factor in cell.levels)
        return [level for level in order if level in levels]

    def _field(self, show: Callable[..., str], metric: str, levels: Mapping[str, object]) -> str:
        try:
            return show(metric, **levels)
        except NoCell:
            return wording.UNKNOWN

    def span(self, metric: str, **levels: object) -> str:
        """The least and the greatest mean over cells: `102 MB/s to 118 MB/s`."""
        shown = wording.describe(metric)
        means = [_interval(self.summary.study, cell, metric).mean for cell in self.cells(**levels)]
        ends = [wording.quantity(end, shown.kind, shown.unit) for end in (min(means), max(means))]
        return _with_one_unit(list(dict.fromkeys(ends)), " to ")

    def ratio(self, metric: str, of: Mapping[str, object], to: Mapping[str, object], **levels: object) -> str:
        """The ratio of two cells, which differ in the levels `of` and `to`: `4.0 (3.6 to 4.5)`."""
        ratio = ratio_of(self.interval(metric, **levels, **of), self.interval(metric, **levels, **to))
        if ratio.low is None or ratio.high is None:
            return wording.number(ratio.mean, 2)
        return f"{wording.number(ratio.mean, 2)} ({wording.number(ratio.low, 2)} to {wording.number(ratio.high, 2)})"

    def busy(self, component: str, **levels: object) -> str:
        """Least and greatest utilization of a component in a run: `69 to 90 %`."""
        shares = [cell.busy[component] for cell in self.cells(**levels) if component in cell.busy]
        if not shares:
            raise BadInput(f"{self.summary.study}: no utilization of {component!r} is stored")
        return wording.percent_range(min(low for low, _ in shares), max(high for _, high in shares), 2)

    def errors(self, **levels: object) -> str:
        """The error rate of one cell: `82 %`."""
        return wording.percent(self.cell(**levels).errors, 2)

    def bottleneck(self, **levels: object) -> str:
        """The bottlenecks that the analysis found in these cells: `the gateway`, or `not identified`."""
        found = dict.fromkeys(wording.bottleneck_word(cell.bottleneck) for cell in self.cells(**levels))
        return wording.listing(found, "or")

    def sentence(self, words: str) -> str:
        """The first sentence of the answer that contains these words. Raises BadInput if there is none."""
        for sentence in self.summary.answer:
            if words in sentence:
                return sentence
        raise BadInput(f"{self.summary.study}: no sentence of the answer contains {words!r}")

    def requests(self) -> str:
        """Number of successful requests of all valid runs."""
        return wording.count(self.summary.requests)


def _times(interval: Interval, by: float) -> Interval:
    low, high = (None if end is None else end * by for end in (interval.low, interval.high))
    return replace(interval, mean=interval.mean * by, low=low, high=high)


def _without(field: str, unit: str) -> str:
    return field.removesuffix(wording.SPACE + unit) if unit else field


def _with_one_unit(figures: Sequence[str], separator: str) -> str:
    """The figures as a list; the unit only after the last one if all have the same."""
    parts = [figure.rpartition(wording.SPACE) for figure in figures]
    if len({unit for _, _, unit in parts}) == 1 and all(number for number, _, _ in parts):
        return separator.join([*(number for number, _, _ in parts[:-1]), figures[-1]])
    return separator.join(figures)


def ratio_of(upper: Interval, lower: Interval) -> Interval:
    """The ratio of two means with its interval.

    The half widths of both are added as squares, on the logarithmic scale. This is exact for cells of a multiplicative
    model with a pooled deviation and equal numbers of runs: t s sqrt(2/n). Without both intervals there is none.
    """
    ratio = upper.mean / lower.mean
    if upper.low is None or upper.high is None or lower.low is None or lower.high is None:
        return replace(upper, mean=ratio, low=None, high=None)
    if min(upper.low, lower.low) <= 0:
        return replace(upper, mean=ratio, low=None, high=None)
    down = math.hypot(math.log(upper.mean / upper.low), math.log(lower.high / lower.mean))
    up = math.hypot(math.log(upper.high / upper.mean), math.log(lower.mean / lower.low))
    return replace(upper, mean=ratio, low=ratio * math.exp(-down), high=ratio * math.exp(up))


def _interval(study: str, cell: Cell, metric: str) -> Interval:
    if metric not in cell.figures:
        raise BadInput(f"{study}: no figure {metric!r} is stored: expected one of {', '.join(cell.figures)}")
    mean, low, high = cell.figures[metric]
    assert mean is not None, "a cell without a mean has no figure"
    return Interval(mean, low, high)


def page(template: str, summaries: Mapping[str, Summary]) -> str:
    """The page of a template. Raises BadInput if it names a study or a figure that is not stored."""

    def study(name: str) -> Study:
        if name not in summaries:
            raise BadInput(f"no summary of {name!r}: run `python -m studies measure` with its file")
        return Study(summaries[name])

    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True, keep_trailing_newline=True
    )
    return environment.from_string(template).render(
        study=study,
        is_stored=summaries.__contains__,
        runs_table=lambda: runs_table([summaries[name] for name in sorted(summaries)]),
    )


def runs_table(summaries: Sequence[Summary]) -> str:
    """A Markdown table: from which runs the figures are."""
    rows = [
        "| study | first run | runs (valid) | measured for | repetitions | other load | clients against servers |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in summaries:
        name = f"{each.study} †" if each.transcribed else each.study
        outside, counts = (
            "–" if share is None else wording.percent(share, 2)
            for share in (each.outside_cpu, each.count_difference)
        )
        window = wording.quantity(each.window_s * 1000, "ms", digits=2) if each.window_s else "–"
        rows.append(
            f"| {name} | {each.started} | {each.planned or '–'} ({each.valid or '–'}) | {window}"
            f" | {each.repetitions} | {outside} | {counts} |"
        )
    return "\n".join(rows)
