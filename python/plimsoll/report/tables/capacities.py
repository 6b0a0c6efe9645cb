"""The table of capacities: saturation, throughput and bottleneck of each combination. Pure."""

from __future__ import annotations

from collections.abc import Callable

from plimsoll.analyse.results.analysis import Capacity, Saturation
from plimsoll.analyse.results.verdicts import CapacityKind, SaturationReason, SaturationVerdict
from plimsoll.analyse.results.wording import UNKNOWN, bottleneck_word, describe, number, plus_minus
from plimsoll.report.labels import Labels
from plimsoll.report.tables.table import Table, table_of


def saturation_words(labels: Labels, saturation: Saturation) -> str:
    """How throughput changes with the load, as a short phrase for a table cell. The answer contains the full
    sentence."""
    lower, upper = labels.load_label(saturation.lower), labels.load_label(saturation.upper)
    falls = (
        "" if saturation.falls_from is None else f"falls from {labels.load_label(saturation.falls_from)} on"
    )
    if saturation.reason == SaturationReason.OVERLOADED and saturation.upper is not None:
        return f"overloaded from {upper} on"
    if saturation.upper is not None and saturation.upper == saturation.falls_from:
        return falls if saturation.lower is None else f"increases beyond {lower}, {falls}"
    if saturation.upper is not None:
        text = (
            f"flat from {upper} on" if saturation.lower is None else f"flattens between {lower} and {upper}"
        )
        return f"{text}, {falls}" if falls else text
    if saturation.verdict == SaturationVerdict.INCREASED:
        return f"increased beyond {lower}"
    if saturation.reason == SaturationReason.ONE_REPETITION:
        return "one run per load"
    if saturation.reason == SaturationReason.RUNS_DIFFER:
        return "too few runs to decide"
    return saturation.verdict


def capacity_of(saturation: Saturation, kind: str) -> Capacity | None:
    """The capacity of a kind (nominal, usable, error-limited); None if the analysis has none."""
    return next((candidate for candidate in saturation.capacities if candidate.kind == kind), None)


def capacity_words(labels: Labels, saturation: Saturation, kind: str, *, with_unit: bool = True) -> str:
    """A capacity and its load: `1,510 ± 42 requests/s at 4`. If the limit was not reached, a lower bound: `≥ ...`."""
    capacity = capacity_of(saturation, kind)
    if capacity is None:
        return UNKNOWN
    if capacity.value is None:
        return capacity.remark or "not reached"
    nominal = capacity_of(saturation, CapacityKind.NOMINAL)
    if (
        kind != CapacityKind.NOMINAL
        and nominal is not None
        and (capacity.load, capacity.value) == (nominal.load, nominal.value)
    ):
        return "as nominal"
    metric = describe(saturation.metric)
    at = f"at {labels.load_label(capacity.load)}" if capacity.load is not None else ""
    text = f"{plus_minus(capacity.value, metric.kind, metric.unit if with_unit else '')} {at}".strip()
    return text if capacity.reached else f"≥ {text}"


def capacities(labels: Labels) -> Table:
    """A row for each combination. If all metrics are the same, the title contains the unit.

    A rule that limits no combination has no column, because the column would repeat that of the nominal capacity. The
    note names the rule.
    """
    saturations = labels.analysis.saturation
    metrics = list(dict.fromkeys(describe(saturation.metric) for saturation in saturations))
    alike = len(metrics) == 1
    kinds = [kind for kind in CapacityKind if kind == CapacityKind.NOMINAL or _binds(labels, kind)]
    usable = CapacityKind.USABLE in kinds

    def cell_of(kind: CapacityKind) -> Callable[[Saturation], str]:
        return lambda saturation: capacity_words(labels, saturation, kind, with_unit=not alike)

    columns = [(kind.capitalize(), cell_of(kind)) for kind in kinds]
    if usable:
        columns.append(("Usable / nominal", lambda saturation: number(saturation.efficiency, 2)))
    rows = [
        (
            labels.combination(saturation.combination),
            *([] if alike else [describe(saturation.metric).title]),
            saturation_words(labels, saturation),
            bottleneck_word(saturation.bottleneck),
            *(words(saturation) for _, words in columns),
        )
        for saturation in saturations
    ]
    heads = "Combination|Saturation|Bottleneck" if alike else "Combination|Of|Saturation|Bottleneck"
    title = f"Capacity in {metrics[0].unit}" if alike and metrics[0].unit else "Capacity"
    return table_of(title, heads, "|".join(name for name, _ in columns), rows, _note(labels, kinds))


def _binds(labels: Labels, kind: CapacityKind) -> bool:
    """Whether the rule of a kind limits at least one combination below its nominal capacity."""
    pairs = [
        (capacity, capacity_of(saturation, CapacityKind.NOMINAL))
        for saturation in labels.analysis.saturation
        if (capacity := capacity_of(saturation, kind)) is not None
    ]
    return any(
        capacity.reached and (nominal is None or capacity.value is None or capacity.load != nominal.load)
        for capacity, nominal in pairs
    )


def _note(labels: Labels, kinds: list[CapacityKind]) -> str:
    """The definitions of `kinds`, then one list of the rules that limit no combination."""
    definitions: dict[str, str] = {}
    for saturation in labels.analysis.saturation:
        definitions |= {
            capacity.kind: capacity.definition for capacity in saturation.capacities if capacity.definition
        }
    parts = [f"{kind.capitalize()}: {definitions[kind]}." for kind in kinds if kind in definitions]
    not_limiting = [kind for kind in CapacityKind if kind in definitions and kind not in kinds]
    if not_limiting:
        parts.append(f"Not limiting: {', '.join(f'{kind} ({definitions[kind]})' for kind in not_limiting)}.")
    parts.append(f"At: {labels.load_word}.")
    shown = [capacity_of(saturation, kind) for saturation in labels.analysis.saturation for kind in kinds]
    if any(
        capacity is not None and capacity.value is not None and not capacity.reached for capacity in shown
    ):
        parts.append("≥: throughput is not shown to be flat, or no load broke the rule.")
    return " ".join(parts)
