"""What the factors explain, in sentences: the allocation of variation of a factorial design (Jain 17.5, 18.5, 22.4)."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.results import Analysis, Effect, Model
from plimsoll.analyse.wording import describe, factor_word, listing, number, percent

WORTH_SAYING: Final = 5.0
"""Terms below this share of the variation, in percent, are summed up as the rest."""
MOST_TERMS: Final = 4
LEADS: Final = 25.0
"""Share of the variation, in percent, from which on a factor's best and worst level are named."""


def explained(analysis: Analysis) -> list[str]:
    """A sentence per response whose variation could be allocated; nothing where there is one factor: it explains all
    that is no noise, and the charts show how."""
    if len(analysis.experiment.factors) < 2:
        return []
    said = [text for model in analysis.models if (text := _sentence(analysis, model))]
    return [*said, *_ends(analysis)]


def term_words(each: Effect) -> str:
    """`zip × testers` for an interaction, with what it cannot be told from: `zip + users × testers`."""
    if not each.parts:
        return each.term
    first, *others = (
        (part.sign, " × ".join(factor_word(name) for name in part.factors)) for part in each.parts
    )
    return first[1] + "".join(f" {'+' if sign > 0 else '-'} {words}" for sign, words in others)


def _sentence(analysis: Analysis, model: Model) -> str:
    shares = [
        (each, each.variation_percent)
        for each in analysis.effects
        if (each.response, each.scale) == (model.response, model.scale) and each.variation_percent is not None
    ]
    noise = next((share for each, share in shares if each.term == "residual"), None)
    ranked = sorted(
        ((each, share) for each, share in shares if each.term != "residual"), key=lambda item: -item[1]
    )
    named = [(each, share) for each, share in ranked[:MOST_TERMS] if share >= WORTH_SAYING]
    if not named:
        return ""
    what = f"the {'logarithm of the ' if model.scale == 'log' else ''}{describe(model.response).title}"
    first = f"{term_words(named[0][0])} explains {_share(named[0][1])}"
    parts = [first, *(f"{term_words(each)} {_share(share)}" for each, share in named[1:])]
    told = f"Of the variation of {what} between the runs, {listing(parts)}"
    if noise is None or model.error_df <= 0:  # a fit with nothing left over explains its noise as well
        return f"{told}."
    return f"{told}; {_share(noise)} is left unexplained."


def _ends(analysis: Analysis) -> list[str]:
    """The best and the worst level of the factor that explains most of the first response, where that is on the
    logarithmic scale (effects are factors there) and the factor does not go by the load."""
    model = next(iter(analysis.models), None)
    if model is None or model.scale != "log":
        return []
    mine = [each for each in analysis.effects if (each.response, each.scale) == (model.response, model.scale)]
    mains = [
        each
        for each in mine
        if each.variation_percent is not None and each.term in analysis.experiment.factors
    ]
    most = max(mains, key=lambda each: each.variation_percent or 0.0, default=None)
    if (
        most is None
        or (most.variation_percent or 0.0) < LEADS
        or most.term == analysis.experiment.load_factor
    ):
        return []
    levels = [each for each in mine if each.term == most.term and each.effect is not None]
    levels.sort(key=lambda each: -(each.effect or 0.0))
    if len(levels) < 2:
        return []
    best, worst = (
        f"{factor_word(each.term)} {each.level} {_times(each)}" for each in (levels[0], levels[-1])
    )
    return [
        f"Over all other factors, the {describe(model.response).title} of {best} the mean, that of {worst}."
    ]


def _times(each: Effect) -> str:
    found = f"is {number(each.effect)} times"
    interval = each.interval
    if interval is None or interval.low is None or interval.high is None:
        return found
    return f"{found} ({number(interval.low)} to {number(interval.high)})"


def _share(value: float) -> str:
    return percent(value / 100, 2)
