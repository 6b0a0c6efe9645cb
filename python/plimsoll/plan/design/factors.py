"""Parses `factors:` into factors with levels. Each level is a set of values by path.

Forms::

    load.testers: [1, 2, 4]                                        # short: the key is the path, and the name
    testers: {path: load.testers, levels: [1, 2, 4]}               # with a name of its own
    size:    {path: vars.rows, levels: {small: 10, large: 1000}}   # levels with names
    method:                                                        # levels that set several paths
      direct: {workload.driver: sql, workload.target: db}
      cached: {workload.driver: frontier, workload.target: cache}
    zip:     {path: workload.frontier.zip, levels: [0, 5], when: {method: cached}}   # nested
    threads: {path: services.gateway.threads, low: 1, high: 8}     # two levels, for a 2^k design

A mapping with `path` or `levels` (or `low` and `high`) is a long form; any other mapping contains levels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from pydantic_core import PydanticCustomError

from plimsoll.plan.schema.paths import RUN_SECTIONS, PathError, check_path
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import label_of, shown
from plimsoll.plan.source.near import nearest
from plimsoll.plan.source.units import quantity

LONG_KEYS: Final = ("path", "levels", "when", "low", "high")
MAX_LEVELS: Final = 10_000
Labels = Mapping[str, str]
"""Labels of levels by factor: a cell."""
LOAD_ENDINGS: Final = (
    ("load", "testers"),
    ("load", "per_host"),
    ("load", "rate"),
    ("load", "ramp", "testers"),
    ("load", "ramp", "per_host"),
    ("load", "in_flight"),
)
"""Endings of paths that make a factor the axis of the load, by precedence."""


class Report(Protocol):
    """Collects problems by their path in the file."""

    def wrong(self, path: KeyPath, message: str, near: str | None = None) -> None:
        """Reports a problem."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that a level sets at a path. `written`: the path of the value in the file."""

    path: KeyPath
    value: Any = field(repr=False)
    written: KeyPath = field(repr=False)


@dataclass(frozen=True, slots=True)
class Level:
    """A level: its label, the values that it sets, and its number on an axis (None: it is not a number)."""

    label: str
    settings: tuple[Setting, ...]
    number: float | None


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor. `when`: other factors, and the labels of them with which it is varied; `low`, `high`: labels for
    2^k."""

    name: str
    levels: tuple[Level, ...]
    when: Mapping[str, tuple[str, ...]]
    low: str | None = None
    high: str | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the levels in the order of the file."""
        return tuple(level.label for level in self.levels)

    def level(self, label: str) -> Level:
        """The level of that label. Raises KeyError."""
        for level in self.levels:
            if level.label == label:
                return level
        raise KeyError(label)

    def is_active(self, labels: Mapping[str, str]) -> bool:
        """Whether the factor is varied in a cell with these labels of other factors."""
        return all(labels.get(other) in wanted for other, wanted in self.when.items())

    @property
    def two_levels(self) -> tuple[str, str] | None:
        """The two levels of a 2^k design; None if the file does not define them."""
        if self.low is not None and self.high is not None:
            return self.low, self.high
        return (self.labels[0], self.labels[1]) if len(self.levels) == 2 else None

    @property
    def load_kind(self) -> int | None:
        """Index in LOAD_ENDINGS of the load that every level sets to a number; None: the factor does not set the
        load."""
        for rank, ending in enumerate(LOAD_ENDINGS):
            if all(_sets_load(level, ending) is not None for level in self.levels):
                return rank
        return None

    def is_load_of(self, workloads: Collection[str]) -> bool:
        """Whether the factor only sets loads of these workloads."""
        paths = [setting.path for level in self.levels for setting in level.settings]
        return all(
            path[0] == "workloads" and path[1] in workloads and path[2:3] == ("load",) for path in paths
        )

    def load_value(self, label: str) -> float | None:
        """The load that a level sets; None if the factor does not set the load."""
        kind = self.load_kind
        return None if kind is None else _sets_load(self.level(label), LOAD_ENDINGS[kind])


def _sets_load(level: Level, ending: tuple[str, ...]) -> float | None:
    for setting in level.settings:
        if setting.path[-len(ending) :] == ending and setting.path[0] in ("load", "workloads"):
            return quantity(setting.value)
    return None


def parse_factors(tree: Mapping[str, Any], report: Report) -> tuple[Factor, ...]:
    """All valid factors of a file. Problems of the others are reported."""
    written = tree.get("factors") or {}
    if not isinstance(written, Mapping):
        report.wrong(("factors",), f"expected a mapping of factors, got {shown(written)}")
        return ()
    factors = [
        factor for name, value in written.items() if (factor := _parse_factor(str(name), value, tree, report))
    ]
    _check_nesting(factors, report)
    return tuple(factors)


