"""Several tests at once."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p-values adjusted for the number of tests (S. Holm, Scand. J. Statist. 6 (1979) 65). The probability that any
    test whose hypothesis is true has an adjusted p-value below a is at most a. None stays None."""
    known = sorted((p, at) for at, p in enumerate(p_values) if p is not None)
    out: list[float | None] = [None] * len(p_values)
    least = 0.0
    for rank, (p, at) in enumerate(known):
        least = max(least, min(1.0, (len(known) - rank) * p))
        out[at] = least
    return out
