"""The regressions on quantitative factors, in sentences. A form is stated as a law only if it was tested against the
means of the cells, and not rejected."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from plimsoll.analyse.answer.words import capital
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.load.regression import Coefficient, Regression
from plimsoll.analyse.results.verdicts import Finding, RegressionVerdict, Topic, UntestedReason
from plimsoll.analyse.results.wording import (
    Metric,
    describe,
    ends,
    factor_word,
    level_words,
    listing,
    number,
    p_words,
    quantity,
)
from plimsoll.analyse.stats.interval import Interval

MAX_SENTENCES: Final = 3
MAX_COMBINATIONS: Final = 4
"""Maximum number of combinations whose own coefficients are named in a sentence."""
DETECTED: Final = 0.05
"""p-value of a coefficient below which the response depends on the factor."""
_STEPS: Final = {
    "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "byte")),
    "s": ((1.0, "second"), (1e-3, "ms"), (1e-6, "µs")),
    "1/s": ((1.0, "1/s"),),
}
_UNTESTED: Final = {
    UntestedReason.NO_REPETITION: "no cell was repeated",
    UntestedReason.NO_FREEDOM: "the form has as many coefficients as there are cells",
    UntestedReason.NO_VARIATION: "the responses do not vary",
}


def of_regressions(analysis: Analysis) -> tuple[Finding, ...]:
    """A sentence for each law, and for each factor without one. The regression on several factors replaces those on its
    factors if it states a law. A factor is left out if the answer has a saturation against it, or nothing is shown."""
    kept = [regression for regression in analysis.regressions if not _is_covered(analysis, regression)]
    findings = [_finding(regression) for regression in kept if _has_news(analysis, regression)]
    return tuple(findings[:MAX_SENTENCES])


def _is_covered(analysis: Analysis, regression: Regression) -> bool:
    """Whether a law in several factors contains this regression, or is not established by this one."""
    if len(regression.factors) > 1:
        return not _is_law(regression)
    return any(
        _is_law(other) and set(regression.factors) < set(other.factors)
        for other in analysis.regressions
        if other.response == regression.response
    )


def _has_news(analysis: Analysis, regression: Regression) -> bool:
    load = analysis.experiment.load_factor
    saturated = {saturation.metric for saturation in analysis.saturation}
    if regression.factors == (load,) and (
        regression.response in saturated or regression.verdict != RegressionVerdict.FITS
    ):
        return False
    return regression.verdict == RegressionVerdict.REJECTED or _is_law(regression)


def _finding(regression: Regression) -> Finding:
    p = regression.fit.lack_of_fit.p_value
    return Finding(
        Topic.REGRESSION,
        regression.text or regression_text(regression),
        verdict=regression.verdict,
        values={
            "response": regression.response,
            "factors": regression.factors,
            "form": regression.fit.form,
            "p": p,
        },
        rule=regression.rule,
    )


def _is_law(regression: Regression) -> bool:
    return regression.verdict == RegressionVerdict.FITS and all(map(_is_detected, _slopes(regression)))


def _is_detected(slope: Coefficient) -> bool:
    return slope.p_value is not None and slope.p_value < DETECTED


def _slopes(regression: Regression) -> Sequence[Coefficient]:
    return [coefficient for coefficient in regression.fit.coefficients if coefficient.factor]


def regression_text(regression: Regression) -> str:
    """What the chosen form states, and the result of its test."""
    title = describe(regression.response).title
    if regression.verdict == RegressionVerdict.REJECTED:
        return _without_law(regression, title)
    if regression.verdict == RegressionVerdict.FITS and not _is_law(regression):
        return _without_dependence(regression, title)
    law = _law(regression, title)
    if regression.verdict == RegressionVerdict.NOT_TESTED:
        reason = regression.fit.lack_of_fit.reason
        why = _UNTESTED[reason] if reason is not None else "the test is not defined"
        return f"By least squares, {law}; whether this form fits cannot be tested: {why}."
    return f"{capital(law)}; {_fits(regression)}."


def _without_dependence(regression: Regression, title: str) -> str:
    unclear = dict.fromkeys(slope.factor for slope in _slopes(regression) if not _is_detected(slope))
    names = listing(f"{factor_word(name)} ({_slope_words(regression, name)})" for name in unclear)
    return f"No law is claimed for the {title}: no dependence on {names} is shown."


def _without_law(regression: Regression, title: str) -> str:
    names = listing(factor_word(name) for name in regression.factors)
    forms = list(dict.fromkeys(fit.form for fit in regression.fits))
    several = len(regression.factors) > 1
    line, power = ("a linear form", "a product of powers") if several else ("a straight line", "a power")
    described = {"linear": line, "log-log": power}
    shapes = [described[form] for form in forms]
    which = f"neither {shapes[0]} nor {shapes[1]} fits" if len(shapes) > 1 else f"{shapes[0]} does not fit"
    return f"No law of {names} is claimed for the {title}: {which} ({_test_words(regression)})."


def _fits(regression: Regression) -> str:
    rival = ""
    if not regression.distinguished:
        other = "a straight line" if regression.fit.form == "log-log" else "a power law"
        if len(regression.factors) > 1:
            other = "a linear form" if regression.fit.form == "log-log" else "a product of powers"
        rival = f"; these runs do not distinguish it from {other}"
    return f"the model fits ({_test_words(regression)}){rival}"


def _test_words(regression: Regression) -> str:
    test = regression.fit.lack_of_fit
    p = "" if test.p_value is None else f"lack of fit {p_words(test.p_value)}, "
    return f"{p}{test.df} and {test.error_df} degrees of freedom"


def _law(regression: Regression, title: str) -> str:
    where = (
        " at each combination of the other factors"
        if len(regression.others) > 1
        else f" at each level of {factor_word(regression.others[0])}"
        if regression.others
        else ""
    )
    if regression.fit.slopes == "own":
        where = ""
    if regression.fit.form == "log-log":
        return f"the {title} is proportional to {_powers(regression)}{where}"
    return f"the {title} {_rises(regression)}{where}"


def _powers(regression: Regression) -> str:
    slopes = _slopes(regression)
    if regression.fit.slopes == "common":
        return " × ".join(f"{factor_word(slope.factor)}^{exponent_words(slope.interval)}" for slope in slopes)
    return _by_combination(
        [(slope, f"{factor_word(slope.factor)}^{exponent_words(slope.interval)}") for slope in slopes]
    )


def _rises(regression: Regression) -> str:
    slopes = _slopes(regression)
    if regression.fit.slopes == "common":
        return listing(f"{_rise(regression, slope)} {_per(regression, slope.factor)}" for slope in slopes)
    (name,) = regression.factors
    texts = [(slope, _rise(regression, slope)) for slope in slopes]
    return f"{_by_combination(texts)} {_per(regression, name)}"


def _by_combination(texts: Sequence[tuple[Coefficient, str]]) -> str:
    shown = [f"{text} at {level_words(slope.combination)}" for slope, text in texts]
    if len(shown) > MAX_COMBINATIONS:
        values = sorted(texts, key=lambda item: item[0].interval.mean)
        shown = [f"{text} at {level_words(slope.combination)}" for slope, text in (values[0], values[-1])]
        return f"{shown[0]} to {shown[1]} (own coefficients of {len(texts)} combinations)"
    return listing(shown)


def _rise(regression: Regression, slope: Coefficient) -> str:
    step, _ = step_of(regression, slope.factor)
    interval = slope.interval
    metric = describe(regression.response)
    verb = "rises" if interval.mean >= 0 else "falls"
    size = scaled(interval, step if interval.mean >= 0 else -step)
    return f"{verb} by {estimate(size, metric)} ({ends(size, metric.kind, metric.unit)})"


def _per(regression: Regression, name: str) -> str:
    _, unit = step_of(regression, name)
    return f"per {unit or 'unit'} of {factor_word(name)}"


def _slope_words(regression: Regression, name: str) -> str:
    texts = [
        exponent_words(slope.interval) if regression.fit.form == "log-log" else slope_ends(regression, slope)
        for slope in _slopes(regression)
        if slope.factor == name
    ]
    kind = "exponent " if regression.fit.form == "log-log" else ""
    return kind + listing(texts)


def slope_ends(regression: Regression, slope: Coefficient) -> str:
    """The interval of a linear coefficient, with its unit: `1.21 to 1.34 ms per kB`."""
    step, unit = step_of(regression, slope.factor)
    metric = describe(regression.response)
    return f"{ends(scaled(slope.interval, step), metric.kind, metric.unit)} per {unit or 'unit'}"


def estimate(interval: Interval, metric: Metric) -> str:
    """The value of a coefficient with as many digits as its interval supports, at least three."""
    half = 0.0 if interval.low is None or interval.high is None else (interval.high - interval.low) / 2
    known = math.log10(abs(interval.mean) / half) if half > 0 and interval.mean else 0.0
    return quantity(interval.mean, metric.kind, metric.unit, min(9, max(3, math.ceil(known) + 2)))


def exponent_words(interval: Interval) -> str:
    """`0.48 (0.45 to 0.51)`, with as many decimals as the interval supports."""
    mean, low, high = (_decimals(interval, value) for value in (interval.mean, interval.low, interval.high))
    return f"{mean} ({low} to {high})"


def _decimals(interval: Interval, value: float | None) -> str:
    if value is None:
        return number(value)
    half = 0.0 if interval.low is None or interval.high is None else (interval.high - interval.low) / 2
    places = 2
    while 0 < half < 2 * 10.0**-places and places < 6:
        places += 1
    return f"{value + 0.0:.{places}f}"


def step_of(regression: Regression, name: str) -> tuple[float, str]:
    """The step of a factor for which a linear coefficient is shown, and its unit: 1000 and `kB` for sizes of some
    kilobytes. The unit is empty for a factor without one."""
    return step_for(regression.units[name], regression.levels[name].values())


def step_for(stored_unit: str, numbers: Iterable[float]) -> tuple[float, str]:
    """The step that suits some numbers of a factor, and its unit. `stored_unit`: their unit in results."""
    largest = max((abs(value) for value in numbers), default=0.0)
    steps = _STEPS.get(stored_unit, ((1.0, ""),))
    return next(((step, unit) for step, unit in steps if largest >= step), steps[-1])


def scaled(interval: Interval, step: float) -> Interval:
    """The interval times a number."""
    low, high = (None if end is None else end * step for end in (interval.low, interval.high))
    if step < 0:
        low, high = high, low
    return Interval(interval.mean * step, low, high, interval.level, interval.df, interval.method)
