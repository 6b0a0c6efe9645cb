"""Comparisons within blocks: the common effect of a block is subtracted from its runs before runs are compared.

Runs of one day, or on one machine, differ together from those of another. The difference of two cells does not depend
on the block if both were measured in the same blocks (Jain 21; Box, Hunter and Hunter, chapter 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.stats.means import MeanError, PooledError, pooled_error

Array = NDArray[np.float64]
Cell = Sequence[tuple[str | None, float]]
"""Runs of a cell: block and value, e.g. the logarithm of a throughput."""


@dataclass(frozen=True, slots=True)
class AdjustedCells:
    """`cells`: values of the runs of each cell without the effects of the blocks; `taken`: degrees of freedom that the
    blocks took from the error."""

    cells: list[list[float]]
    taken: int

    def error(self) -> PooledError | None:
        """The error of one run, pooled over the cells."""
        pooled = pooled_error(self.cells)
        return None if pooled is None else PooledError(pooled.sd, pooled.df - self.taken)


def within_blocks(cells: Sequence[Cell]) -> AdjustedCells | None:
    """The values of each cell without the effects of the blocks, by least squares on value = cell + block, where blocks
    sum to zero. The residuals of each cell are scaled so that they keep their variance, although the blocks took
    degrees of freedom.

    With at most one block, or if a run has no block, the values are not changed. None if the blocks leave no degree of
    freedom for the error.
    """
    runs = [(at, block, value) for at, cell in enumerate(cells) for block, value in cell]
    names = sorted({block for _, block, _ in runs if block is not None})
    if len(names) < 2 or any(block is None for _, block, _ in runs):
        return AdjustedCells([[value for _, value in cell] for cell in cells], 0)
    y = np.array([value for _, _, value in runs], dtype=np.float64)
    is_cell = _columns([at for at, _, _ in runs], list(range(len(cells))))
    is_block = _columns([block for _, block, _ in runs], names)
    # Each block against the last one: with a column for every cell, all blocks would be one too many.
    matrix = np.hstack([is_cell, is_block[:, :-1] - is_block[:, -1:]])
    solution, _, rank, _ = np.linalg.lstsq(matrix, y, rcond=None)
    used = int(np.count_nonzero(is_cell.any(axis=0)))
    before, after = y.size - used, y.size - int(rank)
    if after <= 0:
        return None
    adjusted = y - matrix[:, len(cells) :] @ solution[len(cells) :]
    scale = math.sqrt(before / after)
    out: list[list[float]] = []
    for at in range(len(cells)):
        values = adjusted[is_cell[:, at] > 0]
        out.append((values.mean() + (values - values.mean()) * scale).tolist() if values.size else [])
    return AdjustedCells(out, before - after)


def error_with_blocks(cells: Sequence[Cell]) -> PooledError | None:
    """The error of one run about its cell, the effect of its block included: that of the mean of a single cell.

    The effects of a few blocks are the same in every cell, so many cells contain no more information about their
    variance than one. The degrees of freedom are Satterthwaite's (Biometrics Bulletin 2 (1946) 110) for the sum of both
    parts. Without blocks, or if blocks leave no degrees of freedom for the rest, they are those within cells.
    """
    whole = pooled_error([[value for _, value in cell] for cell in cells])
    adjusted = within_blocks(cells)
    rest = None if adjusted is None else adjusted.error()
    if whole is None or adjusted is None or rest is None or not adjusted.taken or not whole.sd:
        return whole
    total = whole.df * whole.sd**2
    # Above the total only by rounding, where all values are nearly equal; the degrees of freedom would be near 0.
    of_rest = min(total, rest.df * rest.sd**2)
    of_blocks = total - of_rest
    return PooledError(whole.sd, total**2 / (of_blocks**2 / adjusted.taken + of_rest**2 / rest.df))


def error_across_cells(cells: Sequence[Cell], weights: Sequence[float], *, pooled: bool) -> MeanError | None:
    """The standard error of sum(w_i m_i), m_i the means of cells that were measured in the same blocks: the effect of a
    block is common to its cells, so it does not become smaller by the number of cells. None without blocks.

    With the weight v of each run (w_i / n_i), K = sum over blocks of (sum of v)^2 and S = sum of v^2, the variance is
    K var_blocks + S var_rest. `pooled`: both variances are the same for all cells. They are estimated from the sums of
    squares of `error_with_blocks`; the degrees of freedom are Satterthwaite's. Otherwise the variance is that of
    residuals summed within each block, a cluster-robust variance (Liang and Zeger, Biometrika 73 (1986) 13), with one
    degree of freedom fewer than blocks. For complete blocks this is the t interval of the means of the blocks.
    """
    runs = [
        (block, value - fmean(v for _, v in cell), weight / len(cell))
        for cell, weight in zip(cells, weights, strict=True)
        for block, value in cell
    ]
    names = {block for block, _, _ in runs}
    if len(names) < 2 or None in names:
        return None
    if not pooled:
        sums = [math.fsum(residual * v for block, residual, v in runs if block == name) for name in names]
        return MeanError(
            math.sqrt(len(sums) / (len(sums) - 1) * math.fsum(s * s for s in sums)), len(sums) - 1
        )
    whole, adjusted = pooled_error([[value for _, value in cell] for cell in cells]), within_blocks(cells)
    rest = None if adjusted is None else adjusted.error()
    if whole is None or adjusted is None or rest is None or not adjusted.taken or not whole.sd:
        return None
    by_block = math.fsum(math.fsum(v for block, _, v in runs if block == name) ** 2 for name in names)
    alone = math.fsum(v * v for _, _, v in runs)
    of_rest = rest.df * rest.sd**2
    of_blocks = max(0.0, whole.df * whole.sd**2 - of_rest)
    first = by_block / whole.df * of_blocks
    second = max(0.0, by_block / whole.df - by_block / rest.df + alone / rest.df) * of_rest
    if first + second == 0:
        return None
    return MeanError(
        math.sqrt(first + second), (first + second) ** 2 / (first**2 / adjusted.taken + second**2 / rest.df)
    )


def _columns(values: Sequence[object], names: Sequence[object]) -> Array:
    return np.array([[float(value == name) for name in names] for value in values])
