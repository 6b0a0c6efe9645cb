"""What changes in an experiment file whose services and data exist already: the options of `--set`. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from plimsoll.errors import BadInput
from plimsoll.plan import Experiment, parse_experiment
from plimsoll.plan.design.factors import Factor
from plimsoll.plan.model.cell import Cell
from plimsoll.plan.source.document import KeyPath, dotted
from plimsoll.plan.tiers import has_only_selects

OWN_SECTIONS: Final = ("services", "data")
"""Sections of a system that the experiment starts itself."""
METRIC_SECTIONS: Final = ("responses", "charts", "ceiling")
"""Sections whose entries are left out where they need a service of the file."""
_CEILING: Final = re.compile(r"\s*(\S+)\s+(\S+)(?:\s+for\s+(\S+))?\s*")
_SMALLEST: Final = (
    "plimsoll: 1\nworkload: {driver: http, target: 'http://x'}\nload: {testers: 1}\nrun: {duration: 1s}\n"
)


class Refusal(Exception):
    """The file is valid, but cannot be run against an existing service. The text is the reason."""


def ceiling_rules(written: Sequence[str]) -> tuple[dict[str, str], ...]:
    """The rules of `--ceiling`, such as `errors rate>20%` or `response p(95)>2s for 20s`, as entries of `ceiling:`.
    Raises BadInput."""
    rules = []
    for text in written:
        match = _CEILING.fullmatch(text)
        if match is None:
            message = '--ceiling: expected a rule such as "errors rate>20%" or "response p(95)>2s for 20s"'
            raise BadInput(f'{message}, got "{text}"')
        metric, test, period = match.groups()
        rules.append({"metric": metric, "test": test, **({"for": period} if period else {})})
    try:
        parse_experiment(_SMALLEST, "--ceiling", Path(), _ceiling_sets({}, rules), {})
    except BadInput as error:
        reasons = "; ".join(problem.message for problem in error.problems)
        raise BadInput(f"--ceiling: {reasons}") from None
    return tuple(rules)


def replaced_sets(
    tree: Mapping[str, Any],
    factors: Sequence[Factor],
    targets: Mapping[KeyPath, Any],
    target: str,
    ceiling: Sequence[Mapping[str, str]],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Options before and after those of the short form. The target, the services and the ceiling are replaced last: a
    short form may change them, too. Raises Refusal if a factor sets the ceiling."""
    dropped = target_factors(factors, targets)
    before = []
    if dropped:
        kept = {name: factor for name, factor in tree["factors"].items() if name not in dropped}
        before.append(f"factors={json.dumps(kept)}")
    after = [f"{dotted(path)}={target}" for path in targets]
    after += [f"{section}={{}}" for section in OWN_SECTIONS if tree.get(section)]
    for section in METRIC_SECTIONS:
        if without := unmeasurable(tree, section):
            after.append(f"{section}={json.dumps([each for each in tree[section] if each not in without])}")
    if has_testbed(tree):
        after.append('hosts={"kind": "local"}')
    if ceiling:
        for factor in factors:
            if any(path[0] == "ceiling" for path in _paths(factor)):
                raise Refusal(f"the factor {factor.name} sets the ceiling, which --ceiling must bound")
        after += _ceiling_sets(tree, ceiling)
    return tuple(before), tuple(after)


def has_testbed(tree: Mapping[str, Any]) -> bool:
    """Whether the testers have emulated hosts, from which an existing service cannot be reached."""
    hosts = tree.get("hosts")
    return isinstance(hosts, Mapping) and hosts.get("kind") == "testbed"


def unmeasurable(tree: Mapping[str, Any], section: str) -> list[Any]:
    """The entries of a section with a metric of a service of the file, such as `memory_peak.db`: of an existing
    service, only what the testers see is measured. A chart of such a response is one of them."""
    entries, services = tree.get(section), tree.get("services")
    if not isinstance(entries, list) or not isinstance(services, Mapping) or not services:
        return []
    names = "|".join(re.escape(str(name)) for name in services)
    metric = re.compile(rf"\w+\.(?:{names})(?:-[0-9]+)?(?:\.\w+)*")
    found = [each for each in entries if any(map(metric.fullmatch, _texts(each)))]
    if section != "responses":
        responses = unmeasurable(tree, "responses")
        named = {each["name"] for each in responses if isinstance(each, Mapping) and "name" in each}
        found += [each for each in entries if each not in found and named & set(_texts(each))]
    return found


