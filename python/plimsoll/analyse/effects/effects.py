"""Effects, interactions and allocation of variation of a factorial experiment (Jain, ch. 17 to 22).

One linear model: sum contrasts (module `linear`), ordinary least squares by QR, and an error term from the repetitions
of the cells. With two levels per factor it yields the sign table of Jain 17.4 and 18 (q, s_q = s_e / sqrt(2^k r)), with
one factor ch. 20, with two ch. 21, in general ch. 22. Unbalanced data are also fitted, and the result names the type of
the sums of squares: "orthogonal" (all types agree), else type II, or type III on request.

Tested against the worked examples of Jain, NIST StRD, the NIST handbook and statsmodels (tests/stats).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from plimsoll.analyse.effects.terms import Factor, Term, candidates, make_factors, select
from plimsoll.analyse.results.verdicts import ModelReason, Reason, Severity, TermPart, Value
from plimsoll.analyse.stats.distributions import f_tail, t_quantile
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.linear import (
    Array,
    codes,
    indicator,
    joined,
    new_directions,
    orthonormal,
    projected_square,
)
from plimsoll.analyse.stats.multiplicity import holm
from plimsoll.errors import BadInput

Scale = Literal["linear", "log"]

ALLOCATION_TOLERANCE = 0.005
"""Sums of squares are an allocation of the variation if their sum deviates from the total by at most this share."""

MAX_RESPONSE = 1e150
"""The sum of squares of greater responses exceeds the range of a double."""

ROUNDING = 1e-13
"""A coefficient below this share of the deviation of the responses is a rounding error."""


class UnsuitableData(BadInput):
    """The data are unsuitable for the requested statistic. The text states the reason and what to do."""


@dataclass(frozen=True)
class LevelEffect:
    """Effect of one level (or combination of levels: "a, b") of a term.

    linear: in the unit of the response, added to the mean; log: the factor by which the (geometric) mean is multiplied.
    `interval` is None without an error term.
    """

    label: str
    effect: float
    interval: Interval | None


@dataclass(frozen=True)
class TermEffect:
    """One line of the table of effects.

    `coefficient` is Jain's q for terms of two-level factors (half the difference between high and low, on the scale of
    the fit: natural logarithm for `log`); None otherwise. `percent` is None if the shares are no allocation.
    """

    name: str
    aliases: tuple[str, ...]
    df: int
    sum_of_squares: float
    percent: float | None
    f: float | None
    p_value: float | None
    coefficient: float | None
    coefficient_interval: Interval | None
    levels: tuple[LevelEffect, ...]
    parts: tuple[TermPart, ...] = ()
    adjusted_p: float | None = None
    """`p_value` adjusted for all terms of the model (Holm)."""


@dataclass(frozen=True)
class Difference:
    """Difference between two levels of one factor (first minus second; log: ratio), with its interval."""

    factor: str
    first: str
    second: str
    difference: float
    interval: Interval | None


@dataclass(frozen=True)
class Factorial:
    """A fitted factorial model.

    Sums of squares are on the scale of the fit, about the mean. `error_df` is 0 if no cell was repeated; then there is
    no interval, and `reasons` states it. `fitted` and `residuals` are on the scale of the fit, one per run, in the
    order of the runs: about the cell (and block) if cells were repeated, else about the model."""

    scale: Scale
    mean: float
    """Grand mean; log: geometric."""
    mean_interval: Interval | None
    terms: tuple[TermEffect, ...]
    block_percent: float | None
    residual_percent: float | None
    total_ss: float
    block_ss: float
    model_ss: float
    lack_of_fit_ss: float
    lack_of_fit_df: int
    error_ss: float
    error_df: int
    error_sd: float | None
    r_squared: float | None
    sum_of_squares: str
    balanced: bool
    differences: tuple[Difference, ...]
    not_estimable: tuple[str, ...]
    reasons: tuple[Reason, ...]
    fitted: tuple[float, ...]
    residuals: tuple[float, ...]
    cells: tuple[int, ...]
    """Number of the cell of each run."""


def factorial(
    responses: Sequence[float] | Array,
    factors: Mapping[str, Sequence[str | None]],
    *,
    block: Sequence[str] | None = None,
    scale: Scale = "linear",
    levels: Mapping[str, Sequence[str]] | None = None,
    max_order: int | None = None,
    ss_type: Literal["II", "III"] = "II",
    confidence: float = 0.95,
    equal_weights: bool = False,
) -> Factorial:
    """Fits the effects of the factors on a response.

    `responses`: one value per run. `factors`: level labels per run, None if a nested factor does not apply; `levels`
    gives their order (default: order of appearance; the first is the low level). `block`: a label per run. `max_order`:
    highest order of interaction (default: all that can be estimated; two if combinations are missing). `equal_weights`:
    the effects of the levels of a single factor sum to 0, for any number of runs per level; without it, the sum of
    counts x effect is 0. Raises UnsuitableData: fewer than two runs, lengths that differ, not finite, not positive on a
    log scale, or no factor with two levels."""
    y = _checked(responses, factors, block, scale)
    known = make_factors(factors, levels)
    if not known:
        raise UnsuitableData("no factor has two levels among these runs, so there is no effect to estimate")
    fit = _Fit(y, known, block, max_order, ss_type, confidence, scale, equal_weights)
    return fit.result()


def _checked(
    responses: Sequence[float] | Array,
    factors: Mapping[str, Sequence[str | None]],
    block: Sequence[str] | None,
    scale: Scale,
) -> Array:
    y = np.asarray(responses, dtype=np.float64)
    if y.ndim != 1 or y.size < 2:
        raise UnsuitableData(
            f"effects need at least two runs, there {'is' if y.size == 1 else 'are'} {y.size}"
        )
    for name, labels in [*factors.items(), *([("block", block)] if block is not None else [])]:
        if len(labels) != y.size:
            raise UnsuitableData(f"{name!r} has {len(labels)} values for {y.size} runs")
    if not np.all(np.isfinite(y)):
        raise UnsuitableData("a response is missing or not finite: leave that run out")
    if scale == "log":
        if float(y.min()) <= 0:
            raise UnsuitableData(f"a logarithmic scale needs responses above 0, the smallest is {y.min():g}")
        y = np.log(y)
    if float(np.abs(y).max()) > MAX_RESPONSE:
        raise UnsuitableData(
            f"responses must be below {MAX_RESPONSE:g}, the largest is {np.abs(y).max():g}: divide all by a constant"
        )
    return y


class _Fit:
    """The steps of one fit, in order. Used only by `factorial`."""

    def __init__(
        self,
        y: Array,
        factors: list[Factor],
        block: Sequence[str] | None,
        max_order: int | None,
        ss_type: str,
        confidence: float,
        scale: Scale,
        equal_weights: bool,
    ) -> None:
        self.scale: Scale = scale
        self.confidence = confidence
        self.factors = factors
        self.reasons: list[Reason] = []
        self.shift = float(np.mean(y))
        self.y = y - self.shift  # keeps digits: the values of NIST SmLs04 are near 1e6 and differ by 0.1
        self.y -= float(np.mean(self.y))
        self.total = float(self.y @ self.y)
        n = y.size
        ones = np.full((n, 1), 1.0 / math.sqrt(n))
        self.cells = np.unique(np.column_stack([f.index for f in factors]), axis=0, return_inverse=True)[
            1
        ].reshape(-1)
        self.block_columns = np.zeros((n, 0))
        if block is not None:
            index, names = codes(list(block))
            self.block_columns = contrast_columns(index, len(names))
        self.base = joined(ones, new_directions(self.block_columns, ones))
        by_order, why = candidates(factors, max_order, equal_weights=equal_weights)
        if why is not None:
            self.reasons.append(why)
        self.selection = select(by_order, self.base)
        self.terms = self.selection.terms
        self._compute_errors(residual_is_error=max_order is not None)
        self._compute_squares(ss_type)
        self._compute_coefficients()

    def _note(self, code: ModelReason, **values: Value) -> None:
        self.reasons.append(Reason(code, Severity.NOTE, values))

    def _compute_errors(self, *, residual_is_error: bool) -> None:
        """Error from repetitions: the residual if every cell and every block has its own mean.

        Without repetitions there is none, unless the caller asked for a model of low order (Jain 21.1: the residual of
        the additive model then replaces the error).
        """
        whole = self._cells_and_blocks()
        n = self.y.size
        in_cells = self.y - whole @ (whole.T @ self.y)
        in_model = self.y - self.selection.basis @ (self.selection.basis.T @ self.y)
        residual_df = n - self.selection.basis.shape[1]
        pure_df = n - whole.shape[1]
        self.balanced = np.unique(np.bincount(self.cells)).size == 1
        if pure_df > 0:
            self.error_df, self.error_ss = pure_df, _without_rounding(float(in_cells @ in_cells), self.total)
            self.residuals = in_cells
        elif residual_df > 0 and residual_is_error:
            self.error_df, self.error_ss = (
                residual_df,
                _without_rounding(float(in_model @ in_model), self.total),
            )
            self.residuals = in_model
            self._note(ModelReason.RESIDUAL_IS_ERROR)
        else:
            self.error_df, self.error_ss = 0, 0.0
            self.residuals = in_model
            self._note(ModelReason.NO_ERROR)
        self.lack_df = residual_df - self.error_df
        self.lack_ss = max(0.0, float(in_model @ in_model) - self.error_ss) if self.lack_df > 0 else 0.0
        self.error_sd = math.sqrt(self.error_ss / self.error_df) if self.error_df > 0 else None

    def _cells_and_blocks(self) -> Array:
        """Orthonormal basis of a mean for every cell and block. It contains every term, as a term is constant in a
        cell."""
        cells = indicator(self.cells, int(self.cells.max()) + 1)
        cells /= np.sqrt(cells.sum(axis=0))
        return cells if self.base.shape[1] == 1 else joined(cells, new_directions(self.block_columns, cells))

    def _compute_squares(self, ss_type: str) -> None:
        """Sum of squares per term: by projection if the terms are orthogonal, else by the loss of the fit without
        it."""
        spans = [orthonormal(t.columns) for t in self.terms]
        parts = [self.base, *spans]
        self.orthogonal = all(
            float(np.abs(a.T @ b).max(initial=0.0)) < 1e-9
            for i, a in enumerate(parts)
            for b in parts[i + 1 :]
        )
        self.block_ss = _without_rounding(projected_square(self.base, self.y), self.total)
        self.ss: list[float] = []
        if self.orthogonal:
            self.ss_name = "orthogonal"
            self.ss = [projected_square(span, self.y) for span in spans]
        else:
            self.ss_name = f"type {ss_type}"
            self.ss = [self._adjusted(i, spans, ss_type) for i in range(len(spans))]
            self._note(ModelReason.NOT_ORTHOGONAL, sum_of_squares=self.ss_name)
        self.ss = [_without_rounding(square, self.total) for square in self.ss]

    def _adjusted(self, i: int, spans: list[Array], ss_type: str) -> float:
        """Type II: after all terms that do not contain this one, or one of its aliases. Type III: after all others."""
        term_parts = [set(part.factors) for part in self.terms[i].parts]
        others = [
            span
            for j, span in enumerate(spans)
            if j != i
            and (ss_type == "III" or not any(part < set(self.terms[j].factors) for part in term_parts))
        ]
        before, _ = np.linalg.qr(np.hstack([self.base, *others]))  # full rank: ensured by `select`
        return projected_square(new_directions(self.terms[i].columns, before), self.y)

    def _compute_coefficients(self) -> None:
        """Least squares by QR; full rank by construction."""
        block = self.base[:, 1:]
        x = np.hstack([np.ones((self.y.size, 1)), block, *(t.columns for t in self.terms)])
        q, r = np.linalg.qr(x)
        self.beta = np.linalg.solve(r, q.T @ self.y)
        self.beta[np.abs(self.beta) <= ROUNDING * math.sqrt(self.total / self.y.size)] = 0.0
        inverse = np.linalg.solve(r, np.eye(r.shape[0]))
        self.unit_covariance = inverse @ inverse.T
        edges = np.cumsum([1 + block.shape[1], *(t.columns.shape[1] for t in self.terms)])
        self.term_columns = [slice(int(a), int(b)) for a, b in pairwise(edges.tolist())]

    def _interval(
        self, value: float, unit_variance: float, *, ratio: bool, additive: float = 0.0
    ) -> Interval | None:
        if self.error_sd is None:
            return None
        half = t_quantile(0.5 + self.confidence / 2, self.error_df) * self.error_sd * math.sqrt(unit_variance)
        points = [additive + value, additive + value - half, additive + value + half]
        mean, low, high = (math.exp(p) for p in points) if ratio else points
        return Interval(mean, low, high, self.confidence, float(self.error_df), self._method())

    def _method(self) -> str:
        return (
            "pooled over the design"
            if len(set(self.cells.tolist())) < self.y.size
            else "residual of the model"
        )

    def _shares(self) -> tuple[list[float | None], float | None, float | None]:
        """Percent per term, of blocks, of the residual. None if they do not sum to 100 within a rounded percent, for
        example because runs are missing: then they are no allocation."""
        rest = self.error_ss + self.lack_ss
        whole = sum(self.ss) + self.block_ss + rest
        if self.total <= 0:
            self._note(ModelReason.NO_VARIATION)
            return [None] * len(self.ss), None, None
        if abs(whole - self.total) > ALLOCATION_TOLERANCE * self.total:
            self._note(ModelReason.NO_ALLOCATION, share=whole / self.total)
            return [None] * len(self.ss), None, None
        percent: list[float | None] = [100 * s / self.total for s in self.ss]
        return percent, 100 * self.block_ss / self.total, 100 * rest / self.total

    def _term_effect(self, i: int, percent: float | None) -> TermEffect:
        term, columns = self.terms[i], self.term_columns[i]
        df, square = term.columns.shape[1], self.ss[i]
        f = p = None
        if self.error_sd is not None and self.error_ss > 0:
            f = (square / df) / (self.error_ss / self.error_df)
            p = f_tail(f, df, self.error_df)
        levels: tuple[LevelEffect, ...] = ()
        coefficient: float | None = None
        coefficient_interval: Interval | None = None
        if term.complete:
            levels = self._level_effects(term, columns)
            if df == 1:
                coefficient = float(self.beta[columns][0])
                unit = float(self.unit_covariance[columns, columns][0, 0])
                coefficient_interval = self._interval(coefficient, unit, ratio=False)
        return TermEffect(
            term.title,
            tuple(term.aliases),
            df,
            square,
            percent,
            f,
            p,
            coefficient,
            coefficient_interval,
            levels,
            tuple(term.parts),
        )

    def _level_effects(self, term: Term, columns: slice) -> tuple[LevelEffect, ...]:
        values = term.to_levels @ self.beta[columns]
        variances = np.einsum(
            "ij,jk,ik->i", term.to_levels, self.unit_covariance[columns, columns], term.to_levels
        )
        log = self.scale == "log"
        return tuple(
            LevelEffect(
                label, math.exp(v) if log else float(v), self._interval(float(v), float(u), ratio=log)
            )
            for label, v, u in zip(term.labels, values, variances, strict=True)
        )

    def _differences(self) -> tuple[Difference, ...]:
        out = []
        log = self.scale == "log"
        for term, columns in zip(self.terms, self.term_columns, strict=True):
            if len(term.factors) > 1 or not term.complete or term.aliases:
                continue
            for a in range(len(term.labels)):
                for b in range(a + 1, len(term.labels)):
                    row = term.to_levels[a] - term.to_levels[b]
                    value = float(row @ self.beta[columns])
                    unit = float(row @ self.unit_covariance[columns, columns] @ row)
                    interval = self._interval(value, unit, ratio=log)
                    shown = math.exp(value) if log else value
                    out.append(Difference(term.name, term.labels[a], term.labels[b], shown, interval))
        return tuple(out)

    def result(self) -> Factorial:
        percents, block_percent, residual_percent = self._shares()
        log = self.scale == "log"
        mean = self.shift + float(self.beta[0])
        interval = self._interval(0.0, float(self.unit_covariance[0, 0]), ratio=log, additive=mean)
        model_ss = max(0.0, self.total - self.block_ss - self.error_ss - self.lack_ss)
        return Factorial(
            scale=self.scale,
            mean=math.exp(mean) if log else mean,
            mean_interval=interval,
            terms=_adjusted([self._term_effect(i, percents[i]) for i in range(len(self.terms))]),
            block_percent=block_percent if self.block_columns.shape[1] else None,
            residual_percent=residual_percent,
            total_ss=self.total,
            block_ss=self.block_ss,
            model_ss=model_ss,
            lack_of_fit_ss=self.lack_ss,
            lack_of_fit_df=self.lack_df,
            error_ss=self.error_ss,
            error_df=self.error_df,
            error_sd=self.error_sd,
            r_squared=model_ss / self.total if self.total > 0 else None,
            sum_of_squares=self.ss_name,
            balanced=self.balanced,
            differences=self._differences(),
            not_estimable=self.selection.not_estimable,
            reasons=tuple(self.reasons),
            fitted=tuple((self.y - self.residuals + self.shift).tolist()),
            residuals=tuple(self.residuals.tolist()),
            cells=tuple(self.cells.tolist()),
        )


def _adjusted(terms: Sequence[TermEffect]) -> tuple[TermEffect, ...]:
    adjusted = holm([term.p_value for term in terms])
    return tuple(replace(term, adjusted_p=p) for term, p in zip(terms, adjusted, strict=True))


def contrast_columns(index: np.ndarray[tuple[int], np.dtype[np.int64]], levels: int) -> Array:
    """Indicator columns without the first level; their span with the mean is that of all indicators."""
    return indicator(index, levels)[:, 1:]


def _without_rounding(square: float, total: float) -> float:
    """The sum of squares; 0 if it is only a rounding error."""
    return 0.0 if square <= 1e-24 * total else square
