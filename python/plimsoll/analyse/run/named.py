"""Named metrics of a driver, such as CPU time and peak memory of client programs, over the measured window."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.results.named import NamedMetric
from plimsoll.analyse.stats.quantiles import is_large_enough, rank
from plimsoll.analyse.stats.value_histogram import ValueHistogram


def named_metrics(values: Mapping[str, NDArray[np.float64]]) -> tuple[NamedMetric, ...]:
    """One entry per metric, by name. `values`: those of the transactions that started in the window, in the metric's
    own unit; values that are not finite are left out. A percentile is None if the sample is too small."""
    out = []
    for name in sorted(values):
        known = np.sort(values[name][np.isfinite(values[name])])
        if known.size:
            out.append(
                NamedMetric(
                    name=name,
                    count=int(known.size),
                    mean=float(known.mean()),
                    sd=float(known.std(ddof=1)) if known.size > 1 else None,
                    p50=_quantile(known, 0.5),
                    p95=_quantile(known, 0.95),
                    max=float(known[-1]),
                    min=float(known[0]),
                    p90=_quantile(known, 0.9),
                    p99=_quantile(known, 0.99),
                    values=ValueHistogram.of(known),
                )
            )
    return tuple(out)


def _quantile(ascending: NDArray[np.float64], q: float) -> float | None:
    return float(ascending[rank(q, ascending.size)]) if is_large_enough(q, ascending.size) else None
