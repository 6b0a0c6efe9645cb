"""The order of the runs of a paired design: two levels of a factor, and possibly a copy of the first one. Pure.

A repetition of all cells is a block. In it, the runs of a pair follow each other. From block to block the order
changes so that each level comes first equally often, and so that each run takes each place equally often
(counter-balancing: D. Montgomery, Design and Analysis of Experiments, 8th ed. 2013, chapter 4.2, Latin squares).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from plimsoll.plan.design.factors import Factor, Labels, Report
from plimsoll.plan.schema.experiment import DesignRaw
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.near import nearest

AT: Final[KeyPath] = ("design", "pair")


class Role(StrEnum):
    """The place of a run in a pair."""

    OLD = "old"
    NEW = "new"
    CONTROL = "control"
    """A further run of the old level."""


ORDERS: Final = ((Role.OLD, Role.NEW), (Role.NEW, Role.OLD))
CONTROLLED_ORDERS: Final = (
    (Role.OLD, Role.NEW, Role.CONTROL),
    (Role.NEW, Role.CONTROL, Role.OLD),
    (Role.CONTROL, Role.OLD, Role.NEW),
    (Role.NEW, Role.OLD, Role.CONTROL),
    (Role.OLD, Role.CONTROL, Role.NEW),
    (Role.CONTROL, Role.NEW, Role.OLD),
)
"""All orders, so that "old" comes before "new" in every second block. The first three, and the last three, are a Latin
square: each run is once in each place."""


def places(repetition: int, reverse: bool, control: bool) -> Mapping[Role, int]:
    """The place of each run in a block. `reverse`: all orders of this pair are reversed."""
    orders = CONTROLLED_ORDERS if control else ORDERS
    order = orders[(repetition - 1) % len(orders)]
    return {role: at for at, role in enumerate(order[::-1] if reverse else order)}


def roles(labels: Labels, raw: DesignRaw, factors: Sequence[Factor]) -> tuple[Role, ...]:
    """The roles of a cell: the old level has a second run per repetition if there is a control."""
    factor = next(factor for factor in factors if factor.name == raw.pair)
    if labels[factor.name] != factor.labels[0]:
        return (Role.NEW,)
    return (Role.OLD, Role.CONTROL) if raw.control else (Role.OLD,)


def is_pair(factors: Sequence[Factor], raw: DesignRaw, report: Report) -> bool:
    """Whether `pair` names a factor of two levels, or is absent. A problem is reported."""
    if raw.pair is None:
        return True
    factor = next((factor for factor in factors if factor.name == raw.pair), None)
    if factor is None:
        known = ", ".join(factor.name for factor in factors) or "none"
        near = nearest(raw.pair, [factor.name for factor in factors])
        report.wrong(AT, f"there is no factor {raw.pair}" + ("" if near else f" (factors: {known})"), near)
    elif len(factor.levels) != 2:
        some = ", ".join(factor.labels[:12])
        report.wrong(
            AT,
            f"a pair needs a factor with exactly two levels, the old one first: {factor.name} has "
            f"{len(factor.levels)} ({some})",
        )
    else:
        return True
    return False


def check_partners(cells: Sequence[Labels], raw: DesignRaw, report: Report) -> None:
    """Reports a cell of a paired design that exists with one level only."""
    if raw.pair is None:
        return
    for rest, levels in combinations_of(cells, raw.pair):
        if len(levels) == 1:
            (level,) = levels
            where = ", ".join(f"{name} = {label}" for name, label in rest.items())
            report.wrong(
                AT,
                f"{raw.pair} = {level or '(absent)'} has no partner" + (f" with {where}" if where else "")
                + ": a pair needs both levels in each combination of the other factors",
            )  # fmt: skip
            return


def combinations_of(cells: Sequence[Labels], factor: str) -> Iterator[tuple[dict[str, str], dict[str, int]]]:
    """Each combination of the other factors, and the index of its cell by the level of the factor."""
    found: dict[tuple[tuple[str, str], ...], dict[str, int]] = {}
    for index, labels in enumerate(cells):
        rest = tuple((name, label) for name, label in labels.items() if name != factor)
        found.setdefault(rest, {})[labels.get(factor, "")] = index
    return ((dict(rest), levels) for rest, levels in found.items())
