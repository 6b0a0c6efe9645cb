"""A comparison in the terminal and as Markdown."""

from __future__ import annotations

from plimsoll.compare.configuration import Difference
from plimsoll.compare.metrics import Better, ComparedMetric, Scale
from plimsoll.compare.model import Drift, Limits, RunValue, Sample, SerialDependence, ShortRuns
from plimsoll.compare.result import ComparisonResult, SideSummary
from plimsoll.compare.verdicts import compare
from plimsoll.report.compare.comparison import comparison_lines, comparison_markdown, headline, slower_lines
from plimsoll.report.tables.compare.comparison import metric_title, verdict_word

HOSTILE = "<img src=x>|`a`\x1b[31m"
CELL = {"load.testers": "8"}


def side(*values: float) -> tuple[RunValue, ...]:
    return tuple(RunValue(value, 0, at) for at, value in enumerate(values))


SLOW = (side(10, 10.1, 9.9), side(20, 20.2, 19.8))
SAMPLES = (
    Sample(ComparedMetric("response_p95", Better.LOWER), CELL, *SLOW),
    Sample(ComparedMetric("memory.web", Better.LOWER), CELL, side(4e6, 4.01e6, 4e6), side(2e6, 2.01e6, 2e6)),
    Sample(
        ComparedMetric("errors", Better.LOWER, Scale.DIFFERENCE, 0.005), CELL, side(0, 0), side(0.02, 0.02)
    ),
    Sample(ComparedMetric("throughput", Better.HIGHER), CELL, side(10), side(10, 11)),
)


def result(**changes: object) -> ComparisonResult:
    values: dict[str, object] = {
        "experiment": "small",
        "by": "",
        "old": SideSummary("a", 4, 1, 0),
        "new": SideSummary("b", 3, 0, 2),
        "margin": 0.03,
        "is_comparable": True,
        "comparisons": compare(SAMPLES),
        "differences": (),
    }
    return ComparisonResult(**{**values, **changes})  # type: ignore[arg-type]


def test_the_terminal_shows_sides_table_and_verdicts() -> None:
    text = "\n".join(comparison_lines(result(), 140))
    assert "small: b compared with a" in text
    assert "4 runs, 3 valid, 1 invalid (left out)" in text and "3 runs, 3 valid, 2 not carried out" in text
    assert "slower: p95 of response time, testers 8: 2.000 times the old value (1.9" in text
    assert "worse: error rate, testers 8: +2 pp" in text and "better: memory of web" in text
    assert "only one valid run of a cell: throughput." in text and "Few runs: a side has 1 valid run" in text
    assert "Of 4 comparisons: 2 slower or worse, 1 faster or better, 0 the same, 1 undecided." in text
    assert "Margin: 3 %, of errors 0.5 percentage points." in text and "Holm" in text


def test_a_quiet_run_prints_only_what_is_slower_or_worse() -> None:
    text = "\n".join(slower_lines(result(), 140))
    assert (
        len(text.splitlines()) == 2 and "slower: p95 of response time" in text and "worse: error rate" in text
    )


def test_a_memory_is_not_slower_but_worse() -> None:
    words = {metric_title(one): verdict_word(one) for one in result().comparisons}
    assert words["p95 of response time"] == "slower" and words["memory of web"] == "better"
    assert words["throughput"] == "undecided"


def test_markdown_is_a_table_with_the_verdict_as_heading_and_without_markup_of_names() -> None:
    difference = Difference("services.web.version", "1", HOSTILE, "b", is_gate=False)
    text = comparison_markdown(result(experiment=HOSTILE, differences=(difference,)))
    assert text.startswith("### ") and "2 of 4 comparisons are slower or worse" in text.splitlines()[0]
    assert "<img" not in text and "\x1b" not in text and "`a`" not in text
    rows = [line for line in text.splitlines() if line.startswith("| testers 8")]
    assert len(rows) == 4 and len({row.count("|") for row in rows}) == 1
    assert "<details>" in text and "services.web.version" in text


