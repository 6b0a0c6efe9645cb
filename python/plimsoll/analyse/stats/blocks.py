"""Comparisons within blocks: the common effect of a block is subtracted from its runs before runs are compared.

Runs of one day, or on one machine, differ together from those of another. The difference of two cells does not depend
on the block if both were measured in the same blocks (Jain 21; Box, Hunter and Hunter, chapter 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.stats.means import PooledError, pooled_error

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
    total, of_rest = whole.df * whole.sd**2, rest.df * rest.sd**2
    of_blocks = max(0.0, total - of_rest)
    return PooledError(whole.sd, total**2 / (of_blocks**2 / adjusted.taken + of_rest**2 / rest.df))


def _columns(values: Sequence[object], names: Sequence[object]) -> Array:
    return np.array([[float(value == name) for name in names] for value in values])
