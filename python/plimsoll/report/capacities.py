"""The table of capacities: saturation, throughput and bottleneck of each combination. Pure."""

from __future__ import annotations

from collections.abc import Callable

from plimsoll.analyse.results.analysis import Capacity, Saturation
from plimsoll.analyse.results.verdicts import CapacityKind, SaturationReason, SaturationVerdict
from plimsoll.analyse.results.wording import UNKNOWN, bottleneck_word, describe, number, plus_minus
from plimsoll.report.labels import Labels
from plimsoll.report.table import Table, table_of


def bracket(labels: Labels, found: Saturation) -> str:
    """What throughput does with the load, in few words; the answer has the sentence."""
    lower, upper = labels.load_label(found.lower), labels.load_label(found.upper)
    falls = "" if found.falls_from is None else f"falls from {labels.load_label(found.falls_from)} on"
    if found.reason == SaturationReason.OVERLOADED and found.upper is not None:
        return f"overloaded from {upper} on"
    if found.upper is not None and found.upper == found.falls_from:
        return falls if found.lower is None else f"increases beyond {lower}, {falls}"
    if found.upper is not None:
        text = f"flat from {upper} on" if found.lower is None else f"flattens between {lower} and {upper}"
        return f"{text}, {falls}" if falls else text
    if found.verdict == SaturationVerdict.INCREASED:
        return f"increased beyond {lower}"
    if found.reason == SaturationReason.ONE_REPETITION:
        return "one run per load"
    if found.reason == SaturationReason.RUNS_DIFFER:
        return "too few runs to decide"
    return found.verdict


def capacity(found: Saturation, kind: str) -> Capacity | None:
    """The capacity of a kind (nominal, usable, error-limited), or None where the analysis has none."""
    return next((each for each in found.capacities if each.kind == kind), None)


def capacity_words(labels: Labels, found: Saturation, kind: str, *, with_unit: bool = True) -> str:
    """`1,510 ± 42 requests/s at 4`; the bound of what was tried where the limit was not reached."""
    each = capacity(found, kind)
    if each is None:
        return UNKNOWN
    if each.value is None:
        return each.remark or "not reached"
    nominal = capacity(found, CapacityKind.NOMINAL)
    if (
        kind != CapacityKind.NOMINAL
        and nominal is not None
        and (each.load, each.value) == (nominal.load, nominal.value)
    ):
        return "as nominal"
    metric = describe(found.metric)
    at = f"at {labels.load_label(each.load)}" if each.load is not None else ""
    text = f"{plus_minus(each.value, metric.kind, metric.unit if with_unit else '')} {at}".strip()
    return text if each.reached else f"≥ {text}"


def capacities(labels: Labels) -> Table:
    """A row for each combination. A unit that all share is in the title; a rule that never binds has no column, as
    the column would repeat that of the nominal capacity, and is named below."""
    saturation = labels.analysis.saturation
    metrics = list(dict.fromkeys(describe(found.metric) for found in saturation))
    alike = len(metrics) == 1
    kinds = [kind for kind in CapacityKind if kind == CapacityKind.NOMINAL or _binds(labels, kind)]
    usable = CapacityKind.USABLE in kinds
    columns: list[tuple[str, Callable[[Saturation], str]]] = [
        (kind.capitalize(), lambda found, kind=kind: capacity_words(labels, found, kind, with_unit=not alike))  # type: ignore[misc]
        for kind in kinds
    ]
    if usable:
        columns.append(("Usable / nominal", lambda found: number(found.efficiency, 2)))
    rows = [
        (
            labels.combination(found.combination),
            *([] if alike else [describe(found.metric).title]),
            bracket(labels, found),
            bottleneck_word(found.bottleneck),
            *(words(found) for _, words in columns),
        )
        for found in saturation
    ]
    heads = "Combination|Saturation|Bottleneck" if alike else "Combination|Of|Saturation|Bottleneck"
    title = f"Capacity in {metrics[0].unit}" if alike and metrics[0].unit else "Capacity"
    return table_of(title, heads, "|".join(name for name, _ in columns), rows, _note(labels, kinds))


def _binds(labels: Labels, kind: CapacityKind) -> bool:
    """Whether a rule limits any combination below the nominal capacity."""
    found = [
        (each, capacity(one, CapacityKind.NOMINAL))
        for one in labels.analysis.saturation
        if (each := capacity(one, kind)) is not None
    ]
    return any(
        each.reached and (nominal is None or each.value is None or each.load != nominal.load)
        for each, nominal in found
    )


def _note(labels: Labels, kinds: list[CapacityKind]) -> str:
    definitions: dict[str, str] = {}
    for found in labels.analysis.saturation:
        definitions |= {each.kind: each.definition for each in found.capacities if each.definition}
    said = [f"{kind.capitalize()}: {definitions[kind]}." for kind in kinds if kind in definitions]
    said += [
        f"Not limiting: {definitions[kind]}."
        for kind in CapacityKind
        if kind in definitions and kind not in kinds
    ]
    said.append(f"At: {labels.load_word}.")
    shown = [capacity(found, kind) for found in labels.analysis.saturation for kind in kinds]
    if any(each is not None and each.value is not None and not each.reached for each in shown):
        said.append("≥: throughput is not shown to be flat, or no load broke the rule.")
    return " ".join(said)
