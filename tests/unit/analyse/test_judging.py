"""Thresholds, capacities, validity and bottlenecks: rules applied to figures of runs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.unit.analyse.made import histogram, run

from plimsoll.analyse.answer.components.components import limiting
from plimsoll.analyse.answer.reasons import bottleneck_reason
from plimsoll.analyse.answer.worded import worded_capacity, worded_reasons, worded_verdict
from plimsoll.analyse.components.bottleneck import NOT_RESOLVED, bottleneck
from plimsoll.analyse.components.utilization import utilizations
from plimsoll.analyse.design.capacity.capacity import (
    Level,
    efficiency,
    error_limited,
    nominal,
    scaling,
    stretch,
    usable,
)
from plimsoll.analyse.design.capacity.plateau import HighestLevels
from plimsoll.analyse.design.capacity.rule_bounds import RuleValue, observed
from plimsoll.analyse.design.thresholds import Sample, judge, observe
from plimsoll.analyse.results.analysis import Verdict
from plimsoll.analyse.results.metrics import canonical, metric_value
from plimsoll.analyse.results.run import ComponentResources, Utilization
from plimsoll.analyse.results.verdicts import BottleneckVerdict, RunReason, RunVerdict, Severity
from plimsoll.analyse.run.validity.own_delays import OwnDelay, OwnDelays
from plimsoll.analyse.run.validity.validity import Judgement, ValidityFigures, is_lower_bound, judge_run
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.means import cell_intervals
from plimsoll.analyse.stats.steady import Trend, TrendVerdict
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.columns.samples import SampleSeries
from plimsoll.plan.metrics.catalogue import METRICS
from plimsoll.plan.metrics.rules import parse_rule
from plimsoll.plan.model.cell import Threshold, Validity


def verdict(threshold_: Threshold, cell: dict[str, str], of: Sample, *, unfinished: bool = False) -> Verdict:
    return worded_verdict(judge(threshold_, cell, of, unfinished=unfinished))


def texts(judgement: Judgement, severity: Severity) -> list[str]:
    """The texts of the reasons against a run."""
    return [reason.text for reason in worded_reasons(judgement.reasons) if reason.severity == severity]


def threshold(metric: str, test: str) -> Threshold:
    return Threshold(metric, parse_rule(test, metric), test, {})


def sample(*values_ms: list[float], errors: int = 0) -> Sample:
    runs = [run(f"{i + 1:04}", response_ms=v, errors=errors) for i, v in enumerate(values_ms)]
    return Sample(runs, [histogram(v) for v in values_ms])


# -- thresholds


def test_percentiles_come_from_the_merged_runs() -> None:
    """p90 of [1 x 90 and 10 x 10] is 1 ms, that of [100 x 100] is 100 ms; of both together 100 ms, never 50.5."""
    both = sample([1.0] * 90 + [10.0] * 10, [100.0] * 100)
    observed, _ = observe(parse_rule("p(90)<1s", "response"), both)
    assert observed == pytest.approx(0.1, rel=1e-3)
    median, _ = observe(parse_rule("med<1s", "response"), both)
    assert median == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize(
    ("metric", "test", "observed"),
    [
        ("response", "avg<1s", 0.0505),
        ("response", "min<1s", 0.001),
        ("response", "max<1s", 0.1),
        ("errors", "rate<1%", 200 / 2200),
        ("errors", "count<1", 200),
        ("throughput", "rate>1", 100),
        ("items_per_s", "avg>1", 1000),
        ("transactions", "count>1", 2000),
        ("dropped", "count<1", 0),
    ],
)
def test_the_value_that_a_rule_judges(metric: str, test: str, observed: float) -> None:
    both = sample([1.0] * 100, [100.0] * 100, errors=100)
    value, _ = observe(parse_rule(test, metric), both)
    assert value == pytest.approx(observed, rel=1e-3)


def test_verdicts() -> None:
    good = verdict(threshold("response", "p(95)<500ms"), {"zip": "1"}, sample([1.0] * 400))
    assert (good.passed, good.reason, good.cell) == (True, "", {"zip": "1"})
    bad = verdict(threshold("response", "p(95)<0.5ms"), {}, sample([1.0] * 400))
    assert not bad.passed
    assert bad.reason.replace("\u00a0", " ") == "observed 1.000 ms, limit p(95)<0.5ms"
    assert bad.observed == pytest.approx(0.001) and bad.unit == "s"
    slow = verdict(threshold("response", "p(95)<1s"), {}, sample([1234567.0] * 400))
    assert slow.reason.replace("\u00a0", " ") == "observed 1,235 s, limit p(95)<1s"
    few = verdict(threshold("transactions", "count>10000000"), {}, Sample([run(transactions=1234567)], [{}]))
    assert few.reason.replace("\u00a0", " ") == "observed 1,234,600, limit count>10000000"
    weak = verdict(threshold("response", "p(99)<500ms"), {}, sample([1.0] * 50))
    assert weak.passed and "only 0 of 50 values are beyond it" in weak.reason


@pytest.mark.parametrize("test", ["p(95)<500ms", "avg<1s", "min>0", "max<1s"])
def test_no_sample_fails(test: str) -> None:
    for empty in (Sample([], []), sample([])):
        judged = verdict(threshold("response", test), {}, empty)
        assert not judged.passed and judged.observed is None and judged.reason.startswith("failed: no")


def test_a_cell_with_planned_runs_is_not_judged_yet() -> None:
    judged = verdict(threshold("response", "p(95)<1s"), {"zip": "1"}, Sample([], []), unfinished=True)
    assert (judged.judged, judged.passed, judged.cell) == (False, False, {"zip": "1"})
    assert "failed" not in judged.reason
    known = verdict(threshold("response", "p(95)<0.5ms"), {}, sample([1.0] * 400), unfinished=True)
    assert known.judged and not known.passed, "what was measured counts"


def test_failed_and_incomplete_transactions_are_longer_than_any_limit() -> None:
    """100 took 1 ms, 4 never started, 6 failed: p90 is known, p95 and the maximum lie among the others."""
    failing = sample([1.0] * 100)
    (good,) = failing.histograms
    both = Sample(
        failing.runs, [{**good, "response": dataclasses.replace(good["response"], missing=4, failed=6)}]
    )
    assert observe(parse_rule("p(90)<1s", "response"), both)[0] == pytest.approx(0.001, rel=1e-3)
    for test in ("p(95)<1s", "max<1s", "avg<1s"):
        lost = verdict(threshold("response", test), {}, both)
        assert not lost.passed and lost.judged and lost.observed is None
        assert (
            lost.reason
            == f"it is among the transactions that did not complete (100 of 110 did), limit {test}"
        )
    assert verdict(threshold("response", "p(95)>1s"), {}, both).passed
    assert verdict(threshold("response", "min<1s"), {}, both).passed


def test_no_ended_transaction_fails_an_error_rule() -> None:
    nothing = Sample([run(transactions=0, errors=0)], [{}])
    assert not verdict(threshold("errors", "rate<10%"), {}, nothing).passed


# -- capacities


def level(load: float, mean: float, observed: list[float], errors: int = 0) -> Level:
    throughput = Interval(mean, mean * 0.95, mean * 1.05, 0.95, 4.0, "pooled over the design")
    return Level(load, throughput, [of_runs(observed)], [errors, errors], [10_000, 10_000])


def of_runs(values: list[float]) -> RuleValue:
    """The mean of times with its interval over the runs."""
    mean = sum(values) / len(values)
    [interval] = cell_intervals([np.array(values)], separate=True, log=True)
    return RuleValue(mean) if interval is None else RuleValue(mean, interval.low, interval.high)


LEVELS = [
    level(1, 100, [0.010, 0.010]),
    level(2, 180, [0.015, 0.016]),
    level(4, 200, [0.049, 0.050], errors=50),
    level(8, 195, [0.100, 0.120], errors=2000),
]


def test_capacities() -> None:
    top = nominal(LEVELS, HighestLevels((), 1), saturated=True)
    assert (top.load, top.reached, worded_capacity(top).remark) == (4, True, "")
    assert top.value is not None and top.value.mean == 200
    fast = usable(LEVELS, [parse_rule("p(95)<20ms", "response")])
    assert (fast.load, fast.reached) == (2, True)
    assert worded_capacity(fast).remark == "the estimate meets the rule, but its upper bound does not", (
        "of two runs"
    )
    tight = [level(2, 180, [0.0150, 0.0151, 0.0149, 0.0150])]
    assert worded_capacity(usable(tight, [parse_rule("p(95)<20ms", "response")])).remark.startswith(
        "the upper bound meets the rule, too"
    )
    assert efficiency(fast, top) == pytest.approx(0.9)
    edge = usable(LEVELS, [parse_rule("p(95)<50ms", "response")])
    assert edge.load == 4 and "its upper bound does not" in worded_capacity(edge).remark
    few = error_limited(LEVELS, parse_rule("rate<1%", "errors"))
    assert (few.load, few.reached) == (4, True)
    strict = error_limited(LEVELS, parse_rule("rate<0.5%", "errors"))
    assert strict.load == 2, "50 of 10000 is 0.5 %, and its upper bound is above it"


def test_capacities_that_are_not_reached_have_a_remark() -> None:
    assert "higher" in worded_capacity(nominal(LEVELS, HighestLevels((), 1), saturated=False)).remark
    loose = usable(LEVELS, [parse_rule("p(95)<1s", "response")])
    assert not loose.reached and "the limit was not reached" in worded_capacity(loose).remark
    none = usable(LEVELS, [parse_rule("p(95)<1ms", "response")])
    assert none.value is None and worded_capacity(none).remark == "no level meets the rule"
    assert efficiency(none, nominal(LEVELS, HighestLevels((), 1), saturated=True)) is None
    assert not error_limited(LEVELS, parse_rule("rate<50%", "errors")).reached
    held = error_limited(LEVELS[3:], parse_rule("rate<1%", "errors"))
    assert held.value is None and "no level meets the rule" in worded_capacity(held).remark
    assert nominal([], HighestLevels((), 0), saturated=True).value is None
    assert usable([], [parse_rule("p(95)<1s", "response")]).value is None
    assert error_limited([], parse_rule("rate<1%", "errors")).value is None


def test_errors_limit_where_a_lower_load_breaks_the_rule() -> None:
    rule = parse_rule("rate<1%", "errors")
    bad = [level(1, 100, [0.01, 0.01]), level(2, 180, [0.01, 0.01], errors=2000), level(4, 200, [0.01, 0.01])]
    capacity = error_limited(bad, rule)
    assert (capacity.load, capacity.reached) == (1, True)
    assert "a load of 2 breaks the rule, although a higher load meets it" in worded_capacity(capacity).remark
    none = error_limited(bad[1:], rule)
    assert none.value is None and "a load of 2 breaks the rule" in worded_capacity(none).remark


def test_a_load_with_too_few_requests_to_show_errors_does_not_end_the_capacity() -> None:
    """No error in 100 requests: the upper bound is 2.6 %, which neither satisfies nor breaks 1 %."""
    few = Level(10.0, Interval(10, None, None), (), (0,), (100,))
    many = Level(100.0, Interval(100, None, None), (), (0,), (10_000,))
    capacity = error_limited([few, many], parse_rule("rate<1%", "errors"))
    assert capacity.load == 100.0
    assert "broken" not in worded_capacity(capacity).remark


def test_one_repetition_has_no_bound() -> None:
    single = [dataclasses.replace(level, observed=[RuleValue(level.observed[0].value)]) for level in LEVELS]
    capacity = usable(single, [parse_rule("p(95)<20ms", "response")])
    assert "one repetition has no bound" in worded_capacity(capacity).remark


def test_a_usable_capacity_by_several_rules_names_the_rule_that_limits() -> None:
    rules = [parse_rule("p(95)<200ms", "response"), parse_rule("avg<80%", "utilization.db")]
    shares = [RuleValue(share, share - 0.05, share + 0.05) for share in (0.4, 0.7, 0.78, 0.99)]
    levels = [
        dataclasses.replace(level, observed=[*level.observed, share])
        for level, share in zip(LEVELS, shares, strict=True)
    ]
    capacity = worded_capacity(usable(levels, rules))
    assert (capacity.load, capacity.reached) == (4, True)
    assert capacity.definition == (
        "highest mean throughput at a load that meets response p(95)<200ms and utilization.db avg<80%"
    )
    assert "response p(95)<200ms: the upper bound meets the rule, too" in capacity.remark
    assert (
        "utilization.db avg<80%: the estimate meets the rule, but its upper bound does not" in capacity.remark
    )
    assert "a load of 8 breaks utilization.db avg<80%" in capacity.remark
    strict = [parse_rule("p(95)>40ms", "response"), parse_rule("avg<50%", "utilization.db")]
    assert worded_capacity(usable(levels, strict)).remark == "no level meets all rules"


def test_a_load_without_a_value_does_not_count_for_a_usable_capacity() -> None:
    rules = [parse_rule("p(95)<20ms", "response"), parse_rule("avg<80%", "utilization.db")]
    none = [dataclasses.replace(level, observed=[*level.observed, RuleValue(None)]) for level in LEVELS]
    missing = "loads (1, 2, 4 and 8) without a value for utilization.db avg<80%"
    assert worded_capacity(usable(none, rules)).remark == f"4 {missing}"
    some = [
        dataclasses.replace(level, observed=[*level.observed, RuleValue(0.5 if level.load < 8 else None)])
        for level in LEVELS
    ]
    capacity = worded_capacity(usable(some, rules))
    assert (capacity.load, capacity.reached) == (2, True)
    assert capacity.remark.endswith("1 load (8) without a value for utilization.db avg<80%")


def test_the_highest_of_several_loads_that_hold_a_rule_has_a_wider_lower_end() -> None:
    rules = [parse_rule("p(95)<1s", "response")]
    one, several = usable(LEVELS, rules), usable(LEVELS, rules, lambda loads: len(loads))
    assert one.value is not None and several.value is not None
    assert one.value.high == several.value.high and one.value.low > several.value.low  # type: ignore[operator]
    assert several.rivals == 4


def test_the_interval_of_a_value_fits_its_kind() -> None:
    busy = [
        dataclasses.replace(run(), components=(ComponentResources("db", utilization=share),))
        for share in (0.97, 0.99, 1.0)
    ]
    share = observed(parse_rule("avg<80%", "utilization.db"), Sample(busy, [{}] * 3))
    assert share.value == pytest.approx(0.98667, abs=1e-4) and share.high == 1.0
    assert share.low == pytest.approx(0.98667 - 4.303 * 0.015275 / 3**0.5, abs=1e-3)
    none = observed(parse_rule("rate<1%", "errors"), Sample([run(), run()], [{}, {}]))
    assert none.value == 0 and none.high is not None and 0.001 < none.high < 0.003, "2,000 without error"
    lost = Sample([run(dropped=8), run(dropped=12)], [{}, {}])
    total = observed(parse_rule("count<30", "dropped"), lost)
    assert total.value == 20 and total.low is not None and total.high is not None
    assert (total.low + total.high) / 2 == pytest.approx(20), "a sum has the interval of a sum"
    [single] = [observed(parse_rule("avg<80%", "utilization.db"), Sample(busy[:1], [{}]))]
    assert single == RuleValue(0.97)


def test_stretch_and_scaling() -> None:
    assert stretch(30.0, 10.0) == 3
    assert stretch(None, 10.0) is None and stretch(1.0, 0.0) is None
    assert scaling(180, 2, 100, 1) == pytest.approx(0.9)
    assert scaling(180, 2, 0, 1) is None


# -- validity


def own(*at: tuple[float, float, float], stopped: float | None = 0.0) -> OwnDelays:
    return OwnDelays(tuple(OwnDelay(*delay) for delay in at), stopped, 10 * (stopped or 0.0))


FINE = ValidityFigures(1000, 0, 0.5, 1000, 999, None, 0.5, own((0.5, 0.0005, 0.01), (0.99, 0.001, 0.02)))


def test_a_limit_of_a_whole_core_is_never_exceeded() -> None:
    full = dataclasses.replace(FINE, thread_demand=1.0001)
    assert judge_run(full, Validity()).verdict == RunVerdict.INVALID
    assert judge_run(full, Validity(tester_cpu=1.0)).verdict == RunVerdict.DOUBTFUL


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"succeeded": 0}, "no transaction ended"),
        ({"busiest_thread": 0.99}, "busiest thread used 99.0 % of a core"),
        ({"thread_demand": 0.99}, "used or waited for 99.0 % of a core (its busiest thread used 50.0 %)"),
        (
            {"own": own((0.99, 0.002, 0.01))},
            "p99 of its own lateness, 2.00 ms, is 20.0 % of the p99 of the response time",
        ),
        (
            {"own": own((0.5, 0.19, 0.01), (0.99, 0.19, 1))},
            "p50 of its own lateness, 190 ms, is 1,900 % of the p50",
        ),
        ({"own": own(stopped=0.33)}, "did not run for 33.0 % of the window (gaps: 1 %)"),
        ({"balanced": False}, "the record is damaged"),
        ({"lost_records": 3}, "3 transactions lost"),
    ],
)
def test_invalid(change: dict[str, float], reason: str) -> None:
    assert judge_run(FINE, Validity()).verdict == RunVerdict.VALID
    judgement = judge_run(dataclasses.replace(FINE, **change), Validity())  # type: ignore[arg-type]
    assert judgement.verdict == RunVerdict.INVALID
    (text,) = texts(judgement, Severity.INVALID)
    assert reason in text.replace("\u00a0", " ")
    (why,) = judgement.reasons
    assert why.rule is not None and why.rule.name.startswith("validity.")


def test_delays_by_a_limit_of_the_experiment_are_no_fault_of_the_host() -> None:
    late = own((0.5, 0.05, 0.01), (0.99, 0.08, 0.02), stopped=0.7)
    limited = dataclasses.replace(FINE, own=late, throttled=0.75)
    assert judge_run(limited, Validity()).verdict == RunVerdict.VALID
    assert judge_run(dataclasses.replace(limited, throttled=0.0), Validity()).verdict == RunVerdict.INVALID
    # The host stopped it for longer than the limit did.
    (text,) = texts(judge_run(dataclasses.replace(limited, throttled=0.3), Validity()), Severity.INVALID)
    assert "did not run for 40.0\u00a0% of the window" in text
    # A limit that hardly stopped it excuses no lateness.
    rare = dataclasses.replace(FINE, own=own((0.99, 0.08, 0.02)), throttled=0.005)
    assert judge_run(rare, Validity()).verdict == RunVerdict.INVALID
    # A thread that waited for a core of the host: `thread_demand` does not contain what the limit caused.
    full = dataclasses.replace(limited, thread_demand=0.99)
    assert judge_run(full, Validity()).verdict == RunVerdict.INVALID


def test_lateness_needs_both_its_share_and_its_floor() -> None:
    quick = dataclasses.replace(FINE, own=own((0.5, 0.0009, 0.001)))
    assert judge_run(quick, Validity()).verdict == RunVerdict.VALID, "below 1 ms"
    slow = dataclasses.replace(FINE, own=own((0.99, 0.05, 1.0)))
    assert judge_run(slow, Validity()).verdict == RunVerdict.VALID, "5 % of the response time"
    rare = dataclasses.replace(FINE, own=own((0.99, 0.001, 1.0), (0.999, 0.5, 1.0)))
    assert judge_run(rare, Validity()).verdict == RunVerdict.DOUBTFUL, "above p99 only"


def test_a_generator_that_is_nearly_full_gives_a_lower_bound() -> None:
    judgement = judge_run(dataclasses.replace(FINE, busiest_thread=0.95), Validity())
    assert judgement.verdict == RunVerdict.DOUBTFUL and is_lower_bound(judgement.reasons)
    assert "the target may serve more" in texts(judgement, Severity.DOUBTFUL)[0]
    assert not is_lower_bound(judge_run(FINE, Validity()).reasons)


def test_a_target_that_refuses_everything_was_measured() -> None:
    assert judge_run(dataclasses.replace(FINE, succeeded=0, failed=5), Validity()).verdict == RunVerdict.VALID


def test_one_stall_in_a_short_run_is_a_doubt() -> None:
    short = dataclasses.replace(FINE, own=OwnDelays((), 0.03, 0.03))
    assert judge_run(short, Validity()).verdict == RunVerdict.DOUBTFUL
    assert (
        judge_run(dataclasses.replace(FINE, own=OwnDelays((), 0.03, 0.3)), Validity()).verdict
        == RunVerdict.INVALID
    )


def test_missing_starts_are_caused_by_the_target_unless_the_generator_was_slow() -> None:
    """A target that leaves no slot free is overloaded, and the generator is not the cause."""
    short = dataclasses.replace(FINE, started=980)
    assert judge_run(short, Validity()).reasons == ()
    slow = judge_run(dataclasses.replace(short, busiest_thread=0.99), Validity())
    assert [reason.code for reason in slow.reasons] == [RunReason.TESTER_CPU, RunReason.STARTED]
    assert "only 98.0\u00a0% of the planned" in texts(slow, Severity.INVALID)[1]


def test_limits_can_be_changed() -> None:
    busy = dataclasses.replace(FINE, busiest_thread=0.85)
    assert judge_run(busy, Validity(tester_cpu=0.8)).verdict == RunVerdict.INVALID
    assert (
        judge_run(dataclasses.replace(FINE, succeeded=0), Validity(success=False)).verdict == RunVerdict.VALID
    )


def test_a_trend_is_a_doubt_not_a_verdict() -> None:
    moving = Trend(TrendVerdict.TRENDS, 0.2, 1e-6, 60.0, metric="throughput")
    judgement = judge_run(dataclasses.replace(FINE, trend=moving), Validity())
    assert judgement.verdict == RunVerdict.DOUBTFUL
    assert texts(judgement, Severity.DOUBTFUL) == [
        "not steady after the warm-up: throughput changes by +20.0 % of its mean over the window (p < 0.001)"
    ]
    assert judgement.evidence["trend_change"] == 0.2
    assert judge_run(dataclasses.replace(FINE, trend=moving), Validity(trend=False)).reasons == ()


def test_steal_is_a_doubt_not_a_verdict() -> None:
    quiet, robbed = (judge_run(dataclasses.replace(FINE, steal=share), Validity()) for share in (0.01, 0.24))
    assert quiet.reasons == ()
    assert robbed.verdict == RunVerdict.DOUBTFUL
    assert "24 %" in texts(robbed, Severity.DOUBTFUL)[0]
    assert robbed.evidence["steal"] == 0.24


def test_values_that_were_not_watched_do_not_count_against_a_run() -> None:
    unknown = ValidityFigures(10, 0, None, None, None, None)
    judgement = judge_run(unknown, Validity())
    assert judgement.verdict == RunVerdict.VALID and judgement.evidence["tester_cpu"] is None


# -- bottleneck


def part(name: str, role: str, mean: float, half: float | None = 0.01) -> Utilization:
    low, high = (None, None) if half is None else (mean - half, mean + half)
    return Utilization(name, role, "busiest thread", mean, low, high)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ([part("db", "service", 0.97), part("cache", "service", 0.3), part("testers", "testers", 0.4)], "db"),
        ([part("db", "service", 0.97), part("testers", "testers", 0.985)], "testers"),
        ([part("db", "service", 0.99), part("testers", "testers", 0.93)], "db"),
        ([part("db", "service", 0.97), part("testers", "testers", 0.96)], NOT_RESOLVED),
        ([part("db", "service", 0.3), part("testers", "testers", 0.93)], "testers"),
        ([part("db", "service", 0.6), part("host", "host", 0.5)], NOT_RESOLVED),
        ([part("db", "service", 0.97), part("cache", "service", 0.96)], NOT_RESOLVED),
        ([part("db", "service", 0.97, None), part("cache", "service", 0.3, None)], "db"),
        ([part("host", "host", 0.98)], "host"),
        ([part("host", "host", 0.98), part("db", "service", 0.5)], "host"),
        ([part("host", "host", 0.99), part("db", "service", 0.95)], "db"),
        (
            [
                part("db", "service", 0.45),
                part("gate", "service", 0.55),
                part("services' core", "cores", 0.99),
            ],
            "services' core",
        ),
        ([part("gate", "service", 0.95), part("services' core", "cores", 0.99)], "gate"),
        ([part("gate", "service", 0.5), part("services' core", "cores", 0.8)], NOT_RESOLVED),
        ([part("services' core", "cores", 0.99), part("testers", "testers", 0.98)], "testers"),
        ([], NOT_RESOLVED),
    ],
)
def test_bottleneck(parts: list[Utilization], name: str) -> None:
    result = bottleneck(parts)
    assert result.component == name
    text = bottleneck_reason(result.reason)
    assert text
    assert name == NOT_RESOLVED or f"{name}:" not in text, "its name stands beside the reason"


def cpu(component: str, *values: float) -> SampleSeries:
    at = np.arange(1, len(values) + 1, dtype=float)
    return SampleSeries(component, "cpu", "", at, np.array(values))


def series(component: str, metric: str, *values: float) -> SampleSeries:
    at = np.arange(1, len(values) + 1, dtype=float)
    return SampleSeries(component, metric, "", at, np.array(values))


def test_testers_at_their_limit_are_a_bottleneck_and_no_full_generator() -> None:
    samples = [
        series("testers", "cpu", 0.2, 0.19, 0.2),
        series("testers", "cpu.limit", 0.2, 0.2, 0.2),
        series("testers", "cpu.throttled", 0.7, 0.72, 0.71),
        series("testers", "cpu.thread_demand", 0.99, 1.0, 0.98),
        series("service:web", "cpu", 0.1, 0.1, 0.1),
    ]
    shown = utilizations(samples, Window(0, 3_000_000_000), {"testers": 2, "service:web": 1})
    testers = next(used for used in shown if used.role == "testers")
    assert testers.detail["thread_demand"] == pytest.approx(0.28)
    found = bottleneck(shown)
    assert (found.component, found.verdict) == ("testers", BottleneckVerdict.RESOLVED)
    assert bottleneck_reason(found.reason).startswith("cpu of its limit of 0.2 cores 98 % busy")
    assert limiting("testers", [dataclasses.replace(run(), utilization=shown)]) == (
        "the testers (CPU of their limit of 0.200 cores at 98\u00a0%)"
    )
    unlimited = utilizations(
        [one for one in samples if one.metric not in ("cpu.limit", "cpu.throttled")],
        Window(0, 3_000_000_000),
        {"testers": 2, "service:web": 1},
    )
    assert bottleneck(unlimited).verdict == BottleneckVerdict.LOAD_GENERATOR


def test_a_disk_limit_is_a_resource_with_its_own_capacity() -> None:
    def shown(read: float, written: float) -> Utilization:
        samples = [
            series("service:db", "cpu", 0.3, 0.3, 0.3),
            series("service:db", "disk.read", *[read] * 3),
            series("service:db", "disk.read_limit", *[20e6] * 3),
            series("service:db", "disk.write", *[written] * 3),
            series("service:db", "disk.write_limit", *[10e6] * 3),
        ]
        (used,) = utilizations(samples, Window(0, 3_000_000_000), {"service:db": 1})
        return used

    busy = shown(19.4e6, 1e6)
    assert busy.resource == "disk reads of its limit of 20 MB/s"
    assert busy.mean == pytest.approx(0.97)
    assert bottleneck([busy]).component == "db"
    assert shown(1e6, 9.9e6).resource == "disk writes of its limit of 10 MB/s"
    assert shown(1e6, 1e6).resource == "cpu of its core"
    assert shown(1e6, 1e6).mean == pytest.approx(0.3)
    assert bottleneck([shown(1e6, 1e6)]).verdict == BottleneckVerdict.NOT_RESOLVED


def test_cores_that_services_share_are_full_when_none_of_them_is() -> None:
    samples = [
        cpu("service:db", 0.4, 0.5, 0.3),
        cpu("service:gate", 0.6, 0.5, 0.7),
        cpu("service:far", 1, 1, 1),
    ]
    cores = {"service:db": 1, "service:gate": 1, "service:far": 1}
    window = Window(0, 3_000_000_000)
    together = [["service:db", "service:gate"]]
    by_component = {
        component.component: component for component in utilizations(samples, window, cores, together)
    }
    shared = by_component["services' core"]
    assert shared.role == "cores"
    assert shared.mean == pytest.approx(1.0)
    assert shared.detail == {"db": pytest.approx(0.4), "gate": pytest.approx(0.6)}
    assert by_component["far"].mean == pytest.approx(1.0)
    two = dict.fromkeys(cores, 2)
    (wide,) = [
        component for component in utilizations(samples, window, two, together) if component.role == "cores"
    ]
    assert wide.component == "services' 2 cores"
    assert wide.mean == pytest.approx(0.5)
    short = [samples[0], cpu("service:gate", 0.6)]
    assert not any(component.role == "cores" for component in utilizations(short, window, cores, together))
    assert not any(component.role == "cores" for component in utilizations(samples, window, cores))


def test_an_unidentified_bottleneck_names_the_components_compared() -> None:
    result = bottleneck([part("db", "service", 0.6), part("cache", "service", 0.3)])
    assert (
        bottleneck_reason(result.reason)
        == "no watched component is full; the busiest is db: busiest thread 60 % busy (59 to 61 %)"
    )


# -- metrics


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("throughput", "throughput_per_s"),
        ("items_per_s", "items_per_s"),
        ("response", "response_ms_mean"),
        ("response_p95", "response_ms_p95"),
        ("p99", "response_ms_p99"),
        ("errors", "error_rate"),
        ("nonsense", None),
    ],
)
def test_metric_names(written: str, name: str | None) -> None:
    assert canonical(written) == name


def test_every_metric_can_be_read() -> None:
    for named in METRICS.results:
        assert canonical(named.name) == named.name
        metric_value(run(), named.name)
