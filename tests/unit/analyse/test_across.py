"""A designed experiment from the results of its runs to cells, brackets, capacities, effects and verdicts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest
from tests.unit.analyse.made import histogram, run

from plimsoll.analyse.answer.left_out import worded_left_out
from plimsoll.analyse.answer.worded import worded_model, worded_saturation, worded_verdict
from plimsoll.analyse.design.across import (
    Design,
    Group,
    cell_bottlenecks,
    cell_results,
    common_bottleneck,
    grouped,
    verdicts,
)
from plimsoll.analyse.design.capacity.load_line import saturations
from plimsoll.analyse.effects.fits import ResponseModel, fit_all
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import Utilization
from plimsoll.analyse.results.verdicts import CapacityKind, SaturationReason
from plimsoll.analyse.stats.quantiles import Histogram
from plimsoll.plan.metrics.rules import parse_rule
from plimsoll.plan.model.cell import CapacityRules, Threshold

LEVELS = {"zip": ["0", "5"], "testers": ["1", "2", "4", "8"]}
DESIGN = Design(LEVELS, "testers", {"1": 1.0, "2": 2.0, "4": 4.0, "8": 8.0})
KNEE = {"0": 4.0, "5": 2.0}


def experiment(
    repetitions: int = 2, *, noise: float = 0.01
) -> tuple[list[RunResult], dict[str, dict[str, Histogram]]]:
    """X = 100 min(N, knee), R = N / X: the cells of 2 x 4 in an order that is not the file's."""
    rng = np.random.default_rng(3)
    runs: list[RunResult] = []
    histograms: dict[str, dict[str, Histogram]] = {}
    for repetition in range(repetitions):
        for testers in reversed(LEVELS["testers"]):
            for level in LEVELS["zip"]:
                n = float(testers)
                done = 100 * min(n, KNEE[level]) * math.exp(rng.normal(0, noise))
                times = (n / done * 1000 * rng.uniform(0.5, 1.5, 400)).tolist()
                id = f"{len(runs) + 1:04}"
                made = run(
                    id,
                    cell={"zip": level, "testers": testers},
                    throughput=done,
                    response_ms=times,
                    transactions=int(done * 10),
                    errors=100 if n == 8 else 0,
                )
                full = n >= KNEE[level]
                made = dataclasses.replace(
                    made, repetition=repetition + 1, bottleneck="gateway" if full else "not resolved"
                )
                runs.append(made)
                histograms[id] = histogram(times)
    return runs, histograms


def groups(repetitions: int = 2) -> list[Group]:
    return grouped(*experiment(repetitions), DESIGN)


def test_cells_in_the_order_of_the_file() -> None:
    cells = cell_results(groups(), DESIGN)
    assert [(c.cell["zip"], c.cell["testers"]) for c in cells] == [
        (z, t) for z in LEVELS["zip"] for t in LEVELS["testers"]
    ]
    first = cells[0]
    assert (first.load, first.repetitions, first.valid) == (1.0, 2, 2)
    throughput = first.responses["throughput_per_s"]
    assert throughput.df == 8 and throughput.method == "pooled over the design"
    assert throughput.low is not None and throughput.high is not None
    assert throughput.low < 100 < throughput.high
    assert throughput.high / throughput.low < 1.1


def test_stretch_and_scaling() -> None:
    cells = {(c.cell["zip"], c.cell["testers"]): c for c in cell_results(groups(), DESIGN)}
    assert cells["0", "1"].stretch == pytest.approx(1)
    assert cells["0", "8"].stretch == pytest.approx(2, rel=0.1)
    assert cells["5", "8"].scaling == pytest.approx(0.25, rel=0.05)


def test_error_rates_have_an_upper_bound() -> None:
    cells = {(c.cell["zip"], c.cell["testers"]): c for c in cell_results(groups(), DESIGN)}
    assert cells["0", "1"].error_rate == 0 and cells["0", "1"].error_rate_upper == pytest.approx(
        0.002, abs=0.001
    )
    assert cells["5", "8"].error_rate == pytest.approx(200 / 4200, abs=0.002)


def test_percentiles_of_a_cell_are_those_of_its_merged_runs() -> None:
    """One run of 100 fast and one of 300 slow requests: the median is a slow one, not the mean of two medians."""
    fast, slow = [1.0] * 100, [100.0] * 300
    runs = [run("0001", cell={"a": "x"}, response_ms=fast), run("0002", cell={"a": "x"}, response_ms=slow)]
    for at, values in enumerate((1.0, 100.0)):
        traffic = runs[at].traffic
        times = dataclasses.replace(traffic.response_ms, p50=values)
        runs[at] = dataclasses.replace(runs[at], traffic=dataclasses.replace(traffic, response_ms=times))
    histograms = {"0001": histogram(fast), "0002": histogram(slow)}
    design = Design({"a": ["x"]}, None, {})
    (cell,) = cell_results(grouped(runs, histograms, design), design)
    assert cell.responses["response_ms_p50"].mean == pytest.approx(100, rel=1e-3)
    assert cell.load is None and cell.stretch is None


