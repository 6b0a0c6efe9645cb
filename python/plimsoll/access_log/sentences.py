"""The laws of a log as sentences, for the terminal and for the comments of the experiment file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from plimsoll.access_log.arrivals import Arrivals, Dispersion
from plimsoll.access_log.groups import Group
from plimsoll.access_log.model import LogModel
from plimsoll.access_log.popularity import Popularity
from plimsoll.access_log.sessions import PAUSE_S, Sessions
from plimsoll.access_log.sizes import QUANTILES, Sizes
from plimsoll.analyse.results.wording import count, number, p_words, percent, plural
from plimsoll.analyse.stats.interval import Interval

POOR_FIT: Final = 0.01


def sentences(model: LogModel, name: str) -> Iterator[str]:
    """Lines of the summary. `name`: of the log, printable."""
    yield f"Log: {model.counts.remark(name)}."
    for group in model.groups:
        yield f"Popularity, {describe_group(group)}: {popularity_text(group.popularity)}."
    yield f"Arrivals: {arrivals_text(model.arrivals)}."
    yield f"Sizes: {sizes_text(model.sizes)}."
    yield f"Sessions: {sessions_text(model.sessions, model.grain_s)}."
    if model.hosts > 1:
        yield f"The log names {model.hosts:,} hosts. The experiment requests all paths from one target."


def describe_group(group: Group) -> str:
    """`GET /img/ (800 requests)`."""
    where = group.directory or ("all paths" if group.method == "HEAD" else "other paths")
    return f"{group.method} {where} ({plural(group.requests, 'request')})"


def between(interval: Interval, digits: int = 3, unit: str = "") -> str:
    """`0.801 (0.79 to 0.81)`, with the unit after the value; "not known" for a bound that the sample does not
    have."""
    shown = number(interval.mean, digits) + (f" {unit}" if unit else "")
    if interval.low is None and interval.high is None:
        return shown
    low, high = ("not known" if end is None else number(end, digits) for end in (interval.low, interval.high))
    return f"{shown} ({low} to {high})"


def popularity_text(found: Popularity | None) -> str:
    """Exponent, number of objects and fit."""
    if found is None:
        return "too few requests or objects for a law"
    if found.objects is None:
        objects = f"at least {count(found.distinct)} objects, a number that the log does not determine"
    elif found.objects.method == "given":
        objects = f"{count(found.law_objects)} objects, as given"
    else:
        low, high = (math.floor(found.objects.low or 0), math.ceil(found.objects.high or 0))
        objects = (
            f"{count(found.law_objects)} ({count(low)} to {count(high)}) objects; {count(found.distinct)} of them "
            "were requested"
        )
    text = f"Zipf exponent {between(found.exponent)}, {objects}"
    if found.p <= POOR_FIT:
        return (
            f"{text}; Zipf's law does not describe these counts: the share of the most popular objects differs by "
            f"up to {percent(found.distance, 2)} ({p_words(found.p)})"
        )
    return f"{text}; the counts agree with Zipf's law ({p_words(found.p)})"


def arrivals_text(found: Arrivals | None) -> str:
    """Rate, law and dispersion."""
    if found is None:
        return "too few requests for a law"
    text = f"{between(found.rate, 4, 'requests/s')} over {_time(found.span_s)}; {_law(found)}"
    if found.constant_p is not None and found.constant_p < 0.01:
        text += f"; the rate changes during the log, {_parts(found)}"
    if found.dispersion:
        text += f"; variance/mean of counts: {', '.join(map(_dispersion, shown_dispersion(found)))}"
    return f"{text}. Nothing is stated below the resolution of the times, {_time(found.grain_s)}"


def _law(found: Arrivals) -> str:
    if found.law == "unknown" or found.test_window_s is None or found.test_p is None:
        return "the log is too short for a test of the arrival law"
    window = f"in windows of {_time(found.test_window_s)}"
    if found.law == "poisson":
        return (
            f"{window} the counts agree with Poisson arrivals ({p_words(found.test_p)}; an index of "
            f"{number(found.detectable, 3)} would be found in 80 % of such logs)"
        )
    more = "more" if found.law == "clustered" else "less"
    return (
        f"{window} the counts vary {more} than those of Poisson arrivals (index {number(found.test_index, 3)}, "
        f"{p_words(found.test_p)})"
    )


def shown_dispersion(found: Arrivals) -> tuple[Dispersion, ...]:
    """At most four window lengths, the shortest and the longest among them."""
    listed = found.dispersion
    if len(listed) <= 4:
        return listed
    last = len(listed) - 1
    return tuple(listed[round(at * last / 3)] for at in range(4))


def _dispersion(one: Dispersion) -> str:
    low, high = (number(end, 2) for end in (one.low, one.high))
    return f"{_time(one.length_s)} {number(one.index, 3)} ({low} to {high})"


def _parts(found: Arrivals) -> str:
    return f"from {number(min(found.parts), 3)}/s to {number(max(found.parts), 3)}/s in twelfths of the log"


def sizes_text(found: Sizes | None) -> str:
    """Quantiles of the sizes of objects, and the mean response."""
    if found is None:
        return "the log has too few sizes"
    names = " ".join(
        f"p{q * 100:g} {between(each)}" for q, each in zip(QUANTILES, found.quantiles, strict=True)
    )
    return (
        f"{plural(found.objects, 'object')}, {names}, largest {count(found.largest)} bytes; mean response "
        f"{number(found.response_mean, 4)} bytes"
    )


def sessions_text(found: Sessions | None, grain_s: float) -> str:
    """Number of sessions, requests per session and think time."""
    if found is None:
        return "too few sessions"
    text = (
        f"{plural(found.sessions, 'session')} of {plural(found.clients, 'client')} (a pause of "
        f"{_time(PAUSE_S)} ends a session), {between(found.requests)} requests per session, "
        f"{number(found.concurrent, 3)} sessions at a time"
    )
    if found.think_s is None:
        return text
    kind = "from end to start" if found.has_durations else "from start to start, as the log has no durations"
    below = f", {percent(found.below_grain, 2)} below {_time(grain_s)}" if found.below_grain else ""
    return f"{text}; time between requests of a session, {kind}: mean {number(found.think_s, 3)} s{below}"


def _time(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length or (seconds >= length and seconds % length == 0):
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
