"""Values of the metrics that `plan.metrics` lists: reads the paths of its rows in the result of a run.

A metric has one name in results (`response_ms_p95`); every spelling in the table (`response_p95`, `p95`) is accepted.
The module `wording` contains the texts of metrics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.stats.value_histogram import ValueHistogram, merged_values
from plimsoll.deploy.counters.databases.sessions import ACTIVE, is_wait
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.table import Distribution, MetricReference, Quotient, Value

_STEP: Final = re.compile(
    r"(?P<name>\w+)(?:\[(?:(?P<key>\w+)=)?(?:\{(?P<part>\w+)\}|(?P<entry>\w+))\])?(?:\.|\Z)"
)


def canonical(name: str) -> str | None:
    """The name in results of a metric, from any of its spellings; None if there is no such response."""
    named = catalogue.METRICS.find(name)
    return named.name if named is not None and named.metric.response else None


def is_capacity(name: str | None) -> bool:
    """Whether a metric, by its name in results, has a saturation and a capacity."""
    return name in catalogue.METRICS.capacities


def is_work(name: str) -> bool:
    """Whether a metric is a rate of work that the target does for its clients, over the whole window."""
    named = catalogue.METRICS.find(name)
    return named is not None and named.scope is None and named.metric.is_work


def metric_value(run: RunResult, name: str) -> float | None:
    """The value of a response in a run (per second, ms, a fraction, or a plain number). None: unknown value, or no such
    metric."""
    named = catalogue.METRICS.find(name)
    return value(run, named) if named is not None and named.metric.response else None


def value(run: RunResult, named: MetricReference) -> float | None:
    """The value of a metric in a run, in the unit of the result; None: unknown, or divided by 0."""
    reader = named.metric.reader
    if isinstance(reader, Quotient):
        return _ratio(*(_part_value(run, named, part) for part in (reader.of, reader.to)))
    number = at(run, named.path, named.parts)
    if number is None and is_wait(named.parts.get("gauge", "")):
        # No session had this wait: then its number is 0 if the sessions of the run were read.
        number = None if at(run, named.path, {**named.parts, "gauge": ACTIVE}) is None else 0.0
    if isinstance(reader, Value) and reader.per:
        number = _ratio(number, at(run, named.scoped(reader.per), named.parts))
    return number if number is None or not isinstance(reader, Value) else number * reader.factor


def _ratio(of: float | None, to: float | None) -> float | None:
    return None if of is None or not to else of / to


def _part_value(run: RunResult, named: MetricReference, part: str) -> float | None:
    """The value of one of the metrics of a ratio, in the scope of the ratio."""
    suffix = "" if named.scope is None else named.scope.suffix
    reference = catalogue.METRICS.find(named.parts[part] + suffix)
    return None if reference is None else value(run, reference)


def at(run: RunResult, path: str, parts: Mapping[str, str]) -> float | None:
    """The number at a path: names of fields, separated by dots. `field[key={part}]` is the entry of a list whose `key`
    is the part; `field[{part}]` and `field[name]` are the entry of a mapping. None if any step is None or does not
    exist. Raises ValueError if the path is malformed."""
    node = node_at(run, path, parts)
    return None if node is None else float(node)


def node_at(run: RunResult, path: str, parts: Mapping[str, str]) -> Any:
    """What is at a path, as for `at`."""
    node: Any = run
    for name, key, part, literal in _steps(path):
        node = getattr(node, name)
        if part and key:
            node = next((entry for entry in node if getattr(entry, key) == parts[part]), None)
        elif part or literal:
            node = node.get(literal or parts[part or ""])
        if node is None:
            return None
    return node


def merged_metric(runs: Iterable[RunResult], named: MetricReference) -> ValueHistogram | None:
    """The merged values of a metric of a driver or client program; None if no run has values."""
    nodes = (node_at(run, named.scoped(named.metric.reader.path), named.parts) for run in runs)
    return merged_values(node.values for node in nodes if node is not None and node.values is not None)


def mean_and_weight(run: RunResult, named: MetricReference) -> tuple[float | None, float]:
    """The mean of a distribution in a run (ms), and the number of its values."""
    reader = named.metric.reader
    assert isinstance(reader, Distribution)
    mean = named.scoped(reader.mean or f"{reader.path}.mean")
    weight = named.scoped(reader.weight or f"{reader.path}.count")
    return at(run, mean, named.parts), at(run, weight, named.parts) or 0.0


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[tuple[str, str | None, str | None, str | None], ...]:
    steps = [(step["name"], step["key"], step["part"], step["entry"]) for step in _STEP.finditer(path)]
    if "".join(step[0] for step in _STEP.finditer(path)) != path:
        raise ValueError(f"{path} is no path into the result of a run")
    return tuple(steps)