def test_a_percentile_for_which_single_runs_are_too_short() -> None:
    runs, histograms = experiment(3)
    cells = cell_results(grouped(runs, histograms, DESIGN), DESIGN)
    p99 = cells[0].responses["response_ms_p99"]
    assert p99.mean == pytest.approx(14.9, rel=0.02), "1200 requests, evenly between 5 and 15 ms"
    assert p99.low is None and "merged" in p99.method
    assert "response_ms_p999" not in cells[0].responses


def test_invalid_runs_are_counted_and_not_used() -> None:
    runs, histograms = experiment()
    bad = dataclasses.replace(runs[0], valid=False)
    worse = dataclasses.replace(bad, traffic=dataclasses.replace(bad.traffic, throughput_per_s=1e9))
    results = cell_results(grouped([worse, *runs[1:]], histograms, DESIGN), DESIGN)
    cell = next(c for c in results if c.cell == runs[0].cell)
    assert (cell.repetitions, cell.valid) == (2, 1)
    assert cell.responses["throughput_per_s"].mean < 1000


def test_a_cell_without_a_valid_run() -> None:
    runs, histograms = experiment()
    lost = {"zip": "0", "testers": "1"}
    some = [dataclasses.replace(r, valid=False) if r.cell == lost else r for r in runs]
    results = cell_results(grouped(some, histograms, DESIGN), DESIGN)
    assert results[0].cell == lost and results[0].responses == {} and results[0].error_rate is None
    assert results[1].stretch == pytest.approx(1), "the lowest load that was measured takes its place"
    brackets = saturations(grouped(some, histograms, DESIGN), DESIGN, CapacityRules(), [])
    assert brackets[0].lower == 2


def test_saturation_per_combination() -> None:
    rules = CapacityRules(parse_rule("p(95)<35ms", "response"), parse_rule("rate<1%", "errors"))
    curves = saturations(groups(), DESIGN, rules, ["throughput"])
    assert [(s.combination["zip"], s.verdict, s.lower, s.upper) for s in curves] == [
        ("0", "bracketed", 2.0, 4.0),
        ("5", "bracketed", 1.0, 2.0),
    ]
    assert all(s.metric == "throughput_per_s" and s.bottleneck == "gateway" for s in curves)
    assert worded_saturation(curves[0]).text == "throughput flattens between 2 and 4 testers"
    kinds = {c.kind: c for c in curves[1].capacities}
    assert set(kinds) == {"nominal", "usable", "error-limited"}
    nominal = kinds[CapacityKind.NOMINAL].value
    assert nominal is not None and nominal.mean == pytest.approx(200, rel=0.03) and nominal.df == 8
    assert kinds[CapacityKind.USABLE].load in (2.0, 4.0) and kinds[CapacityKind.USABLE].reached
    assert kinds[CapacityKind.ERROR_LIMITED].load == 4.0
    assert curves[1].efficiency == pytest.approx(1, abs=0.05)


def busy(of: RunResult, share: float) -> RunResult:
    """The same run with the utilization of its gateway."""
    seen = Utilization("gateway", "service", "cpu", share, low=None, high=None)
    return dataclasses.replace(of, utilization=(seen,))


@pytest.mark.parametrize(("repetitions", "noise"), [(1, 0.01), (3, 0.15)])
def test_a_full_bottleneck_decides_where_runs_differ(repetitions: int, noise: float) -> None:
    runs, histograms = experiment(repetitions, noise=noise)
    share = {"1": 0.5, "2": 0.8, "4": 0.98, "8": 1.0}
    watched = [busy(run, share[run.cell["testers"]]) for run in runs]
    alone, *_ = saturations(grouped(runs, histograms, DESIGN), DESIGN, CapacityRules(), [])
    curve, *_ = saturations(grouped(watched, histograms, DESIGN), DESIGN, CapacityRules(), [])
    assert (alone.verdict, alone.upper) == ("cannot be said", None)
    assert (curve.verdict, curve.upper, curve.reason) == ("bracketed", 4.0, SaturationReason.FULL)
    assert "the bottleneck is full" in worded_saturation(curve).text
    polling = [busy(run, 1.0) for run in runs]
    same, *_ = saturations(grouped(polling, histograms, DESIGN), DESIGN, CapacityRules(), [])
    assert same.verdict == "cannot be said", "busy at any load: no evidence"


def test_saturation_of_each_throughput_that_is_a_response() -> None:
    curves = saturations(groups(), DESIGN, CapacityRules(), ["items_per_s", "response", "throughput"])
    assert [s.metric for s in curves] == ["items_per_s"] * 2 + ["throughput_per_s"] * 2
    assert saturations(groups(), Design(LEVELS, None, {}), CapacityRules(), []) == ()


def test_one_repetition_gives_means_without_intervals() -> None:
    cells = cell_results(groups(1), DESIGN)
    assert all(i.low is None for c in cells for i in c.responses.values())
    curves = saturations(groups(1), DESIGN, CapacityRules(), [])
    assert worded_saturation(curves[0]).text == "one run per load cannot show where throughput flattens"
    assert not any(capacity.reached for curve in curves for capacity in curve.capacities)


