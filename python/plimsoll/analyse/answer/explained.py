"""The variation that the factors explain, in sentences: a factorial design's allocation (Jain 17.5, 18.5, 22.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from plimsoll.analyse.answer.reasons import figure
from plimsoll.analyse.answer.words import capital
from plimsoll.analyse.results.analysis import Analysis, Effect, Model
from plimsoll.analyse.results.verdicts import ModelReason, Reason
from plimsoll.analyse.results.wording import (
    describe,
    factor_word,
    listing,
    number,
    p_words,
    percent,
    percent_range,
    signed,
)
from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.analyse.stats.interval import Interval

MIN_SHARE: Final = 5.0
"""Terms below this share of the variation, in percent, are not named."""
MAX_TERMS: Final = 4
DETECTED: Final = 0.05
"""Adjusted p-value of a term below which its factor has an effect."""
MIN_LEADING_SHARE: Final = 25.0
"""Minimum share of the variation, in percent, for which a factor's best and worst level are named."""


def variation_sentences(analysis: Analysis) -> list[str]:
    """A sentence per response on the causes of its variation. Empty if there is one factor: it explains all variation
    except the noise, and the charts show its effect. Empty for a search, whose answer contains the ratios of its
    capacities. The p-values are adjusted for all terms of a model."""
    if len(analysis.experiment.factors) < 2 or analysis.search is not None:
        return []
    sentences = [text for model in analysis.models if (text := _sentence(analysis, model))]
    return [
        *sentences,
        *_without_allocation(analysis),
        *_best_and_worst(analysis),
        *_not_detected(analysis),
        *_with_blocks(analysis),
        *_looped(analysis),
    ]


def _is_detected(term: Effect) -> bool:
    """Whether the term has an effect. Without an error term it cannot be tested and counts as detected."""
    return term.adjusted_p_value is None or term.adjusted_p_value < DETECTED


def term_words(term: Effect) -> str:
    """`zip × testers` for an interaction; with its aliases: `zip + users × testers`."""
    if not term.parts:
        return term.term
    first, *others = (
        (part.sign, " × ".join(factor_word(name) for name in part.factors)) for part in term.parts
    )
    return first[1] + "".join(f" {'+' if sign > 0 else '-'} {words}" for sign, words in others)


def _sentence(analysis: Analysis, model: Model) -> str:
    shares = [
        (term, term.variation_percent)
        for term in analysis.effects
        if (term.response, term.scale) == (model.response, model.scale) and term.variation_percent is not None
    ]
    noise = next((share for term, share in shares if term.term == "residual"), None)
    ranked = sorted(
        ((term, share) for term, share in shares if term.term != "residual"), key=lambda item: -item[1]
    )
    known = [(term, share) for term, share in ranked if share >= MIN_SHARE and _is_detected(term)]
    named = known[:MAX_TERMS]
    metric = f"{'log ' if model.scale == 'log' else ''}{describe(model.response).title}"
    if not shares:
        return _effects_sentence(analysis, model, metric)
    if not named:
        return ""
    parts = [f"{term_words(term)} {_share(share)}" for term, share in named]
    text = f"Variation of {metric} between the runs: {listing(parts)}"
    if noise is None or model.error_df <= 0:  # without an error term the terms also contain the noise
        return f"{text}."
    return f"{text}; unexplained {_share(noise)}."


def _effects_sentence(analysis: Analysis, model: Model, metric: str) -> str:
    """If the sums of squares do not add up because runs are missing: the terms with an effect."""
    detected = _without_share(analysis, model)
    if not detected:
        return ""
    terms = listing(term_words(term) for term in detected[:MAX_TERMS])
    return f"{capital(terms)} {'has an effect' if len(detected) == 1 else 'have effects'} on the {metric}."


def _without_share(analysis: Analysis, model: Model) -> list[Effect]:
    """The terms with an effect whose share of the variation is not defined, the clearest first."""
    if _total(model) is None:
        return []
    terms = (
        term for term in analysis.effects if (term.response, term.scale) == (model.response, model.scale)
    )
    detected = [term for term in terms if term.adjusted_p_value is not None and _is_detected(term)]
    return sorted(detected, key=lambda term: term.adjusted_p_value or 0.0)


