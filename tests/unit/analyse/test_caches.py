"""Response times of cache hits and misses: read from the files of a run, summed, compared, in sentences, in tables."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from tests.golden.fixture import set_up
from tests.unit.analyse.made import latency, run
from tests.unit.versioned import OLD, Row, make_results

from plimsoll.analyse.answer.compose import sentences
from plimsoll.analyse.design.caches import cache_times, miss_ratios
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import CacheTimes
from plimsoll.api import analysis
from plimsoll.collect.columns.caches import read_caches
from plimsoll.errors import DamagedResults
from plimsoll.report.html import render
from plimsoll.report.labels import Labels
from plimsoll.report.tables.resources import caches

MS = 1_000_000


def with_means(hit_ms: float, miss_ms: float, count: int = 10) -> RunResult:
    found = (
        CacheTimes("hit", 0.5, latency([hit_ms] * count)),
        CacheTimes("miss", 0.5, latency([miss_ms] * count)),
    )
    return replace(run(), caches=found)


def test_the_most_frequent_comes_first_with_its_share_and_times() -> None:
    chunks = [("miss", [4 * MS, 6 * MS]), ("hit", [MS] * 5), ("hit", [3 * MS] * 3)]
    times = cache_times((report, np.array(values, dtype=np.int64)) for report, values in chunks)
    assert [(entry.cache, entry.share, entry.response_ms.count) for entry in times] == [
        ("hit", 0.8, 8),
        ("miss", 0.2, 2),
    ]
    assert times[0].response_ms.mean == pytest.approx(14 / 8)
    assert times[1].response_ms.mean == pytest.approx(5.0)
    assert cache_times([]) == ()


def test_the_ratio_is_that_of_the_logarithms_with_the_error_pooled_over_cells() -> None:
    one_run, other = [with_means(1, 4), with_means(1, 9)], [with_means(2, 4), with_means(2, 2)]
    first, second = miss_ratios([one_run, other])
    assert first is not None and second is not None
    assert first.mean == pytest.approx(6.0)  # sqrt(4 x 9)
    assert second.mean == pytest.approx(math.sqrt(2))
    squares = np.var(np.log([4, 9]), ddof=1) + np.var(np.log([2, 1]), ddof=1)
    half = stats.t.ppf(0.975, 2) * math.sqrt(squares / 2) / math.sqrt(2)
    assert first.low == pytest.approx(6 * math.exp(-half))
    assert first.high == pytest.approx(6 * math.exp(half))


def test_one_run_has_no_interval_and_few_answers_no_ratio() -> None:
    (alone,) = miss_ratios([[with_means(1, 4)]])
    assert alone is not None
    assert alone.mean == pytest.approx(4.0)
    assert alone.low is None
    assert alone.high is None
    assert miss_ratios([[with_means(1, 4, count=9)], [run()]]) == [None, None]


def results(directory: Path) -> Path:
    """One cell, two runs; 30 hits of 1 ms and 20 misses of 5 ms each, and transactions that do not count."""
    rows = []
    for number in range(50):
        start = (number + 1) * 10 * MS
        cache, took = ("hit", MS) if number % 5 < 3 else ("miss", 5 * MS)
        rows.append(Row(start, start + took, cache=cache, version=number))
    rows.append(Row(600 * MS, 699 * MS, cache="hit", outcome="error", version=1))
    rows.append(Row(610 * MS, -1, cache="hit", version=1))
    return make_results(directory / "results", [({"c": "only"}, rows)] * 2)


def test_the_file_yields_transactions_that_succeeded_and_ended_in_the_window(tmp_path: Path) -> None:
    file = results(tmp_path) / "runs" / "0001" / "transactions.parquet"
    everything = cache_times(read_caches(file, 0, 10**12))
    assert [(entry.cache, entry.response_ms.count) for entry in everything] == [("hit", 30), ("miss", 20)]
    assert everything[1].response_ms.mean == pytest.approx(5.0)
    some = cache_times(read_caches(file, 0, 55 * MS))
    assert sum(entry.response_ms.count for entry in some) == 4  # those of 10, 20, 30 and 40 ms


def test_a_run_without_caches_has_no_times_and_a_damaged_file_is_reported(tmp_path: Path) -> None:
    old = next(OLD.rglob("transactions.parquet"))
    assert list(read_caches(old, 0, 10**15)) == []
    broken = tmp_path / "transactions.parquet"
    shutil.copy(old, broken)
    broken.write_bytes(broken.read_bytes()[:-100])
    with pytest.raises(DamagedResults, match="cannot be read"):
        list(read_caches(broken, 0, 10**15))


def test_answer_and_report_state_the_ratio_of_misses_and_hits(tmp_path: Path) -> None:
    result = analysis(results(tmp_path))
    assert [entry.cache for entry in result.runs[0].caches] == ["hit", "miss"]
    labels = Labels(result)
    table = caches.by_cache(labels)
    assert table is not None
    assert tuple(cell.replace("\u00a0", " ") for cell in table.rows[0][1:4]) == (
        "60.0 %",
        "1.00 ms",
        "5.00 ms",
    )
    answer = sentences(replace(result, consistency=None))
    assert (
        "Cache misses took 5.0 times (5.0 to 5.0) as long as cache hits with c only (means of the "
        "response time)." in answer
    )
    assert "Cache hits and misses" in render(result, set_up(False), bundle="")
