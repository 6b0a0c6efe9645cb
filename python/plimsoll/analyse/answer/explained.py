"""The variation that the factors explain, in sentences: a factorial design's allocation (Jain 17.5, 18.5, 22.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from plimsoll.analyse.answer.reasons import figure
from plimsoll.analyse.answer.words import capital
from plimsoll.analyse.results.analysis import Analysis, Effect, Model
from plimsoll.analyse.results.verdicts import ModelReason, Reason
from plimsoll.analyse.results.wording import describe, factor_word, listing, number, p_words, percent, signed
from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.analyse.stats.interval import Interval

WORTH_SAYING: Final = 5.0
"""Terms below this share of the variation, in percent, are summed up as the rest."""
MAX_TERMS: Final = 4
DETECTED: Final = 0.05
"""Adjusted p-value of a term below which its factor has an effect."""
LEADS: Final = 25.0
"""Share of the variation, in percent, from which on a factor's best and worst level are named."""


def explained(analysis: Analysis) -> list[str]:
    """A sentence per response on what varies it; nothing where there is one factor: it explains all that is no noise,
    and the charts show how. Tests are those of all terms of a model together."""
    if len(analysis.experiment.factors) < 2:
        return []
    said = [text for model in analysis.models if (text := _sentence(analysis, model))]
    return [*said, *_ends(analysis), *_not_detected(analysis), *_with_blocks(analysis), *_looped(analysis)]


def _is_detected(each: Effect) -> bool:
    """Whether the term has an effect; without an error term to test it against, it counts as detected."""
    return each.adjusted_p_value is None or each.adjusted_p_value < DETECTED


def term_words(each: Effect) -> str:
    """`zip × testers` for an interaction; with its aliases: `zip + users × testers`."""
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
    known = [(each, share) for each, share in ranked if share >= WORTH_SAYING and _is_detected(each)]
    named = known[:MAX_TERMS]
    what = f"{'log ' if model.scale == 'log' else ''}{describe(model.response).title}"
    if not shares:
        return _without_shares(analysis, model, what)
    if not named:
        return ""
    parts = [f"{term_words(each)} {_share(share)}" for each, share in named]
    told = f"Variation of {what} between the runs: {listing(parts)}"
    if noise is None or model.error_df <= 0:  # a fit with nothing left over explains its noise as well
        return f"{told}."
    return f"{told}; unexplained {_share(noise)}."


def _without_shares(analysis: Analysis, model: Model, what: str) -> str:
    """Where the sums of squares do not add up, as a run is missing: terms that have an effect, and why no shares."""
    lost = next((each for each in model.reasons if each.code == ModelReason.NO_ALLOCATION), None)
    mine = [each for each in analysis.effects if (each.response, each.scale) == (model.response, model.scale)]
    found = [each for each in mine if each.adjusted_p_value is not None and _is_detected(each)]
    if lost is None or not found:
        return ""
    found.sort(key=lambda each: each.adjusted_p_value or 0.0)
    terms = listing(term_words(each) for each in found[:MAX_TERMS])
    total = percent(figure(lost.values, "share"), 4)
    have = "has an effect" if len(found) == 1 else "have effects"
    why = f"runs are missing or unequal, so the shares would add up to {total}"
    return f"{capital(terms)} {have} on the {what}. Shares of its variation are not reported: {why}."


def _ends(analysis: Analysis) -> list[str]:
    """The best and the worst level of the factor that explains most of the first response, where that is on the
    logarithmic scale (effects are factors there) and the factor does not go by the load."""
    model = next(iter(analysis.models), None)
    if model is None or model.scale != "log":
        return []
    mine = [each for each in analysis.effects if (each.response, each.scale) == (model.response, model.scale)]
    mains = [each for each in mine if each.term in analysis.experiment.factors]
    heads = [each for each in mains if each.df is not None and _is_detected(each)]
    shared = any(each.variation_percent is not None for each in mine)
    most = max(heads, key=lambda each: (each.variation_percent or 0.0, _reach(mains, each)), default=None)
    if (
        most is None
        or (shared and (most.variation_percent or 0.0) < LEADS)
        or most.term == analysis.experiment.load_factor
    ):
        return []
    levels = [each for each in mine if each.term == most.term and each.effect is not None]
    levels.sort(key=lambda each: -(each.effect or 0.0))
    if len(levels) < 2:
        return []
    best, worst = (
        f"{factor_word(each.term)} {each.level} {_times(each, model)}" for each in (levels[0], levels[-1])
    )
    return [
        f"Averaged over the other factors, the {describe(model.response).title} of {best} the mean, that of {worst}."
    ]


