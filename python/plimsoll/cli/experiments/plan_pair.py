"""What `plimsoll plan --like DIR` prints of a paired design."""

from __future__ import annotations

from pathlib import Path

from plimsoll.analyse.design.repetitions.power import PairPower
from plimsoll.compare.metrics import DEFAULT_MARGIN
from plimsoll.plan import Plan


def pair_lines(plan: Plan, found: list[PairPower], directory: Path) -> list[str]:
    """The smallest change of each metric that the pairs can show; empty without a pair."""
    if plan.experiment.design.pair is None:
        return []
    if not found:
        return [f"expected: no smallest change, because no cell of {directory} has two valid runs"]
    return [
        f"expected: with {one.pairs} pairs and the spread of {directory} a change of {_percent(one.change)} of "
        f"{one.metric} can be seen with power 80 % (margin {100 * DEFAULT_MARGIN:g} %; new / old of a pair varies by "
        f"{_percent(one.sd)})"
        for one in found
    ]


def _percent(share: float) -> str:
    return f"{100 * share:,.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
