"""Tables of the regressions on quantitative factors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from plimsoll.analyse.answer.load.regressions import estimate, exponent_words, scaled, step_of
from plimsoll.analyse.results.load.regression import Coefficient, Regression, RegressionFit
from plimsoll.analyse.results.verdicts import RegressionVerdict
from plimsoll.analyse.results.wording import (
    UNKNOWN,
    Metric,
    describe,
    ends,
    factor_word,
    listing,
    number,
    p_value,
    percent,
    quantity,
    scale,
)
from plimsoll.analyse.stats.interval import Interval
from plimsoll.report.labels import Labels
from plimsoll.report.tables.table import Table, table_of

MAX_CONSTANTS: Final = 1
"""Up to this number of intercepts they are in the table; analysis.json contains all."""
_UNITS: Final = {"s": "seconds", "B": "bytes", "1/s": "1/s"}


def several_factors(labels: Labels) -> tuple[Table, ...]:
    """The tables of the regressions that have no chart: those on several factors."""
    joint = [each for each in labels.analysis.regressions if not each.lines]
    shown = [(each, table(each)) for each in joint]
    return tuple(replace(drawn, note=f"{each.text} {drawn.note}") for each, drawn in shown)


def title(regression: Regression) -> str:
    """`Throughput by size`."""
    factors = listing(map(factor_word, regression.factors))
    return f"{describe(regression.response).title.capitalize()} by {factors}"


def table(regression: Regression) -> Table:
    """The forms that were fitted, a row for each coefficient."""
    rows = [row for fit in regression.fits for row in _rows(regression, fit)]
    return table_of(
        title(regression),
        "Form|Coefficient",
        "Value|95 % interval|p|Lack-of-fit p|df|R²|Residual sd|Compared sd",
        rows,
        _note(regression),
    )


def _rows(regression: Regression, fit: RegressionFit) -> Iterator[tuple[str, ...]]:
    constants = [coefficient for coefficient in fit.coefficients if not coefficient.factor]
    slopes = [coefficient for coefficient in fit.coefficients if coefficient.factor]
    shown = [*(constants if len(constants) <= MAX_CONSTANTS else ()), *slopes]
    for at, coefficient in enumerate(shown):
        form = _form(regression, fit) if at == 0 else ""
        yield (
            form,
            _name(coefficient, fit),
            *_value(regression, fit, coefficient),
            p_value(coefficient.p_value),
            *(_figures(regression, fit) if at == 0 else ("",) * 5),
        )


def _form(regression: Regression, fit: RegressionFit) -> str:
    slopes = ", own" if fit.slopes == "own" else ""
    reported = " (reported)" if fit is regression.fit else ""
    return f"{fit.form}{slopes}{reported}"


def _name(coefficient: Coefficient, fit: RegressionFit) -> str:
    if not coefficient.factor:
        return "constant"
    kind = "exponent" if fit.form == "log-log" else "slope"
    levels = "".join(f", {factor_word(name)} {level}" for name, level in coefficient.combination.items())
    return f"{kind} of {factor_word(coefficient.factor)}{levels}"


def _value(regression: Regression, fit: RegressionFit, coefficient: Coefficient) -> tuple[str, str]:
    """The coefficient and its interval: an exponent, a constant in the unit of the response, or a slope per step."""
    metric, interval = describe(regression.response), coefficient.interval
    if fit.form == "log-log" and coefficient.factor:
        value, _, rest = exponent_words(interval).partition(" (")
        return value, rest.removesuffix(")")
    if fit.form == "log-log":
        known = [end for end in (interval.low, interval.high) if end is not None]
        low, high = (math.exp(min(end, 700.0)) for end in known) if len(known) == 2 else (None, None)
        interval = Interval(math.exp(min(interval.mean, 700.0)), low, high, interval.level, interval.df)
        return number(interval.mean), ends(interval, "number")
    if not coefficient.factor:
        return estimate(interval, metric), _ends(interval, metric)
    step, unit = step_of(regression, coefficient.factor)
    size = scaled(interval, step)
    per = f" per {unit}" if unit else ""
    return (
        estimate(size, metric) + per,
        _ends(size, metric),
    )


def _ends(interval: Interval, metric: Metric) -> str:
    """The ends in the unit of the value in the column before."""
    factor, _ = scale(interval.mean, metric.kind, metric.unit)
    return ends(scaled(interval, factor), "number")


def _figures(regression: Regression, fit: RegressionFit) -> tuple[str, ...]:
    """p and degrees of freedom of the lack of fit, R², residual and compared standard deviation."""
    metric, test = describe(regression.response), fit.lack_of_fit
    sd = (
        percent(fit.residual_sd)
        if fit.form == "log-log"
        else quantity(fit.residual_sd, metric.kind, metric.unit)
    )
    tested = test.verdict != RegressionVerdict.NOT_TESTED
    return (
        p_value(test.p_value) if tested else UNKNOWN,
        f"{test.df}, {test.error_df}" if tested else UNKNOWN,
        _r_squared(fit.r_squared),
        sd,
        quantity(fit.comparable_sd, metric.kind, metric.unit),
    )


def _r_squared(share: float | None) -> str:
    return "> 0.9999" if share is not None and 0.99995 <= share < 1 else number(share, 4)


def _note(regression: Regression) -> str:
    constants = "Linear: response = constant + slope × factor; log-log: response = constant × factor^exponent"
    units = [
        f"{factor_word(name)} in {_UNITS.get(unit, unit)}" for name, unit in regression.units.items() if unit
    ]
    note = f"{constants}{f' ({listing(units)})' if units else ''}."
    if regression.others:
        others = listing(map(factor_word, regression.others))
        note += (
            f" Each combination of {others} has its own constant."
            if len(regression.others) > 1
            else (f" Each level of {others} has its own constant.")
        )
    if regression.stratum == "within passes":
        note += " Each pass of the loop has its own constant."
    if regression.stratum == "between passes":
        note += f" Fitted to the means of {regression.values} passes."
    if any(fit.slopes == "own" for fit in regression.fits):
        note += " Own: each combination also has its own coefficient."
    note += f" Residual df: {regression.fit.residual_df} (reported form)."
    note += " Compared sd: the residual standard deviation in the unit of the response, by which forms are compared."
    return note
