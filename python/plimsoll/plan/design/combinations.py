"""The combinations of levels that are run, and their order. Pure: cells are mappings of factor to label.

The number of runs is computed before the cells are enumerated, so that a design of 10^12 runs is rejected at once, with
the factors of that number. Order "random" sorts by a hash of seed and cell. Rejected: a shuffle. With the hash, the
order depends only on the seed, is the same in every version of Python, and an added cell does not change the order of
the others.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from plimsoll.plan.design.factors import (
    Factor,
    Labels,
    Level,
    Report,
    Setting,
    check_labels,
    checked_path,
    in_order,
)
from plimsoll.plan.design.pairs import Role, check_partners, is_pair, places, roles
from plimsoll.plan.schema.experiment import REPETITION, DesignRaw
from plimsoll.plan.source.document import KeyPath, plain_scalar
from plimsoll.plan.source.near import nearest
from plimsoll.plan.source.units import quantity

MAX_RUNS: Final = 100_000
_AT: Final[KeyPath] = ("design",)


@dataclass(frozen=True, slots=True)
class RunCount:
    """Number of runs, and its factors as text: "3 method x 4 testers x 2 repetitions = 24"."""

    runs: int
    text: str


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a design in listed order, without the excluded cells.

    `times`: how often each cell is run per repetition (more than once if a table lists it several times);
    `excluded`: the excluded cells.
    """

    labels: tuple[Labels, ...]
    times: tuple[int, ...]
    excluded: tuple[Labels, ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """One run of the sequence: index of its cell, repetition (from 1), and block (None: no blocks). `control`: the
    further run of the old level of a pair."""

    cell: int
    repetition: int
    block: str | None
    control: bool = False


def kind_of(raw: DesignRaw) -> str:
    """The kind of the design, or its default."""
    return raw.kind or ("table" if raw.table is not None else "full-factorial")


def levels_used(factor: Factor, kind: str) -> tuple[str, ...]:
    """Labels that a design of this kind uses: two for 2^k, otherwise all."""
    return (factor.two_levels or factor.labels) if kind == "2^k" else factor.labels


def count(factors: Sequence[Factor], raw: DesignRaw, rows: int | None = None) -> RunCount:
    """Number of runs before `exclude`, without enumerating them. `rows`: number of rows of a table design."""
    kind, repeated = kind_of(raw), raw.max_repetitions
    at_most = "" if raw.until is None else "at most "
    tail = f" x {at_most}{repeated} repetitions" if repeated > 1 else ""
    if kind == "table":
        cells, text = rows or 0, f"{rows or 0} rows"
    elif kind == "one-at-a-time":
        cells = 1 + sum(len(factor.levels) - 1 for factor in factors)
        text = " + ".join(["1 base", *(f"{len(factor.levels) - 1} {factor.name}" for factor in factors)])
        text = f"({text})" if tail else text
    else:
        cells, text = _product(factors, kind)
    runs = cells * repeated
    if raw.control:  # a further run of each old level; every combination has two levels of the pair
        text, tail, runs = (
            f"({text}",
            f" + {cells // 2:,} of the control){tail}",
            runs + cells // 2 * repeated,
        )
    return RunCount(runs, f"{text}{tail} = {runs:,}")


def _product(factors: Sequence[Factor], kind: str) -> tuple[int, str]:
    """Number of cells of a factorial design with nested factors, and its factors as text. Only combinations of factors
    that depend on each other are enumerated."""
    named = {other for factor in factors for other in factor.when}
    free = [factor for factor in factors if not factor.when and factor.name not in named]
    tied = in_order([factor for factor in factors if factor.when or factor.name in named]) or []
    cells = 1
    for factor in free:
        cells *= len(levels_used(factor, kind))
    parts = [f"{len(levels_used(factor, kind))} {factor.name}" for factor in free]
    if tied:
        inner = _count_tied(tied, named, kind)
        parts.append(f"{inner} combinations of {', '.join(factor.name for factor in tied)}")
        cells *= inner
    return cells, " x ".join(parts) or "1 cell"


def _count_tied(tied: Sequence[Factor], named: set[str], kind: str) -> int:
    """Number of combinations of factors that depend on each other. A state contains the labels of the factors that a
    `when` names."""
    states: dict[tuple[tuple[str, str], ...], int] = {(): 1}
    for factor in tied:
        following: dict[tuple[tuple[str, str], ...], int] = {}
        for state, ways in states.items():
            if not factor.is_active(dict(state)):
                following[state] = following.get(state, 0) + ways
            elif factor.name in named:
                for label in levels_used(factor, kind):
                    key = (*state, (factor.name, label))
                    following[key] = following.get(key, 0) + ways
            else:
                following[state] = following.get(state, 0) + ways * len(levels_used(factor, kind))
        states = following
        if len(states) > MAX_RUNS:  # each state is at least one combination, so the limit is exceeded
            break
    return sum(states.values())


def check_design(factors: Sequence[Factor], raw: DesignRaw, rows: int | None, report: Report) -> bool:
    """Whether the design can be enumerated: names exist, 2^k has two levels, and there are at most MAX_RUNS runs.
    Problems are reported."""
    by_name = {factor.name: factor for factor in factors}
    valid = check_labels({name: [label] for name, label in raw.base.items()}, by_name, (*_AT, "base"), report)
    valid = is_pair(factors, raw, report) and valid
    for key, names in (("block", raw.block), ("loop", raw.loop)):
        for name in names:
            if name not in by_name and not (key == "block" and name == REPETITION):
                known = [*by_name, REPETITION] if key == "block" else list(by_name)
                report.wrong((*_AT, key), f"there is no factor {name}", nearest(name, known))
                valid = False
    for name in sorted(set(raw.block) & set(raw.loop)):
        report.wrong(
            (*_AT, "loop"), f"{name} cannot be the outermost (block) and the innermost (loop) at once"
        )
        valid = False
    for index, entry in enumerate(raw.exclude):
        valid = check_labels(entry, by_name, (*_AT, "exclude", index), report) and valid
        if not entry:
            report.wrong(
                (*_AT, "exclude", index),
                "the entry is empty: expected factors and levels, such as {testers: 4}",
            )
            valid = False
    if kind_of(raw) == "2^k":
        for factor in factors:
            if factor.two_levels is None:
                have = f"{factor.name} has {len(factor.levels)}"
                report.wrong(
                    ("factors", factor.name),
                    f"2^k needs two levels of each factor, {have}: give low and high",
                )
                valid = False
    total = count(factors, raw, rows)
    if total.runs > MAX_RUNS:
        report.wrong(
            ("factors",),
            f"the design has {total.runs:,} runs ({total.text}), the limit is {MAX_RUNS:,}: use fewer "
            f"levels or factors, one-at-a-time, 2^k, or a table",
        )
        valid = False
    return valid


def enumerate_cells(
    factors: Sequence[Factor], raw: DesignRaw, table: Sequence[Labels] | None, report: Report
) -> Cells:
    """All cells. `check_design` must be called before. Entries of `exclude` that match no cell, and factors that a
    `base` never varies, are reported."""
    kind = kind_of(raw)
    times: dict[tuple[tuple[str, str], ...], int] = {}
    if kind == "table":
        source: Iterator[Labels] = iter(table or ())
    elif kind == "one-at-a-time":
        source = _one_at_a_time(factors, raw, report)
    else:
        source = _factorial(factors, kind)
    for labels in source:
        key = tuple((factor.name, labels[factor.name]) for factor in factors if factor.name in labels)
        times[key] = times.get(key, 0) + 1 if kind == "table" else 1
    matched = [False] * len(raw.exclude)
    kept: list[Labels] = []
    kept_times: list[int] = []
    excluded: list[Labels] = []
    for key, number in times.items():
        cell = dict(key)
        hits = [_matches(entry, cell) for entry in raw.exclude]
        matched = [before or now for before, now in zip(matched, hits, strict=True)]
        if any(hits):
            excluded.append(cell)
        else:
            kept.append(cell)
            kept_times.append(number)
    for index, hit in enumerate(matched):
        if not hit:
            report.wrong(
                (*_AT, "exclude", index), "this entry matches no cell of the design, so it excludes nothing"
            )
    if not kept:
        report.wrong((*_AT, "exclude"), "every cell is excluded: no run is left")
    check_partners(kept, raw, report)
    return Cells(tuple(kept), tuple(kept_times), tuple(excluded))


def _matches(entry: Mapping[str, Sequence[str]], cell: Labels) -> bool:
    return all(cell.get(name) in labels for name, labels in entry.items())


def _factorial(factors: Sequence[Factor], kind: str) -> Iterator[Labels]:
    """Every combination; the last factor of the file varies fastest. A nested factor is absent if its `when` is not
    satisfied."""
    order = in_order(factors) or []

    def grow(index: int, labels: dict[str, str]) -> Iterator[Labels]:
        if index == len(order):
            yield dict(labels)
            return
        factor = order[index]
        if not factor.is_active(labels):
            yield from grow(index + 1, labels)
            return
        for label in levels_used(factor, kind):
            labels[factor.name] = label
            yield from grow(index + 1, labels)
        del labels[factor.name]

    return grow(0, {})


def _one_at_a_time(factors: Sequence[Factor], raw: DesignRaw, report: Report) -> Iterator[Labels]:
    """The base, then each factor varied alone. A nested factor is only varied if it is active in the base."""
    wanted = {factor.name: raw.base.get(factor.name, factor.labels[0]) for factor in factors}
    order = in_order(factors) or []
    base = _active_labels(wanted, order)
    yield base
    for factor in factors:
        if factor.name not in base:
            condition = ", ".join(f"{name} = {' or '.join(labels)}" for name, labels in factor.when.items())
            report.wrong(
                (*_AT, "base"),
                f"{factor.name} is never varied: it needs {condition}, which the base does not have",
            )
            continue
        for label in factor.labels:
            if label != base[factor.name]:
                yield _active_labels({**wanted, factor.name: label}, order)


def _active_labels(wanted: Labels, order: Sequence[Factor]) -> Labels:
    """The labels without those of nested factors that are not active."""
    labels: dict[str, str] = {}
    for factor in order:
        if factor.is_active(labels):
            labels[factor.name] = wanted[factor.name]
    return labels


def read_table(
    text: str, factors: Sequence[Factor], tree: Mapping[str, object], report: Report
) -> tuple[tuple[Factor, ...], tuple[Labels, ...]]:
    """All factors of a table design, and its rows as cells. Columns are factors of the file, or paths, which become
    factors with the values of the column. In an empty field, a nested factor is absent.
    """
    at: KeyPath = (*_AT, "table")
    rows = [row for row in csv.reader(io.StringIO(text)) if any(field.strip() for field in row)]
    if len(rows) < 2:
        report.wrong(at, "the table needs a header line with the names of factors, and at least one row")
        return tuple(factors), ()
    names = [name.strip() for name in rows[0]]
    by_name = {factor.name: factor for factor in factors}
    known = {
        name: by_name.get(name) or _column(name, index, rows[1:], tree, at, report)
        for index, name in enumerate(names)
    }
    if len(known) < len(names):
        report.wrong(at, "two columns have the same name")
    missing = [name for name in by_name if name not in known]
    if missing:
        report.wrong(at, f"the table has no column for the factor {missing[0]}")
    cells = []
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(names):
            report.wrong(at, f"row {number} has {len(row)} fields, the header line has {len(names)}")
            continue
        cell: dict[str, str] = {}
        for name, value in zip(names, (field.strip() for field in row), strict=True):
            factor = known[name]
            if factor is None or (not value and factor.when):
                continue
            if value not in factor.labels:
                near = nearest(value, factor.labels)
                report.wrong(at, f'row {number}: the factor {name} has no level "{value}"', near)
                continue
            cell[name] = value
        cells.append(cell)
    return tuple(factor for factor in known.values() if factor is not None), tuple(cells)


def _column(
    name: str,
    index: int,
    rows: Sequence[Sequence[str]],
    tree: Mapping[str, object],
    at: KeyPath,
    report: Report,
) -> Factor | None:
    """A factor from a column that is a path: its levels are the values of the column, in their order."""
    path = checked_path(name, tree, at, report)
    if path is None:
        return None
    values = dict.fromkeys(row[index].strip() for row in rows if index < len(row))
    levels = []
    for text in values:
        value = plain_scalar(text)
        levels.append(Level(text, (Setting(path, value, at),), quantity(value)))
    return Factor(name, tuple(levels), {}) if levels else None


def arrange(cells: Cells, factors: Sequence[Factor], raw: DesignRaw, seed: int) -> tuple[Slot, ...]:
    """All runs in the order in which they are carried out.

    Blocks are outermost, and looped factors in the order of the file are innermost, or the levels of a pair. Between
    them, the order is random (`order: listed`: as listed, repetition by repetition).
    """
    random = raw.order == "random"
    level_index = {
        factor.name: {label: index for index, label in enumerate(factor.labels)} for factor in factors
    }
    innermost = [raw.pair] if raw.pair is not None else raw.loop
    first: dict[tuple[tuple[str, str], ...], int] = {}
    slots = []
    for index, labels in enumerate(cells.labels):
        group = tuple((name, label) for name, label in labels.items() if name not in innermost)
        first.setdefault(group, index)
        for repetition in range(1, raw.max_repetitions * cells.times[index] + 1):
            outer = tuple(
                (name, str(repetition) if name == REPETITION else labels.get(name, "")) for name in raw.blocks
            )
            free: tuple[object, ...] = (
                (_draw(seed, group, repetition),) if random else (repetition, first[group])
            )
            block = (
                ", ".join(f"repetition {label}" if name == REPETITION else label for name, label in outer)
                or None
            )
            for inner, control in _inner(labels, group, repetition, factors, raw, seed, level_index):
                key = (_block_key(outer, level_index, seed, random), free, inner, index)
                slots.append((key, Slot(index, repetition, block, control)))
    slots.sort(key=lambda item: item[0])
    return tuple(slot for _, slot in slots)


def _inner(
    labels: Labels,
    group: Sequence[tuple[str, str]],
    repetition: int,
    factors: Sequence[Factor],
    raw: DesignRaw,
    seed: int,
    level_index: Mapping[str, Mapping[str, int]],
) -> Iterator[tuple[tuple[int, ...], bool]]:
    """The innermost place of each run of a cell in a repetition, and whether it is the control."""
    if raw.pair is None:
        yield tuple(level_index[name].get(labels.get(name, ""), -1) for name in raw.loop), False
        return
    place = places(repetition, bool(_draw(seed, group, 0)[0] & 1), raw.control)
    for role in roles(labels, raw, factors):
        yield (place[role],), role is Role.CONTROL


def _block_key(
    outer: Sequence[tuple[str, str]], level_index: Mapping[str, Mapping[str, int]], seed: int, random: bool
) -> tuple[object, ...]:
    """The sort key of a block: repetitions in their order, levels of a factor at random within the outer blocks."""
    key: list[object] = []
    for depth, (name, label) in enumerate(outer):
        if name == REPETITION:
            key.append(int(label))
        elif random:
            key.append(_draw(seed, outer[: depth + 1], 0))
        else:
            key.append(level_index[name].get(label, -1))
    return tuple(key)


def _draw(seed: int, labels: Sequence[tuple[str, str]], repetition: int) -> bytes:
    """A hash that is uniformly distributed over cells, and the same for the same seed, cell and repetition."""
    text = repr((seed, sorted(labels), repetition)).encode()
    return hashlib.blake2b(text, digest_size=16).digest()


def run_seed(seed: int, labels: Labels, repetition: int, *, control: bool = False) -> int:
    """The seed of the random numbers of one run: 63 bits, different for each cell and repetition, and for the
    control."""
    text = repr(("control" if control else "run", seed, sorted(labels.items()), repetition)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def missing_combinations(cells: Sequence[Labels], factors: Sequence[Factor]) -> list[tuple[str, str, str]]:
    """Pairs of factors with a combination of levels that is never run, and one such combination as text.

    The interaction of such a pair cannot be estimated.
    """
    missing = []
    for first, second in itertools.combinations(factors, 2):
        seen = {(cell.get(first.name), cell.get(second.name)) for cell in cells}
        have_first = [label for label in first.labels if any(cell.get(first.name) == label for cell in cells)]
        have_second = [
            label for label in second.labels if any(cell.get(second.name) == label for cell in cells)
        ]
        gap = next(((a, b) for a in have_first for b in have_second if (a, b) not in seen), None)
        if gap is not None:
            missing.append((first.name, second.name, f"{gap[0]} with {gap[1]} is never run"))
    return missing