def _reach(mains: Sequence[Effect], term: Effect) -> float:
    """Highest over lowest effect of a factor's levels on the logarithmic scale."""
    effects = [each.effect for each in mains if each.term == term.term and each.effect is not None]
    return max(effects) / min(effects) if effects and min(effects) > 0 else 0.0


def _simultaneous(interval: Interval | None, model: Model) -> Interval | None:
    """With Bonferroni's correction for the terms of the model, as its p-values have one."""
    if (
        interval is None
        or interval.low is None
        or interval.high is None
        or not interval.df
        or model.family < 2
    ):
        return interval
    tail = (1 - interval.level) / 2
    wider = t_quantile(1 - tail / model.family, interval.df) / t_quantile(1 - tail, interval.df)
    mean, low, high = interval.mean, interval.low, interval.high
    if model.scale == "log" and low > 0:
        return replace(interval, low=mean * (low / mean) ** wider, high=mean * (high / mean) ** wider)
    return replace(interval, low=mean - (mean - low) * wider, high=mean + (high - mean) * wider)


def _not_detected(analysis: Analysis) -> list[str]:
    """Factors without an effect on the first response, and how large an effect the runs leave open."""
    model = next(iter(analysis.models), None)
    if model is None:
        return []
    mine = [each for each in analysis.effects if (each.response, each.scale) == (model.response, model.scale)]
    said = []
    for factor in analysis.experiment.factors:
        levels = [each for each in mine if each.term == factor]
        p = next((each.adjusted_p_value for each in levels if each.adjusted_p_value is not None), None)
        span = _span(model, levels)
        if factor == analysis.experiment.load_factor or p is None or p < DETECTED or span is None:
            continue
        low, high = (signed(100 * end) for end in span)
        what = (
            f"{levels[1].level} relative to {levels[0].level}"
            if len(levels) == 2
            else "each level relative to the overall mean"
        )
        said.append(
            f"No effect of {factor_word(factor)} on the {describe(model.response).title} was detected: it is between "
            f"{low} and {high} % ({what})."
        )
    return said


def _span(model: Model, levels: Sequence[Effect]) -> tuple[float, float] | None:
    """The ends of the simultaneous 95 % intervals of the relative effects: of two levels, whose effects are each
    other's opposite, that of the second against the first; of more, the widest against the mean. None without
    intervals."""
    ends = [_simultaneous(each.interval, model) for each in levels]
    if len(ends) < 2 or not model.fitted:
        return None
    pairs = [(each.low, each.high) for each in ends if each is not None]
    known = [(low, high) for low, high in pairs if low is not None and high is not None]
    if len(known) < len(ends):
        return None
    used = known[1:] if len(known) == 2 else known
    low, high = min(low for low, _ in used), max(high for _, high in used)
    twice = 2 if len(known) == 2 else 1
    if model.scale == "log":
        return low**twice - 1, high**twice - 1
    mean = sum(model.fitted) / len(model.fitted)
    return (twice * low / mean, twice * high / mean) if mean > 0 else None


def _with_blocks(analysis: Analysis) -> list[str]:
    """Factors that were varied between blocks only."""
    blocks = {run.block for run in analysis.runs if run.valid}
    if len(blocks) < 2 or None in blocks:
        return []
    said = []
    for factor in analysis.experiment.factors:
        in_blocks = [
            {run.cell.get(factor) for run in analysis.runs if run.valid and run.block == block}
            for block in blocks
        ]
        if all(len(levels) == 1 for levels in in_blocks) and len(set.union(*in_blocks)) > 1:
            what = "its effect includes every other difference between the blocks"
            said.append(f"{capital(factor_word(factor))} was varied between blocks only: {what}.")
    return said


