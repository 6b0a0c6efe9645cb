"""The lowest level of a factor that meets the rules of `capacity`, in closed networks with known figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.unit.analyse.made import histogram, run

from plimsoll.analyse.answer.load.sufficient import sufficient_sentence
from plimsoll.analyse.design.across import Design, grouped
from plimsoll.analyse.design.capacity.sufficient import sufficient_levels
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.load.sufficient import SufficiencyVerdict, SufficientLevel
from plimsoll.analyse.results.run import TesterResult as OneTester
from plimsoll.analyse.stats.quantiles import Histogram
from plimsoll.plan.metrics.rules import parse_rule
from plimsoll.plan.model.cell import CapacityRules

TESTERS, THINK_S, SERVICE_S = 120, 5.0, 0.5


def law(servers: float) -> float:
    """The response time of always busy servers, s."""
    return max(SERVICE_S, TESTERS * SERVICE_S / servers - THINK_S)


def found(
    limit: str, responses: Mapping[str, float], *, repetitions: int = 2, rest: str = "", spread: float = 0.001
) -> SufficientLevel | None:
    """`responses`: the mean of each level, s."""
    runs: list[RunResult] = []
    histograms: dict[str, dict[str, Histogram]] = {}
    for level, response in responses.items():
        for repetition in range(repetitions):
            mean = response * (1 + spread * repetition)
            id = f"{len(runs) + 1:04}"
            times = [1000 * mean] * 400
            cell = {"points": level, **({"selector": rest} if rest else {})}
            made = run(id, cell=cell, throughput=TESTERS / (mean + THINK_S), response_ms=times)
            testers = tuple(OneTester("local", n, 10, 0, 1.0, 1.0, 1.0) for n in range(TESTERS))
            runs.append(replace(made, repetition=repetition + 1, testers=testers))
            histograms[id] = histogram(times)
    design = Design({"points": list(responses)}, None, {})
    rules = CapacityRules(response=parse_rule(limit, "response"))
    (level_found,) = sufficient_levels(grouped(runs, histograms, design), design, rules) or (None,)
    return level_found


def test_the_number_of_servers_that_suffices_is_measured_and_computed() -> None:
    level = found("avg<11s", {k: law(float(k)) for k in ("10", "1", "2", "3", "4")})
    assert level is not None and level.computed is not None
    assert (level.verdict, level.level, level.below) == (SufficiencyVerdict.SUFFICES, 4, 3)
    assert abs(level.computed - TESTERS * SERVICE_S / (11 + THINK_S)) < 0.02
    assert (level.from_level, level.between, level.more_runs) == (1, (), None)
    assert sufficient_sentence(level) == (
        "response avg<11s holds from points 4 on, and not with 3. Computed from the throughput with points 1: at least "
        "3.75."
    )


def test_all_levels_or_none_may_suffice() -> None:
    lowest = found("avg<11s", {"1": 0.5, "3": 0.5}, rest="random")
    assert lowest is not None and lowest.verdict == SufficiencyVerdict.LOWEST
    assert lowest.computed is None, "the servers are not the limit"
    assert sufficient_sentence(lowest) == (
        "With selector random, response avg<11s holds already with the lowest level, points 1."
    )
    none = found("avg<100ms", {k: law(float(k)) for k in ("1", "2")})
    assert none is not None and none.verdict == SufficiencyVerdict.NONE
    assert sufficient_sentence(none).startswith(
        "response avg<100ms does not hold with any level up to points 2."
    )


def test_what_is_not_ordered_or_no_number_is_no_statement() -> None:
    assert found("avg<11s", {"1": 20.0, "2": 5.0, "4": 12.0}) is None, "holds, and at a higher level not"
    assert found("avg<11s", {"1": 20.0}) is None, "one level"
    assert found("avg<11s", {"1": 20.0, "many": 5.0}) is None, "no number"


def test_a_level_that_the_intervals_do_not_decide_has_no_verdict() -> None:
    single = found("avg<11s", {"1": 20.0, "2": 5.0}, repetitions=1)
    assert single is not None
    assert (single.verdict, single.between, single.more_runs) == (SufficiencyVerdict.UNDECIDED, (1, 2), None)
    unsure = found("avg<11s", {"1": 40.0, "2": 9.0, "3": 9.5, "4": 1.0}, spread=0.1, repetitions=3)
    assert unsure is not None
    assert (unsure.verdict, unsure.below, unsure.between, unsure.level) == (
        SufficiencyVerdict.UNDECIDED,
        1,
        (2, 3),
        4,
    )
    assert unsure.more_runs is not None
    assert sufficient_sentence(unsure) == (
        "The runs do not show whether response avg<11s holds with points 2 and 3 (about "
        f"{unsure.more_runs} more runs per level needed). It holds from 4 on, and not with 1."
    )
    many = found("avg<11s", {"1": 20.0, "2": 10.49, "3": 10.48, "4": 10.47}, spread=0.1, rest="random")
    assert many is not None and many.more_runs is None
    assert sufficient_sentence(many).startswith(
        "With selector random, the runs do not show whether response avg<11s holds with points "
    )


def test_without_rules_there_is_no_statement() -> None:
    design = Design({"points": ["1", "2"]}, None, {})
    assert sufficient_levels((), design, CapacityRules()) == ()