def _total(model: Model) -> float | None:
    """The sum of the shares if it is not 1, because runs are missing; else None."""
    reason = next((reason for reason in model.reasons if reason.code == ModelReason.NO_ALLOCATION), None)
    return None if reason is None else figure(reason.values, "share")


def _without_allocation(analysis: Analysis) -> list[str]:
    """One sentence on all responses whose variation is not allocated."""
    models = [model for model in analysis.models if _without_share(analysis, model)]
    totals = [total for model in models if (total := _total(model)) is not None]
    if not totals:
        return []
    why = "runs are missing or unequal, so the shares would add up to"
    return [f"Shares of the variation are not reported: {why} {percent_range(min(totals), max(totals), 4)}."]


def _best_and_worst(analysis: Analysis) -> list[str]:
    """The best and the worst level of the factor that explains most of the first response. Only if the response is on
    the logarithmic scale (effects are then factors) and the factor is not the load."""
    model = next(iter(analysis.models), None)
    if model is None or model.scale != "log":
        return []
    effects = [
        effect
        for effect in analysis.effects
        if (effect.response, effect.scale) == (model.response, model.scale)
    ]
    mains = [effect for effect in effects if effect.term in analysis.experiment.factors]
    heads = [effect for effect in mains if effect.df is not None and _is_detected(effect)]
    shared = any(effect.variation_percent is not None for effect in effects)
    strongest = max(
        heads,
        key=lambda effect: (effect.variation_percent or 0.0, _effect_ratio(mains, effect)),
        default=None,
    )
    if (
        strongest is None
        or (shared and (strongest.variation_percent or 0.0) < MIN_LEADING_SHARE)
        or strongest.term == analysis.experiment.load_factor
    ):
        return []
    levels = [effect for effect in effects if effect.term == strongest.term and effect.effect is not None]
    levels.sort(key=lambda effect: -(effect.effect or 0.0))
    if len(levels) < 2:
        return []
    best, worst = (
        f"{factor_word(effect.term)} {effect.level} {_times(effect, model)}"
        for effect in (levels[0], levels[-1])
    )
    return [
        f"Averaged over the other factors, the {describe(model.response).title} of {best} the mean, that of {worst}."
    ]


def _effect_ratio(mains: Sequence[Effect], term: Effect) -> float:
    """Highest / lowest effect of a factor's levels on the logarithmic scale; 0 if it is not defined."""
    effects = [effect.effect for effect in mains if effect.term == term.term and effect.effect is not None]
    return max(effects) / min(effects) if effects and min(effects) > 0 else 0.0


def _simultaneous_interval(interval: Interval | None, model: Model) -> Interval | None:
    """The interval with Bonferroni's correction for the terms of the model, whose p-values are also adjusted."""
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
    """Factors without a detected effect on the first response, and the range of effects that the runs do not
    exclude."""
    model = next(iter(analysis.models), None)
    if model is None:
        return []
    effects = [
        effect
        for effect in analysis.effects
        if (effect.response, effect.scale) == (model.response, model.scale)
    ]
    sentences = []
    for factor in analysis.experiment.factors:
        levels = [effect for effect in effects if effect.term == factor]
        p = next((effect.adjusted_p_value for effect in levels if effect.adjusted_p_value is not None), None)
        span = _span(model, levels)
        if factor == analysis.experiment.load_factor or p is None or p < DETECTED or span is None:
            continue
        low, high = (signed(100 * end) for end in span)
        comparison = (
            f"{levels[1].level} relative to {levels[0].level}"
            if len(levels) == 2
            else "each level relative to the overall mean"
        )
        sentences.append(
            f"No effect of {factor_word(factor)} on the {describe(model.response).title} was detected: it is between "
            f"{low} and {high} % ({comparison})."
        )
    return sentences


def _span(model: Model, levels: Sequence[Effect]) -> tuple[float, float] | None:
    """The ends of the simultaneous 95 % intervals of the relative effects. Of two levels, whose effects are opposite:
    that of the second relative to the first; of more levels: the widest relative to the mean. None without
    intervals."""
    ends = [_simultaneous_interval(effect.interval, model) for effect in levels]
    if len(ends) < 2 or not model.fitted:
        return None
    pairs = [(interval.low, interval.high) for interval in ends if interval is not None]
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
    """Sentences on factors that were varied only between blocks."""
    blocks = {run.block for run in analysis.runs if run.valid}
    if len(blocks) < 2 or None in blocks:
        return []
    sentences = []
    for factor in analysis.experiment.factors:
        in_blocks = [
            {run.cell.get(factor) for run in analysis.runs if run.valid and run.block == block}
            for block in blocks
        ]
        if all(len(levels) == 1 for levels in in_blocks) and len(set.union(*in_blocks)) > 1:
            caveat = "its effect includes every other difference between the blocks"
            sentences.append(f"{capital(factor_word(factor))} was varied between blocks only: {caveat}.")
    return sentences