def _looped(analysis: Analysis) -> list[str]:
    """Caveats of a loop, where there are effects to which they apply."""
    info = analysis.experiment
    varied = [name for name, levels in info.factors.items() if len(levels) > 1]
    looped = [factor_word(name) for name in varied if name in info.looped]
    others = [factor_word(name) for name in varied if name not in info.looped]
    if not looped or not analysis.models:
        return []
    was = "was" if len(looped) == 1 else "were"
    one = "its effect includes" if len(looped) == 1 else "their effects include"
    said = [
        f"{capital(listing(looped))} {was} run in the same order in each pass of the loop: {one} drift within a pass."
    ]
    note = next(
        (each for model in analysis.models for each in model.reasons if each.code == ModelReason.BY_PASS),
        None,
    )
    if others and note is not None:
        names = capital(listing(others))
        are = "is" if len(others) == 1 else "are"
        few = (
            ""
            if figure(note.values, "df") > 0
            else "; with one pass each, no difference can be distinguished from noise"
        )
        said.append(
            f"{names} {are} compared by the means of passes, because the runs of a pass share a service instance or a "
            f"time{few}."
        )
    return said


def _times(each: Effect, model: Model) -> str:
    found = f"is {number(each.effect)} times"
    interval = _simultaneous(each.interval, model)
    if interval is None or interval.low is None or interval.high is None:
        return found
    return f"{found} ({number(interval.low)} to {number(interval.high)})"


def _share(value: float) -> str:
    return percent(value / 100, 2)


# -- what must be known about the fit


def model_reason(reason: Reason) -> str:
    """One remark on a model."""
    told = reason.values
    match reason.code:
        case ModelReason.ORDERS_ABSENT:
            why = "as requested" if told["asked"] else "not all combinations of levels were run"
            factors = "factor" if told["order"] == 1 else "factors"
            return f"interactions of more than {told['order']} {factors} are assumed to be absent ({why})"
        case ModelReason.ORDERS_LEFT_OUT:
            over = f"the model would have more than {told['most_columns']} columns"
            return f"interactions of {told['order']} or more factors are left out: {over}"
        case ModelReason.RESIDUAL_IS_ERROR:
            return "no repetitions: the residual serves as the error; it includes the interactions left out"
        case ModelReason.NO_ERROR:
            return "one repetition: there is no error term, so no intervals"
        case ModelReason.NOT_ORTHOGONAL:
            squares = f"sums of squares are {told['sum_of_squares']}"
            return f"the terms are not orthogonal (runs are missing or unequal): {squares}"
        case ModelReason.NO_VARIATION:
            return "all responses are equal: there is no variation to allocate"
        case ModelReason.NO_ALLOCATION:
            share = f"{100 * figure(told, 'share'):.1f} %"
            return f"the sums of squares add up to {share}, so they are not an allocation of variation"
        case ModelReason.BY_PASS:
            return _by_pass(reason)
        case _:
            return _check(reason)


def _by_pass(reason: Reason) -> str:
    looped = reason.values["looped"]
    names = listing(map(str, looped)) if isinstance(looped, tuple) else str(looped)
    df = figure(reason.values, "df")
    error = f"error df {df:.0f}" if df > 0 else "one pass each: no intervals"
    return (
        f"passes over {names} (design.loop): the other factors are compared by the means of passes ({error})"
    )


def _check(reason: Reason) -> str:
    """Remarks on the model that come from its residuals."""
    told = reason.values
    match reason.code:
        case ModelReason.VARIANCES_DIFFER:
            advice = "; a logarithmic scale may help" if told["linear"] else ""
            use = "intervals of cells use the variance of each cell"
            return f"variances differ between cells ({p_words(figure(told, 'p'))}): {use}{advice}"
        case ModelReason.DRIFT:
            size = f"residual {signed(figure(told, 'drift'), 3)} from first to last run, {p_words(figure(told, 'p'))}"
            return f"responses drift with run order ({size}): something changed during the experiment"
        case ModelReason.LOG_SCALE:
            ratio = f"{number(figure(told, 'ratio'))} times the smallest"
            return f"the greatest response is {ratio}: consider scale: log"
        case ModelReason.OUTLIERS:
            if told["runs"] == 1:
                return "1 run is far from the mean of its cell; it is kept and marked"
            return f"{told['runs']} runs are far from the means of their cells; they are kept and marked"
        case _:
            return reason.code
