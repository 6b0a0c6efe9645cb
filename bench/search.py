"""Wall time of the capacity search and of a bisection: `PYTHONPATH=. python bench/search.py [--searches 400]`.

In virtual time: a trial takes its length and 1.5 s of start, drain and bookkeeping. The bisection makes n trials of
the full length at each load and decides by the majority, until its interval is as narrow as the bracket of the
search (10 %). n is the smallest number with which the interval contains the truth as often as wanted, 95 %. The second
bisection knows no n: it makes trials at each load until the load is a lower or an upper bound of the goal (RFC 9971).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tests.stats.search_queues import CASES, TRUTHS, Queue
from tests.stats.search_truths import Curve, Decision, Service, bisect, by_class, majority, run_search

from plimsoll.search.controller import Limits, SearchController
from plimsoll.search.goals import Goal
from plimsoll.search.grid import LoadGrid

LOW, HIGH, WIDTH = 50.0, 20_000.0, 0.05
WANTED = 0.95
MAX_TRIALS = (1, 3, 5, 9, 15, 25, 41, 61, 101, 161, 251, 401)
QUEUES = (7,)
"""Indices of the queues of `CASES`, each with its first objective."""


@dataclass(frozen=True)
class Subject:
    name: str
    goal: Goal
    draw: Callable[[np.random.Generator], tuple[float, Service]]
    """The truth and a service that has it, for one search."""


def subjects() -> list[Subject]:
    goal = Goal("goal", 10, 2, 60, width=WIDTH)

    def curve(spread: float) -> Callable[[np.random.Generator], tuple[float, Service]]:
        def draw(rng: np.random.Generator) -> tuple[float, Service]:
            at = math.exp(rng.uniform(math.log(200), math.log(8000)))
            return at, Curve(at, spread, rng)

        return draw

    def queue(index: int) -> Callable[[np.random.Generator], tuple[float, Service]]:
        case = CASES[index]
        service = Queue(case, np.random.default_rng(index))

        def draw(rng: np.random.Generator) -> tuple[float, Service]:
            service.rng = rng
            return TRUTHS[case.name][0], service

        return draw

    found = [Subject(f"logistic, spread {spread:g}", goal, curve(spread)) for spread in (0, 0.02, 0.05, 0.09)]
    return found + [Subject(CASES[i].name, CASES[i].goals(WIDTH)[0], queue(i)) for i in QUEUES]


def searched(subject: Subject, searches: int) -> tuple[float, float, float]:
    """Share of the brackets with the truth, median seconds, median width."""
    rng = np.random.default_rng(1)
    hits, seconds, widths = 0, [], []
    for _ in range(searches):
        at, service = subject.draw(rng)
        controller = SearchController((subject.goal,), LoadGrid.of(*ends(rng), WIDTH), Limits(36_000))
        verdict, _ = run_search(controller, service)
        found = verdict.goals[0]
        assert found.lower is not None and found.upper is not None and found.width is not None
        hits += found.lower.load <= at <= found.upper.load
        seconds.append(verdict.spent_seconds)
        widths.append(found.width)
    return hits / searches, float(np.median(seconds)), float(np.median(widths))


def bisected(subject: Subject, decision: Decision, searches: int) -> tuple[float, float]:
    """Share of the intervals with the truth, median seconds."""
    rng = np.random.default_rng(2)
    hits, seconds = 0, []
    for _ in range(searches):
        at, service = subject.draw(rng)
        low, high, spent = bisect(subject.goal, ends(rng), decision, service)
        hits += low <= at <= high
        seconds.append(spent)
    return hits / searches, float(np.median(seconds))


def ends(rng: np.random.Generator) -> tuple[float, float]:
    """One of four ranges, so that no load of a bisection is the truth by design."""
    shift = 1.2 ** (rng.integers(4) / 4)
    return LOW * shift, HIGH * shift


def row(subject: Subject, searches: int) -> str:
    covered, seconds, width = searched(subject, searches)
    for trials in MAX_TRIALS:
        share, plain = bisected(subject, majority(subject.goal, trials), searches)
        if share >= WANTED:
            break
    ratio = f"{plain / seconds:.1f}" if share >= WANTED else "not reached"
    with_sum, plain_with_sum = bisected(subject, by_class(subject.goal), searches)
    return (
        f"| {subject.name} | {covered:.3f} | {100 * width:.1f} % | {seconds:.0f} | "
        f"{trials} | {share:.3f} | {plain:.0f} | {ratio} | "
        f"{with_sum:.3f} | {plain_with_sum:.0f} | {plain_with_sum / seconds:.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--searches", type=int, default=400)
    searches = parser.parse_args().searches
    print(
        "| service | search: contains the truth | width | s | bisection: n | contains it | s | ratio | "
        "bisection by classes: contains it | s | ratio |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for subject in subjects():
        print(row(subject, searches), flush=True)


if __name__ == "__main__":
    main()
