"""The analysis of a results directory, from the data that `collect` reads, with the functions of `analyse`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from plimsoll.analyse.answer.compose import with_answer
from plimsoll.analyse.answer.left_out import worded_left_out
from plimsoll.analyse.answer.worded import (
    worded_model,
    worded_regression,
    worded_saturation,
    worded_verdict,
)
from plimsoll.analyse.design.across import cell_results, grouped, verdicts
from plimsoll.analyse.design.capacity.load_line import rankings, saturations
from plimsoll.analyse.design.capacity.sufficient import sufficient_levels
from plimsoll.analyse.design.charts import ChartData, charts_of, charts_of_search
from plimsoll.analyse.design.consistency import consistency
from plimsoll.analyse.design.demands import cell_demands, fan_outs
from plimsoll.analyse.design.memory_growth import memory_growth
from plimsoll.analyse.design.repetitions.until_tight import until_tight
from plimsoll.analyse.design.sessions import explaining_waits
from plimsoll.analyse.effects.fits import charts_left_out, fit_all, regress_all
from plimsoll.analyse.effects.found_capacity import capacity_effects
from plimsoll.analyse.hosts.pool import pool
from plimsoll.analyse.results.analysis import (
    Analysis,
    CellResult,
    Effect,
    ExperimentInfo,
    Model,
    RunResult,
    Saturation,
)
from plimsoll.analyse.results.charts import Chart
from plimsoll.analyse.results.load.regression import Regression
from plimsoll.analyse.results.load.search import SearchResult
from plimsoll.analyse.results.load.sufficient import SufficientLevel
from plimsoll.analyse.results.verdict_rules import RULES
from plimsoll.analyse.results.verdicts import LeftOutPart
from plimsoll.analyse.run.parts import OfParts
from plimsoll.analyse.stats.quantiles import Histogram, merged
from plimsoll.assemble.adaptive.search_result import MeasuredTrial, search_result
from plimsoll.assemble.facts import ENDED_AS_PLANNED
from plimsoll.assemble.left_out import left_out_of, measured_nothing, planned_left_out, within_warmup
from plimsoll.assemble.run.asked import AnalysisRequest
from plimsoll.assemble.run.one_run import measured_window, one_run
from plimsoll.assemble.run.options import Options
from plimsoll.assemble.set_up import topology_of
from plimsoll.collect.baseline import read_baseline
from plimsoll.collect.results import Results


def analyse_results(results: Results, options: Options) -> Analysis:
    """Computes the analysis from the measurements, without a comparison with an earlier analysis."""
    rules = AnalysisRequest(results.plan)
    runs: list[RunResult] = []
    controls: list[RunResult] = []
    histograms: dict[str, Mapping[str, Histogram]] = {}
    parts: dict[str, OfParts] = {}
    left_out: list[LeftOutPart] = list(planned_left_out(results))
    for run in results.runs:
        if run.summary is None or (run.transactions is None and not run.live):
            left_out.append(measured_nothing(run))
            continue
        measured = measured_window(run, options)
        if measured is None:
            left_out.append(within_warmup(run))
            continue
        result, histograms[run.id], parts[run.id] = one_run(run, results, options, measured, rules)
        (controls if run.id in results.controls else runs).append(result)
    info = _info(results, runs)
    names = list(dict.fromkeys((*(response.metric for response in rules.responses), *rules.chart_metrics)))
    groups = grouped(runs, histograms, rules.design, parts)
    searched = search_result(results, _measured_trials(runs, histograms))
    cells = cell_results(groups, rules.design, names)
    lines: tuple[Saturation, ...] = ()
    sufficient: tuple[SufficientLevel, ...] = ()
    if searched is None:
        found = _effects_of_runs(cells, runs, rules, info)
        lines = saturations(
            groups, rules.design, rules.capacity, [response.metric for response in rules.responses]
        )
        sufficient = sufficient_levels(groups, rules.design, rules.capacity)
    else:  # the loads follow from the results: a plateau of them, and effects over them, would be no findings
        searched, found = _effects_of_searches(searched, cells, runs, rules, info)
    topology = topology_of(results)
    whole = Analysis(
        experiment=info,
        answer=(),
        runs=tuple(runs),
        cells=cells,
        saturation=tuple(map(worded_saturation, lines)),
        rankings=rankings(groups, rules.design, lines),
        sufficient=sufficient,
        effects=found.effects,
        models=tuple(map(worded_model, found.models)),
        verdicts=tuple(map(worded_verdict, verdicts(groups, rules.thresholds, _unfinished(results)))),
        left_out=tuple(
            map(
                worded_left_out,
                (
                    *left_out,
                    *(item for run in runs for item in left_out_of(run)),
                    *found.left_out,
                    *charts_left_out(runs, rules.chart_metrics, rules.responses),
                ),
            )
        ),
        consistency=consistency(groups, rules.design),
        regressions=tuple(map(worded_regression, found.regressions)),
        memory_growth=memory_growth(groups, rules.design),
        charts=found.charts,
        demands=cell_demands(groups, rules.prices, topology),
        fan_out=fan_outs(groups, topology),
        until=until_tight(groups, rules.design.until),
        search=searched,
        pool=pool(read_baseline(results.path)),
        session_waits=explaining_waits(groups),
        controls=tuple(controls),
        rules=RULES,
    )
    return with_answer(whole)


@dataclass(frozen=True, slots=True)
class _FactorEffects:
    """What the factors do to the responses. `charts`: those of the file come first."""

    effects: tuple[Effect, ...]
    models: tuple[Model, ...]
    regressions: tuple[Regression, ...]
    charts: tuple[Chart, ...]
    left_out: tuple[LeftOutPart, ...]


def _effects_of_runs(
    cells: Sequence[CellResult], runs: Sequence[RunResult], rules: AnalysisRequest, info: ExperimentInfo
) -> _FactorEffects:
    """The effects on the responses, with charts of main effects unless the load is the axis of all charts. In a 2^k
    design the load is a factor like the others."""
    effects, models, left_out = fit_all(runs, info.factors, rules.responses, info.looped)
    has_effects = info.load_factor is None or info.design == "2^k"
    responses = [(response.metric, response.scale) for response in rules.responses if has_effects]
    return _FactorEffects(
        effects,
        models,
        regress_all(runs, info.factors, rules.responses, info.looped),
        charts_of(ChartData(cells, runs, rules.design), rules.charts, responses),
        left_out,
    )


def _effects_of_searches(
    searched: SearchResult,
    cells: Sequence[CellResult],
    runs: Sequence[RunResult],
    rules: AnalysisRequest,
    info: ExperimentInfo,
) -> tuple[SearchResult, _FactorEffects]:
    """The search with the ratios of its capacities, and the effects on them. The charts of the file show the
    trials."""
    levels = {name: labels for name, labels in info.factors.items() if name != searched.axis}
    found = capacity_effects(searched, levels)
    charts = charts_of(ChartData(cells, runs, rules.design), rules.charts, [])
    charts += charts_of_search(searched, levels)
    return replace(searched, ratios=found.ratios), _FactorEffects(
        found.effects, found.models, found.regressions, charts, found.left_out
    )


def _measured_trials(
    runs: Sequence[RunResult], histograms: Mapping[str, Mapping[str, Histogram]]
) -> dict[str, MeasuredTrial]:
    return {
        run.id: MeasuredTrial(merged([histograms[run.id]["response"]]), run.traffic.throughput_per_s)
        for run in runs
        if "response" in histograms[run.id]
    }


def _unfinished(results: Results) -> list[dict[str, str]]:
    """Cells with at least one run that has not started yet, or was interrupted and will be repeated."""
    ended = {run.id for run in results.runs if ENDED_AS_PLANNED.get(run.record["status"]) != "interrupted"}
    return [run["cell"] for run in results.due_without_controls if run["id"] not in ended]


def _info(results: Results, runs: list[RunResult]) -> ExperimentInfo:
    plan, experiment = results.plan, results.plan["experiment"]
    return ExperimentInfo(
        name=experiment["name"],
        question=experiment["question"],
        directory=str(results.path),
        seed=plan["seed"],
        factors={factor["name"]: list(factor["levels"]) for factor in plan["factors"]},
        load_factor=plan["load_factor"],
        design=plan["design"]["kind"],
        repetitions=plan["design"]["repetitions"],
        planned_runs=len(results.due_without_controls),
        finished_runs=len(runs),
        complete=results.complete,
        responses=tuple(response["metric"] for response in plan["responses"]),
        started=results.environment.get("started", ""),
        shared_services=_shared_services(results),
        looped=tuple(plan["design"].get("loop", ())),
    )


def _shared_services(results: Results) -> tuple[str, ...]:
    """Names of services that had one process in all runs. Another process may behave differently."""
    processes = [
        {(service["name"], service.get("pid")) for service in run.record.get("services", ())}
        for run in results.runs
    ]
    shared = set.intersection(*processes) if len(processes) > 1 else set()
    return tuple(sorted(name for name, pid in shared if pid is not None))
