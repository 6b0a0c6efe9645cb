"""Effects of the factors on each response, as results."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from plimsoll.analyse.effects.diagnostics import diagnose
from plimsoll.analyse.effects.effects import Factorial, Scale, TermEffect, UnsuitableData, factorial
from plimsoll.analyse.effects.passes import Loop, by_pass
from plimsoll.analyse.effects.regressions import regress
from plimsoll.analyse.results.analysis import Effect, Model, RunResult
from plimsoll.analyse.results.load.regression import Regression
from plimsoll.analyse.results.metrics import canonical, metric_value
from plimsoll.analyse.results.verdicts import LeftOutPart, LeftOutReason, Reason, Value
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.table import MetricReference
from plimsoll.plan.source.near import nearest


@dataclass(frozen=True, slots=True)
class ResponseModel:
    """A response on which effects are computed."""

    metric: str
    scale: Scale = "linear"


@dataclass(frozen=True, slots=True)
class Observation:
    """One value of a response. `id`, `order`: of its run; a search has those of its last trial."""

    id: str
    order: int
    cell: Mapping[str, str]
    block: str | None
    value: float


def fit_all(
    runs: Sequence[RunResult],
    levels: Mapping[str, Sequence[str]],
    wanted: Sequence[ResponseModel],
    looped: Collection[str] = (),
) -> tuple[tuple[Effect, ...], tuple[Model, ...], tuple[LeftOutPart, ...]]:
    """Fits every wanted response over the valid runs. A response that cannot be fitted is returned as left out.

    `levels`: labels of every factor in the order of the file. `looped`: the factors of `design.loop`.
    """
    effects: list[Effect] = []
    models: list[Model] = []
    left_out = [*_without_value(runs, wanted)]
    if not levels:
        return (), (), tuple(left_out)
    absent = {part.values["metric"] for part in left_out}
    for response in wanted:
        name = canonical(response.metric)
        if name in absent:
            continue
        if name is None:
            known = tuple(named.name for named in catalogue.METRICS.results)
            figures: dict[str, Value] = {"metric": response.metric, "known": known}
            left_out.append(LeftOutPart("", "", LeftOutReason.NO_METRIC, figures))
            continue
        used = [run for run in runs if run.valid and metric_value(run, name) is not None]
        observations = [
            Observation(run.id, run.order, run.cell, run.block, value)
            for run in used
            if (value := metric_value(run, name)) is not None
        ]
        try:
            fit = fit_observations(observations, levels, scale=response.scale, loop=_loop(used, looped))
        except UnsuitableData as error:
            left_out.append(LeftOutPart("", "", LeftOutReason.NO_FIT, {"metric": name, "reason": str(error)}))
            continue
        effects += effects_of(fit, name)
        models.append(checked_model(fit, name, observations, levels))
    return tuple(effects), tuple(models), tuple(left_out)


def fit_observations(
    observations: Sequence[Observation],
    levels: Mapping[str, Sequence[str]],
    *,
    scale: Scale,
    loop: Loop | None = None,
) -> Factorial:
    """The model of one response. `levels`: as in `fit_all`. Raises UnsuitableData."""
    return fit_table(
        [one.value for one in observations],
        _labels(observations, levels),
        levels=levels,
        block=blocks_of(observations),
        scale=scale,
        loop=loop,
    )


def checked_model(
    fit: Factorial, response: str, observations: Sequence[Observation], levels: Mapping[str, Sequence[str]]
) -> Model:
    """The fit as a result, with the checks of its residuals."""
    values, order = [one.value for one in observations], tuple(one.order for one in observations)
    checks = diagnose(
        values, fit.residuals, fit.cells, factors=_labels(observations, levels), order=order, scale=fit.scale
    )
    return model_of(fit, response, tuple(one.id for one in observations), order, checks.reasons)


def _labels(
    observations: Sequence[Observation], levels: Mapping[str, Sequence[str]]
) -> dict[str, list[str | None]]:
    return {factor: [one.cell.get(factor) for one in observations] for factor in levels}


def regress_all(
    runs: Sequence[RunResult],
    levels: Mapping[str, Sequence[str]],
    wanted: Sequence[ResponseModel],
    looped: Collection[str] = (),
) -> tuple[Regression, ...]:
    """The regressions of every wanted response over the valid runs. Arguments: as in `fit_all`."""
    regressions: list[Regression] = []
    for name in dict.fromkeys(canonical(response.metric) for response in wanted):
        values = {} if name is None else {run.id: metric_value(run, name) for run in runs if run.valid}
        used = [run for run in runs if values.get(run.id) is not None]
        if name is None or not used:
            continue
        regressions += regress(
            [value for run in used if (value := values[run.id]) is not None],
            {factor: [run.cell.get(factor) for run in used] for factor in levels},
            response=name,
            block=blocks_of(used),
            loop=_loop(used, looped),
            levels=levels,
        )
    return tuple(regressions)


def charts_left_out(
    runs: Sequence[RunResult], metrics: Sequence[str], responses: Sequence[ResponseModel]
) -> tuple[LeftOutPart, ...]:
    """The metrics of charts that have no value in any valid run, except responses, which `fit_all` returns."""
    known = {response.metric for response in responses}
    shown = [ResponseModel(metric) for metric in metrics if metric not in known]
    return tuple(
        replace(part, values={**part.values, "section": "charts"}) for part in _without_value(runs, shown)
    )


def _without_value(runs: Sequence[RunResult], wanted: Sequence[ResponseModel]) -> Iterator[LeftOutPart]:
    """The responses with open parts, such as the name of a counter, that have no value in any valid run."""
    valid = [run for run in runs if run.valid]
    for response in wanted:
        named = catalogue.METRICS.find(response.metric)
        if named is None or not named.metric.parts or not valid:
            continue
        if all(metric_value(run, named.name) is None for run in valid):
            figures: dict[str, Value] = {"metric": named.name, "near": _nearest_counter(valid, named)}
            yield LeftOutPart("", "", LeftOutReason.NO_VALUE, figures)


def _nearest_counter(runs: Sequence[RunResult], named: MetricReference) -> str:
    """The counter, gauge or metric of the runs whose name is the most similar; empty if none is."""
    known: set[str] = set()
    for run in runs:
        known |= {metric.name for metric in run.metrics} if "metric" in named.parts else set()
        for service in run.services if "service" in named.parts else ():
            if service.name == named.parts["service"]:
                known |= {*service.window, *service.window_gauges}
    text = next((named.parts[part] for part in ("counter", "gauge", "metric") if part in named.parts), "")
    return nearest(text, sorted(known)) or ""


def fit_table(
    responses: Sequence[float],
    factors: Mapping[str, Sequence[str | None]],
    *,
    levels: Mapping[str, Sequence[str]] | None = None,
    block: Sequence[str] | None = None,
    scale: Scale = "linear",
    loop: Loop | None = None,
) -> Factorial:
    """The model of one response. Factors with only one level among the runs are left out. Raises UnsuitableData."""
    varying = {
        name: labels
        for name, labels in factors.items()
        if len({label for label in labels if label is not None}) > 1
    }
    known = None if levels is None else {name: levels[name] for name in varying}
    fit = factorial(responses, varying, block=block, scale=scale, levels=known)
    if loop is None or not set(varying) & set(loop.looped):
        return fit
    loop = replace(loop, looped=set(varying) & set(loop.looped))
    return by_pass(fit, responses, varying, loop, levels=known or {}, block=block, scale=scale)


def _loop(runs: Sequence[RunResult], looped: Collection[str]) -> Loop | None:
    """The pass of each run: runs of one repetition and block that differ only in the looped factors. None without
    looped factors."""
    if not looped:
        return None
    passes = [
        repr((run.block, run.repetition, sorted(item for item in run.cell.items() if item[0] not in looped)))
        for run in runs
    ]
    return Loop(looped, passes)


def blocks_of(observed: Sequence[RunResult] | Sequence[Observation]) -> list[str] | None:
    """The block of each run or search; None unless there are at least two and each has one."""
    blocks = [one.block for one in observed]
    if len(set(blocks)) < 2 or any(block is None for block in blocks):
        return None
    return [str(block) for block in blocks]


def effects_of(fit: Factorial, response: str) -> list[Effect]:
    """One row per level of each term, then block and residual."""
    rows = [row for term in fit.terms for row in _term_rows(fit, term, response)]
    if fit.block_percent is not None:
        rows.append(Effect(response, fit.scale, "block", "", None, None, fit.block_percent))
    rows.append(
        Effect(response, fit.scale, "residual", "", None, None, fit.residual_percent, df=float(fit.error_df))
    )
    return rows


def _term_rows(fit: Factorial, term: TermEffect, response: str) -> list[Effect]:
    if not term.levels:  # it can be estimated only in part: its share of the variation, but no effects
        return [
            Effect(
                response=response,
                scale=fit.scale,
                term=term.name,
                level="",
                effect=None,
                interval=None,
                variation_percent=term.percent,
                p_value=term.p_value,
                adjusted_p_value=term.adjusted_p,
                df=float(term.df),
                parts=term.parts,
            )
        ]
    rows = []
    for position, level in enumerate(term.levels):
        first = position == 0
        rows.append(
            Effect(
                response=response,
                scale=fit.scale,
                term=term.name,
                level=level.label,
                effect=level.effect,
                interval=level.interval,
                variation_percent=term.percent if first else None,
                p_value=term.p_value if first else None,
                adjusted_p_value=term.adjusted_p if first else None,
                df=float(term.df) if first else None,
                parts=term.parts,
            )
        )
    return rows


def model_of(
    fit: Factorial, response: str, ids: tuple[str, ...], order: tuple[int, ...], checks: Sequence[Reason] = ()
) -> Model:
    """The fit and its residuals, without texts. `checks`: reasons from the checks of the residuals."""
    return Model(
        response=response,
        scale=fit.scale,
        sum_of_squares=fit.sum_of_squares,
        r_squared=fit.r_squared,
        error_df=float(fit.error_df),
        not_estimable=fit.not_estimable,
        remarks=(),
        reasons=(*fit.reasons, *checks),
        run_ids=ids,
        fitted=fit.fitted,
        residuals=fit.residuals,
        order=order,
        family=sum(term.p_value is not None for term in fit.terms),
    )
