"""Values of the metrics that `plan.metrics` lists: follows the readers of its rows into the result of a run.

A metric has one name in results (`response_ms_p95`); every spelling that the table knows (`response_p95`, `p95`) is
understood. How metrics are worded is in `wording`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.table import Distribution, Named

_STEP: Final = re.compile(r"(?P<name>\w+)(?:\[(?:(?P<key>\w+)=)?\{(?P<part>\w+)\}\])?(?:\.|\Z)")


def canonical(name: str) -> str | None:
    """The name in results of a metric as people write it; None if there is no such response."""
    found = catalogue.METRICS.find(name)
    return found.name if found is not None and found.metric.response else None


def is_capacity(name: str | None) -> bool:
    """Whether a saturation and a capacity can be given of the metric of that name in results."""
    return name in catalogue.METRICS.capacities


def metric_value(run: RunResult, name: str) -> float | None:
    """The value of a response in a run: per second, ms, a fraction, a plain number. None: unknown value, or no
    such metric."""
    found = catalogue.METRICS.find(name)
    return value(run, found) if found is not None and found.metric.response else None


def value(run: RunResult, named: Named) -> float | None:
    """The same of a metric that has been looked up."""
    return at(run, named.path, named.parts)


def at(run: RunResult, path: str, parts: Mapping[str, str]) -> float | None:
    """The number at a path: fields with dots between them. `field[key={part}]` is that entry of a list whose `key` is
    the part; `field[{part}]` that of a mapping. None where something on the way is None or not there."""
    here: Any = run
    for name, key, part in _steps(path):
        here = getattr(here, name)
        if part and key:
            here = next((each for each in here if getattr(each, key) == parts[part]), None)
        elif part:
            here = here.get(parts[part])
        if here is None:
            return None
    return float(here)


def mean_and_weight(run: RunResult, named: Named) -> tuple[float | None, float]:
    """The mean of a distribution in a run (ms), and the number of values that it is the mean of."""
    reader = named.metric.reader
    assert isinstance(reader, Distribution)
    mean = named.scoped(reader.mean or f"{reader.path}.mean")
    weight = named.scoped(reader.weight or f"{reader.path}.count")
    return at(run, mean, named.parts), at(run, weight, named.parts) or 0.0


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[tuple[str, str | None, str | None], ...]:
    found = [(step["name"], step["key"], step["part"]) for step in _STEP.finditer(path)]
    if "".join(step[0] for step in _STEP.finditer(path)) != path:
        raise ValueError(f"{path} is no path into the result of a run")
    return tuple(found)