def _parse_factor(name: str, value: Any, tree: Mapping[str, Any], report: Report) -> Factor | None:
    at: KeyPath = ("factors", name)
    if isinstance(value, list):
        return _build_factor(name, _levels_of_list(name, value, at, tree, report), {}, None, None, at, report)
    if not isinstance(value, Mapping) or not value:
        report.wrong(at, f"expected a list of levels or a mapping, got {shown(value)}")
        return None
    if "path" in value or "levels" in value or {"low", "high"} <= set(value):
        return _parse_long_form(name, value, at, tree, report)
    return _build_factor(name, _named_levels(value, at, tree, report), {}, None, None, at, report)


def _parse_long_form(
    name: str, value: Mapping[str, Any], at: KeyPath, tree: Mapping[str, Any], report: Report
) -> Factor | None:
    for key in value:
        if key not in LONG_KEYS:
            near = nearest(key, LONG_KEYS)
            report.wrong(
                (*at, key),
                "unknown key" if near else f"unknown key; expected one of {', '.join(LONG_KEYS)}",
                near,
            )
    levels = value.get("levels")
    here: KeyPath = (*at, "levels")
    if levels is None and {"low", "high"} <= set(value):
        levels = {"low": value["low"], "high": value["high"]}
        here = at
        parsed_levels = _levels_of_path(levels, value.get("path"), here, at, tree, report, own_labels=True)
        low, high = (
            (parsed_levels[0].label, parsed_levels[1].label) if len(parsed_levels) == 2 else (None, None)
        )
        return _build_factor(name, parsed_levels, _when(value.get("when"), at, report), low, high, at, report)
    if levels is None:
        report.wrong(at, "levels are missing: give levels: [...], or low and high")
        return None
    if "path" in value:
        parsed_levels = _levels_of_path(levels, value["path"], here, at, tree, report)
    elif isinstance(levels, Mapping):
        parsed_levels = _named_levels(levels, here, tree, report)
    else:
        report.wrong(at, "path is missing: give the path that these levels set, such as load.testers")
        return None
    low, high = (_label(value.get(key), (*at, key), report) for key in ("low", "high"))
    return _build_factor(name, parsed_levels, _when(value.get("when"), at, report), low, high, at, report)


def _levels_of_path(
    levels: Any,
    path: Any,
    here: KeyPath,
    at: KeyPath,
    tree: Mapping[str, Any],
    report: Report,
    own_labels: bool = False,
) -> list[Level]:
    """Levels of one path, from a list of values or a mapping of names to values. `own_labels`: the labels are the
    values, not the keys of the mapping."""
    if not isinstance(path, str):
        report.wrong((*at, "path"), f"expected a path such as load.testers, got {shown(path)}")
        return []
    if isinstance(levels, list):
        return _levels_of_list(path, levels, here, tree, report, (*at, "path"))
    if not isinstance(levels, Mapping):
        report.wrong(here, f"expected a list of levels, got {shown(levels)}")
        return []
    steps = checked_path(path, tree, (*at, "path"), report)
    if steps is None:
        return []
    if not levels:
        report.wrong(here, "expected at least one level, got none")
    parsed_levels = []
    for name, value in levels.items():
        label = _label(value, (*here, name), report) if own_labels else str(name)
        if label is not None:
            parsed_levels.append(Level(label, (Setting(steps, value, (*here, name)),), _number(label, value)))
    return parsed_levels


def _levels_of_list(
    path: str,
    values: list[Any],
    at: KeyPath,
    tree: Mapping[str, Any],
    report: Report,
    path_at: KeyPath | None = None,
) -> list[Level]:
    steps = checked_path(path, tree, path_at or at, report)
    if steps is None:
        return []
    if not values:
        report.wrong(at, "expected at least one level, got an empty list")
    levels = []
    for index, value in enumerate(values[: MAX_LEVELS + 1]):
        label = _label(value, (*at, index), report)
        if label is not None:
            levels.append(Level(label, (Setting(steps, value, (*at, index)),), quantity(value)))
    return levels


def _named_levels(
    value: Mapping[str, Any], at: KeyPath, tree: Mapping[str, Any], report: Report
) -> list[Level]:
    """Levels that set several paths, from a mapping of label -> {path: value}."""
    if not value:
        report.wrong(at, "expected at least one level, got none")
    levels = []
    for label, sets in value.items():
        here: KeyPath = (*at, label)
        if not isinstance(sets, Mapping) or not sets:
            hint = nearest(str(label), LONG_KEYS)
            report.wrong(
                here, f"expected what this level sets, such as {{load.testers: 4}}, got {shown(sets)}", hint
            )
            continue
        settings = []
        for path, level_value in sets.items():
            steps = checked_path(str(path), tree, (*here, path), report)
            if steps is not None:
                settings.append(Setting(steps, level_value, (*here, path)))
        levels.append(
            Level(
                str(label),
                tuple(settings),
                _number(str(label), settings[0].value if len(settings) == 1 else None),
            )
        )
    return levels


