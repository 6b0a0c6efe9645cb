"""Stale answers, their ages and needless fetches: cases made by hand, and a slow second implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.unit.versioned import Row, make_results

from plimsoll.analyse.results.run import Readers
from plimsoll.analyse.run.staleness import ALL_EQUAL, NEVER, RunStaleness, remark, staleness, superseded
from plimsoll.analyse.stats.proportion import wilson
from plimsoll.analyse.stats.quantiles import is_large_enough, rank
from plimsoll.analyse.window.transactions import Window
from plimsoll.api import analysis
from plimsoll.collect.columns.versions import CACHES, UNKNOWN, VersionedTransactions

MS = 1_000_000
SECOND = Window(0, 1000 * MS)


def columns(rows: Sequence[Row]) -> VersionedTransactions:
    names = tuple(dict.fromkeys(row.population for row in rows))
    return VersionedTransactions(
        start=np.array([row.start for row in rows], dtype=np.int64),
        end=np.array([row.end for row in rows], dtype=np.int64),
        ok=np.array([row.outcome == "ok" and row.end >= 0 for row in rows], dtype=np.bool_),
        writes=np.array([row.writes for row in rows], dtype=np.bool_),
        workload=np.array([names.index(row.population) for row in rows], dtype=np.int64),
        cache=np.array([CACHES.index(row.cache) for row in rows], dtype=np.int64),
        object=np.array([UNKNOWN if row.object is None else row.object for row in rows], dtype=np.int64),
        version=np.array([UNKNOWN if row.version is None else row.version for row in rows], dtype=np.int64),
        workloads=names,
    )


def judged(*rows: Row, window: Window = SECOND) -> RunStaleness:
    return staleness(columns(rows), window)


def read(start_ms: float, version: int | None, cache: str = "none", took_ms: float = 1, **how: object) -> Row:
    start = round(start_ms * MS)
    end = start + round(took_ms * MS)
    return Row(start, end, False, version=version, cache=cache, **how)  # type: ignore[arg-type]


def write(start_ms: float, version: int | None, took_ms: float = 1, **how: object) -> Row:
    start = round(start_ms * MS)
    return Row(start, start + round(took_ms * MS), True, version=version, **how)  # type: ignore[arg-type]


def ages_ms(result: RunStaleness) -> list[int]:
    """Ages of the stale answers in ms, from the histogram."""
    kept = result.ages
    return [] if kept.smallest is None or kept.largest is None else [kept.smallest // MS, kept.largest // MS]


def test_superseded_at_the_acknowledgement_and_stale_only_if_begun_after_it() -> None:
    result = judged(write(10, 5), read(10.5, 1), read(11, 1), read(12, 1), read(13, 5))
    got = result.staleness.readers
    assert (got.answers, got.stale) == (
        4,
        1,
    )  # the acknowledgement came at 11 ms: a read of that very ns is fresh
    assert got.stale_age_ms.max == pytest.approx(1.0)
    assert got.stale_age_ms_mean == pytest.approx(0.25)


def test_the_earliest_of_the_newer_writes_counts_also_where_ends_are_out_of_order() -> None:
    # version 7 was acknowledged before version 6, and 6 long after: at 20 ms version 5 has been superseded for 8 ms
    result = judged(write(1, 5), write(5, 6, took_ms=50), write(10, 7, took_ms=2), read(20, 5), read(20, 6))
    assert ages_ms(result) == [8, 8]
    assert result.staleness.readers.stale == 2
    assert judged(write(5, 6, took_ms=50), read(20, 6)).staleness.readers.stale == 0


def test_an_answer_of_a_replica_is_judged_and_is_no_fetch_from_the_origin() -> None:
    got = judged(write(1, 9), read(20, 1, cache="replica"), read(30, 9, cache="replica")).staleness.readers
    assert (got.answers, got.stale, got.fetches, got.hits, got.origin_share) == (2, 1, 0, 0, 0.0)


def test_objects_do_not_touch_each_other() -> None:
    result = judged(
        write(1, 9, object=2), write(2, 8, object=3), read(20, 1, object=1), read(20, 8, object=3)
    )
    assert result.staleness.readers.stale == 0
    assert result.staleness.objects == 2


def test_writes_that_failed_or_never_ended_make_nothing_stale_and_may_be_read() -> None:
    lost = write(1, 8, outcome="timeout")
    flying = Row(3 * MS, -1, True, version=9, outcome="cancelled")
    result = judged(lost, flying, read(20, 8), read(21, 1), read(22, 9))
    got = result.staleness
    assert (got.readers.answers, got.readers.stale) == (3, 0)
    assert (got.writes, got.writes_failed) == (0, 1)
    # what was read of a failed write is superseded as any other
    assert judged(lost, write(30, 10), read(50, 8)).staleness.readers.stale == 1


def test_versions_from_before_the_run_are_older_than_all_and_unknown_ones_are_compared_by_value() -> None:
    assert ages_ms(judged(write(1, 100), write(5, 200), read(20, 3))) == [
        18,
        18,
    ]  # since the first write ended
    assert ages_ms(judged(write(1, 100), write(5, 200), read(20, 150))) == [14, 14]
    assert judged(write(1, 100), write(5, 200), read(20, 250)).staleness.readers.stale == 0


def test_without_writes_nothing_is_stale_and_the_count_gives_the_bound() -> None:
    got = judged(*(read(time_ms, 1) for time_ms in range(100))).staleness.readers
    assert got.stale_share is not None
    assert (got.stale_share.mean, got.stale_share.low) == (0.0, 0.0)
    assert got.stale_share.high == pytest.approx(wilson(0, 100)[1])
    assert got.stale_share.method == ALL_EQUAL
    assert got.stale_age_ms_mean == 0.0
    assert got.stale_age_ms.max is None


def test_without_reads_there_is_no_result() -> None:
    got = judged(write(1, 5), write(2, 6)).staleness
    assert (got.readers.answers, got.readers.stale_share, got.readers.origin_share) == (0, None, None)
    assert (got.readers.stale_age_ms_mean, got.readers.needless_share) == (None, None)
    assert got.writes_per_s == pytest.approx(2.0)
    assert judged().staleness.readers.answers == 0


def test_reads_that_started_in_the_window_are_judged_by_the_writes_of_all_phases() -> None:
    rows = (write(1, 5), read(50, 1), read(150, 1, took_ms=100), read(250, 1), write(190, 6), write(199.5, 7))
    got = judged(*rows, window=Window(100 * MS, 200 * MS)).staleness
    assert (got.readers.answers, got.readers.stale) == (1, 1)
    assert got.readers.stale_age_ms.max == pytest.approx(148.0)
    assert got.writes == 1  # the last one ended after the window
    assert got.readers.reads_per_s == 0.0  # the read that began in it ended after it


def test_a_fetch_is_needless_if_the_answer_before_had_the_same_version() -> None:
    result = judged(
        read(1, 1, "miss"),  # the first of its object
        read(3, 1, "hit"),
        read(5, 1, "miss"),  # thrown away for nothing
        write(6, 2),
        read(8, 2, "miss"),
        read(10, 2, "revalidated"),
        read(12, 2, "none"),
        read(14, 1, "miss", object=2),
    )
    got = result.staleness.readers
    assert (got.hits, got.revalidations, got.fetches, got.needless) == (1, 1, 5, 2)
    assert got.origin_share == pytest.approx(5 / 7)
    assert got.needless_share is not None
    assert (got.needless_share.mean, got.needless_share.low) == pytest.approx((0.4, wilson(2, 5)[0]))


def test_the_answer_before_is_by_end_and_may_lie_before_the_window() -> None:
    early = read(1, 1, "hit")
    slow = read(2, 2, "miss", took_ms=30)  # ends after the next
    quick = read(4, 1, "miss")
    got = judged(early, slow, quick, window=Window(2 * MS, 1000 * MS)).staleness.readers
    assert (got.fetches, got.needless) == (2, 1)


def test_failed_reads_are_no_answers_and_those_without_version_are_counted_apart() -> None:
    result = judged(
        read(1, 1, outcome="error"), read(2, None), read(3, 1), write(1, None), read(4, 1, object=None)
    )
    assert (result.staleness.readers.answers, result.staleness.readers.unjudged) == (1, 2)
    assert remark(result.staleness) == (
        "2 successful reads and 1 acknowledged writes contained no object or no version and are not judged"
    )
    assert remark(judged(read(1, 1)).staleness) == ""


def test_workloads_of_readers_apart_and_together() -> None:
    result = judged(
        write(1, 5), read(10, 1, workload="far"), read(11, 5, workload="near"), read(12, 5, workload="near")
    ).staleness
    assert [(workload.workload, workload.answers, workload.stale) for workload in result.workloads] == [
        ("far", 1, 1),
        ("near", 2, 0),
    ]
    assert (result.readers.workload, result.readers.answers, result.readers.stale) == ("", 3, 1)


def test_the_interval_allows_for_answers_that_follow_each_other() -> None:
    # Stale for 25 ms, fresh for 25 ms, and so on, with ten answers in a ms: 10 000 answers, but few changes.
    writes = [write(number * 50, 10 + number, took_ms=0) for number in range(20)]
    reads = [
        read(at / 10, 9 + at // 500 if at // 250 % 2 == 0 else 10 + at // 500, took_ms=0.01)
        for at in range(1, 10_000)
    ]
    share = judged(*writes, *reads).staleness.readers.stale_share
    assert share is not None and share.low is not None and share.high is not None
    assert share.mean == pytest.approx(0.5, abs=0.01)
    alone = wilson(round(share.mean * 9999), 9999)
    assert share.high - share.low > 2 * (alone[1] - alone[0])
    assert share.method.startswith("batch means")


def random_rows(seed: int, size: int) -> list[Row]:
    """Random rows with equal times, equal versions, failures, rows that never ended, and rows without a version."""
    noise = Random(seed)
    rows = []
    for _ in range(size):
        start = noise.randrange(0, 400)
        end = start + noise.randrange(0, 60) if noise.random() > 0.03 else -1
        outcome = noise.choice(("ok", "ok", "ok", "ok", "timeout")) if end >= 0 else "cancelled"
        row = Row(
            start * 10,
            end * 10 if end >= 0 else -1,
            noise.random() < 0.25,
            noise.choice((None, 1, 2, 3, 4, 5)) if noise.random() < 0.2 else noise.randrange(1, 4),
            None if noise.random() < 0.05 else noise.randrange(0, 40),
            noise.choice(CACHES),
            outcome,
            workload="",
        )
        rows.append(row if row.writes else replace(row, workload=noise.choice(("a", "b"))))
    return rows


def slow(rows: Sequence[Row], window: Window, workload: str | None) -> dict[str, object]:
    """The result by the definitions, computed read by read."""
    acknowledged = [row for row in rows if row.writes and row.outcome == "ok"]
    answers = [
        row
        for row in rows
        if not row.writes and row.outcome == "ok" and None not in (row.object, row.version)
    ]
    by_end = sorted(answers, key=lambda row: (row.end, row.start))
    ages, kinds, needless = [], [], 0
    for row in answers:
        if not window.start <= row.start < window.end or workload not in (None, row.workload):
            continue
        newer = [
            each.end
            for each in acknowledged
            if each.object == row.object and each.version is not None and each.version > (row.version or 0)
        ]
        ages.append(row.start - min(newer) if newer and min(newer) < row.start else 0)
        kinds.append(row.cache)
        position = next(at for at, other in enumerate(by_end) if other is row)
        before = [other for other in by_end[:position] if other.object == row.object]
        fetch = row.cache in ("miss", "none")
        needless += bool(fetch and before and before[-1].version == row.version)
    stale = sorted(age for age in ages if age)
    return {
        "answers": len(ages),
        "stale": len(stale),
        "share": len(stale) / len(ages) if ages else None,
        "mean": sum(ages) / len(ages) / 1e6 if ages else None,
        "p50": stale[rank(0.5, len(stale))] / 1e6 if is_large_enough(0.5, len(stale)) else None,
        "max": stale[-1] / 1e6 if stale else None,
        "hits": kinds.count("hit"),
        "revalidations": kinds.count("revalidated"),
        "fetches": kinds.count("miss") + kinds.count("none"),
        "needless": needless,
    }


def quick(got: Readers) -> dict[str, object]:
    return {
        "answers": got.answers,
        "stale": got.stale,
        "share": None if got.stale_share is None else got.stale_share.mean,
        "mean": got.stale_age_ms_mean,
        "p50": got.stale_age_ms.p50,
        "max": got.stale_age_ms.max,
        "hits": got.hits,
        "revalidations": got.revalidations,
        "fetches": got.fetches,
        "needless": got.needless,
    }


@pytest.mark.parametrize("seed", range(60))
def test_agrees_with_a_slow_and_obvious_computation(seed: int) -> None:
    rows = random_rows(seed, size=(0, 1, 2, 5, 20, 120, 400)[seed % 7])
    window = Window(500, 3500)
    result = judged(*rows, window=window).staleness
    for workload, got in [
        (None, result.readers),
        *((workload_result.workload, workload_result) for workload_result in result.workloads),
    ]:
        quick_figures, expected = quick(got), slow(rows, window, workload)
        assert {k: v for k, v in quick_figures.items() if k not in ("share", "mean")} == {
            k: v for k, v in expected.items() if k not in ("share", "mean")
        }
        assert quick_figures["share"] == pytest.approx(expected["share"])
        assert quick_figures["mean"] == pytest.approx(expected["mean"])


def test_superseded_without_writes_and_without_versions() -> None:
    none = np.empty(0, dtype=np.int64)
    assert superseded(np.array([1]), np.array([2]), none, none, none).tolist() == [NEVER]
    assert superseded(none, none, np.array([1]), np.array([2]), np.array([3])).tolist() == []


def test_from_the_files_of_a_run(tmp_path: Path) -> None:
    """The columns contain the values of the files: dictionaries that differ between row groups, testers that start at
    the same time, other metrics."""
    rows = random_rows(5, 3000)
    for at, row in enumerate(rows):
        end = row.end * 10_000 if row.end >= 0 else -1
        rows[at] = replace(row, tester=at, start=row.start * 10_000, end=end)
    path = make_results(tmp_path / "results", [({"cache": "some"}, rows)], seconds=0.035, warmup_s=0.005)
    (run,) = analysis(path).runs
    expected = judged(*rows, window=Window(5 * MS, 35 * MS)).staleness
    assert run.staleness is not None
    assert quick(run.staleness.readers) == quick(expected.readers)
    assert run.staleness.writes == expected.writes > 0
    assert {workload.workload: workload.answers for workload in run.staleness.workloads} == {
        workload.workload: workload.answers for workload in expected.workloads
    }
    assert [metric.name for metric in run.metrics] == ["other"]  # the mean of a version says nothing
    assert any("contained no object or no version" in note for note in run.notes)
