"""A comparison as lines for the terminal, and as Markdown for a comment on a pull request. Pure: prints nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from plimsoll.analyse.results.wording import (
    describe,
    level_words,
    listing,
    number,
    percent,
    plural,
    quantity,
)
from plimsoll.compare.configuration import Difference
from plimsoll.compare.controls import is_control_different
from plimsoll.compare.metrics import Scale
from plimsoll.compare.model import Comparison, Drift, Reason, SerialDependence, ShortRuns, TwoModes, Verdict
from plimsoll.compare.remarks import MIN_RELAXATION_TIMES
from plimsoll.compare.result import ComparisonResult, SideSummary
from plimsoll.compare.verdicts import FEW_RUNS
from plimsoll.printable import printable
from plimsoll.report.tables.compare.comparison import (
    change_words,
    comparisons_table,
    controls_table,
    differences_table,
    drift_table,
    effect_words,
    interval_words,
    metric_title,
    value_words,
    verdict_word,
    with_interval,
)
from plimsoll.report.tables.table import Table
from plimsoll.report.terminal import NARROWEST, Style, aligned

MAX_SENTENCES: Final = 10
"""Maximum number of sentences about single comparisons; the table contains all."""
REASONS: Final = {
    Reason.ONE_RUN: "a side has only one valid run of a cell",
    Reason.UNKNOWN: "a run has no value (too few transactions for a percentile, or transactions that did not end)",
    Reason.TWO_MODES: "its runs have two modes, so their mean describes neither",
    Reason.NOT_POSITIVE: "a value is 0, which has no ratio",
    Reason.CONTROL: "equal systems (A/A) differ by as much in the same experiment",
    Reason.DRIFT: "the control metric moved, too: unproven",
}
_COLOURS: Final = {Verdict.SLOWER: "bad", Verdict.FASTER: "good"}


def comparison_lines(result: ComparisonResult, width: int = 80, colour: bool = False) -> list[str]:
    """The comparison for the terminal: sides, differences, table, verdicts, remarks."""
    style = Style(max(width, NARROWEST), colour)
    head = f"{_of_experiment(result)}{result.new.name} compared with {result.old.name}"
    lines = [style.paint(line, "bold") for line in style.wrapped(head)]
    for side, summary in sides_of(result):
        lines += style.pair(side, side_words(summary, is_analysed=bool(result.comparisons)))
    for group_head, differences in difference_groups(result):
        table = differences_table(differences)
        lines += ["", *style.wrapped(group_head), *aligned(style, table.columns, table.rows)]
    for cell, comparisons in _by_cell(result.comparisons):
        table = comparisons_table(comparisons, has_cells=False, with_control=False)
        cell_head = style.wrapped(f"{level_words(cell)}:") if cell else []
        lines += ["", *cell_head, *aligned(style, table.columns, table.rows)]
        controls = controls_table(comparisons, has_cells=False, with_control=True)
        if controls is not None:
            lines += ["", *aligned(style, controls.columns, controls.rows)]
    lines.append("")
    for comparison in remarkable(result):
        wrapped = style.wrapped(sentence(comparison), hang="    ")
        lines += [style.paint(line, _COLOURS[comparison.verdict]) for line in wrapped]
    controls = controls_table(result.comparisons, has_cells=True, with_control=True)
    notes = [] if controls is None else [controls.note]
    for text in (*conclusion(result), *notes, *remarks(result)):
        lines += style.wrapped(text, hang="    ")
    return lines


def slower_lines(result: ComparisonResult, width: int = 80, colour: bool = False) -> list[str]:
    """Only what is slower or worse, for the terminal."""
    style = Style(max(width, NARROWEST), colour)
    slower = result.with_verdict(Verdict.SLOWER)[:MAX_SENTENCES]
    return [line for one in slower for line in style.wrapped(sentence(one), hang="    ")]


def comparison_markdown(result: ComparisonResult) -> str:
    """The comparison as Markdown: the verdict as heading, the table, and the details folded."""
    lines = [f"### {_escaped(f'{_of_experiment(result)}{headline(result)}')}", ""]
    for side, summary in sides_of(result):
        words = side_words(summary, is_analysed=bool(result.comparisons))
        lines += [f"- {side.capitalize()}: {_escaped(summary.name)} ({words})"]
    lines.append("")
    if result.comparisons:
        has_cells = any(comparison.cell for comparison in result.comparisons)
        lines += [*_markdown_table(comparisons_table(result.comparisons, has_cells=has_cells)), ""]
    lines += [f"- {_escaped(sentence(comparison))}" for comparison in remarkable(result)]
    lines += [f"- {_escaped(text)}" for text in (*conclusion(result), *remarks(result))]
    for table in control_tables(result):
        lines += _folded(table.title, table)
    for text, differences in difference_groups(result):
        lines += _folded(text, differences_table(differences))
    return "\n".join(lines) + "\n"


def _folded(title: str, table: Table) -> list[str]:
    """A table in Markdown that the reader unfolds."""
    head = ["", "<details><summary>", "", _escaped(title), "", "</summary>", ""]
    return [*head, *_markdown_table(table), "", "</details>"]


def control_tables(result: ComparisonResult) -> list[Table]:
    """What was measured beside the subject: the order of the runs, and metrics that the change cannot affect."""
    has_cells = any(comparison.cell for comparison in result.comparisons)
    controls = controls_table(result.comparisons, has_cells=has_cells)
    drift = [drift_table(result.drift, has_cells=has_cells)] if result.drift else []
    return [*([] if controls is None else [controls]), *drift]


def sides_of(result: ComparisonResult) -> list[tuple[str, SideSummary]]:
    """The sides, and the runs of the control if there are any."""
    sides = [("old", result.old), ("new", result.new)]
    return sides if result.control is None else [*sides, ("control", result.control)]


def _of_experiment(result: ComparisonResult) -> str:
    """The name of the experiment before what is reported of it; results of other tools have none."""
    return f"{result.experiment}: " if result.experiment else ""


def headline(result: ComparisonResult) -> str:
    """The verdict on all metrics in one phrase: `2 of 12 comparisons are slower or worse`."""
    if not result.comparisons:
        return "not comparable"
    total = len(result.comparisons)
    for verdict, words in ((Verdict.SLOWER, "slower or worse"), (Verdict.FASTER, "faster or better")):
        if found := len(result.with_verdict(verdict)):
            return f"{found} of {plural(total, 'comparison')} {'is' if found == 1 else 'are'} {words}"
    undecided = len(result.with_verdict(Verdict.UNDECIDED))
    if undecided:
        return f"no difference was found; {undecided} of {plural(total, 'comparison')} undecided"
    return f"the same within {100 * result.margin:g} %"


def conclusion(result: ComparisonResult) -> list[str]:
    """What the verdicts are, and by which rule; or why there are none."""
    if not result.comparisons:
        gates = [one.path for one in result.differences if one.is_gate and not one.is_accepted]
        if gates:
            paths = " ".join(f"--accept {path}" for path in dict.fromkeys(gates))
            return [
                f"Not comparable: the results differ in {listing(dict.fromkeys(gates))}. To compare them in spite of "
                f"this: {paths}"
            ]
        return ["Not comparable: no cell has a valid run on both sides."]
    counts = {verdict: len(result.with_verdict(verdict)) for verdict in Verdict}
    texts = [
        f"Of {plural(len(result.comparisons), 'comparison')}: {counts[Verdict.SLOWER]} slower or worse, "
        f"{counts[Verdict.FASTER]} faster or better, {counts[Verdict.SAME]} the same, "
        f"{counts[Verdict.UNDECIDED]} undecided.",
        f"Margin: {_margins(result)}. Slower or faster: the interval lies beyond the margin, with Holm's "
        f"correction over all comparisons. Same: the 90 % interval lies within the margin.",
    ]
    for reason, words in REASONS.items():
        found = [one for one in result.comparisons if one.reason is reason]
        if found:
            names = listing(dict.fromkeys(map(metric_title, found)))
            texts.append(f"Undecided, because {words}: {names}.")
    needed = [one.runs_needed for one in result.comparisons if one.runs_needed is not None]
    if needed:
        few, many = min(needed), max(needed)
        runs = plural(many, "run") if few == many else f"{few} to {many} runs"
        texts.append(
            f"If the systems are equal, about {runs} of each side show with a probability of 80 % that an undecided "
            "metric is the same."
        )
    still = dict.fromkeys(describe(one.metric).title for one in result.drift if one.interval is not None)
    if still and not any(one.has_moved for one in result.drift):
        texts.append(f"Metrics that the change cannot affect did not move: {listing(still)}.")
    return texts


def _margins(result: ComparisonResult) -> str:
    """The margin of ratios, and those of differences."""
    shares = {one.metric: one.margin for one in result.comparisons if one.scale is Scale.DIFFERENCE}
    others = [f"of {metric} {100 * margin:g} percentage points" for metric, margin in shares.items()]
    return ", ".join((f"{100 * result.margin:g} %", *others))


def remarks(result: ComparisonResult) -> list[str]:
    """What makes the comparison doubtful or incomplete."""
    texts = []
    fewest = min((min(one.old_runs, one.new_runs) for one in result.comparisons), default=FEW_RUNS)
    if fewest < FEW_RUNS:
        texts.append(
            f"Few runs: a side has {plural(fewest, 'valid run')} of a cell. Intervals of fewer than {FEW_RUNS} runs "
            "are wide, and depend on the assumption that the logarithms of the runs are normally distributed."
        )
    for cells, text in (
        (result.without_valid, "without a valid run on one side"),
        (result.unmatched, "that only one side has"),
    ):
        if cells:
            names = listing(level_words(cell) or "the only cell" for cell in cells)
            texts.append(f"Left out: {plural(len(cells), 'cell')} {text} ({names}).")
    texts += [_control_words(one) for one in result.comparisons if is_control_different(one)]
    texts += _drift_words(result.drift)
    texts += [_mode_words(result, modes) for modes in result.two_modes]
    texts += [_serial_words(result.serial)] if result.serial else []
    return texts + [_short_words(short) for short in result.short]


def sentence(comparison: Comparison) -> str:
    """`slower: p95 of the response time, testers 8: 1.12 times the old value (1.08 to 1.16)`."""
    cell = f", {level_words(comparison.cell)}" if comparison.cell else ""
    effect = effect_words(comparison)
    change = effect if effect.endswith("pp") else f"{effect} times the old value"
    return f"{verdict_word(comparison)}: {metric_title(comparison)}{cell}: {change} ({interval_words(comparison)})"


def _by_cell(comparisons: Sequence[Comparison]) -> list[tuple[Mapping[str, str], list[Comparison]]]:
    """The comparisons of each cell, in their order."""
    out: list[tuple[Mapping[str, str], list[Comparison]]] = []
    for comparison in comparisons:
        if not out or out[-1][0] != comparison.cell:
            out.append((comparison.cell, []))
        out[-1][1].append(comparison)
    return out


def remarkable(result: ComparisonResult) -> list[Comparison]:
    """The comparisons that the output describes by a sentence: slower and faster ones."""
    return result.with_verdict(Verdict.SLOWER, Verdict.FASTER)[:MAX_SENTENCES]


def side_words(side: SideSummary, *, is_analysed: bool) -> str:
    """The numbers of runs of a side."""
    if not is_analysed:
        return plural(side.runs, "run")
    text = f"{plural(side.runs, 'run')}, {side.runs - side.invalid} valid"
    text += f", {side.invalid} invalid (left out)" if side.invalid else ""
    text += f", {side.unfinished} not carried out" if side.unfinished > 0 else ""
    return "; ".join((text, *side.imported))


def difference_groups(result: ComparisonResult) -> list[tuple[str, Sequence[Difference]]]:
    """The differences by their effect on the comparison."""
    groups = (
        (
            "Differences that make the results incomparable:",
            [d for d in result.differences if d.is_gate and not d.is_accepted],
        ),
        ("Differences that were accepted:", [d for d in result.differences if d.is_accepted]),
        (
            "Differences in services, targets and versions, without effect on the exit code:",
            [d for d in result.differences if not d.is_gate],
        ),
    )
    return [(text, found) for text, found in groups if found]


def _control_words(one: Comparison) -> str:
    assert one.control is not None
    is_difference = one.scale is Scale.DIFFERENCE
    words = with_interval(one.control.estimate, one.control.interval, is_difference=is_difference)
    return (
        f"Equal systems differ in {metric_title(one)}{_cell_words(one.cell)}, by more than the margin: A/A {words}. "
        "The experiment does not reproduce its own results there."
    )


def _drift_words(drift: Sequence[Drift]) -> list[str]:
    """What the metrics show that the change cannot affect."""
    moved = [one for one in drift if one.has_moved]
    if moved:
        found = listing(
            f"{describe(one.metric).title}{_cell_words(one.cell)} {with_interval(one.estimate, one.interval)}"
            for one in moved
        )
        return [
            f"The control metric moved, too: unproven. The change cannot affect {found}, which differs by more than "
            "the margin. Slower and faster are undecided there. Look for what else changed, such as the hosts."
        ]
    unknown = dict.fromkeys(describe(one.metric).title for one in drift if one.interval is None)
    return [f"Without an interval, and therefore no control: {listing(unknown)}."] if unknown else []


def _mode_words(result: ComparisonResult, modes: TwoModes) -> str:
    """`Two modes, new, testers 8: throughput: about 120 /s in 7 runs and about 200 /s in 5 runs.`"""
    found = (one for one in result.comparisons if (one.metric, one.cell) == (modes.metric, modes.cell))
    comparison = next(found)
    if modes.what == "pairs":
        where = f"pairs{_cell_words(modes.cell)}"
        low, high = (change_words(comparison, value) for value in (modes.low, modes.high))
        words = "pairs"
    else:
        where = f"{modes.what}{_cell_words(modes.cell)}"
        low, high = (value_words(comparison, value) for value in (modes.low, modes.high))
        words = "runs"
    return (
        f"Two modes, {where}: {metric_title(comparison)}: about {low} in {modes.low_runs} {words} and about {high} in "
        f"{modes.high_runs} {words}. Find what differs between them; no interval of their mean is computed."
    )


def _serial_words(serial: Iterable[SerialDependence]) -> str:
    found = listing(f"{one.metric} ({number(one.lag1, 2)})" for one in serial)
    return (
        f"Successive runs are correlated: lag 1 of {found}. The intervals are then too narrow. Repeat the runs in "
        "blocks and in random order, or compare two levels in one experiment (--by)."
    )


def _short_words(short: ShortRuns) -> str:
    wanted = MIN_RELAXATION_TIMES * short.relaxation_s
    return (
        f"Short runs, {short.side}{_cell_words(short.cell)}: a run of {quantity(1000 * short.window_s, 'ms')} at a "
        f"utilization of {percent(short.utilization)} of {short.service} underestimates p95 and p99; "
        f"{MIN_RELAXATION_TIMES} relaxation times are {quantity(1000 * wanted, 'ms')}."
    )


def _cell_words(cell: Mapping[str, str]) -> str:
    return f", {level_words(cell)}" if cell else ""


def _markdown_table(table: Table) -> list[str]:
    heads = " | ".join(column.name for column in table.columns)
    rules = " | ".join("--:" if column.numeric else ":--" for column in table.columns)
    return [f"| {heads} |", f"| {rules} |", *(f"| {' | '.join(map(_escaped, row))} |" for row in table.rows)]


def _escaped(text: str) -> str:
    """A text whose signs have no meaning in Markdown or HTML."""
    out = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"&#{ord(sign)};" if sign in "\\`*_[]|@" else sign for sign in out)
