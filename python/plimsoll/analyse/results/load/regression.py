"""Results of the regressions on quantitative factors, a part of `analysis.json`.

Units: a number of a factor is in seconds, bytes, per second, or without unit (`units`), a response in the unit of its
name. The coefficient of a factor is then per unit of the factor (linear), or an exponent (log-log).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from plimsoll.analyse.results.verdicts import RegressionVerdict, RuleId, UntestedReason
from plimsoll.analyse.stats.interval import Interval

Form = Literal["linear", "log-log"]
Slopes = Literal["common", "own"]
Stratum = Literal["runs", "within passes", "between passes"]


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One coefficient. linear: response = intercept + sum of coefficient x factor; log-log: the same for the natural
    logarithms of the response and of the factors, so that the response is proportional to factor^coefficient."""

    factor: str
    """Empty for the intercept, which is on the scale of the fit: the response (its logarithm) at 0 (at 1)."""
    combination: dict[str, str]
    """The levels of the other factors to which it applies; empty: all."""
    interval: Interval
    p_value: float | None
    """Of the hypothesis that it is 0."""


@dataclass(frozen=True, slots=True)
class LinePoint:
    """The fitted mean response at one number of the factor, with its interval (log-log: of the geometric mean)."""

    x: float
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class FittedLine:
    """The fitted line of one combination of the other factors."""

    combination: dict[str, str]
    points: tuple[LinePoint, ...]


@dataclass(frozen=True, slots=True)
class LackOfFitTest:
    """The F test of a form against the means of the cells. `f`, `p_value` are None if there is no test; `reason` then
    states why. `f` is also None if it is infinite: repeated runs are all equal."""

    verdict: RegressionVerdict
    f: float | None
    df: int
    error_df: int
    p_value: float | None
    reason: UntestedReason | None = None


@dataclass(frozen=True, slots=True)
class RegressionFit:
    """One form that was fitted."""

    form: Form
    slopes: Slopes
    """own: each combination of the other factors has its own coefficient; common: they share it."""
    coefficients: tuple[Coefficient, ...]
    residual_sd: float
    """On the scale of the fit (log-log: about the relative deviation)."""
    residual_df: int
    comparable_sd: float
    """Residual standard deviation in the unit of the response, by which the forms are compared: for log-log times the
    geometric mean of the responses (Box and Cox)."""
    r_squared: float | None
    """Share that the factors explain of the variation about the means of the other factors and blocks, on the scale of
    the fit."""
    lack_of_fit: LackOfFitTest


@dataclass(frozen=True, slots=True)
class Regression:
    """The regressions of one response on one quantitative factor, or on several."""

    response: str
    factors: tuple[str, ...]
    units: dict[str, str]
    """`s`, `B`, `1/s`, or empty, by factor."""
    levels: dict[str, dict[str, float]]
    """The number of each level, by factor."""
    others: tuple[str, ...]
    """The other factors: each combination of their levels has its own intercept."""
    stratum: Stratum
    """within passes: each pass of `design.loop` has its own intercept; between passes: the means of passes are
    fitted."""
    values: int
    """Number of responses that were fitted: runs, or means of passes."""
    fits: tuple[RegressionFit, ...]
    chosen: int
    """Position in `fits` of the form that is reported."""
    verdict: RegressionVerdict
    """That of the chosen form."""
    distinguished: bool
    """False: another form with the same slopes fits too, and the runs do not decide between them."""
    lines: tuple[FittedLine, ...] = ()
    """Of the chosen form, one per combination of the other factors; empty for several factors."""
    rule: RuleId | None = None
    text: str = ""

    @property
    def fit(self) -> RegressionFit:
        """The form that is reported."""
        return self.fits[self.chosen]
