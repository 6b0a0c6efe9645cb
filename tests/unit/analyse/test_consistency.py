"""The cost of consistency, over cells and levels: intervals, ratios, the cheapest level, sentences, thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.unit.analyse.made import histogram, run

from plimsoll.analyse.answer.load.consistency import of_consistency
from plimsoll.analyse.design.across import Design, grouped
from plimsoll.analyse.design.capacity.cheapest import cheapest
from plimsoll.analyse.design.consistency import NONE_STALE, OF_CELLS, consistency
from plimsoll.analyse.design.thresholds import Sample, observe
from plimsoll.analyse.results.analysis import (
    Analysis,
    Consistency,
    ConsistencyResult,
    ExperimentInfo,
    RunResult,
)
from plimsoll.analyse.results.run import Latency, Readers, Staleness, Utilization
from plimsoll.analyse.results.verdicts import ThresholdReason
from plimsoll.analyse.results.wording import describe
from plimsoll.analyse.run.staleness import HISTOGRAM
from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.proportion import wilson
from plimsoll.analyse.stats.quantiles import Buckets, Histogram
from plimsoll.plan.metrics.catalogue import METRICS
from plimsoll.plan.metrics.rules import parse_rule
from plimsoll.plan.metrics.table import Use

NO_AGES = Latency(0, None, None, None, None, None, None, None, None)


def with_readers(
    id: str,
    cell: dict[str, str],
    *,
    answers: int = 1000,
    stale: int = 0,
    reads_per_s: float = 100.0,
    fetches: int = 10,
    valid: bool = True,
) -> RunResult:
    part = stale / answers
    share = Interval(
        part, part * 0.8, part * 1.2 if stale else wilson(0, answers)[1], method="within the run"
    )
    readers = Readers(
        workload="",
        answers=answers,
        unjudged=0,
        stale=stale,
        stale_share=share,
        stale_age_ms=NO_AGES,
        stale_age_ms_mean=2.0 * stale / answers,
        reads_per_s=reads_per_s,
        hits=answers - fetches,
        revalidations=0,
        fetches=fetches,
        origin_share=fetches / answers,
        needless=fetches // 2,
        needless_share=None,
    )
    busy = Utilization("db", "service", "cpu", reads_per_s / 1000, None, None)
    return replace(
        run(id, cell=cell, valid=valid),
        staleness=Staleness(readers, (), 3, 50, 0, 0, 5.0),
        utilization=(busy, Utilization("host", "host", "cpu", 0.9, None, None)),
    )


def over(
    runs: Sequence[RunResult], ages_ms: Sequence[float] = (), load: str | None = None
) -> ConsistencyResult | None:
    levels: dict[str, list[str]] = {}
    for member in runs:
        for name, level in member.cell.items():
            if level not in levels.setdefault(name, []):
                levels[name].append(level)
    buckets = Buckets()
    kept = histogram(ages_ms)["response"] if len(ages_ms) else Histogram.of(buckets)
    design = Design(levels, load, {})
    return consistency(grouped(runs, {member.id: {HISTOGRAM: kept} for member in runs}, design), design)


def analysis_of(runs: Sequence[RunResult], ages_ms: Sequence[float] = ()) -> Analysis:
    info = ExperimentInfo(
        "x", "", "", None, {}, None, "full-factorial", 2, len(runs), len(runs), True, (), ""
    )
    result = over(runs, ages_ms)
    return Analysis(info, (), tuple(runs), (), (), (), (), (), (), consistency=result)


def said(runs: Sequence[RunResult], ages_ms: Sequence[float] = ()) -> list[str]:
    return [finding.text.replace("\u00a0", " ") for finding in of_consistency(analysis_of(runs, ages_ms))]


def test_no_result_if_no_tester_reads_versions() -> None:
    assert over([run("1", cell={"a": "x"})]) is None
    assert over([with_readers("1", {"a": "x"}, valid=False)]) is None
    assert said([run("1", cell={"a": "x"})]) == []


def test_a_cell_of_one_run_has_the_interval_within_it_and_several_that_over_runs() -> None:
    result = over([with_readers("1", {"a": "x"}, stale=100), with_readers("2", {"a": "y"}, stale=50)])
    assert result is not None
    assert (share := result.cells[0].stale_share) is not None
    assert (share.mean, share.low, share.high) == pytest.approx((0.1, 0.08, 0.12))
    assert share.method == "within the run"
    result = over([with_readers("1", {"a": "x"}, stale=100), with_readers("2", {"a": "x"}, stale=120)])
    assert result is not None and (share := result.cells[0].stale_share) is not None
    assert share.mean == pytest.approx(0.11)
    assert share.low is not None and share.high is not None
    assert 0.0 <= share.low < 0.1 < 0.12 < share.high <= 1.0
    assert result.cells[0].busy == {"db": 0.1}  # services, not the host


def test_a_small_share_next_to_large_ones_has_a_small_interval() -> None:
    shares = {"x": (0.10, 0.12), "y": (0.00002, 0.00004)}
    every = [(name, share) for name, both in shares.items() for share in both]
    runs = [
        with_readers(f"{at:04}", {"a": name}, answers=100_000, stale=round(100_000 * share))
        for at, (name, share) in enumerate(every, 1)
    ]
    result = over(runs)
    assert result is not None
    angles = {name: np.arcsin(np.sqrt(both)) for name, both in shares.items()}
    error = math.sqrt(sum(cell_angles.var(ddof=1) for cell_angles in angles.values()) / 2)
    half = stats.t.ppf(0.975, 2) * error / math.sqrt(2)
    for cell, (name, both) in zip(result.cells, shares.items(), strict=True):
        share = cell.stale_share
        assert share is not None
        assert share.mean == pytest.approx(np.mean(both))
        assert share.low == pytest.approx(math.sin(max(0.0, angles[name].mean() - half)) ** 2)
        assert share.high == pytest.approx(math.sin(angles[name].mean() + half) ** 2)
    large, small = (cell.stale_share for cell in result.cells)
    assert large is not None and small is not None
    assert large.high is not None and large.low is not None and small.high is not None
    assert small.high < (large.high - large.low) / 10


def test_without_stale_answers_the_bound_is_from_the_count_of_all_runs() -> None:
    result = over([with_readers("1", {"a": "x"}), with_readers("2", {"a": "x"}, answers=3000)])
    assert result is not None and (share := result.cells[0].stale_share) is not None
    assert (share.mean, share.low, share.high) == pytest.approx((0.0, 0.0, wilson(0, 4000)[1]))
    assert share.method == NONE_STALE


def test_cells_without_stale_answers_do_not_narrow_the_others() -> None:
    runs = [with_readers("1", {"a": "x"}, stale=100), with_readers("2", {"a": "x"}, stale=120)]
    fresh = [with_readers(str(at), {"a": f"{at % 5}"}) for at in range(10, 20)]
    alone, among = over(runs), over([*runs, *fresh])
    assert alone is not None and among is not None
    first = next(cell for cell in among.cells if cell.cell == {"a": "x"})
    assert first.stale_share == alone.cells[0].stale_share


def test_percentiles_of_ages_are_those_of_all_runs_together() -> None:
    runs = [with_readers("1", {"a": "x"}, stale=100), with_readers("2", {"a": "x"}, stale=100)]
    result = over(runs, [float(age) for age in range(1, 151)])
    assert result is not None
    cell = result.cells[0]
    assert cell.stale_age_ms_p50 == pytest.approx(75, rel=1e-3)
    assert cell.stale_age_ms_p95 == pytest.approx(143, rel=1e-3)  # 300 values carry it, 150 would not
    assert cell.stale_age_ms_max == 150.0


def test_a_level_weights_its_cells_and_differences_between_them_are_no_error() -> None:
    runs = [
        with_readers("1", {"a": "x", "b": "few"}, answers=1000, stale=10),
        with_readers("2", {"a": "x", "b": "many"}, answers=3000, stale=1500),
    ]
    result = over(runs)
    assert result is not None and result.factor == "a"
    (level,) = result.levels
    share = level.stale_share
    assert share is not None and share.low is not None and share.high is not None
    assert share.mean == pytest.approx(1510 / 4000)
    half = math.hypot(0.25 * 0.01 * 0.2, 0.75 * 0.5 * 0.2)
    assert (share.mean - share.low, share.high - share.mean) == pytest.approx((half, half))
    assert share.method == OF_CELLS
    assert level.fetches_per_answer == pytest.approx(20 / 4000)
    assert level.needless_share == pytest.approx(0.5)


def test_the_first_factor_that_is_no_load() -> None:
    runs = [with_readers("1", {"testers": "1", "a": "x"}), with_readers("2", {"testers": "1", "a": "y"})]
    result = over(runs, load="testers")
    assert result is not None
    assert (result.factor, [level_.cell for level_ in result.levels]) == ("a", [{"a": "x"}, {"a": "y"}])
    alone = over([with_readers("1", {"testers": "1"})], load="testers")
    assert alone is not None
    assert (alone.factor, alone.levels) == (None, ())


def test_relative_reads_compare_cells_with_the_same_other_levels() -> None:
    # y reads half of x in either cell, and x was not run with `often`, where everything is slow
    rates = {("x", "no"): 1000, ("x", "some"): 400, ("y", "no"): 500, ("y", "some"): 200, ("y", "often"): 10}
    runs = [
        with_readers(f"{at}{again}", {"a": a, "b": b}, reads_per_s=rate * (1.02 if again else 1 / 1.02))
        for at, ((a, b), rate) in enumerate(rates.items(), start=1)
        for again in (0, 1)
    ]
    result = over(runs)
    assert result is not None
    first, second = result.levels
    assert first.relative_reads == Interval(1.0, 1.0, 1.0, method="reference of the comparison")
    ratio = second.relative_reads
    assert ratio is not None and ratio.high is not None
    assert ratio.mean == pytest.approx(0.5)
    sd = math.sqrt(2) * math.log(1.02)
    half = t_quantile(0.975, 5) * sd * math.sqrt(2 * (1 / 2 + 1 / 2)) / 2
    assert ratio.high == pytest.approx(0.5 * math.exp(half))


def level(name: str, stale: int, reads: float, width: float = 0.0, fetches: float = 0.1) -> Consistency:
    ratio = Interval(reads, reads - width, reads + width)
    share = Interval(stale / 100, 0.0, 1.0)
    return Consistency({"a": name}, 1, 100, stale, share, None, None, None, fetches, 0.0, {}, ratio)


def names(levels: Sequence[Consistency]) -> list[str]:
    return [level_.cell["a"] for level_ in levels]


def test_the_cheapest_is_without_stale_answers_then_reads_most_then_fetches_least() -> None:
    assert names(cheapest([level("a", 0, 0.2), level("b", 0, 0.8), level("c", 5, 1.0)])) == ["b"]
    assert names(cheapest([level("a", 3, 0.2), level("b", 2, 0.8), level("c", 5, 1.0)])) == ["b"]
    levels = [level("a", 0, 0.97, 0.05, fetches=0.1), level("b", 0, 1.0, 0.0, fetches=0.5)]
    assert names(cheapest(levels)) == ["a"]
    assert names(cheapest([level("a", 0, 0.97, 0.01, fetches=0.1), level("b", 0, 1.0)])) == ["b"]
    assert names(cheapest([level("a", 0, 1.0), level("b", 0, 1.0)])) == ["a", "b"]


def test_the_answer_in_sentences() -> None:
    runs = [
        with_readers("1", {"cache": "asks"}, reads_per_s=250, fetches=1000),
        with_readers("2", {"cache": "told"}, reads_per_s=900, fetches=40),
        with_readers("3", {"cache": "10 s"}, stale=300, reads_per_s=1000, fetches=2),
    ]
    assert said(runs, [float(age) for age in range(1, 1001)]) == [
        "Of the 2 levels without stale answers, cache told is the cheapest.",
        "With cache asks, none of 1,000 answers was stale (at most 0.38 %); the readers' throughput is 0.250 times "
        "that of cache 10 s; every answer came from the origin.",
        "With cache told, none of 1,000 answers was stale (at most 0.38 %); the readers' throughput is 0.900 times "
        "that of cache 10 s; 0.0400 origin fetches per answer.",
        "With cache 10 s, 30.0 % (24.0 to 36.0 %) of the answers were stale, 95 % of them by at most 950 ms; "
        "the readers' throughput is the highest; 0.00200 origin fetches per answer.",
    ]
    assert said(runs[1:])[0] == "Only cache told has no stale answers."
    twin = replace(runs[1], id="5", cell={"cache": "told too"})
    assert (
        said([runs[1], twin])[0]
        == "Cache told and cache told too have no stale answers; no difference in their cost was detected."
    )
    worse = with_readers("4", {"cache": "20 s"}, stale=600)
    assert said([runs[2], worse])[0] == (
        "Every level of cache has stale answers; cache 10 s has the fewest (30.0 %)."
    )
    assert said([with_readers("1", {}, stale=5)]) == [
        "0.500 % (0.400 to 0.600 %) of the answers were stale; 0.0100 origin fetches per answer."
    ]


def test_many_levels_are_only_listed_in_the_table() -> None:
    runs = [with_readers(str(at), {"ttl": f"{at} s"}, stale=at) for at in range(1, 12)]
    assert said(runs) == [
        "Every level of ttl has stale answers; ttl 1 s has the fewest (0.100 %).",
        "The table lists the results of the readers at 11 levels.",
    ]


@pytest.mark.parametrize(
    ("metric", "test", "value"),
    [
        ("stale_share", "rate<1%", 0.03),
        ("stale_share", "count<1", 120.0),
        ("origin_share", "rate<1%", 0.005),
        ("needless_share", "rate<1%", 0.5),
        ("stale_age", "p(50)<1s", 0.05),
        ("stale_age", "avg<1s", 0.00006),
        ("reads_per_s", "rate>1/s", 150.0),
        ("writes_per_s", "rate>1/s", 5.0),
    ],
)
def test_thresholds_judge_the_runs_of_a_cell_together(metric: str, test: str, value: float) -> None:
    runs = [
        with_readers("1", {}, answers=1000, stale=120, reads_per_s=100),
        with_readers("2", {}, answers=3000, stale=0, reads_per_s=200),
    ]
    ages = {HISTOGRAM: histogram([float(age) for age in range(1, 101)])["response"]}
    observed, _ = observe(parse_rule(test, metric), Sample(runs, [ages, {}]))
    assert observed == pytest.approx(value, rel=1e-3)
    assert describe(metric).title != metric.replace("_", " ") or metric == "stale_age"


def test_an_age_is_0_where_nothing_was_stale_and_unknown_where_nothing_was_read() -> None:
    rule = parse_rule("p(95)<1s", "stale_age")
    value, why = observe(rule, Sample([with_readers("1", {})], [{}]))
    assert value == 0.0 and why is not None and why.code == ThresholdReason.ABSENT
    for rule_ in (rule, parse_rule("rate<1%", "stale_share")):
        value, why = observe(rule_, Sample([run("1")], [{}]))
        assert value is None and why is not None and why.code == ThresholdReason.NO_SAMPLE


def test_every_metric_can_be_a_response() -> None:
    names = {"reads_per_s", "writes_per_s", "stale_share", "origin_share", "needless_share", "stale_age_p95"}
    assert names | {f"stale_age_ms_{statistic}" for statistic in ("mean", "p50", "p95", "max")} <= set(
        METRICS.names(Use.RESPONSE)
    )
    assert METRICS.named("stale_age_p999", Use.RESPONSE) is None
    assert describe("stale_age_p95").title == "p95 of the age of stale answers"
