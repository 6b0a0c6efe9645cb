"""Fixed analyses, made by formula, with what is awkward to show: no interval, hostile names, invalid runs."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.unit.hosts_made import Made, make

from plimsoll.analyse.answer.compose import with_answer
from plimsoll.analyse.design.capacity.ranking import Contender, ranking
from plimsoll.analyse.results.analysis import (
    Analysis,
    Capacity,
    CellResult,
    Effect,
    ExperimentInfo,
    Model,
    RunResult,
    Saturation,
    Verdict,
)
from plimsoll.analyse.results.components.component_series import ComponentSeries, RunComponentSeries, Values
from plimsoll.analyse.results.run import (
    Counts,
    Ecdf,
    ErrorCount,
    Latency,
    Peak,
    Series,
    TesterResult,
    Traffic,
    Utilization,
)
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.results.verdicts import (
    CapacityKind,
    LeftOutPart,
    ResourceKind,
    SaturationReason,
    SaturationVerdict,
    TermPart,
)
from plimsoll.analyse.stats.interval import Interval
from plimsoll.api import analysis
from plimsoll.report.setup.setup import ServiceSetUp, SetUp, StoredFile

HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
CAPACITY = {"0": 1510.0, "1": 640.0, "5": 410.0}
LOADS = ("1", "2", "4", "8")
NOT_FINISHED = "interrupted by the user"


def capacity_at(level: str, testers: float) -> float:
    """Throughput of the make-believe service: a rise that bends where its one thread is full."""
    top = CAPACITY.get(level, 300.0)
    return top * (1 - math.exp(-1.1 * testers)) / (1 + 0.004 * testers)


def _round(value: float) -> float:
    return float(f"{value:.5g}")


def latency(count: int, median: float, spread: float = 0.35) -> Latency:
    """A log-normal one with the percentiles that `count` samples can carry."""

    def at(z: float, needed: int) -> float | None:
        return _round(median * math.exp(spread * z)) if count >= needed else None

    mean = _round(median * math.exp(spread**2 / 2))
    half = 0.02 * mean
    return Latency(
        count=count,
        mean=mean,
        sd=_round(mean * spread),
        p50=at(0, 10),
        p90=at(1.2816, 100),
        p95=at(1.6449, 200),
        p99=at(2.3263, 1000),
        p999=at(3.0902, 10_000),
        max=_round(median * math.exp(spread * 4)),
        mean_interval=Interval(mean, mean - half, mean + half, df=24, method="batch means within the run"),
        effective_samples=_round(count / 3),
    )


def _series(rate: float, testers: int, median: float, seconds: int, noise: Random) -> Series:
    def wobble(value: float, share: float) -> tuple[float, ...]:
        return tuple(
            _round(value * (1 - 0.6 * math.exp(-t / 2)) * (1 + share * (noise.random() - 0.5)))
            for t in range(seconds)
        )

    throughput = wobble(rate, 0.12)
    return Series(
        quantum_s=1.0,
        t_s=tuple(float(t) for t in range(seconds)),
        throughput_per_s=throughput,
        errors_per_s=tuple(2.0 if t % 11 == 5 else 0.0 for t in range(seconds)),
        concurrency=wobble(float(testers), 0.04),
        offered_per_s=throughput,
        active_testers=tuple(float(testers) for _ in range(seconds)),
        response_ms_mean=tuple(
            None if t == 3 else value for t, value in enumerate(wobble(median * 1.06, 0.1))
        ),
        response_ms_p50=wobble(median, 0.1),
        response_ms_p95=wobble(median * 1.8, 0.2),
    )


def _ecdf(median: float, points: int = 16) -> Ecdf:
    shares = [1 - 10 ** (-4 * k / (points - 1)) for k in range(points)]
    # a logistic stands in for the normal quantile: the shape is what matters here
    ms = [_round(median * math.exp(0.2 * math.log((s + 1e-3) / (1 - s + 1e-9)))) for s in shares]
    return Ecdf(tuple(ms), tuple(_round(s) for s in shares))


def _testers(run_rate: float, testers: int, seconds: float, noise: Random) -> tuple[TesterResult, ...]:
    weights = [1 + 0.1 * (noise.random() - 0.5) for _ in range(testers)]
    total = sum(weights)
    return tuple(
        TesterResult(
            agent="local",
            tester=place,
            transactions=round(run_rate * seconds * weight / total),
            errors=place % 3,
            throughput_per_s=_round(run_rate * weight / total),
            response_ms_mean=_round(1000 * testers / run_rate),
            share=_round(weight / total * testers),
        )
        for place, weight in enumerate(weights)
    )


def make_run(
    number: int,
    cell: dict[str, str],
    repetition: int,
    seconds: int = 24,
    *,
    valid: bool = True,
    key: str = "zip level",
) -> RunResult:
    """One run of the make-believe service."""
    noise = Random(number)
    testers = int(cell.get("testers", "4"))
    rate = _round(capacity_at(cell.get(key, "0"), testers) * (1 + 0.03 * (noise.random() - 0.5)))
    median = _round(1000 * testers / rate)
    done = round(rate * seconds)
    failed = 3 if testers == 8 else 0
    busy = min(0.99, rate / CAPACITY.get(cell.get(key, "0"), 300.0))
    traffic = Traffic(
        window_s=float(seconds),
        transactions=done,
        errors=failed,
        error_rate=_round(failed / (done + failed)),
        errors_by_kind=(ErrorCount("error", "503", 2), ErrorCount("timeout", "", 1)) if failed else (),
        throughput_per_s=rate,
        items_per_s=_round(rate * 1000),
        payload_bytes_per_s=_round(rate * 104_000),
        wire_bytes_per_s=_round(rate * 141_000),
        offered_per_s=rate,
        concurrency=_round(testers * 0.98),
        response_ms=latency(done, median),
        request_ms=latency(done, median * 0.99),
        lateness_ms=latency(done, 0.05),
        throughput_interval=Interval(
            rate, rate * 0.985, rate * 1.015, df=24, method="batch means within the run"
        ),
    )
    share_of_testers = 0.97 if not valid else 0.35
    return RunResult(
        id=f"{number:04d}",
        cell=cell,
        repetition=repetition,
        order=number,
        block=None,
        status="finished",
        valid=valid,
        invalid_reasons=() if valid else ("the testers' busiest thread used 97 % of a core (limit 90 %)",),
        doubtful_reasons=("throughput still rises by 4 % over the window",) if number == 5 else (),
        evidence={
            "succeeded": float(done),
            "tester_cpu": share_of_testers,
            "started": 0.9991,
            "lateness_p99_s": 0.00012,
            "trend_p": None,
        },
        counts=Counts(done + failed + testers, done, failed, testers, 0, 0, 0, True),
        traffic=traffic,
        jain_index=_round(1 - 0.0004 * testers),
        share_cv=_round(0.02 * math.sqrt(testers)),
        utilization=(
            Utilization(
                "gateway",
                "service",
                "busiest thread",
                _round(busy),
                _round(busy - 0.01),
                _round(min(1, busy + 0.01)),
                {"busiest thread": _round(busy), "cpu": _round(busy / 2), "memory.rss": 25_000_000.0},
                kind=ResourceKind.BUSIEST_THREAD,
            ),
            Utilization(
                "testers",
                "testers",
                "busiest thread",
                share_of_testers,
                None,
                None,
                {},
                kind=ResourceKind.BUSIEST_THREAD,
            ),
            Utilization(
                "host",
                "host",
                "cpu",
                _round(busy / 2 + 0.1),
                None,
                None,
                {"core 0": _round(busy), "core 1": 0.36},
                kind=ResourceKind.CPU,
            ),
        ),
        bottleneck="gateway" if busy > 0.9 else "not resolved",
        bottleneck_reason="its busiest thread was at 99 % of a core"
        if busy > 0.9
        else "nothing was above 90 %",
        peak=Peak(2.0, float(seconds), float(testers), rate),
        stages=(),
        workloads=(),
        testers=_testers(rate, testers, seconds, noise),
        series=_series(rate, testers, median, seconds, noise),
        ecdf=_ecdf(median),
        warmup_s=4.0,
        monitor_cpu=0.004,
    )


def _interval(values: list[float], replicated: bool) -> Interval:
    mean = _round(sum(values) / len(values))
    if not replicated:
        return Interval(mean, None, None, method="one repetition: no interval")
    half = _round(0.018 * mean)
    return Interval(mean, mean - half, mean + half, df=12, method="pooled over the design")


def _cell(
    cell: dict[str, str], runs: list[RunResult], first: RunResult | None, replicated: bool
) -> CellResult:
    good = [run for run in runs if run.valid]

    def over(name: str) -> Interval:
        return _interval([float(getattr(run.traffic, name)) for run in good], replicated)

    def over_latency(name: str) -> Interval:
        return _interval([float(getattr(run.traffic.response_ms, name)) for run in good], replicated)

    failed, done = sum(run.traffic.errors for run in good), sum(run.traffic.transactions for run in good)
    responses = {}
    if good:
        names = ("throughput_per_s", "items_per_s", "payload_bytes_per_s")
        responses = {name: over(name) for name in names}
        responses |= {f"response_ms_{name}": over_latency(name) for name in ("mean", "p50", "p95")}
    base = first.traffic if first else None
    here = good[0].traffic if good else None
    return CellResult(
        cell=cell,
        load=float(cell["testers"]) if "testers" in cell else None,
        repetitions=len(runs),
        valid=len(good),
        responses=responses,
        error_rate=_round(failed / (done + failed)) if good else None,
        error_rate_upper=_round((failed + 3) / (done + failed)) if good else None,
        stretch=_round((here.response_ms.mean or 0) / (base.response_ms.mean or 1))
        if here and base
        else None,
        scaling=_round(here.throughput_per_s / base.throughput_per_s / float(cell["testers"]))
        if here and base
        else None,
        bottleneck=good[-1].bottleneck if good else "not resolved",
    )


def _saturation(combination: dict[str, str], cells: list[CellResult], *, decided: bool) -> Saturation:
    known = [cell for cell in cells if cell.responses]
    best = max(known, key=lambda cell: cell.responses["throughput_per_s"].mean)
    top = best.responses["throughput_per_s"]
    rule = "p(95)<2s"
    return Saturation(
        combination=combination,
        metric="throughput_per_s",
        load_factor="testers",
        lower=2.0 if decided else None,
        upper=4.0 if decided else None,
        verdict=SaturationVerdict.BRACKETED if decided else SaturationVerdict.CANNOT_SAY,
        reason=None if decided else SaturationReason.ONE_REPETITION,
        text="between 2 and 4 testers" if decided else "one run per load",
        bottleneck="gateway",
        capacities=(
            Capacity(CapacityKind.NOMINAL, top, best.load, "highest mean throughput of a cell", decided),
            Capacity(
                CapacityKind.USABLE,
                top,
                best.load,
                f"highest with {rule}",
                False,
                "the rule held at every load",
            ),
            Capacity(
                CapacityKind.ERROR_LIMITED, None, None, "highest load with rate<10%", False, "not reached"
            ),
        ),
        efficiency=1.0,
    )


def _model(runs: list[RunResult], key: str, scale: str) -> tuple[Model, tuple[Effect, ...]]:
    good = [run for run in runs if run.valid]
    fitted = tuple(_round(math.log(capacity_at(run.cell[key], int(run.cell["testers"])))) for run in good)
    residuals = tuple(
        _round(math.log(run.traffic.throughput_per_s) - at) for run, at in zip(good, fitted, strict=True)
    )
    model = Model(
        response="throughput_per_s",
        scale=scale,
        sum_of_squares="type II",
        r_squared=0.9991,
        error_df=11.0,
        not_estimable=(f"{key}:testers:block",),
        remarks=("unbalanced: one run was left out, so the sums of squares do not add up to the total",),
        run_ids=tuple(run.id for run in good),
        fitted=fitted,
        residuals=residuals,
        order=tuple(run.order for run in good),
        family=3,
    )
    terms = [(key, "0", 1.92, 71.4), (key, "1", 0.84, None), (key, "5", 0.62, None)]
    terms += [("testers", "1", 0.62, 25.2), ("testers", "2", 1.01, None), ("testers", "4", 1.15, None)]
    terms += [("testers", "8", 1.39, None), (f"{key}:testers", "0, 1", 1.02, 2.9)]
    found = [
        Effect(
            "throughput_per_s",
            scale,
            term,
            level,
            value,
            Interval(value, _round(value * 0.98), _round(value * 1.02), df=11),
            share,
            0.0001 if share else None,
            2.0,
            (TermPart((key, "testers") if ":" in term else (term,)),),
            0.0003 if share else None,
        )
        for term, level, value, share in terms
    ]
    found.append(Effect("throughput_per_s", scale, "residual", "", None, None, 0.5, None, 11.0))
    return model, tuple(found)


def designed(
    *, repetitions: int = 2, hostile: bool = False, finished: int | None = None, seconds: int = 24
) -> Analysis:
    """The quick start's design, 3 x 4 x `repetitions`: one run invalid, one doubtful, one threshold failed."""
    key = f"zip level {HOSTILE}" if hostile else "zip level"
    levels = ("0", "1", HOSTILE if hostile else "5")
    cells = [{key: level, "testers": load} for level, load in product(levels, LOADS)]
    plan = [(cell, repetition) for repetition in range(1, repetitions + 1) for cell in cells]
    Random(20061).shuffle(plan)
    total = len(plan)
    runs = [
        make_run(number, cell, repetition, seconds, valid=number != 7 or repetitions == 1, key=key)
        for number, (cell, repetition) in enumerate(plan[: finished or total], start=1)
    ]
    results, saturation = [], []
    for level in levels:
        of_level = [cell for cell in cells if cell[key] == level]
        mine = []
        first = next((run for run in runs if run.cell == of_level[0] and run.valid), None)
        for cell in of_level:
            found = [run for run in runs if run.cell == cell]
            if found:
                mine.append(_cell(cell, found, first, repetitions > 1))
        results += mine
        if any(cell.responses for cell in mine):
            saturation.append(_saturation({key: level}, mine, decided=repetitions > 1))
    model, effects = _model(runs, key, "log")
    analysis = Analysis(
        experiment=ExperimentInfo(
            name=f"quick start {HOSTILE}" if hostile else "quickstart",
            question=HOSTILE
            if hostile
            else "How many requests does each zip level carry, and what stops it?",
            directory="quickstart-20261121T013000Z",
            seed=20061,
            factors={key: list(levels), "testers": list(LOADS)},
            load_factor="testers",
            design="full-factorial",
            repetitions=repetitions,
            planned_runs=total,
            finished_runs=len(runs),
            complete=len(runs) == total,
            responses=("throughput_per_s",),
            started="2026-11-21T01:30:00Z",
        ),
        answer=(),
        runs=tuple(runs),
        cells=tuple(results),
        saturation=tuple(saturation),
        effects=effects if repetitions > 1 and len(runs) == total else (),
        models=(model,) if repetitions > 1 and len(runs) == total else (),
        verdicts=(
            Verdict("response", "p(95)<500ms", {key: levels[0], "testers": "8"}, 0.0412, True, ""),
            Verdict(
                "response",
                "p(95)<20ms",
                {key: levels[1], "testers": "8"},
                0.0241,
                False,
                "observed 24.1 ms, limit p(95)<20ms",
            ),
        ),
        left_out=(
            LeftOutPart("warm-up", "the first 4 s of every run"),
            *(LeftOutPart(f"run {run.id}", "; ".join(run.invalid_reasons)) for run in runs if not run.valid),
            *((LeftOutPart(HOSTILE, HOSTILE),) if hostile else ()),
        ),
    )
    return with_answer(ranked(analysis))


