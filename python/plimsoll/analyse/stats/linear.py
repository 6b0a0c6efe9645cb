"""The linear algebra below the effects: sum contrasts, spans, ranks. No statistics, no names of results.

A factor with levels 0..L-1 has the contrast matrix K of shape (L, L-1): row 0 is minus one everywhere, row j is the
unit vector j-1. With two levels that is the sign table of Jain ch. 17 (low -1, high +1), with more it is the model of
ch. 20 to 22 in which the effects of the levels sum to zero. The columns of a term are the row-wise products of the
contrast rows of its factors, and the effects of its level combinations are the Kronecker product of the K times the
coefficients.

Rejected: `pinv`, which splits an aliased effect between its aliases without a warning. Here the rank is known before
the fit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indexes = NDArray[np.int64]

RANK_TOLERANCE = 1e-9
"""A direction counts as spanned if its part outside the span is shorter than this share of its length."""


def contrast(levels: int, counts: Sequence[int] | None = None) -> Array:
    """K of shape (levels, levels - 1).

    `counts` (observations per level) weights the constraint: sum of counts x effect = 0, the form that Jain 20.5 uses
    for one factor with unequal sample sizes. Without it: sum of effects = 0.
    """
    k = np.zeros((levels, levels - 1))
    k[1:, :] = np.eye(levels - 1)
    k[0, :] = -1.0 if counts is None else -np.asarray(counts[1:], dtype=float) / float(counts[0])
    return k


def product_columns(parts: Sequence[Array]) -> Array:
    """Row-wise Kronecker product of column blocks of shape (n, c_i): the columns of an interaction, (n, prod c_i)."""
    out = parts[0]
    for part in parts[1:]:
        out = (out[:, :, None] * part[:, None, :]).reshape(out.shape[0], -1)
    return out


def outside(columns: Array, basis: Array) -> Array:
    """The part of the columns outside the span of an orthonormal basis (twice is enough: Kahan's rule)."""
    if basis.shape[1] == 0:
        return columns.copy()
    left = columns - basis @ (basis.T @ columns)
    left -= basis @ (basis.T @ left)
    return left


def orthonormal(columns: Array, scale: float | None = None) -> Array:
    """An orthonormal basis of the span of the columns, shape (n, rank).

    `scale`: the length against which a direction counts as nothing (default: the greatest singular value).
    """
    if columns.shape[1] == 0:
        return np.zeros((columns.shape[0], 0))
    q, r = np.linalg.qr(columns)  # tall and narrow: the decomposition of the small factor costs nothing
    inner, s, _ = np.linalg.svd(r, full_matrices=False)
    u = q @ inner
    reference = float(s[0]) if scale is None else scale
    rank = int(np.sum(s > RANK_TOLERANCE * reference * max(columns.shape))) if reference > 0 else 0
    return np.ascontiguousarray(u[:, :rank])


def new_directions(columns: Array, basis: Array) -> Array:
    """Orthonormal basis of the directions that the columns add to the span of `basis`, shape (n, added rank)."""
    scale = float(np.linalg.norm(columns, ord=2)) if columns.size else 0.0
    return orthonormal(outside(columns, basis), scale=scale)


def joined(*bases: Array) -> Array:
    """Orthonormal basis of the sum of spans."""
    out = bases[0]
    for basis in bases[1:]:
        out = np.hstack([out, new_directions(basis, out)])
    return out


def same_span(a: Array, b: Array) -> bool:
    """Whether two orthonormal bases span the same space."""
    return a.shape[1] == b.shape[1] and float(np.linalg.norm(outside(b, a))) < 1e-6


def indicator(index: Indexes, levels: int) -> Array:
    """One column per level, 1 in the rows with this level. Rows with index -1 (does not apply) are zero."""
    out = np.zeros((index.size, levels))
    rows = np.nonzero(index >= 0)[0]
    out[rows, index[rows]] = 1.0
    return out


def projected_square(basis: Array, y: Array) -> float:
    """Squared length of the projection of y on an orthonormal basis: a sum of squares."""
    return float(np.sum((basis.T @ y) ** 2)) if basis.shape[1] else 0.0


def codes(labels: Sequence[str | None], order: Sequence[str] | None = None) -> tuple[Indexes, list[str]]:
    """Level index of every row (-1: the factor does not apply), and the levels that occur: in `order` first, then in
    the order in which they appear."""
    present = {label for label in labels if label is not None}
    known = [level for level in order if level in present] if order is not None else []
    known += [label for label in dict.fromkeys(labels) if label is not None and label not in known]
    position = {level: i for i, level in enumerate(known)}
    index = np.array([-1 if label is None else position[label] for label in labels], dtype=np.int64)
    return index, known
