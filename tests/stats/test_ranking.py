"""Comparisons of combinations within blocks: how often a claim is false, and how often an interval holds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from plimsoll.analyse.design.capacity.ranking import Contender, ranking
from plimsoll.analyse.results.verdicts import RankingVerdict
from plimsoll.analyse.stats.blocks import AdjustedCells, within_blocks
from plimsoll.analyse.stats.proportion import clopper_pearson

EXPERIMENTS = 1500


def contenders(
    rng: np.random.Generator, truths: list[float], runs: int, sd: float, blocks: int, block_sd: float
) -> list[Contender]:
    shift = rng.normal(0, block_sd, max(blocks, 1))
    out = []
    for at, truth in enumerate(truths):
        names = [f"day-{run % blocks}" if blocks else None for run in range(runs)]
        values = [
            truth * math.exp(rng.normal(0, sd) + (shift[run % blocks] if blocks else 0))
            for run in range(runs)
        ]
        out.append(Contender({"way": str(at)}, (tuple(zip(names, values, strict=True)),)))
    return out


@pytest.mark.parametrize("runs", [2, 3, 5])
@pytest.mark.parametrize(("blocks", "block_sd"), [(0, 0.0), (2, 0.3)])
@pytest.mark.parametrize("ways", [2, 3, pytest.param(6, marks=pytest.mark.long)])
def test_equal_combinations_are_rarely_ranked(ways: int, blocks: int, block_sd: float, runs: int) -> None:
    rng = np.random.default_rng(100 * ways + 10 * runs + blocks)
    if blocks and runs % blocks:
        runs += 1
    false = sum(
        result is not None and result.verdict == RankingVerdict.HIGHEST
        for result in (
            ranking(contenders(rng, [100.0] * ways, runs, 0.05, blocks, block_sd)) for _ in range(EXPERIMENTS)
        )
    )
    assert clopper_pearson(false, EXPERIMENTS)[0] <= 0.05, f"{false} of {EXPERIMENTS}"


def test_a_ratio_has_its_own_interval_within_blocks() -> None:
    """Blocks that differ by 30 % hide nothing: the ratio is 1.2, its interval is narrow, and holds it in 95 %."""
    rng = np.random.default_rng(7)
    held, decided, width = 0, 0, []
    for _ in range(EXPERIMENTS):
        result = ranking(contenders(rng, [120.0, 100.0], 4, 0.03, 2, 0.3))
        assert (
            result is not None and result.over_second.low is not None and result.over_second.high is not None
        )
        over = result.over_second
        low, high = result.over_second.low, result.over_second.high
        if result.best["way"] == "1":
            low, high = 1 / high, 1 / low
        held += low <= 1.2 <= high
        decided += result.verdict == RankingVerdict.HIGHEST
        width.append((high - low) / over.mean)
    low, high = clopper_pearson(held, EXPERIMENTS)
    assert low <= 0.95 <= high, held / EXPERIMENTS
    assert decided > 0.95 * EXPERIMENTS and np.median(width) < 0.15


def test_block_effects_are_subtracted_and_the_error_keeps_its_variance() -> None:
    """Known block effects of +1 and -1 over three cells; the error of 0.1 is estimated without bias."""
    rng = np.random.default_rng(3)
    estimates = []
    for _ in range(400):
        cells = [
            [(f"b{block}", level + (1, -1)[block] + rng.normal(0, 0.1)) for block in (0, 1) for _ in range(2)]
            for level in (1.0, 2.0, 4.0)
        ]
        adjusted = within_blocks(cells)
        assert adjusted is not None and adjusted.taken == 1
        assert np.allclose(
            [np.mean(cell) for cell in adjusted.cells], [np.mean([v for _, v in cell]) for cell in cells]
        )
        error = adjusted.error()
        assert error is not None
        estimates.append(error.sd**2)
    assert np.mean(estimates) == pytest.approx(0.01, rel=0.06)


def test_blocks_without_degrees_of_freedom_yield_no_interval() -> None:
    assert within_blocks([[("a", 1.0)], [("b", 2.0)]]) is None, "cell and block are the same"
    assert within_blocks([[(None, 1.0), ("a", 2.0)]]) == AdjustedCells([[1.0, 2.0]], 0), (
        "a run without a block"
    )
    assert within_blocks([[("a", 1.0), ("a", 2.0)], []]) == AdjustedCells([[1.0, 2.0], []], 0), "one block"
    single = [Contender({"way": "0"}, ((("a", 3.0),),)), Contender({"way": "1"}, ((("a", 1.0),),))]
    result = ranking(single)
    assert (
        result is not None
        and result.verdict == RankingVerdict.ONE_OBSERVATION
        and result.over_worst.mean == 3
    )
    assert ranking(single[:1]) is None
    assert ranking([Contender({}, ((("a", 3.0),),)), Contender({}, ((("a", 1.0),),))]) is None, (
        "only the load differs"
    )
    assert ranking([*single, Contender({"way": "2"}, ((("a", 0.0),),))]) is not None, (
        "no throughput: not compared"
    )
