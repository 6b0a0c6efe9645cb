"""Few transactions per tester: when there is a remark, and what it states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.golden.fixture import single

from plimsoll.analyse.answer.compose import sentences
from plimsoll.analyse.answer.few import of_few_transactions
from plimsoll.analyse.results import run as results
from plimsoll.analyse.results.analysis import OpenLoad
from plimsoll.analyse.results.run import FewTransactions
from plimsoll.analyse.run.few import few_transactions
from plimsoll.analyse.stats.fairness import jain_index


def of_counts(*counts: int, share: float | None = 1.0) -> list[results.TesterResult]:
    return [results.TesterResult("a", at, n, 0, 1.0, None, share) for at, n in enumerate(counts)]


@pytest.mark.parametrize(
    ("counts", "open_load", "each", "expected"),
    [
        ((4, 4, 5), "none", None, FewTransactions(3, 4.0, 25.0)),
        ((9, 10, 11), "none", None, None),
        ((0, 0, 1), "none", None, FewTransactions(3, 0.0, None)),
        ((4, 4, 4), "all", None, None),
        ((4, 4, 4), "none", 4, None),
        ((), "none", None, None),
    ],
)
def test_the_median_of_closed_testers_decides(
    counts: tuple[int, ...], open_load: OpenLoad, each: int | None, expected: FewTransactions | None
) -> None:
    assert few_transactions(of_counts(*counts), open_load, 10.0, each) == expected


def test_slots_of_open_loads_do_not_count() -> None:
    testers = [*of_counts(1, 1, 1, share=None), *of_counts(20, 20)]
    assert few_transactions(testers, "some", 10.0, None) is None


def test_the_answer_has_one_sentence_for_all_runs() -> None:
    run = replace(single().runs[0], valid=True, few=FewTransactions(8, 4.0, 75.0))
    alone = replace(single(), runs=(run,))
    (finding,) = of_few_transactions(alone)
    assert " ".join(finding.text.split()) == (
        "Testers ended fewer than 10 transactions each (median 4.00): differences between testers and Jain's index "
        "are mostly chance; the throughput depends on where the window begins and ends, by up to 25 %. "
        "A window of 75.0 s has 10 per tester."
    )
    other = replace(run, id="0002", few=FewTransactions(8, 0.0, None))
    text = of_few_transactions(replace(alone, runs=(run, other)))[0].text
    assert text.startswith(
        "In 2 of 2 runs, testers ended fewer than 10 transactions each (median 0 in run 0002)"
    )
    assert (
        sum("fewer than 10 transactions" in each for each in sentences(replace(alone, runs=(run, other))))
        == 1
    )
    assert of_few_transactions(replace(alone, runs=(replace(run, few=None),))) == []


def test_the_figures_of_the_remark_hold_for_testers_whose_truth_is_known() -> None:
    """Equal testers with exponential times: Jain's index by chance is 1 / (1 + 1 / n). Constant times and a common
    start: the count differs from rate times window by less than one transaction."""
    generator = np.random.default_rng(5)
    for n in (4, 10, 100):
        counts = (np.cumsum(generator.exponential(1.0, (2000, 4 * n + 40)), axis=1) < n).sum(axis=1)
        assert jain_index(counts.tolist()) == pytest.approx(1 / (1 + 1 / n), abs=0.02)
    for cycle in generator.uniform(0.5, 3.0, 100):
        assert abs(int(10 / cycle) - 10 / cycle) < 1
