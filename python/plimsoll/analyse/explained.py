"""What the factors explain, in sentences: the allocation of variation of a factorial design (Jain 17.5, 18.5, 22.4)."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.results import Analysis, Model
from plimsoll.analyse.wording import describe, factor_word, listing, percent

WORTH_SAYING: Final = 5.0
"""Terms below this share of the variation, in percent, are summed up as the rest."""
MOST_TERMS: Final = 4


def explained(analysis: Analysis) -> list[str]:
    """A sentence per response whose variation could be allocated; nothing where there is one factor: it explains all
    that is no noise, and the charts show how."""
    if len(analysis.experiment.factors) < 2:
        return []
    return [text for model in analysis.models if (text := _sentence(analysis, model))]


def term_words(term: str) -> str:
    """`zip × testers` for an interaction as the fit names it."""
    return " × ".join(factor_word(part) for part in term.split(":"))


def _sentence(analysis: Analysis, model: Model) -> str:
    shares = {
        each.term: each.variation_percent
        for each in analysis.effects
        if (each.response, each.scale) == (model.response, model.scale) and each.variation_percent is not None
    }
    noise = shares.pop("residual", None)
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    named = [(term, share) for term, share in ranked[:MOST_TERMS] if share >= WORTH_SAYING]
    if not named:
        return ""
    what = f"the {'logarithm of the ' if model.scale == 'log' else ''}{describe(model.response).title}"
    first = f"{term_words(named[0][0])} explains {_share(named[0][1])}"
    parts = [first, *(f"{term_words(term)} {_share(share)}" for term, share in named[1:])]
    told = f"Of the variation of {what} between the runs, {listing(parts)}"
    if noise is None or model.error_df <= 0:  # a fit with nothing left over explains its noise as well
        return f"{told}."
    return f"{told}; {_share(noise)} is left unexplained."


def _share(value: float) -> str:
    return percent(value / 100, 2)