def _texts(value: object) -> Iterator[str]:
    """All texts of a value of the file, without keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def target_factors(factors: Sequence[Factor], targets: Mapping[KeyPath, Any]) -> tuple[str, ...]:
    """The factors that only choose between targets, if there are others: with one service they have one level."""
    names = tuple(factor.name for factor in factors if set(_paths(factor)) <= targets.keys())
    return names if len(names) < len(factors) else ()


def check_factors(factors: Sequence[Factor], targets: Mapping[KeyPath, Any]) -> None:
    """Raises Refusal if a factor is about services, data or targets of the file."""
    dropped = target_factors(factors, targets)
    for factor in factors:
        for path in _paths(factor):
            if path[0] in OWN_SECTIONS:
                what = "data" if path[0] == "data" else "a service"
                raise Refusal(
                    f"the factor {factor.name} sets {dotted(path)}, which only {what} of its own has"
                )
            is_target = path[0] == "targets" or path in targets or path in {at[:-1] for at in targets}
            if is_target and factor.name not in dropped:
                raise Refusal(
                    f"the factor {factor.name} compares targets of the file ({dotted(path)}), which --target replaces"
                )


def check_cells(experiment: Experiment) -> None:
    """Raises Refusal if the cells of the file, as it is written, need different data or services: a factor sets a
    variable that they contain."""
    first = experiment.cells[0]
    for cell in experiment.cells:
        for section in OWN_SECTIONS:
            if getattr(cell.config, section) != getattr(first.config, section):
                names = " and ".join(_different(cell, first)) or "design"
                raise Refusal(
                    f"the factor {names} changes the {section} of the file, and an existing service has one state"
                )


def check_reads(experiment: Experiment) -> None:
    """Raises Refusal if a workload would write: the tables belong to the file, and those of the target to others."""
    for cell in experiment.cells:
        for work in cell.config.workloads:
            if not has_only_selects(work):
                raise Refusal(
                    f"the workload {work.name} writes into tables, which only data of its own allow"
                )


def remarks_on_changes(
    tree: Mapping[str, Any], factors: Sequence[Factor], targets: Mapping[KeyPath, Any]
) -> Iterator[str]:
    """What of the file is not used, for the reader of the results."""
    services, data, named = (tree.get(key) for key in ("services", "data", "targets"))
    if isinstance(services, Mapping) and services:
        yield f"services of the file that are not started: {', '.join(map(str, services))}"
    if isinstance(data, Mapping) and data:
        tables = ", ".join(_about(name, entry) for name, entry in data.items())
        yield f"data of the file that are not written, so the target must have them: {tables}"
    for section in METRIC_SECTIONS:
        if without := unmeasurable(tree, section):
            about = ", ".join(dict.fromkeys(map(_about_metric, without)))
            yield f"{section} that need services of the file, and are left out: {about}"
    if has_testbed(tree):
        yield "the emulated hosts and links of the file are left out: the testers run on this host"
    for name in target_factors(factors, targets):
        yield f"the factor {name} is left out: it chooses between services of the file"
    for name in dict.fromkeys(map(str, targets.values())):
        entry = named.get(name) if isinstance(named, Mapping) else None
        if isinstance(entry, Mapping) and (watch := entry.get("watch")):
            yield f"systems of the target {name} that are not watched: {len(watch)}"


def _about_metric(entry: Any) -> str:
    """A response or a chart, in a remark."""
    return (
        str(entry.get("name") or entry.get("metric") or entry.get("y"))
        if isinstance(entry, Mapping)
        else str(entry)
    )


def _ceiling_sets(tree: Mapping[str, Any], rules: Sequence[Mapping[str, str]]) -> list[str]:
    own = tree.get("ceiling")
    without = unmeasurable(tree, "ceiling")
    kept = [each for each in own if each not in without] if isinstance(own, list) else []
    together = [*kept, *rules]
    return [f"ceiling={json.dumps(together)}"] if rules else []


def _about(name: object, data: object) -> str:
    """A data set with its settings as they are written: `t_string (rows 10000, row 100B)`."""
    settings = data if isinstance(data, Mapping) else {}
    return f"{name} ({', '.join(f'{key} {value}' for key, value in settings.items() if key != 'into')})"


def _paths(factor: Factor) -> Iterator[KeyPath]:
    for level in factor.levels:
        for setting in level.settings:
            yield setting.path


def _different(cell: Cell, other: Cell) -> list[str]:
    return [name for name, label in cell.labels.items() if other.labels.get(name) != label]
