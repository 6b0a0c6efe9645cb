"""Tails and quantiles of the distributions that intervals and tests need.

From `scipy.special`: the functions that `scipy.stats` itself calls, without the half second that its import adds to
every command. `tests/stats/test_distributions.py` compares the two.
"""

from __future__ import annotations

import numpy as np
from scipy import special

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(400)


def normal_quantile(p: float) -> float:
    """Quantile of the standard normal distribution at 0 < `p` < 1."""
    return float(special.ndtri(p))


def t_quantile(p: float, df: float) -> float:
    """Quantile of Student's t with `df` > 0 degrees of freedom at 0 < `p` < 1; NaN outside."""
    return float(special.stdtrit(df, p)) if df > 0 else float("nan")


def t_tail(t: float, df: float) -> float:
    """P(T > `t`) of Student's t with `df` > 0 degrees of freedom."""
    return float(special.stdtr(df, -t))


def noncentral_t_tail(t: float, df: float, noncentrality: float) -> float:
    """P(T > `t`) of the noncentral t with `df` > 0 degrees of freedom, within 1e-4: the mean of
    Phi(noncentrality - t s) over the distribution of s, s^2 df being chi^2 (N. Johnson, S. Kotz, Continuous Univariate
    Distributions 2, chapter 31). `scipy.special.nctdtr` returns NaN for a large noncentrality."""
    s = np.sqrt(2 * special.gammaincinv(df / 2, (_NODES + 1) / 2) / df)
    return float(np.sum(_WEIGHTS / 2 * special.ndtr(noncentrality - t * s)))


def f_tail(f: float, df: float, error_df: float) -> float:
    """P(F > `f`) of Fisher's F with `df` and `error_df` degrees of freedom, `f` >= 0."""
    return float(special.fdtrc(df, error_df, f))


def beta_quantile(p: float, a: float, b: float) -> float:
    """Quantile of the beta distribution with parameters `a`, `b` > 0 at 0 <= `p` <= 1."""
    return float(special.betaincinv(a, b, p))
