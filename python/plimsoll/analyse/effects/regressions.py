"""Regressions of a response on the factors whose levels are numbers, next to the model of effects.

Each such factor alone, and all of a stratum together, in two forms: response = a + b x (linear), and response = a x^b
(log-log: least squares on logarithms), if all numbers are above zero. The other factors are no part of the form: each
combination of their levels has its own intercept, and in a second fit its own coefficient. Blocks and the passes of
`design.loop` have their own intercepts too; a factor outside the loop is compared by the means of passes (module
`passes`).

Choice of the form: those without a lack of fit come first, those with common coefficients before those with their own.
Among these the smaller residual standard deviation decides, that of log-log times the geometric mean of the responses:
the scale on which the likelihoods of both can be compared (G. Box, D. Cox, J. R. Statist. Soc. B 26 (1964) 211).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from plimsoll.analyse.effects.passes import Loop, complete_passes
from plimsoll.analyse.results.load.regression import (
    Coefficient,
    FittedLine,
    Form,
    LackOfFitTest,
    LinePoint,
    Regression,
    RegressionFit,
    Slopes,
    Stratum,
)
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.results.verdicts import RegressionVerdict, UntestedReason
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.linear import Array, Indexes, indicator, joined, new_directions
from plimsoll.analyse.stats.regression import Estimate, LackOfFit, LeastSquares, least_squares
from plimsoll.plan.source.units import level_unit, quantity

MIN_LEVELS: Final = 3
"""Two levels fit every form."""
REJECTED: Final = 0.05
"""p-value of the lack of fit below which a form is rejected."""
MIN_DIFFERENCE: Final = 4.0
"""Difference of 2 log likelihood from which one form has considerably more support than the other (K. Burnham, D.
Anderson, Model Selection and Multimodel Inference, 2nd ed. 2002, 2.6)."""
LINE_POINTS: Final = 13
METHOD: Final = "residual of the regression"


@dataclass(frozen=True, slots=True)
class NumericLevels:
    """The numbers of the levels of a factor, in the unit `s`, `B`, `1/s`, or none."""

    numbers: Mapping[str, float]
    unit: str


def numeric_levels(labels: Sequence[str | None]) -> NumericLevels | None:
    """The numbers of the levels; None if a level is not a number, or their units differ. A zero fits every unit."""
    present = [label for label in dict.fromkeys(labels) if label is not None]
    numbers = {label: number for label in present if (number := quantity(label)) is not None}
    units = {level_unit(label) for label, number in numbers.items() if number != 0}
    if not present or len(numbers) < len(present) or len(units) != 1:
        return None
    (unit,) = units
    return None if unit is None else NumericLevels(numbers, unit)


@dataclass(frozen=True)
class _Values:
    """The responses of one stratum, one entry per run or per mean of a pass. `log`: None if a response is not above
    zero. `groups`: labels of everything that has its own intercept, in addition to the combinations. `levels`: those of
    each factor, in the order of tables and charts."""

    stratum: Stratum
    y: Array
    log: Array | None
    factors: Mapping[str, Sequence[str | None]]
    groups: Sequence[Sequence[str]]
    levels: Mapping[str, Sequence[str]]

    def rows(self, at: Sequence[int]) -> _Values:
        """Those at some positions."""
        factors = {name: [labels[i] for i in at] for name, labels in self.factors.items()}
        groups = [[labels[i] for i in at] for labels in self.groups]
        index = np.asarray(at, dtype=np.int64)
        log = None if self.log is None else self.log[index]
        return replace(self, y=self.y[index], log=log, factors=factors, groups=groups)


def regress(
    responses: Sequence[float],
    factors: Mapping[str, Sequence[str | None]],
    *,
    response: str,
    block: Sequence[str] | None = None,
    loop: Loop | None = None,
    levels: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Regression, ...]:
    """The regressions of one response; empty if no factor has three different numbers.

    `responses`: finite, one per run; `factors`: label of the level per run, None if a nested factor does not apply (the
    run is then left out of the regressions on it); `response`: the name of the response; `levels`: the order of the
    levels of each factor (default: as they appear).
    """
    varying = {name: labels for name, labels in factors.items() if len(set(labels) - {None}) > 1}
    numeric = {
        name: numbers for name, labels in varying.items() if (numbers := numeric_levels(labels)) is not None
    }
    ordered = {
        name: list(dict.fromkeys([*(levels or {}).get(name, ()), *filter(None, labels)]))
        for name, labels in varying.items()
    }
    y = np.asarray(responses, dtype=np.float64)
    out = []
    for values, names in _strata(y, varying, ordered, block, loop):
        usable = [
            name
            for name in names
            if name in numeric and len(set(numeric[name].numbers.values())) >= MIN_LEVELS
        ]
        for subset in [*((name,) for name in usable), *([tuple(usable)] if len(usable) > 1 else [])]:
            regression = _regression(values, {name: numeric[name] for name in subset}, response)
            if regression is not None:
                out.append(regression)
    return tuple(out)


def _strata(
    y: Array,
    factors: Mapping[str, Sequence[str | None]],
    levels: Mapping[str, Sequence[str]],
    block: Sequence[str] | None,
    loop: Loop | None,
) -> list[tuple[_Values, list[str]]]:
    """The values of each stratum, with the factors that are compared in it."""
    log = np.log(y) if y.size and float(y.min()) > 0 else None
    blocks = [] if block is None else [block]
    inner = [name for name in factors if loop is not None and name in loop.looped]
    if loop is None or not inner:
        return [(_Values("runs", y, log, factors, blocks, levels), list(factors))]
    passes = complete_passes(loop.passes)
    outer = {
        name: [labels[runs[0]] for runs in passes] for name, labels in factors.items() if name not in inner
    }
    means = np.array([float(y[runs].mean()) for runs in passes])
    logs = None if log is None else np.array([float(log[runs].mean()) for runs in passes])
    outer_blocks = [[labels[runs[0]] for runs in passes] for labels in blocks]
    return [
        (_Values("within passes", y, log, factors, [loop.passes], levels), inner),
        (_Values("between passes", means, logs, outer, outer_blocks, levels), list(outer)),
    ]


def _regression(values: _Values, numeric: Mapping[str, NumericLevels], response: str) -> Regression | None:
    """The regression on some factors; None if the responses do not determine any form."""
    applies = [
        at for at in range(values.y.size) if all(values.factors[name][at] is not None for name in numeric)
    ]
    design = _Design(values.rows(applies), numeric)
    if any(np.unique(column).size < MIN_LEVELS for column in design.x.T):
        return None
    forms: list[Form] = ["linear", "log-log"]
    slopes: list[Slopes] = (
        ["common", "own"] if len(design.combinations) > 1 and len(numeric) == 1 else ["common"]
    )
    fits = [fit for kind in slopes for form in forms if (fit := design.fit(form, kind)) is not None]
    if not fits:
        return None
    chosen = _choice(fits)
    return Regression(
        response=response,
        factors=tuple(numeric),
        units={name: levels.unit for name, levels in numeric.items()},
        levels={
            name: dict(sorted(levels.numbers.items(), key=lambda item: item[1]))
            for name, levels in numeric.items()
        },
        others=tuple(design.others),
        stratum=values.stratum,
        values=len(applies),
        fits=tuple(fits),
        chosen=chosen,
        verdict=fits[chosen].lack_of_fit.verdict,
        distinguished=_is_distinguished(fits, fits[chosen]),
        lines=design.lines(fits[chosen].form, fits[chosen].slopes),
        rule=rule(RuleName.REGRESSION),
    )


def _choice(fits: Sequence[RegressionFit]) -> int:
    def rank(at: int) -> tuple[bool, bool, float]:
        fit = fits[at]
        return fit.lack_of_fit.verdict != RegressionVerdict.FITS, fit.slopes == "own", fit.comparable_sd

    return min(range(len(fits)), key=rank)


def _is_distinguished(fits: Sequence[RegressionFit], chosen: RegressionFit) -> bool:
    """Whether each other form with the same slopes is rejected, or has considerably less support."""
    return all(
        other.lack_of_fit.verdict == RegressionVerdict.REJECTED
        or _difference(chosen, other) >= MIN_DIFFERENCE
        for other in fits
        if other is not chosen and other.slopes == chosen.slopes
    )


def _difference(chosen: RegressionFit, other: RegressionFit) -> float:
    """Twice the difference of the log likelihoods, with the residual degrees of freedom as the number of values (Box
    and Cox, section 3)."""
    if not chosen.comparable_sd or not other.comparable_sd:
        return math.inf if other.comparable_sd else 0.0
    return 2 * chosen.residual_df * math.log(other.comparable_sd / chosen.comparable_sd)


class _Design:
    """The columns that the forms of one regression share."""

    def __init__(self, values: _Values, numeric: Mapping[str, NumericLevels]) -> None:
        self.values = values
        self.names = list(numeric)
        n = values.y.size
        columns = [
            [levels.numbers[label] for label in values.factors[name] if label is not None]
            for name, levels in numeric.items()
        ]
        self.x = np.array(columns, dtype=np.float64).reshape(len(columns), n).T
        self.others = [
            name for name, labels in values.factors.items() if name not in numeric and len(set(labels)) > 1
        ]
        keys = [tuple(values.factors[name][at] for name in self.others) for at in range(n)]
        present = sorted(set(keys), key=self._order)
        self.combination = _positions(keys, present)
        self.combinations = [
            {name: label for name, label in zip(self.others, key, strict=True) if label is not None}
            for key in present
        ]
        self.basis = _means(self.combination)
        for labels in values.groups:
            self.basis = joined(self.basis, new_directions(_means(_positions(labels)), self.basis))
        self.geometric_mean = 0.0 if values.log is None else math.exp(float(values.log.mean()))
        cells = _positions([(key, *row) for key, row in zip(keys, self.x.tolist(), strict=True)])
        self.cells = _means(cells)

    def _order(self, key: tuple[str | None, ...]) -> list[int]:
        """The positions of the levels of a combination among those of their factors; -1: the factor does not apply."""
        return [
            -1 if label is None else self.values.levels[name].index(label)
            for name, label in zip(self.others, key, strict=True)
        ]

    def fit(self, form: Form, slopes: Slopes) -> RegressionFit | None:
        """One form; None if it is not defined for these numbers, or they do not determine its coefficients."""
        found = self._least_squares(form, slopes)
        if found is None:
            return None
        return RegressionFit(
            form=form,
            slopes=slopes,
            coefficients=tuple(self._coefficients(found, slopes)),
            residual_sd=found.residual_sd,
            residual_df=found.residual_df,
            comparable_sd=found.residual_sd * (self.geometric_mean if form == "log-log" else 1.0),
            r_squared=found.r_squared,
            lack_of_fit=_test(found.lack_of_fit),
        )

    def _least_squares(self, form: Form, slopes: Slopes) -> LeastSquares | None:
        y, x = self.values.y, self.x
        if form == "log-log":
            if self.values.log is None or float(x.min()) <= 0:
                return None
            y, x = self.values.log, np.log(x)
        predictors = x if slopes == "common" else indicator(self.combination, len(self.combinations)) * x
        return least_squares(y, predictors, self.basis, self.cells)

    def lines(self, form: Form, slopes: Slopes) -> tuple[FittedLine, ...]:
        """The fitted lines of a form that `fit` returned; empty for several factors."""
        found = self._least_squares(form, slopes) if len(self.names) == 1 else None
        return () if found is None else tuple(self._lines(found, form, slopes))

    def _coefficients(self, found: LeastSquares, slopes: Slopes) -> list[Coefficient]:
        """The intercepts at zero (log-log: at 1), averaged over blocks, then the coefficients of the factors."""
        width = len(self.combinations) if slopes == "own" else len(self.names)
        several = len(self.combinations) > 1
        out = [
            _coefficient(
                "", levels if several else {}, found.mean(self.combination == at, np.zeros(width)), found
            )
            for at, levels in enumerate(self.combinations)
        ]
        if slopes == "own":
            (name,) = self.names
            pairs = [(name, levels) for levels in self.combinations]
        else:
            pairs = [(name, {}) for name in self.names]
        out += [_coefficient(name, levels, found.slope(at), found) for at, (name, levels) in enumerate(pairs)]
        return out

    def _lines(self, found: LeastSquares, form: Form, slopes: Slopes) -> list[FittedLine]:
        """Within the numbers that were run with each combination."""
        lines = []
        for at, levels in enumerate(self.combinations):
            runs = self.combination == at
            column = self.x[runs, 0]
            points = []
            for x in _grid(float(column.min()), float(column.max())):
                predictors = np.zeros(len(self.combinations) if slopes == "own" else 1)
                predictors[at if slopes == "own" else 0] = math.log(x) if form == "log-log" else x
                points.append(_point(x, found.mean(runs, predictors), form))
            lines.append(FittedLine(levels, tuple(points)))
        return lines


def _positions(keys: Sequence[object], order: Sequence[object] = ()) -> Indexes:
    """The position of each key among the different ones: those of `order`, then as they appear."""
    position = {key: at for at, key in enumerate(dict.fromkeys([*order, *keys]))}
    return np.array([position[key] for key in keys], dtype=np.int64)


def _means(index: Indexes) -> Array:
    """Orthonormal columns, one per group."""
    columns = indicator(index, int(index.max()) + 1)
    columns /= np.sqrt(columns.sum(axis=0))
    return columns


def _grid(low: float, high: float) -> list[float]:
    if low <= 0:
        return [float(x) for x in np.linspace(low, high, LINE_POINTS)]
    return [low, *(float(x) for x in np.geomspace(low, high, LINE_POINTS)[1:-1]), high]


def _interval(estimate: Estimate, found: LeastSquares) -> Interval:
    return Interval(
        estimate.value, estimate.low, estimate.high, found.confidence, float(found.residual_df), METHOD
    )


def _coefficient(factor: str, levels: dict[str, str], estimate: Estimate, found: LeastSquares) -> Coefficient:
    return Coefficient(factor, dict(levels), _interval(estimate, found), estimate.p_value)


def _point(x: float, estimate: Estimate, form: Form) -> LinePoint:
    if form == "linear":
        return LinePoint(x, estimate.value, estimate.low, estimate.high)
    return LinePoint(x, *(math.exp(value) for value in (estimate.value, estimate.low, estimate.high)))


def _test(lack: LackOfFit) -> LackOfFitTest:
    if lack.p_value is not None:
        verdict = RegressionVerdict.REJECTED if lack.p_value < REJECTED else RegressionVerdict.FITS
        f = lack.f if lack.f is not None and math.isfinite(lack.f) else None
        return LackOfFitTest(verdict, f, lack.df, lack.error_df, lack.p_value)
    reason = (
        UntestedReason.NO_REPETITION
        if lack.error_df < 1
        else UntestedReason.NO_FREEDOM
        if lack.df < 1
        else UntestedReason.NO_VARIATION
    )
    return LackOfFitTest(RegressionVerdict.NOT_TESTED, None, lack.df, lack.error_df, None, reason)
