"""Stale responses for objects that are written concurrently: their number, their age and their cost.

The acknowledged writes of an object are ordered by their version. A response with version v was superseded at the
earliest `end` of those with a greater version. It is stale if that was before the read's `start`: the commit was before
its acknowledgement, and the request was sent afterwards. Failed writes may or may not have been committed, so they make
no response stale. The writer of a version does not matter: versions of an object are compared by their value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.results.run import Latency, Readers, Staleness
from plimsoll.analyse.run.traffic import BINS
from plimsoll.analyse.stats.batch import ratio_mean
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.proportion import wilson
from plimsoll.analyse.stats.quantiles import Buckets, Histogram, exact_quantiles, is_large_enough
from plimsoll.analyse.window.transactions import Int, Window
from plimsoll.collect.columns.versions import CACHES, REPLICA, UNKNOWN, VersionedTransactions

Mask = NDArray[np.bool_]
NEVER = np.iinfo(np.int64).max
ALL_EQUAL = "where all or none were stale, Wilson, as if answers were independent"
"""Method of an interval for which the batches have no spread."""
NEEDLESS = "Wilson, as if fetches were independent"
HISTOGRAM = "stale_age"
"""Name of the histogram of the ages, in addition to those of the summary."""
_HIT, _REVALIDATED, _REPLICA = (CACHES.index(name) for name in ("hit", "revalidated", REPLICA))


@dataclass(frozen=True, slots=True)
class RunStaleness:
    """The figures of a run, and the ages of its stale responses for figures over several runs."""

    staleness: Staleness
    ages: Histogram


@dataclass(frozen=True, slots=True)
class _Answers:
    """The responses of the whole run with a known object and version, one entry each, ordered by their end."""

    start: Int
    workload: Int
    age: Int
    """In ns; 0 if not stale. A stale response has an age of at least 1 ns."""
    fetch: Mask
    hit: Mask
    revalidated: Mask
    repeated: Mask
    """The previous response for the object had the same version."""


def staleness(versioned: VersionedTransactions, window: Window, bound_ns: int = 0) -> RunStaleness:
    """The figures of one run: reads that started in the window, judged by the writes of the whole run.

    `bound_ns`: maximum error of any time of any agent. If it is above 0, a response is stale only if it is stale for
    all clock errors within the bound. Twice the bound is subtracted, because the times of the read and of the write may
    each be wrong by it, so ages are lower bounds."""
    known = (versioned.object != UNKNOWN) & (versioned.version != UNKNOWN)
    read, written = versioned.ok & ~versioned.writes, versioned.ok & versioned.writes
    answers = _known_answers(versioned, read & known, written & known, 2 * bound_ns)
    ended = (versioned.end >= window.start) & (versioned.end < window.end)
    started = (versioned.start >= window.start) & (versioned.start < window.end)
    inside = (answers.start >= window.start) & (answers.start < window.end)
    reading = np.unique(versioned.workload[~versioned.writes]).tolist()

    def readers(name: str, rows: Mask, answer_rows: Mask) -> Readers:
        return _readers(
            name,
            answers,
            inside & answer_rows,
            window,
            unjudged=int(np.count_nonzero(read & ~known & started & rows)),
            ended=int(np.count_nonzero(read & ended & rows)),
        )

    of_all = readers("", np.ones(versioned.start.size, bool), np.ones(answers.start.size, bool))
    of_workloads = tuple(
        readers(versioned.workloads[number], versioned.workload == number, answers.workload == number)
        for number in (reading if len(reading) > 1 else ())
    )
    writes = int(np.count_nonzero(written & ended))
    ages = Buckets()
    ages.add(answers.age[inside & (answers.age > 0)])
    return RunStaleness(
        Staleness(
            readers=of_all,
            workloads=of_workloads,
            objects=int(np.unique(versioned.object[read & known]).size),
            writes=writes,
            writes_failed=int(np.count_nonzero(versioned.writes & ~versioned.ok & ended)),
            writes_unjudged=int(np.count_nonzero(written & ~known & ended)),
            writes_per_s=writes / max(window.seconds, 1e-9),
        ),
        Histogram.of(ages),
    )


def remark(judged: Staleness) -> str:
    """Remark on the reads and writes of the window that could not be judged; empty if there are none."""
    counts = ((judged.readers.unjudged, "successful reads"), (judged.writes_unjudged, "acknowledged writes"))
    parts = [f"{times} {kind}" for times, kind in counts if times]
    return f"{' and '.join(parts)} contained no object or no version and are not judged" if parts else ""


def superseded(objects: Int, versions: Int, w_objects: Int, w_versions: Int, w_end: Int) -> Int:
    """The time (ns) at which each version was superseded: the earliest end of the writes (`w_`) of its object with a
    greater version; NEVER if there is none."""
    if w_objects.size == 0:
        return np.full(objects.size, NEVER, dtype=np.int64)
    # Ranks instead of objects and versions, so that a pair of them is one number.
    object_of = np.unique(np.concatenate([objects, w_objects]), return_inverse=True)[1]
    distinct, version_of = np.unique(np.concatenate([versions, w_versions]), return_inverse=True)
    pair = object_of.reshape(-1).astype(np.int64) * distinct.size + version_of.reshape(-1)
    read_pairs, written_pairs = pair[: objects.size], pair[objects.size :]
    order = np.argsort(written_pairs, kind="stable")
    written_pairs = written_pairs[order]
    # The earliest end from each write on, object by object. The ranks of the ends have a higher base for each object,
    # so that the running minimum, which goes down through the objects, starts again at each object.
    by_end = np.argsort(w_end, kind="stable")
    rank = np.empty(w_end.size, dtype=np.int64)
    rank[by_end] = np.arange(w_end.size)
    base = written_pairs // distinct.size * w_end.size
    earliest = np.minimum.accumulate((rank[order] + base)[::-1])[::-1] - base
    position = np.searchsorted(written_pairs, read_pairs, side="right")
    inside = np.minimum(position, written_pairs.size - 1)
    same = (position < written_pairs.size) & (
        written_pairs[inside] // distinct.size == read_pairs // distinct.size
    )
    out: Int = np.where(same, w_end[by_end[earliest[inside]]], NEVER)
    return out


def _known_answers(
    versioned: VersionedTransactions, answered: Mask, written: Mask, doubt_ns: int
) -> _Answers:
    by_end = np.lexsort((versioned.start[answered], versioned.end[answered]))
    rows = np.flatnonzero(answered)[by_end]
    objects, versions, start = versioned.object[rows], versioned.version[rows], versioned.start[rows]
    superseded_ns = superseded(
        objects, versions, versioned.object[written], versioned.version[written], versioned.end[written]
    )
    cache = versioned.cache[rows]
    return _Answers(
        start=start,
        workload=versioned.workload[rows],
        age=np.where(superseded_ns < start - doubt_ns, start - doubt_ns - superseded_ns, 0),
        fetch=~np.isin(cache, (_HIT, _REVALIDATED, _REPLICA)),
        hit=cache == _HIT,
        revalidated=cache == _REVALIDATED,
        repeated=_repeated(objects, versions),
    )


def _repeated(objects: Int, versions: Int) -> Mask:
    """Whether the previous entry of the same object has the same version; False for the first entry of each object."""
    order = np.argsort(objects, kind="stable")
    same = np.zeros(objects.size, dtype=np.bool_)
    current, previous = order[1:], order[:-1]
    same[current] = (objects[current] == objects[previous]) & (versions[current] == versions[previous])
    return same


def _readers(
    name: str, answers: _Answers, rows: Mask, window: Window, *, unjudged: int, ended: int
) -> Readers:
    age = answers.age[rows]
    count = int(age.size)
    fetch = answers.fetch[rows]
    fetches, needless = int(np.count_nonzero(fetch)), int(np.count_nonzero(fetch & answers.repeated[rows]))
    return Readers(
        workload=name,
        answers=count,
        unjudged=unjudged,
        stale=int(np.count_nonzero(age)),
        stale_share=_share(answers.start[rows], age > 0, window),
        stale_age_ms=_ages(age[age > 0]),
        stale_age_ms_mean=float(age.mean()) / 1e6 if count else None,
        reads_per_s=ended / max(window.seconds, 1e-9),
        hits=int(np.count_nonzero(answers.hit[rows])),
        revalidations=int(np.count_nonzero(answers.revalidated[rows])),
        fetches=fetches,
        origin_share=fetches / count if count else None,
        needless=needless,
        needless_share=Interval(needless / fetches, *wilson(needless, fetches), method=NEEDLESS)
        if fetches
        else None,
    )


def _share(start: Int, stale: Mask, window: Window) -> Interval | None:
    """Share of stale responses with its interval; None without responses. Successive responses for an object depend on
    each other: after a stale one the next is often stale. Batch means over time account for this. If no response is
    stale, or all are, the batches have no spread, and the interval is from the count alone."""
    count, stale_count = int(stale.size), int(np.count_nonzero(stale))
    if count == 0:
        return None
    if stale_count in (0, count):
        return Interval(stale_count / count, *wilson(stale_count, count), method=ALL_EQUAL)
    width = window.end - window.start
    position = ((start - window.start) * BINS // max(width, 1)).astype(np.int64)
    sums, counts = (
        np.bincount(position[rows], minlength=BINS).astype(float) for rows in (stale, slice(None))
    )
    batches = ratio_mean(sums, counts)
    if batches is None:
        return Interval(stale_count / count, None, None, method="too few answers for batch means")
    interval = batches.interval
    low, high = max(0.0, interval.low or 0.0), min(1.0, 1.0 if interval.high is None else interval.high)
    return Interval(interval.mean, low, high, interval.level, interval.df, interval.method)


def _ages(age: Int) -> Latency:
    """Distribution of ages (ns, above 0) in ms; a percentile is None if there are too few."""
    count = int(age.size)

    def at(q: float) -> float | None:
        return exact_quantiles(age, [q])[0] / 1e6 if is_large_enough(q, count) else None

    return Latency(
        count=count,
        mean=float(age.mean()) / 1e6 if count else None,
        sd=float(age.std(ddof=1)) / 1e6 if count > 1 else None,
        p50=at(0.5),
        p90=at(0.9),
        p95=at(0.95),
        p99=at(0.99),
        p999=at(0.999),
        max=int(age.max()) / 1e6 if count else None,
    )