def _looped(analysis: Analysis) -> list[str]:
    """Caveats of a loop, if there are effects to which they apply."""
    info = analysis.experiment
    varied = [name for name, levels in info.factors.items() if len(levels) > 1]
    looped = [factor_word(name) for name in varied if name in info.looped]
    others = [factor_word(name) for name in varied if name not in info.looped]
    if not looped or not analysis.models:
        return []
    was = "was" if len(looped) == 1 else "were"
    includes = "its effect includes" if len(looped) == 1 else "their effects include"
    sentences = [
        f"{capital(listing(looped))} {was} run in the same order in each pass of the loop: "
        f"{includes} drift within a pass."
    ]
    note = next(
        (
            reason
            for model in analysis.models
            for reason in model.reasons
            if reason.code == ModelReason.BY_PASS
        ),
        None,
    )
    if others and note is not None:
        names = capital(listing(others))
        are = "is" if len(others) == 1 else "are"
        caveat = (
            ""
            if figure(note.values, "df") > 0
            else "; with one pass each, no difference can be distinguished from noise"
        )
        sentences.append(
            f"{names} {are} compared by the means of passes, because the runs of a pass share a service instance or a "
            f"time{caveat}."
        )
    return sentences


def _times(effect: Effect, model: Model) -> str:
    text = f"is {number(effect.effect)} times"
    interval = _simultaneous_interval(effect.interval, model)
    if interval is None or interval.low is None or interval.high is None:
        return text
    return f"{text} ({number(interval.low)} to {number(interval.high)})"


def _share(value: float) -> str:
    return percent(value / 100, 2)


# -- remarks on the fit


def model_reason(reason: Reason) -> str:
    """The text of one remark on a model."""
    values = reason.values
    match reason.code:
        case ModelReason.ORDERS_ABSENT:
            why = "as requested" if values["asked"] else "not all combinations of levels were run"
            factors = "factor" if values["order"] == 1 else "factors"
            return f"interactions of more than {values['order']} {factors} are assumed to be absent ({why})"
        case ModelReason.ORDERS_LEFT_OUT:
            over = f"the model would have more than {values['most_columns']} columns"
            return f"interactions of {values['order']} or more factors are left out: {over}"
        case ModelReason.RESIDUAL_IS_ERROR:
            return "no repetitions: the residual serves as the error; it includes the interactions left out"
        case ModelReason.NO_ERROR:
            return "one repetition: there is no error term, so no intervals"
        case ModelReason.NOT_ORTHOGONAL:
            squares = f"sums of squares are {values['sum_of_squares']}"
            return f"the terms are not orthogonal (runs are missing or unequal): {squares}"
        case ModelReason.NO_VARIATION:
            return "all responses are equal: there is no variation to allocate"
        case ModelReason.NO_ALLOCATION:
            share = f"{100 * figure(values, 'share'):.1f} %"
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
    """The text of a remark from the checks of the residuals."""
    values = reason.values
    match reason.code:
        case ModelReason.VARIANCES_DIFFER:
            advice = "; a logarithmic scale may help" if values["linear"] else ""
            use = "intervals of cells use the variance of each cell"
            return f"variances differ between cells ({p_words(figure(values, 'p'))}): {use}{advice}"
        case ModelReason.DRIFT:
            drift = signed(figure(values, "drift"), 3)
            size = f"residual {drift} from first to last run, {p_words(figure(values, 'p'))}"
            return f"responses drift with run order ({size}): something changed during the experiment"
        case ModelReason.LOG_SCALE:
            ratio = f"{number(figure(values, 'ratio'))} times the smallest"
            return f"the greatest response is {ratio}: consider scale: log"
        case ModelReason.OUTLIERS:
            if values["runs"] == 1:
                return "1 run is far from the mean of its cell; it is kept and marked"
            return f"{values['runs']} runs are far from the means of their cells; they are kept and marked"
        case _:
            return reason.code
