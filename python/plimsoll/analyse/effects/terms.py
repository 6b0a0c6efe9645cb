"""Which terms of a factorial model can be estimated from the runs that there are, found before anything is fitted.

A term is a set of factors: one (main effect) or more (interaction). Its columns are products of sum contrasts over the
rows in which all its factors apply, zero elsewhere: that is how nested factors (`when:`) enter. Lower orders come
first: a term that lies in the span of lower ones is named beside them as an alias ("C + A:E"), and terms of one order
that span the same space share one line. A term that can be estimated in part keeps the degrees of freedom and the sum
of squares that are its own, but no effects; what such terms have in common is a line of its own. Nothing is ever split
between aliases, and the order of the factors decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from plimsoll.analyse.results.verdicts import ModelReason, Reason, Severity, TermPart, Value
from plimsoll.analyse.stats.linear import (
    Array,
    Indexes,
    codes,
    contrast,
    joined,
    new_directions,
    outside,
    product_columns,
    same_span,
)

MAX_COLUMNS = 1500
"""Orders are added while the candidate columns stay below this: a limit on time (the work grows with its cube)."""


@dataclass(frozen=True)
class Factor:
    """A factor as the runs have it. `index` has one level number per run, -1 where the factor does not apply."""

    name: str
    levels: tuple[str, ...]
    index: Indexes


@dataclass
class Term:
    """A term that takes part in the fit.

    `columns` are its contrasts (n, df), or, where `complete` is false, an orthonormal basis of what can be estimated.
    `to_levels` maps coefficients to the effects of `labels` (level combinations).
    """

    name: str
    factors: tuple[str, ...]
    columns: Array
    labels: tuple[str, ...]
    to_levels: Array
    complete: bool = True
    aliases: list[str] = field(default_factory=list)
    parts: list[TermPart] = field(default_factory=list)
    """Its own factors, then those of each alias."""

    def __post_init__(self) -> None:
        self.parts = self.parts or [TermPart(self.factors)]

    @property
    def title(self) -> str:
        """The name with its aliases: `C + A:E`."""
        return self.name + "".join(f" {a}" if a.startswith("-") else f" + {a}" for a in self.aliases)


def make_factors(
    factors: Mapping[str, Sequence[str | None]], levels: Mapping[str, Sequence[str]] | None = None
) -> list[Factor]:
    """Factors from level labels per run (None: does not apply). Factors with one level are left out."""
    made = []
    for name, labels in factors.items():
        index, known = codes(labels, (levels or {}).get(name))
        if len(known) > 1:
            made.append(Factor(name, tuple(known), index))
    return made


def is_complete(factors: Sequence[Factor]) -> bool:
    """Whether every combination of levels was run (nested factors: within the rows where all of them apply)."""
    if not factors:
        return True
    for group in _applicable_groups(factors):
        rows = np.all([f.index >= 0 for f in group], axis=0)
        seen = np.unique(np.column_stack([f.index[rows] for f in group]), axis=0).shape[0]
        wanted = 1
        for f in group:
            wanted *= np.unique(f.index[rows]).size
        if seen < wanted:
            return False
    return True


def _applicable_groups(factors: Sequence[Factor]) -> list[list[Factor]]:
    pattern = np.column_stack([f.index >= 0 for f in factors])
    groups = [[f for f, on in zip(factors, row, strict=True) if on] for row in np.unique(pattern, axis=0)]
    return [group for group in groups if group]


def _build(group: Sequence[Factor], weighted: bool) -> Term | None:
    """The term of these factors, or None if some factor has one level only in the rows where all apply."""
    rows = np.all([f.index >= 0 for f in group], axis=0)
    blocks, names, maps = [], [], []
    for f in group:
        here, counts = np.unique(f.index[rows], return_counts=True)
        if here.size < 2:
            return None
        k = contrast(int(here.size), counts.tolist() if weighted else None)
        position = np.full(len(f.levels), 0, dtype=np.int64)
        position[here] = np.arange(here.size)
        block = np.zeros((rows.size, here.size - 1))
        block[rows] = k[position[f.index[rows]]]
        blocks.append(block)
        maps.append(k)
        names.append([f.levels[i] for i in here])
    to_levels: Array = maps[0]
    labels = names[0]
    for k, more in zip(maps[1:], names[1:], strict=True):
        to_levels = np.kron(to_levels, k).astype(np.float64)
        labels = [f"{a}, {b}" for a in labels for b in more]
    name = ":".join(f.name for f in group)
    return Term(name, tuple(f.name for f in group), product_columns(blocks), tuple(labels), to_levels)


def candidates(
    factors: Sequence[Factor], max_order: int | None, *, equal_weights: bool = False
) -> tuple[list[list[Term]], Reason | None]:
    """Terms by order, and why the orders stop (None if they do not).

    `max_order` None: every order if the design is complete, else main effects and interactions of two factors. The
    levels of a single factor are weighted by their counts (Jain 20.5), with `equal_weights` by 1.
    """
    why = None
    complete = is_complete(factors)
    top = max_order if max_order is not None else (len(factors) if complete else min(2, len(factors)))
    if top < len(factors):
        figures: dict[str, Value] = {"order": top, "asked": max_order is not None}
        why = Reason(ModelReason.ORDERS_ABSENT, Severity.NOTE, figures)
    out: list[list[Term]] = []
    columns = 0
    for order in range(1, min(top, len(factors)) + 1):
        weighted = len(factors) == 1 and not equal_weights
        terms = [t for t in _terms_of_order(factors, order, weighted=weighted) if t is not None]
        columns += sum(t.columns.shape[1] for t in terms)
        if columns > MAX_COLUMNS and order > 1:
            figures = {"order": order, "most_columns": MAX_COLUMNS}
            return out, Reason(ModelReason.ORDERS_LEFT_OUT, Severity.NOTE, figures)
        out.append(terms)
    return out, why


def _terms_of_order(factors: Sequence[Factor], order: int, weighted: bool) -> Iterator[Term | None]:
    for group in combinations(factors, order):
        yield _build(group, weighted)


@dataclass(frozen=True)
class Selection:
    """The terms in the model, the aliases of each, and a basis of all of them."""

    terms: tuple[Term, ...]
    not_estimable: tuple[str, ...]
    basis: Array


def select(by_order: Sequence[Sequence[Term]], base: Array, base_name: str = "block") -> Selection:
    """Sorts the candidates into terms to fit and things that cannot be estimated.

    `base`: orthonormal basis (n, >= 1) of the mean and, if there are any, the blocks.
    """
    kept: list[Term] = []
    named: list[str] = []
    basis = base
    for terms in by_order:
        fresh: list[tuple[Term, Array]] = []
        for term in terms:
            added = new_directions(term.columns, basis)
            if added.shape[1] == 0:
                named.extend(_alias_of_lower(term, kept, base, base_name))
                continue
            twin = next((t for t, span in fresh if _twins(term, added, t, span)), None)
            if twin is not None:
                _add_alias(twin, term)
                continue
            fresh.append((term, added))
        basis = _settle(fresh, basis, kept, named)
    named.extend(
        f"{t.title}: not separable from each other, one effect for the sum" for t in kept if t.aliases
    )
    return Selection(tuple(kept), tuple(named), basis)


def _twins(a: Term, a_span: Array, b: Term, b_span: Array) -> bool:
    """Whether two terms add the same directions, each with all its degrees of freedom."""
    return (
        a_span.shape[1] == a.columns.shape[1]
        and b_span.shape[1] == b.columns.shape[1]
        and same_span(a_span, b_span)
    )


def _settle(fresh: list[tuple[Term, Array]], basis: Array, kept: list[Term], named: list[str]) -> Array:
    """Takes the terms of one order into the fit. Those that overlap keep only what no other term of the order spans;
    the directions that they share become one more term, named after all of them."""
    whole = joined(basis, *(span for _, span in fresh))
    if whole.shape[1] == basis.shape[1] + sum(t.columns.shape[1] for t, _ in fresh):
        kept.extend(term for term, _ in fresh)  # nothing overlaps: the usual case
        return whole
    overlapping: list[Term] = []
    grown = basis
    for i, (term, span) in enumerate(fresh):
        others = joined(basis, *(other for j, (_, other) in enumerate(fresh) if j != i))
        own = new_directions(term.columns, others)
        full = term.columns.shape[1]
        if own.shape[1] < span.shape[1]:
            overlapping.append(term)
        if own.shape[1] < full:
            named.append(
                f"{term.name}: only {own.shape[1]} of its {full} degrees of freedom can be separated from other terms"
            )
            if own.shape[1] == 0:
                continue
            term.complete = False
            term.columns = own
        grown = joined(grown, new_directions(term.columns, grown))
        kept.append(term)
    common = new_directions(whole, grown)
    if overlapping and common.shape[1]:
        kept.append(_common(overlapping, common))
    return whole


def _common(overlapping: Sequence[Term], columns: Array) -> Term:
    name = " + ".join(term.name for term in overlapping)
    factors = tuple(dict.fromkeys(factor for term in overlapping for factor in term.factors))
    parts = [part for term in overlapping for part in term.parts]
    return Term(name, factors, columns, (), np.zeros((0, columns.shape[1])), complete=False, parts=parts)


def _add_alias(lead: Term, term: Term) -> None:
    sign = _sign(lead.columns, term.columns) if lead.columns.shape[1] == 1 else 1
    lead.aliases.append(term.name if sign > 0 else f"- {term.name}")
    lead.parts.append(TermPart(term.factors, sign))


def _sign(a: Array, b: Array) -> int:
    return 1 if float(np.sum(a * b)) >= 0 else -1


def _alias_of_lower(term: Term, kept: list[Term], base: Array, base_name: str) -> list[str]:
    """Names what a term is aliased with: the blocks, or several terms. One kept term takes it into its title."""
    if float(np.abs(outside(term.columns, base)).max(initial=0.0)) < 1e-9:
        return [f"{term.name}: the same as {base_name if base.shape[1] > 1 else 'the mean'}"]
    for lead in kept:
        if new_directions(term.columns, joined(base, new_directions(lead.columns, base))).shape[1] == 0:
            _add_alias(lead, term)
            return []
    part = [t.name for t in kept if float(np.linalg.norm(t.columns.T @ outside(term.columns, base))) > 1e-9]
    return [f"{term.name}: is a linear combination of {', '.join(part) if part else 'lower terms'}"]
