"""Linear regression by least squares, with a test of lack of fit against pure error.

The model is y = N g + X b + error. X contains the predictors, N an orthonormal basis of everything that is estimated
in addition to them (the mean, other factors, blocks). Intervals use the residual mean square with n - rank(N, X)
degrees of freedom. Lack of fit: F of the residual sum of squares beyond that about the means of the cells and blocks
(N. Draper, H. Smith, Applied Regression Analysis, 3rd ed. 1998, 2.1). Tested against NIST StRD Norris and statsmodels
(tests/stats/test_regression.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from plimsoll.analyse.stats.distributions import f_tail, t_quantile, t_tail
from plimsoll.analyse.stats.linear import Array, joined, new_directions

ROUNDING = 1e-24
"""A sum of squares below this share of the total is a rounding error."""


@dataclass(frozen=True)
class LackOfFit:
    """F test of the model against separate means of all cells. `f`, `p_value`: None if there is no test, infinite and 0
    if repeated runs are all equal. `df`: cells beyond the coefficients; `error_df`: repetitions within cells and
    blocks."""

    f: float | None
    df: int
    error_df: int
    p_value: float | None


@dataclass(frozen=True)
class Estimate:
    """A linear combination of the coefficients, with its interval."""

    value: float
    low: float
    high: float
    standard_error: float
    p_value: float
    """Two-sided, of the hypothesis that it is 0."""


@dataclass(frozen=True)
class LeastSquares:
    """A fit. `residual_sd`: on the scale of y; `residual_df`: at least 1. `r_squared`: the share of the variation about
    N that the predictors explain; None if there is no variation."""

    residual_sd: float
    residual_df: int
    r_squared: float | None
    lack_of_fit: LackOfFit
    confidence: float
    _basis: Array
    _center: Array
    _beta: Array
    _unit_covariance: Array

    def slope(self, at: int) -> Estimate:
        """The coefficient of the predictor in column `at` of X."""
        row = np.zeros(self._beta.size)
        row[self._basis.shape[1] + at] = 1.0
        return self._estimate(row)

    def mean(self, runs: Array, predictors: Array) -> Estimate:
        """The mean response at the values `predictors`, shape (k,). N is averaged over the runs of the mask `runs`."""
        return self._estimate(np.concatenate([self._basis[runs].mean(axis=0), predictors - self._center]))

    def _estimate(self, row: Array) -> Estimate:
        value = float(row @ self._beta)
        error = self.residual_sd * math.sqrt(max(0.0, float(row @ self._unit_covariance @ row)))
        half = t_quantile(0.5 + self.confidence / 2, self.residual_df) * error
        p = 2 * t_tail(abs(value) / error, self.residual_df) if error > 0 else (0.0 if value else 1.0)
        return Estimate(value, value - half, value + half, error, p)


def least_squares(
    y: Array, predictors: Array, others: Array, cells: Array, *, confidence: float = 0.95
) -> LeastSquares | None:
    """The fit; None if a predictor cannot be separated from N and the other predictors, or no degree of freedom is
    left for the error.

    `y`: shape (n,). `predictors`: X, shape (n, k). `others`: N, orthonormal, its span contains the mean. `cells`:
    orthonormal basis of the means of the cells, whose span contains the predictors.
    """
    n, k = predictors.shape
    center = predictors.mean(axis=0)
    x = predictors - center
    # Unit length: the rank and the digits must not depend on the units of the factors.
    length = np.sqrt(np.sum(x**2, axis=0))
    if not np.all(length > 0):
        return None
    new = new_directions(x / length, others)
    df = n - others.shape[1] - k
    if new.shape[1] < k or df < 1:
        return None
    shift = float(np.mean(y))
    z = y - shift  # keeps digits if the mean is much greater than the variation
    total = float(z @ z)
    residual = z - others @ (others.T @ z)
    about_others = _square(residual, total)
    residual -= new @ (new.T @ residual)
    rest = _square(residual, total)
    design = np.hstack([others, x / length])
    q, r = np.linalg.qr(design)
    scale = np.concatenate([np.ones(others.shape[1]), length])
    inverse = np.linalg.solve(r, np.eye(r.shape[0])) / scale[:, None]
    beta = np.linalg.solve(r, q.T @ z) / scale
    beta[: others.shape[1]] += others.T @ np.full(n, shift)
    return LeastSquares(
        residual_sd=math.sqrt(rest / df),
        residual_df=df,
        r_squared=1 - rest / about_others if about_others > 0 else None,
        lack_of_fit=_lack_of_fit(z, joined(cells, new_directions(others, cells)), rest, df, total),
        confidence=confidence,
        _basis=others,
        _center=center,
        _beta=beta,
        _unit_covariance=inverse @ inverse.T,
    )


def _lack_of_fit(z: Array, whole: Array, rest: float, df: int, total: float) -> LackOfFit:
    error_df = z.size - whole.shape[1]
    lack_df = df - error_df
    if error_df < 1 or lack_df < 1:
        return LackOfFit(None, max(0, lack_df), error_df, None)
    pure = _square(z - whole @ (whole.T @ z), total)
    lack = max(0.0, rest - pure)
    if pure == 0:
        return (
            LackOfFit(math.inf, lack_df, error_df, 0.0)
            if lack > 0
            else LackOfFit(None, lack_df, error_df, None)
        )
    f = (lack / lack_df) / (pure / error_df)
    return LackOfFit(f, lack_df, error_df, f_tail(f, lack_df, error_df))


def _square(vector: Array, total: float) -> float:
    square = float(vector @ vector)
    return 0.0 if square <= ROUNDING * total else square