def _number(label: str, value: Any) -> float | None:
    """The number of a named level on an axis: that of the label if it is a quantity, such as "10 kB", otherwise that of
    the value."""
    named = quantity(label)
    return quantity(value) if named is None else named


def checked_path(path: str, tree: Mapping[str, Any], at: KeyPath, report: Report) -> KeyPath | None:
    """The parts of a path that a factor may set. Otherwise None, and the problem is reported."""
    try:
        steps = check_path(tree, path)
    except PathError as error:
        report.wrong(at, str(error))
        return None
    if steps[0] not in RUN_SECTIONS:
        known = ", ".join(sorted(RUN_SECTIONS))
        report.wrong(
            at,
            f"a factor cannot set {path}: it applies to the experiment, not to a run (a factor can set {known})",
        )
        return None
    return steps


def _label(value: Any, at: KeyPath, report: Report) -> str | None:
    if value is None and at[-1] in ("low", "high"):
        return None
    try:
        return label_of(value)
    except PydanticCustomError:
        report.wrong(
            at,
            f"expected a text or a number, got {shown(value)}: give the level a name, levels: {{name: ...}}",
        )
        return None


def _when(value: Any, at: KeyPath, report: Report) -> dict[str, tuple[str, ...]]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not value:
        report.wrong(
            (*at, "when"),
            f"expected factors and their levels, such as {{method: [squid]}}, got {shown(value)}",
        )
        return {}
    conditions = {}
    for name, labels in value.items():
        listed = labels if isinstance(labels, list) else [labels]
        texts = [_label(label, (*at, "when", name), report) for label in listed]
        conditions[str(name)] = tuple(text for text in texts if text is not None)
    return conditions


def _build_factor(
    name: str,
    levels: list[Level],
    when: Mapping[str, tuple[str, ...]],
    low: str | None,
    high: str | None,
    at: KeyPath,
    report: Report,
) -> Factor | None:
    if len(levels) > MAX_LEVELS:
        report.wrong(at, f"more than {MAX_LEVELS:,} levels")
        return None
    labels = [level.label for level in levels]
    twice = (
        sorted({label for label in labels if labels.count(label) > 1})
        if len(set(labels)) < len(labels)
        else []
    )
    if twice:
        report.wrong(at, f"the level {twice[0]} is listed twice")
        return None
    if not levels:  # already reported
        return None
    for key, label in (("low", low), ("high", high)):
        if label is not None and label not in labels:
            report.wrong(
                (*at, key),
                f"there is no level {label}; the levels are {', '.join(labels[:12])}",
                nearest(label, labels),
            )
            return None
    return Factor(name, tuple(levels), when, low, high)


def _check_nesting(factors: list[Factor], report: Report) -> None:
    by_name = {factor.name: factor for factor in factors}
    for factor in factors:
        for other, labels in factor.when.items():
            check_labels({other: labels}, by_name, ("factors", factor.name, "when"), report)
    order = in_order(factors)
    if order is None:
        report.wrong(("factors",), "the `when` conditions of some factors form a cycle")


def check_labels(
    wanted: Mapping[str, Iterable[str]],
    factors: Mapping[str, Factor],
    at: KeyPath,
    report: Report,
    *,
    also: Sequence[str] = (),
) -> bool:
    """Whether the factors and labels of an `exclude`, `when`, `where` or `base` exist. Unknown names are reported.
    `also`: keys that are allowed there in addition to factors."""
    valid = True
    for name, labels in wanted.items():
        if name not in factors:
            known = ", ".join(factors) or "there are none"
            near = nearest(name, [*factors, *also])
            report.wrong(
                (*at, name), f"there is no factor {name}" + ("" if near else f" (factors: {known})"), near
            )
            valid = False
            continue
        for label in labels:
            if label not in factors[name].labels:
                near = nearest(label, factors[name].labels)
                some = ", ".join(factors[name].labels[:12])
                report.wrong((*at, name), f"the factor {name} has no level {label}; it has {some}", near)
                valid = False
    return valid


def in_order(factors: Iterable[Factor]) -> list[Factor] | None:
    """The factors in an order in which each follows those that its `when` names; otherwise as in the file. None: the
    `when` conditions form a cycle."""
    waiting = list(factors)
    names = {factor.name for factor in waiting}
    done: list[Factor] = []
    placed: set[str] = set()
    while waiting:
        ready = next((factor for factor in waiting if set(factor.when) & names <= placed), None)
        if ready is None:
            return None
        waiting.remove(ready)
        placed.add(ready.name)
        done.append(ready)
    return done