def test_thresholds_per_cell() -> None:
    rules = [
        Threshold("errors", parse_rule("rate<1%", "errors"), "rate<1%", {}),
        Threshold(
            "throughput", parse_rule("rate>150", "throughput"), "rate>150", {"zip": ("0",), "testers": ("1",)}
        ),
        Threshold("errors", parse_rule("rate<1%", "errors"), "rate<1%", {"zip": ("9",)}),
    ]
    judged = verdicts(groups(), rules)
    assert len(judged) == 8 + 1 + 1
    assert [v.cell["testers"] for v in judged[:8] if not v.passed] == ["8", "8"]
    assert not judged[8].passed and judged[8].observed == pytest.approx(100, rel=0.05)
    assert not judged[9].passed and "no cell" in worded_verdict(judged[9]).reason


def test_thresholds_of_an_unfinished_experiment() -> None:
    invalid = [dataclasses.replace(r, valid=False) for r in experiment(1)[0] if r.cell["testers"] == "1"]
    groups_ = grouped(invalid, {}, DESIGN)
    rules = [
        Threshold("errors", parse_rule("rate<1%", "errors"), "rate<1%", {}),
        Threshold("errors", parse_rule("rate<1%", "errors"), "rate<1%", {"testers": ("8",)}),
        Threshold("errors", parse_rule("rate<1%", "errors"), "rate<1%", {"testers": ("9",)}),
    ]
    assert all(v.judged and not v.passed for v in verdicts(groups_, rules)), "no sample fails"
    to_come = [{"zip": "0", "testers": "1"}, {"zip": "0", "testers": "8"}]
    zip0, zip5, loaded, nowhere = verdicts(groups_, rules, to_come)
    assert (zip0.cell["zip"], zip5.cell["zip"]) == ("0", "5")
    assert [v.judged for v in (zip0, zip5, loaded, nowhere)] == [False, True, False, True]
    assert not any(v.passed for v in (zip0, zip5, loaded, nowhere)), "exit codes stay what they are"


def test_the_bottleneck_of_a_cell_is_that_of_most_runs() -> None:
    named = [dataclasses.replace(run(), bottleneck=b) for b in ("db", "db", "cache")]
    assert common_bottleneck(named) == "db"
    assert common_bottleneck(named[1:]) == "not resolved"
    assert common_bottleneck([]) == "not resolved"


def test_a_host_that_is_full_at_half_of_the_throughput_is_no_bottleneck() -> None:
    def named(throughputs: Sequence[float], role: str) -> list[str]:
        used = Utilization("host", role, "CPU", 1.0, 1.0, 1.0)
        runs = [
            dataclasses.replace(
                run(str(at), cell={"zip": "0", "testers": testers}, throughput=done),
                bottleneck="host",
                utilization=(used,),
            )
            for at, (testers, done) in enumerate(zip(("1", "2", "8"), throughputs, strict=True))
        ]
        return cell_bottlenecks(grouped(runs, {}, DESIGN), DESIGN)

    assert named((100, 205, 210), "host") == ["not resolved"] * 3
    assert named((110, 205, 210), "host") == ["host"] * 3
    # One thread of a service can be full at one tester and at eight.
    assert named((100, 205, 210), "service") == ["host"] * 3


def test_effects_of_the_experiment() -> None:
    runs, _ = experiment(3)
    effects, models, left = fit_all(
        runs, LEVELS, [ResponseModel("throughput", "log"), ResponseModel("nonsense"), ResponseModel("p99")]
    )
    (model,) = models
    assert (model.response, model.sum_of_squares, model.error_df) == ("throughput_per_s", "orthogonal", 16.0)
    assert len(model.residuals) == len(model.run_ids) == 24
    shares = [e.variation_percent for e in effects if e.variation_percent is not None]
    assert sum(shares) == pytest.approx(100)
    by_level = {(e.term, e.level): e.effect for e in effects}
    assert by_level["testers", "1"] is not None and by_level["testers", "1"] < 1
    assert {worded_left_out(entry).what for entry in left} == {
        "effects on nonsense",
        "effects on response_ms_p99",
    }


def test_remarks_from_the_residuals_are_in_the_model() -> None:
    runs, _ = experiment(4)
    drifting = [
        dataclasses.replace(
            r,
            traffic=dataclasses.replace(r.traffic, throughput_per_s=r.traffic.throughput_per_s + 5 * r.order),
        )
        for r in runs
    ]
    _, (model,), _ = fit_all(drifting, LEVELS, [ResponseModel("throughput")])
    assert any("drift with run order" in remark for remark in worded_model(model).remarks)


def test_a_term_that_can_be_estimated_in_part_keeps_its_line() -> None:
    runs, _ = experiment(2)
    some = [r for r in runs if r.cell != {"zip": "0", "testers": "8"}]
    effects, (model,), _ = fit_all(some, LEVELS, [ResponseModel("throughput")])
    partial = [e for e in effects if e.term == "zip:testers"]
    assert len(partial) == 1 and partial[0].effect is None and partial[0].df == 2
    assert model.sum_of_squares == "type II"
    assert any("only 2 of its 3 degrees of freedom" in remark for remark in model.not_estimable)