def test_the_headline_names_the_most_important_verdict() -> None:
    every = result().comparisons
    assert headline(result(comparisons=every[:1])) == "1 of 1 comparison is slower or worse"
    assert headline(result(comparisons=every[1:2])) == "1 of 1 comparison is faster or better"
    assert headline(result(comparisons=every[3:])) == "no difference was found; 1 of 1 comparison undecided"
    same = compare([Sample(ComparedMetric("throughput", Better.HIGHER), {}, side(5, 5), side(5, 5))])
    assert headline(result(comparisons=same)).startswith("the same within 3")
    assert headline(result(comparisons=())) == "not comparable"


def test_remarks_name_what_makes_the_intervals_doubtful() -> None:
    found = result(
        serial=(SerialDependence("throughput", 0.45, 24),),
        short=(ShortRuns("new", CELL, "web", 0.9, 10.0, 0.38),),
        unmatched=({"load.testers": "16"},),
    )
    text = " ".join(" ".join(comparison_lines(found, 100)).split())
    assert "lag 1 of throughput (0.45)" in text and "that only one side has (testers 16)" in text
    assert (
        "a run of 10.0 s at a utilization of 90.0 % of web" in text
        and "500 relaxation times are 190 s" in text
    )


def in_blocks(*values: float, place: int = 0) -> tuple[RunValue, ...]:
    """Runs whose place in the block alternates."""
    return tuple(
        RunValue(value, 0, 3 * at + (at + place) % 2, f"repetition {at}") for at, value in enumerate(values)
    )


def paired(*drift: Drift) -> ComparisonResult:
    metric = ComparedMetric("response_p50", Better.LOWER)
    old, new = in_blocks(10, 10.1, 9.9, 10), in_blocks(20, 20.3, 19.9, 20, place=1)
    equal = Sample(metric, CELL, old, in_blocks(15, 15.2, 14.9, 15.1), same_blocks=True)
    samples = [Sample(metric, CELL, old, new, same_blocks=True, control=equal)]
    return result(
        by="build",
        comparisons=compare(samples, 0.03, drift),
        drift=drift,
        control=SideSummary("build=a again", 4, 0, 0),
    )


def test_controls_stand_beside_each_metric() -> None:
    text = "\n".join(comparison_lines(paired(), 140))
    assert "control...........: 4 runs, 4 valid" in text
    compared, controls = (line for line in text.splitlines() if line.startswith("  median response time"))
    assert "4/4" in compared and "  1.50" in controls
    assert "later/earlier run" in text and "A/A: the old level compared with itself" in text
    flowing = " ".join(text.split())
    assert (
        "Equal systems differ in median response time, testers 8, by more than the margin: A/A 1.5" in flowing
    )
    markdown = comparison_markdown(paired())
    assert "- Control: build=a again (4 runs, 4 valid)" in markdown
    row = next(line for line in markdown.splitlines() if line.startswith("| testers 8 | median"))
    assert row.endswith(") |") and "| 4/4 | 1.50" in row
    assert markdown.count("<details>") == 1


def test_a_control_metric_that_moved_makes_the_verdict_unproven() -> None:
    def drift(metric: str, *, has_moved: bool, is_known: bool = True) -> Drift:
        return Drift(metric, CELL, 1.08, Limits(0.95, 1.05, 1.11) if is_known else None, 0.03, has_moved)

    moved = paired(drift("cpu_per_transaction.testers", has_moved=True), drift("cpu.testers", has_moved=True))
    text = " ".join(" ".join(comparison_lines(moved, 140)).split())
    assert "Undecided, because the control metric moved, too: unproven: median response time." in text
    assert "CPU time of testers per transaction, testers 8 1.080 (1.050 to 1.110)" in text
    still = paired(drift("cpu.testers", has_moved=False), drift("cpu.other", has_moved=False, is_known=False))
    text = " ".join(" ".join(comparison_lines(still, 140)).split())
    assert "Metrics that the change cannot affect did not move: CPU use of testers." in text
    assert "Without an interval, and therefore no control: CPU use of other." in text
    assert "not moved" in comparison_markdown(still)
