"""The terms of a factorial model that can be estimated from the available runs, selected before the fit.

A term is a set of factors: one (main effect) or more (interaction). Its columns are products of sum contrasts over the
rows in which all its factors apply, zero elsewhere: so nested factors (`when:`) are part of the model. Lower orders are
first: a term that lies in the span of lower ones is named with them as an alias ("C + A:E"), and terms of one order
that span the same space share one line. A term that can be estimated in part keeps its own degrees of freedom and sum
of squares, but has no effects; the directions that such terms share have their own line. No effect is split between
aliases, and the result does not depend on the order of the factors.
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
"""Maximum number of candidate columns, which limits the time: the work grows with its cube."""


@dataclass(frozen=True)
class Factor:
    """A factor with its levels in the runs. `index`: one level number per run, -1 if the factor does not apply."""

    name: str
    levels: tuple[str, ...]
    index: Indexes


@dataclass
class Term:
    """A term that takes part in the fit.

    `columns` are its contrasts (n, df), or, if `complete` is false, an orthonormal basis of the estimable directions.
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
    varied = []
    for name, labels in factors.items():
        index, known = codes(labels, (levels or {}).get(name))
        if len(known) > 1:
            varied.append(Factor(name, tuple(known), index))
    return varied


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


def _term_of(group: Sequence[Factor], weighted: bool) -> Term | None:
    """The term of these factors; None if a factor has only one level in the rows in which all of them apply."""
    rows = np.all([f.index >= 0 for f in group], axis=0)
    blocks, names, maps = [], [], []
    for f in group:
        present, counts = np.unique(f.index[rows], return_counts=True)
        if present.size < 2:
            return None
        k = contrast(int(present.size), counts.tolist() if weighted else None)
        position = np.full(len(f.levels), 0, dtype=np.int64)
        position[present] = np.arange(present.size)
        block = np.zeros((rows.size, present.size - 1))
        block[rows] = k[position[f.index[rows]]]
        blocks.append(block)
        maps.append(k)
        names.append([f.levels[i] for i in present])
    to_levels: Array = maps[0]
    labels = names[0]
    for k, names_of_next in zip(maps[1:], names[1:], strict=True):
        to_levels = np.kron(to_levels, k).astype(np.float64)
        labels = [f"{a}, {b}" for a in labels for b in names_of_next]
    name = ":".join(f.name for f in group)
    return Term(name, tuple(f.name for f in group), product_columns(blocks), tuple(labels), to_levels)


def candidates(
    factors: Sequence[Factor], max_order: int | None, *, equal_weights: bool = False
) -> tuple[list[list[Term]], Reason | None]:
    """Terms by order, and the reason if not all orders are included (None if they are).

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
        yield _term_of(group, weighted)


@dataclass(frozen=True)
class Selection:
    """The terms in the model, remarks on the effects that cannot be estimated, and a basis of all terms."""

    terms: tuple[Term, ...]
    not_estimable: tuple[str, ...]
    basis: Array


def select(by_order: Sequence[Sequence[Term]], base: Array, base_name: str = "block") -> Selection:
    """Divides the candidates into terms of the fit and effects that cannot be estimated.

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
            twin = next((t for t, span in fresh if _is_twin(term, added, t, span)), None)
            if twin is not None:
                _add_alias(twin, term)
                continue
            fresh.append((term, added))
        basis = _add_order(fresh, basis, kept, named)
    named.extend(
        f"{t.title}: not separable from each other, one effect for the sum" for t in kept if t.aliases
    )
    return Selection(tuple(kept), tuple(named), basis)


def _is_twin(a: Term, a_span: Array, b: Term, b_span: Array) -> bool:
    """Whether two terms add the same directions, each with all its degrees of freedom."""
    return (
        a_span.shape[1] == a.columns.shape[1]
        and b_span.shape[1] == b.columns.shape[1]
        and same_span(a_span, b_span)
    )


def _add_order(fresh: list[tuple[Term, Array]], basis: Array, kept: list[Term], named: list[str]) -> Array:
    """Adds the terms of one order to `kept`, and remarks to `named`; returns the new basis. Terms that overlap keep
    only the directions that no other term of the order spans. The directions that they share become a further term,
    named after all of them."""
    whole = joined(basis, *(span for _, span in fresh))
    if whole.shape[1] == basis.shape[1] + sum(t.columns.shape[1] for t, _ in fresh):
        kept.extend(term for term, _ in fresh)  # no terms overlap: the usual case
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
        kept.append(_common_term(overlapping, common))
    return whole


def _common_term(overlapping: Sequence[Term], columns: Array) -> Term:
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
    """Adds the term as an alias to a kept term that spans it; if there is none, returns a remark that names its
    aliases: the blocks, the mean, or several terms."""
    if float(np.abs(outside(term.columns, base)).max(initial=0.0)) < 1e-9:
        return [f"{term.name}: the same as {base_name if base.shape[1] > 1 else 'the mean'}"]
    for lead in kept:
        if new_directions(term.columns, joined(base, new_directions(lead.columns, base))).shape[1] == 0:
            _add_alias(lead, term)
            return []
    part = [t.name for t in kept if float(np.linalg.norm(t.columns.T @ outside(term.columns, base))) > 1e-9]
    return [f"{term.name}: is a linear combination of {', '.join(part) if part else 'lower terms'}"]
