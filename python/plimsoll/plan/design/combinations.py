"""Which combinations of levels are run, and in which order. Pure: cells are mappings of factor to label.

The number of runs is computed before anything is enumerated, so that a design of a million million runs is
refused at once, with the arithmetic. Order "random" sorts by a keyed hash of seed and cell, not by a shuffle:
the order depends on the seed alone, is the same in every version of Python, and a cell that is added moves no
other cell.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from plimsoll.plan.design.factors import Factor, Level, Report, Setting, check_labels, checked_path, in_order
from plimsoll.plan.schema.experiment import DesignRaw
from plimsoll.plan.source.document import KeyPath, plain_scalar
from plimsoll.plan.source.near import nearest
from plimsoll.plan.source.units import quantity

MAX_RUNS: Final = 100_000
REPETITION: Final = "repetition"
"""What `block` may name beside factors."""
_AT: Final[KeyPath] = ("design",)

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Counted:
    """Number of runs, and how it comes about: "3 method x 4 testers x 2 repetitions = 24"."""

    runs: int
    text: str


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a design in listed order, without the excluded ones; a table may give one cell several
    times.

    `times`: how often each is run; `excluded`: what was left out.
    """

    labels: tuple[Labels, ...]
    times: tuple[int, ...]
    excluded: tuple[Labels, ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """One run in its place: which cell (index), which repetition (from 1), in which block (None: no
    blocks)."""

    cell: int
    repetition: int
    block: str | None


def kind_of(raw: DesignRaw) -> str:
    """The design's kind, with its default."""
    return raw.kind or ("table" if raw.table is not None else "full-factorial")


def levels_used(factor: Factor, kind: str) -> tuple[str, ...]:
    """Labels that a design of this kind uses: two for 2^k, else all."""
    return (factor.two or factor.labels) if kind == "2^k" else factor.labels


def count(factors: Sequence[Factor], raw: DesignRaw, rows: int | None = None) -> Counted:
    """Number of runs before `exclude`, computed without enumerating. `rows`: of a table."""
    kind, repeated = kind_of(raw), raw.repetitions
    tail = f" x {repeated} repetitions" if repeated > 1 else ""
    if kind == "table":
        cells, text = rows or 0, f"{rows or 0} rows"
    elif kind == "one-at-a-time":
        cells = 1 + sum(len(factor.levels) - 1 for factor in factors)
        text = " + ".join(["1 base", *(f"{len(factor.levels) - 1} {factor.name}" for factor in factors)])
        text = f"({text})" if tail else text
    else:
        cells, text = _product(factors, kind)
    return Counted(cells * repeated, f"{text}{tail} = {cells * repeated:,}")


def _product(factors: Sequence[Factor], kind: str) -> tuple[int, str]:
    """Number of cells of a factorial design with nested factors: counted over the factors that others depend
    on."""
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
    """Combinations of factors that depend on each other. State: labels of those that a `when` names."""
    states: dict[tuple[tuple[str, str], ...], int] = {(): 1}
    for factor in tied:
        following: dict[tuple[tuple[str, str], ...], int] = {}
        for state, ways in states.items():
            if not factor.active(dict(state)):
                following[state] = following.get(state, 0) + ways
            elif factor.name in named:
                for label in levels_used(factor, kind):
                    key = (*state, (factor.name, label))
                    following[key] = following.get(key, 0) + ways
            else:
                following[state] = following.get(state, 0) + ways * len(levels_used(factor, kind))
        states = following
        if len(states) > MAX_RUNS:  # every state is a combination of its own: enough is known
            break
    return sum(states.values())


def check_design(factors: Sequence[Factor], raw: DesignRaw, rows: int | None, report: Report) -> bool:
    """Whether the design can be enumerated: names exist, 2^k has two levels, the number of runs is
    bearable."""
    by_name = {factor.name: factor for factor in factors}
    fine = check_labels({name: [label] for name, label in raw.base.items()}, by_name, (*_AT, "base"), report)
    for key, names in (("block", raw.block), ("loop", raw.loop)):
        for name in names:
            if name not in by_name and not (key == "block" and name == REPETITION):
                known = [*by_name, REPETITION] if key == "block" else list(by_name)
                report.wrong((*_AT, key), f"there is no factor {name}", nearest(name, known))
                fine = False
    for name in sorted(set(raw.block) & set(raw.loop)):
        report.wrong(
            (*_AT, "loop"), f"{name} cannot be the outermost (block) and the innermost (loop) at once"
        )
        fine = False
    for index, entry in enumerate(raw.exclude):
        fine = check_labels(entry, by_name, (*_AT, "exclude", index), report) and fine
        if not entry:
            report.wrong(
                (*_AT, "exclude", index),
                "the entry is empty: expected factors and levels, such as {testers: 4}",
            )
            fine = False
    if kind_of(raw) == "2^k":
        for factor in factors:
            if factor.two is None:
                have = f"{factor.name} has {len(factor.levels)}"
                report.wrong(
                    ("factors", factor.name),
                    f"2^k needs two levels of each factor, {have}: give low and high",
                )
                fine = False
    total = count(factors, raw, rows)
    if total.runs > MAX_RUNS:
        report.wrong(
            ("factors",),
            f"the design has {total.runs:,} runs ({total.text}), the limit is {MAX_RUNS:,}: use fewer "
            f"levels or factors, one-at-a-time, 2^k, or a table",
        )
        fine = False
    return fine


def enumerate_cells(
    factors: Sequence[Factor], raw: DesignRaw, table: Sequence[Labels] | None, report: Report
) -> Cells:
    """All cells; call it only after `check_design`. What matches nothing in `exclude` or `base` is
    reported."""
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
    return Cells(tuple(kept), tuple(kept_times), tuple(excluded))


def _matches(entry: Mapping[str, Sequence[str]], cell: Labels) -> bool:
    return all(cell.get(name) in labels for name, labels in entry.items())


def _factorial(factors: Sequence[Factor], kind: str) -> Iterator[Labels]:
    """Every combination, the last factor of the file fastest; a nested factor is absent where its `when`
    fails."""
    order = in_order(factors) or []

    def grow(index: int, labels: dict[str, str]) -> Iterator[Labels]:
        if index == len(order):
            yield dict(labels)
            return
        factor = order[index]
        if not factor.active(labels):
            yield from grow(index + 1, labels)
            return
        for label in levels_used(factor, kind):
            labels[factor.name] = label
            yield from grow(index + 1, labels)
        del labels[factor.name]

    return grow(0, {})


def _one_at_a_time(factors: Sequence[Factor], raw: DesignRaw, report: Report) -> Iterator[Labels]:
    """The base, then each factor varied alone. A nested factor must be at work in the base to be varied at
    all."""
    wanted = {factor.name: raw.base.get(factor.name, factor.labels[0]) for factor in factors}
    order = in_order(factors) or []
    base = _settled(wanted, order)
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
                yield _settled({**wanted, factor.name: label}, order)


def _settled(wanted: Labels, order: Sequence[Factor]) -> Labels:
    """The labels without those of nested factors that are not at work."""
    labels: dict[str, str] = {}
    for factor in order:
        if factor.active(labels):
            labels[factor.name] = wanted[factor.name]
    return labels


def read_table(
    text: str, factors: Sequence[Factor], tree: Mapping[str, object], report: Report
) -> tuple[tuple[Factor, ...], tuple[Labels, ...]]:
    """Rows of a table design: columns are factors of the file, or paths, which become factors with the values
    found.

    A field that is empty leaves a nested factor out. Gives all factors and the rows as cells.
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
    """A column that is a path: a factor whose levels are the values found in it, in their order."""
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

    Outermost the blocks, innermost the looped factors in the order of the file, and what these leave free at
    random (`order: listed`: as listed, repetition by repetition).
    """
    random = raw.order == "random"
    place = {factor.name: {label: index for index, label in enumerate(factor.labels)} for factor in factors}
    first: dict[tuple[tuple[str, str], ...], int] = {}
    slots = []
    for index, labels in enumerate(cells.labels):
        group = tuple((name, label) for name, label in labels.items() if name not in raw.loop)
        first.setdefault(group, index)
        inner = tuple(place[name].get(labels.get(name, ""), -1) for name in raw.loop)
        for repetition in range(1, raw.repetitions * cells.times[index] + 1):
            outer = tuple(
                (name, str(repetition) if name == REPETITION else labels.get(name, "")) for name in raw.block
            )
            free: tuple[object, ...] = (
                (_draw(seed, group, repetition),) if random else (repetition, first[group])
            )
            key = (_block_key(outer, place, seed, random), free, inner, index)
            block = (
                ", ".join(f"repetition {label}" if name == REPETITION else label for name, label in outer)
                or None
            )
            slots.append((key, Slot(index, repetition, block)))
    slots.sort(key=lambda item: item[0])
    return tuple(slot for _, slot in slots)


def _block_key(
    outer: Sequence[tuple[str, str]], place: Mapping[str, Mapping[str, int]], seed: int, random: bool
) -> tuple[object, ...]:
    """Blocks by repetition come in turn, blocks by a factor at random within what is outside them."""
    key: list[object] = []
    for depth, (name, label) in enumerate(outer):
        if name == REPETITION:
            key.append(int(label))
        elif random:
            key.append(_draw(seed, outer[: depth + 1], 0))
        else:
            key.append(place[name].get(label, -1))
    return tuple(key)


def _draw(seed: int, what: Sequence[tuple[str, str]], repetition: int) -> bytes:
    """A number that is uniform over cells for any seed, and always the same for the same cell."""
    text = repr((seed, sorted(what), repetition)).encode()
    return hashlib.blake2b(text, digest_size=16).digest()


def run_seed(seed: int, labels: Labels, repetition: int) -> int:
    """The seed of one run's random choices: 63 bits, different for each cell and repetition."""
    text = repr(("run", seed, sorted(labels.items()), repetition)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def missing_combinations(cells: Sequence[Labels], factors: Sequence[Factor]) -> list[tuple[str, str, str]]:
    """Pairs of factors of which some combination of levels is never run, with one such combination.

    The interaction of such a pair cannot be estimated.
    """
    found = []
    for first, second in itertools.combinations(factors, 2):
        seen = {(cell.get(first.name), cell.get(second.name)) for cell in cells}
        have_first = [label for label in first.labels if any(cell.get(first.name) == label for cell in cells)]
        have_second = [
            label for label in second.labels if any(cell.get(second.name) == label for cell in cells)
        ]
        gap = next(((a, b) for a in have_first for b in have_second if (a, b) not in seen), None)
        if gap is not None:
            found.append((first.name, second.name, f"{gap[0]} with {gap[1]} is never run"))
    return found
