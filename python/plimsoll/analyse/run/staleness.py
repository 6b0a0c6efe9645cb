"""Stale answers of objects that are written concurrently: their number, their age and their cost.

The writes of an object that were acknowledged are ordered by their version. An answer with version v was superseded at
the earliest `end` of those with a greater one, and it is stale if that was before the read's `start`: the commit came
before its acknowledgement, the request went out after. Writes that failed may have been committed, so they make no
answer stale; nor does it matter who wrote the version of an answer: versions of one object are compared by their value.
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
from plimsoll.analyse.stats.quantiles import Buckets, Histogram, carries, exact_quantiles
from plimsoll.analyse.window.transactions import Int, Window
from plimsoll.collect.versions import CACHES, UNKNOWN, Versioned

Mask = NDArray[np.bool_]
NEVER = np.iinfo(np.int64).max
ALIKE = "where all or none were stale, Wilson, as if answers were independent"
"""Method of an interval for which there is no spread to take it from."""
NEEDLESS = "Wilson, as if fetches were independent"
HISTOGRAM = "stale_age"
"""Name of the histogram of the ages, beside those of the summary."""
_HIT, _REVALIDATED = CACHES.index("hit"), CACHES.index("revalidated")


@dataclass(frozen=True, slots=True)
class RunStaleness:
    """The figures of a run, and the ages of its stale answers for figures over several runs."""

    staleness: Staleness
    ages: Histogram


@dataclass(frozen=True, slots=True)
class _Judged:
    """The answers of the whole run of which object and version are known, one entry each, by their end."""

    start: Int
    workload: Int
    age: Int
    """ns; 0 where not stale. A stale one is at least 1 ns old."""
    fetch: Mask
    hit: Mask
    revalidated: Mask
    repeated: Mask
    """The previous answer had the same version of the object."""


def staleness(found: Versioned, window: Window, bound_ns: int = 0) -> RunStaleness:
    """The figures of one run: reads that started in the window, judged by the writes of the whole run.

    `bound_ns`: greatest error of any time of any agent. Where it is above 0 an answer is stale only if it is for any
    clocks within it: twice the bound is taken off, as the read and the write may each be off by it, so ages are the
    least that they can be.
    """
    known = (found.object != UNKNOWN) & (found.version != UNKNOWN)
    read, written = found.ok & ~found.writes, found.ok & found.writes
    answers = _judged(found, read & known, written & known, 2 * bound_ns)
    ended = (found.end >= window.start) & (found.end < window.end)
    started = (found.start >= window.start) & (found.start < window.end)
    inside = (answers.start >= window.start) & (answers.start < window.end)
    reading = np.unique(found.workload[~found.writes]).tolist()

    def readers(name: str, of: Mask, of_answers: Mask) -> Readers:
        return _readers(
            name,
            answers,
            inside & of_answers,
            window,
            unjudged=int(np.count_nonzero(read & ~known & started & of)),
            ended=int(np.count_nonzero(read & ended & of)),
        )

    everything = readers("", np.ones(found.start.size, bool), np.ones(answers.start.size, bool))
    each = tuple(
        readers(found.workloads[number], found.workload == number, answers.workload == number)
        for number in (reading if len(reading) > 1 else ())
    )
    writes = int(np.count_nonzero(written & ended))
    ages = Buckets()
    ages.add(answers.age[inside & (answers.age > 0)])
    return RunStaleness(
        Staleness(
            readers=everything,
            workloads=each,
            objects=int(np.unique(found.object[read & known]).size),
            writes=writes,
            writes_failed=int(np.count_nonzero(found.writes & ~found.ok & ended)),
            writes_unjudged=int(np.count_nonzero(written & ~known & ended)),
            writes_per_s=writes / max(window.seconds, 1e-9),
        ),
        Histogram.of(ages),
    )


def remark(found: Staleness) -> str:
    """What of the window could not be judged; nothing where all could."""
    told = ((found.readers.unjudged, "successful reads"), (found.writes_unjudged, "acknowledged writes"))
    parts = [f"{times} {what}" for times, what in told if times]
    return f"{' and '.join(parts)} contained no object or no version and are not judged" if parts else ""


def superseded(objects: Int, versions: Int, w_objects: Int, w_versions: Int, w_end: Int) -> Int:
    """When each version was superseded: the earliest end of the writes (`w_`) of its object with a greater version;
    NEVER where there is none."""
    if w_objects.size == 0:
        return np.full(objects.size, NEVER, dtype=np.int64)
    # Numbers in the place of objects and versions, so that a pair of them is one number.
    object_of = np.unique(np.concatenate([objects, w_objects]), return_inverse=True)[1]
    met, version_of = np.unique(np.concatenate([versions, w_versions]), return_inverse=True)
    pair = object_of.reshape(-1).astype(np.int64) * met.size + version_of.reshape(-1)
    wanted, written = pair[: objects.size], pair[objects.size :]
    order = np.argsort(written, kind="stable")
    written = written[order]
    # The earliest end from each write on, object by object: ranks of ends, higher by a whole set of ranks for each
    # object, so that going down from one object to the next begins anew.
    by_end = np.argsort(w_end, kind="stable")
    rank = np.empty(w_end.size, dtype=np.int64)
    rank[by_end] = np.arange(w_end.size)
    base = written // met.size * w_end.size
    earliest = np.minimum.accumulate((rank[order] + base)[::-1])[::-1] - base
    place = np.searchsorted(written, wanted, side="right")
    inside = np.minimum(place, written.size - 1)
    same = (place < written.size) & (written[inside] // met.size == wanted // met.size)
    out: Int = np.where(same, w_end[by_end[earliest[inside]]], NEVER)
    return out


def _judged(found: Versioned, answered: Mask, written: Mask, doubt_ns: int) -> _Judged:
    of_end = np.lexsort((found.start[answered], found.end[answered]))
    rows = np.flatnonzero(answered)[of_end]
    objects, versions, start = found.object[rows], found.version[rows], found.start[rows]
    gone = superseded(objects, versions, found.object[written], found.version[written], found.end[written])
    cache = found.cache[rows]
    return _Judged(
        start=start,
        workload=found.workload[rows],
        age=np.where(gone < start - doubt_ns, start - doubt_ns - gone, 0),
        fetch=(cache != _HIT) & (cache != _REVALIDATED),
        hit=cache == _HIT,
        revalidated=cache == _REVALIDATED,
        repeated=_repeated(objects, versions),
    )


def _repeated(objects: Int, versions: Int) -> Mask:
    """Whether the entry before of the same object has the same version; False for the first of each."""
    order = np.argsort(objects, kind="stable")
    same = np.zeros(objects.size, dtype=np.bool_)
    one, other = order[1:], order[:-1]
    same[one] = (objects[one] == objects[other]) & (versions[one] == versions[other])
    return same


def _readers(
    name: str, answers: _Judged, mine: Mask, window: Window, *, unjudged: int, ended: int
) -> Readers:
    age = answers.age[mine]
    count = int(age.size)
    fetch = answers.fetch[mine]
    fetches, needless = int(np.count_nonzero(fetch)), int(np.count_nonzero(fetch & answers.repeated[mine]))
    return Readers(
        workload=name,
        answers=count,
        unjudged=unjudged,
        stale=int(np.count_nonzero(age)),
        stale_share=_share(answers.start[mine], age > 0, window),
        stale_age_ms=_ages(age[age > 0]),
        stale_age_ms_mean=float(age.mean()) / 1e6 if count else None,
        reads_per_s=ended / max(window.seconds, 1e-9),
        hits=int(np.count_nonzero(answers.hit[mine])),
        revalidations=int(np.count_nonzero(answers.revalidated[mine])),
        fetches=fetches,
        origin_share=fetches / count if count else None,
        needless=needless,
        needless_share=Interval(needless / fetches, *wilson(needless, fetches), method=NEEDLESS)
        if fetches
        else None,
    )


def _share(start: Int, stale: Mask, window: Window) -> Interval | None:
    """Answers of an object follow each other: while one is stale, so is the next. Batch means over time allow for it;
    without a stale answer (or with none but stale ones) they have no spread, and only the count is used."""
    count, some = int(stale.size), int(np.count_nonzero(stale))
    if count == 0:
        return None
    if some in (0, count):
        return Interval(some / count, *wilson(some, count), method=ALIKE)
    width = window.end - window.start
    place = ((start - window.start) * BINS // max(width, 1)).astype(np.int64)
    sums, counts = (np.bincount(place[rows], minlength=BINS).astype(float) for rows in (stale, slice(None)))
    found = ratio_mean(sums, counts)
    if found is None:
        return Interval(some / count, None, None, method="too few answers for batch means")
    one = found.interval
    low, high = max(0.0, one.low or 0.0), min(1.0, 1.0 if one.high is None else one.high)
    return Interval(one.mean, low, high, one.level, one.df, one.method)


def _ages(age: Int) -> Latency:
    """Ages (ns, above 0) in ms; a percentile is None where they are too few."""
    count = int(age.size)

    def at(q: float) -> float | None:
        return exact_quantiles(age, [q])[0] / 1e6 if carries(q, count) else None

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