def ranked(analysis: Analysis) -> Analysis:
    """With the ranking of its combinations, each of two runs that make the interval of its nominal capacity."""
    contenders = []
    for each in analysis.saturation:
        value = each.capacities[0].value
        if value is None or each.levels == 1:
            continue
        half = 0.0 if value.low is None else (value.mean - value.low) / 3
        values = (value.mean,) if value.low is None else (value.mean - half, value.mean + half)
        contenders.append(Contender(each.combination, (tuple((None, one) for one in values),)))
    found = ranking(contenders)
    named = () if found is None else (replace(found, metric="throughput_per_s", rule=rule(RuleName.RANKING)),)
    return replace(analysis, rankings=named)


def with_components(run: RunResult) -> RunResult:
    """The run with time series of a database on another host, a gateway, the host and the testers, in bins of 2 s."""

    def steps(value: float, gap: int | None = None) -> Values:
        return tuple(None if at == gap else _round(value * (1 + 0.1 * (at % 3))) for at in range(12))

    flat = (200e6,) * 12
    cpu = {"cpu": steps(0.5), "cpu_user": steps(0.3), "cpu_system": steps(0.2), "cpu_steal": (0.0,) * 12}
    disk = {
        "disk_read": (0.0,) * 12,
        "disk_write": steps(4e6),
        "network_in": steps(1e6),
        "network_out": steps(9e6),
    }
    counted = {"xact_commit": steps(900, gap=5), "deadlocks": (0.0,) * 12}
    answered = {"answered": steps(run.traffic.throughput_per_s * 0.9)}
    components = (
        ComponentSeries("db", "service", "postgres", "db1", {**cpu, "memory": flat}, counted, "xact_commit"),
        ComponentSeries(
            "gateway", "service", "frontier", "", {**cpu, "memory": steps(15e6)}, answered, "answered", True
        ),
        ComponentSeries(
            "host", "host", "", "", {**cpu, "cpu_iowait": steps(0.1), "memory": steps(2e9), **disk}, {}
        ),
        ComponentSeries("testers", "testers", "", "", {"cpu": steps(0.1)}, {}),
    )
    return replace(run, component_series=RunComponentSeries(2.0, 12, components))


