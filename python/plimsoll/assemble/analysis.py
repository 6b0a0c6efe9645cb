"""The analysis of a results directory, from the data that `collect` reads, with the functions of `analyse`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plimsoll.analyse.answer.compose import with_answer
from plimsoll.analyse.answer.left_out import worded_left_out
from plimsoll.analyse.answer.worded import (
    worded_model,
    worded_regression,
    worded_saturation,
    worded_verdict,
)
from plimsoll.analyse.design.across import cell_results, grouped, verdicts
from plimsoll.analyse.design.charts import ChartData, charts_of
from plimsoll.analyse.design.consistency import consistency
from plimsoll.analyse.design.demands import cell_demands, fan_outs
from plimsoll.analyse.design.load_line import rankings, saturations
from plimsoll.analyse.design.memory_growth import memory_growth
from plimsoll.analyse.design.sessions import explaining_waits
from plimsoll.analyse.design.until_tight import until_tight
from plimsoll.analyse.effects.fits import charts_left_out, fit_all, regress_all
from plimsoll.analyse.hosts.pool import pool
from plimsoll.analyse.results.analysis import Analysis, CellResult, ExperimentInfo, RunResult
from plimsoll.analyse.results.charts import Chart
from plimsoll.analyse.results.verdict_rules import RULES
from plimsoll.analyse.results.verdicts import LeftOutPart
from plimsoll.analyse.run.parts import OfParts
from plimsoll.analyse.stats.quantiles import Histogram
from plimsoll.assemble.asked import AnalysisRequest
from plimsoll.assemble.facts import ENDED_AS_PLANNED
from plimsoll.assemble.left_out import left_out_of, measured_nothing, planned_left_out, within_warmup
from plimsoll.assemble.one_run import measured_window, one_run
from plimsoll.assemble.options import Options
from plimsoll.assemble.search_result import search_result
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
    effects, models, unfitted = fit_all(runs, info.factors, rules.responses, info.looped)
    lines = saturations(
        groups, rules.design, rules.capacity, [response.metric for response in rules.responses]
    )
    searched = search_result(results)
    if (
        searched is not None
    ):  # its loads follow from its results, so that a plateau of them would be no finding
        lines = ()
    cells = cell_results(groups, rules.design, names)
    topology = topology_of(results)
    whole = Analysis(
        experiment=info,
        answer=(),
        runs=tuple(runs),
        cells=cells,
        saturation=tuple(map(worded_saturation, lines)),
        rankings=rankings(groups, rules.design, lines),
        effects=effects,
        models=tuple(map(worded_model, models)),
        verdicts=tuple(map(worded_verdict, verdicts(groups, rules.thresholds, _unfinished(results)))),
        left_out=tuple(
            map(
                worded_left_out,
                (
                    *left_out,
                    *(item for run in runs for item in left_out_of(run)),
                    *unfitted,
                    *charts_left_out(runs, rules.chart_metrics, rules.responses),
                ),
            )
        ),
        consistency=consistency(groups, rules.design),
        regressions=tuple(
            map(worded_regression, regress_all(runs, info.factors, rules.responses, info.looped))
        ),
        memory_growth=memory_growth(groups, rules.design),
        charts=_charts(cells, runs, rules, info),
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


def _charts(
    cells: Sequence[CellResult], runs: Sequence[RunResult], rules: AnalysisRequest, info: ExperimentInfo
) -> tuple[Chart, ...]:
    """The charts of the file, and main effects unless the load is the axis of all charts. In a 2^k design the load is a
    factor like the others."""
    has_effects = info.load_factor is None or info.design == "2^k"
    responses = [(response.metric, response.scale) for response in rules.responses if has_effects]
    return charts_of(ChartData(cells, runs, rules.design), rules.charts, responses)


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
