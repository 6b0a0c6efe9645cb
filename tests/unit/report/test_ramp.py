"""A run against its load in the page and in the terminal."""

from __future__ import annotations

import json
from dataclasses import replace

import altair as alt
import pytest
from tests.golden.fixture import single

from plimsoll.analyse.answer.compose import sentences
from plimsoll.analyse.answer.load.ramp import load_words
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.run import Ramp, RampBin, RampRule, RampStep
from plimsoll.analyse.results.verdicts import BinOutcome, RampVerdict
from plimsoll.report.charts import load_figures
from plimsoll.report.labels import Labels
from plimsoll.report.tables import ramp as tables
from plimsoll.report.terminal import summary_lines

H, F, N = BinOutcome.HELD, BinOutcome.FAILED, BinOutcome.NOT_JUDGED


def with_ramp(verdict: RampVerdict = RampVerdict.FAILED_FROM) -> Analysis:
    analysis = single()
    run = analysis.runs[0]
    short = replace(run.traffic, response_ms=replace(run.traffic.response_ms, p99=None, missing=0))
    bins = tuple(RampBin(at, at + 1.0, 10.0 * at, 10.0 * at + 10, short) for at in range(4))
    rule = RampRule(
        "response", "p(95)<1ms", verdict, 2, 20.0, 30.0, 20.0, (N, H, F, F), (None, 0.1, 2.0, 3.0)
    )
    return replace(analysis, runs=(replace(run, valid=True, ramp=Ramp("rate", bins, (0, 4), (rule,))),))


def test_the_table_marks_parts_with_too_few_transactions() -> None:
    run = with_ramp().runs[0]
    assert run.ramp is not None
    table = tables.table(run, run.ramp)
    heads = [column.name for column in table.columns]
    assert heads[:2] == ["Offered rate", "Time (s)"] and heads[-1] == "response time p(95)<1ms"
    assert [row[heads.index("p99")] for row in table.rows] == ["too few"] * 4
    assert [row[-1] for row in table.rows] == ["too few", "held", "failed", "failed"]
    assert "A ramp is not a search" in table.note


def test_the_chart_is_valid_and_has_what_the_table_has() -> None:
    (figure,) = [figure for figure in load_figures(Labels(with_ramp())) if figure.key.startswith("ramp-")]
    drawn = alt.Chart.from_dict(json.loads(json.dumps(figure.chart.to_dict())))
    assert drawn is not None
    rows = figure.chart.to_dict()["datasets"]
    assert {row["which"] for row in rows["ramp_rates"]} == {"throughput", "offered"}
    assert {row["which"] for row in rows["ramp_times"]} == {"p50", "p95"}
    assert len(figure.table.rows) == 4


def test_the_terminal_has_a_line_for_each_part() -> None:
    lines = summary_lines(with_ramp(), 100)
    start = next(at for at, line in enumerate(lines) if line.strip().startswith("offered rate"))
    assert all(" to " in line and "too few" in line for line in lines[start + 1 : start + 5])


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (RampVerdict.FAILED_FROM, "on and stayed failed; a constant load of 30"),
        (RampVerdict.FAILED_THROUGHOUT, "the lowest load, on and stayed failed"),
        (RampVerdict.LAST_ONLY, "failed at the end of the ramp only"),
        (RampVerdict.RECOVERED, "held again at a higher load"),
        (RampVerdict.HELD, "held up to 40"),
        (RampVerdict.NOT_JUDGED, "too few transactions per bin"),
    ],
)
def test_each_verdict_has_its_sentence(verdict: RampVerdict, words: str) -> None:
    text = " ".join(sentences(with_ramp(verdict)))
    assert words in text
    assert "A ramp is not a search" in text


def test_loads_in_words() -> None:
    assert load_words(1, 1, "testers").split() == ["1", "tester"]
    assert load_words(9, 16, "testers").split() == ["9", "to", "16", "testers"]
    assert load_words(120, 136, "rate") == "120 to 136/s"


def with_steps() -> Analysis:
    """A ramp of 12 testers whose steps are merged to six, with a rule that is judged on four bins."""
    analysis = with_ramp()
    run = analysis.runs[0]
    assert run.ramp is not None
    steps = tuple(
        RampStep(at * 2 / 3, (at + 1) * 2 / 3, 2 * at + 1, 2 * at + 2, 2, run.traffic) for at in range(6)
    )
    return replace(analysis, runs=(replace(run, ramp=replace(run.ramp, unit="testers", steps=steps)),))


def test_a_ramp_of_testers_is_shown_by_its_steps() -> None:
    run = with_steps().runs[0]
    assert run.ramp is not None
    table = tables.table(run, run.ramp)
    assert [column.name for column in table.columns][:2] == ["Active testers", "Time (s)"]
    assert [row[0].split() for row in table.rows][:2] == [
        ["1", "to", "2", "testers"],
        ["3", "to", "4", "testers"],
    ]
    # The outcome of the bin around the middle of each step: bins of 1 s, steps of 2/3 s.
    assert [row[-1] for row in table.rows] == ["too few", "too few", "held", "failed", "failed", "failed"]
    assert "12 planned steps in 6 rows" in table.note and "A rule is judged in parts" in table.note


def test_steps_in_the_chart_and_in_the_terminal() -> None:
    (figure,) = [figure for figure in load_figures(Labels(with_steps())) if figure.key.startswith("ramp-")]
    assert "against the number of active testers" in figure.title
    rates = figure.chart.to_dict()["datasets"]["ramp_rates"]
    assert [row["load"] for row in rates] == [1.5, 3.5, 5.5, 7.5, 9.5, 11.5]
    lines = summary_lines(with_steps(), 100)
    start = next(at for at, line in enumerate(lines) if line.strip().startswith("active testers"))
    assert "11 to 12 testers" in lines[start + 6]
    assert "12 planned steps" in " ".join(" ".join(lines[start + 7 : start + 9]).split())