def single() -> Analysis:
    """One run, no factor, no load factor: the short form."""
    run = with_components(replace(make_run(1, {}, 1), ecdf=_ecdf(3.0, 24)))
    analysis = Analysis(
        experiment=ExperimentInfo(
            name="127.0.0.1",
            question="",
            directory="127.0.0.1-20261121T013000Z",
            seed=None,
            factors={},
            load_factor=None,
            design="single",
            repetitions=1,
            planned_runs=1,
            finished_runs=1,
            complete=True,
            responses=("throughput_per_s",),
            started="2026-11-21T01:30:00Z",
        ),
        answer=(),
        runs=(run,),
        cells=(_cell({}, [run], None, False),),
        saturation=(),
        effects=(),
        models=(),
        verdicts=(),
        left_out=(),
    )
    return with_answer(analysis)


def empty() -> Analysis:
    """Nothing finished yet."""
    start = single()
    info = replace(start.experiment, planned_runs=24, finished_runs=0, complete=False)
    bare = replace(start, experiment=info, runs=(), cells=(), answer=())
    return with_answer(bare)


@cache
def wan() -> Analysis:
    """Ten hosts of three sites, of which one was lost: analysed from made files."""
    with TemporaryDirectory() as path:
        found = analysis(make(Path(path) / "results", Made(seconds=12, testers=2, lost={"f3": 5.0})))
    return replace(found, experiment=replace(found.experiment, directory="wan-20261121T013000Z"))


def set_up(hostile: bool = False) -> SetUp:
    """A set-up with a service and awkward texts."""
    text = f"plimsoll: 1\nname: {HOSTILE if hostile else 'quickstart'}\nload: {{testers: 4}}\n"
    return SetUp(
        experiment_text=text,
        effective_text=text + "run: {warmup: 4s, duration: 24s}\n",
        environment={
            "host": {
                "name": HOSTILE if hostile else "node1",
                "cpu": "Xeon 2.8 GHz",
                "cores": 2,
                "memory_bytes": 8_000_000_000,
            },
            "kernel": "6.1.0",
            "sysctl": {"net.core.somaxconn": 4096, "net.ipv4.tcp_tw_reuse": 2},
            "virtualisation": "none",
            "versions": {"plimsoll": "0.1.0", "python": "3.11.7"},
            "limits": {"open_files": 1024},
        },
        services=(ServiceSetUp("gateway", "frontier", "rows: 10000\nthreads: 1\n", "0.1.0"),),
        files=(StoredFile("experiment.yaml", 212), StoredFile("runs/0001/transactions.parquet", 1_204_113)),
        seeds={"design": 20061, "data": 7},
        command_line=f"plimsoll run {HOSTILE if hostile else 'quickstart.yaml'}",
    )
