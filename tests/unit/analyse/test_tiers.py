"""Requests sent and counted: what explains a difference, and what makes a run doubtful."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.golden.fixture import designed
from tests.unit.analyse.made import run

from plimsoll.analyse.answer.runs import run_findings
from plimsoll.analyse.answer.worded import worded_reasons, worded_run
from plimsoll.analyse.components.tiers import Sent, compare, foreign_notes, tier_counts
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import TierCounts
from plimsoll.analyse.results.verdicts import Severity
from plimsoll.analyse.run.validity.validity import ValidityFigures, judge_run
from plimsoll.collect.requests import RequestCounts, read_requests
from plimsoll.collect.results import RunFiles
from plimsoll.plan.model.cell import Validity


def doubts(*tiers: TierCounts, requests: float = 0.01) -> list[str]:
    figures = ValidityFigures(1000, 0, 0.1, None, None, None, tiers=tiers)
    reasons = judge_run(figures, Validity(requests=requests)).reasons
    assert all(reason.severity == Severity.DOUBTFUL for reason in reasons)
    return [reason.text for reason in worded_reasons(reasons)]


def compared(sent: int, counted: int, unsure: int = 0, **more: Any) -> TierCounts:
    return compare("web", ("testers",), Sent(sent, sent - unsure), counted, **more)


@pytest.mark.parametrize(
    ("sent", "counted", "unsure", "difference"),
    [(1000, 1000, 0, 0), (1000, 990, 10, 0), (1000, 985, 10, -5), (1000, 1050, 10, 50), (0, 7, 0, 7)],
)
def test_requests_that_may_not_have_arrived_explain_fewer_not_more(
    sent: int, counted: int, unsure: int, difference: int
) -> None:
    assert compared(sent, counted, unsure).difference == difference


@pytest.mark.parametrize(
    ("sent", "counted", "is_doubtful"),
    [
        (1000, 1010, False),
        (1000, 1011, True),
        (1000, 990, False),
        (1000, 989, True),
        (100, 105, False),
        (100, 106, True),
        (10, 4, True),
        (0, 5, False),
        (0, 6, True),
    ],
)
def test_above_one_percent_and_five_requests_a_run_is_doubtful(
    sent: int, counted: int, is_doubtful: bool
) -> None:
    assert bool(doubts(compared(sent, counted))) == is_doubtful


def test_the_direction_explains_the_difference() -> None:
    assert doubts(compared(1000, 1050)) == [
        "web counted 5.0 % more requests than the testers sent (1,050 instead of 1,000): a proxy or retries in "
        "between, or other clients (requests: 1 %)"
    ]
    assert doubts(compared(1000, 970, through=("between",))) == [
        "web counted 3.0 % fewer requests than the testers sent through between (970 instead of 1,000): they were "
        "answered by something in front of the service, such as a cache, or were lost (requests: 1 %)"
    ]
    assert doubts(compared(1000, 970), requests=0.05) == []


def test_a_program_that_answers_most_requests_or_sends_several_is_no_proxy() -> None:
    assert doubts(compared(1000, 5000, through=("app",))) == []
    assert doubts(compared(1000, 100, through=("app",))) == []
    assert doubts(compared(1000, 5000)) != []


def test_other_clients_of_a_watched_system_are_noted() -> None:
    watched = compared(1000, 1500, is_watched=True)
    assert doubts(watched) == []
    assert foreign_notes([watched, compared(1000, 1500), compared(1000, 900, is_watched=True)]) == [
        "web counted 1,500 requests, 500 more than the testers sent: it has other clients"
    ]


def tier(**changed: Any) -> dict[str, Any]:
    entry = {"workload": "main", "endpoints": ["web"], "each": 1, "is_whole": True}
    return {
        "service": "web",
        "counter": "requests",
        "testers": [entry],
        "services": [],
        "through": [],
        "is_watched": False,
        **changed,
    }


def counts_of(counts: RequestCounts, *, each: int = 1, through: tuple[str, ...] = ()) -> tuple[int, int]:
    """Sent and unsure requests for these transactions."""
    entry = {"workload": "main", "endpoints": ["web"], "each": each, "is_whole": True}
    services = [{"name": "web", "counters": {"requests": 100}}]
    [found] = tier_counts([tier(testers=[entry], through=through)], services, lambda _: counts, 0)
    return found.sent, found.unsure


def test_what_is_known_of_the_requests_of_testers() -> None:
    some = RequestCounts(ok=100, wrong=5, refused=7, open=3, hits=20, repeats=2)
    assert counts_of(some) == (110, 5), "refused: no connection; open and repeated: unknown"
    assert counts_of(some, through=("a",)) == (110, 30), (
        "what is between may answer with an error, or as a cache"
    )
    assert counts_of(some, each=3) == (326, 26), "a wrong response ends a transaction early"


def test_further_tiers_are_compared_with_the_counter_of_the_tier_before() -> None:
    before = {"service": "gate", "counter": "queries", "errors": "database_errors", "sessions": "Connections"}
    services: list[dict[str, Any]] = [
        {"name": "web", "counters": {"requests": 960}},
        {"name": "gate", "counters": {"queries": 1000, "database_errors": 10}},
    ]
    one = tier(testers=[], services=[before])
    [found] = tier_counts([one], services, lambda _: None, failed=5)
    assert (found.before, found.sent, found.unsure, found.difference) == (("gate",), 1000, 15, -25)
    services[0]["counters"] = {"requests": 1012, "Connections": 10}
    [found] = tier_counts([one], services, lambda _: None, failed=5)
    assert (found.sent, found.unsure, found.difference) == (1010, 25, 2)


@pytest.mark.parametrize(
    "broken", ["counter_gaps", "counters_reset_s", "counters_unsettled", "anew_s", "gaps"]
)
def test_no_comparison_with_a_counter_that_was_interrupted(broken: str) -> None:
    services: list[dict[str, Any]] = [{"name": "web", "counters": {"requests": 100}, broken: [1.0]}]
    assert tier_counts([tier()], services, lambda _: RequestCounts(ok=100), 0) == ()


def test_no_comparison_without_both_counts() -> None:
    services: list[dict[str, Any]] = [{"name": "web", "counters": {"requests": 100}}]
    assert tier_counts([tier()], services, lambda _: None, 0) == ()
    assert tier_counts([tier()], [{"name": "web"}], lambda _: RequestCounts(ok=1), 0) == ()
    assert tier_counts([tier(counter="gone")], services, lambda _: RequestCounts(ok=1), 0) == ()


def test_transactions_are_counted_by_workload_and_endpoint(tmp_path: Path) -> None:
    rows = [
        ("main", "web", "ok", "none", 0, 5, 105),
        ("main", "web", "ok", "hit", 1, 5, 100),
        ("main", "web", "timeout", "none", 0, 0, 7),
        ("main", "web", "refused", "none", 0, 0, 0),
        ("main", "two", "wrong", "none", 0, 0, 90),
        ("other", "web", "cancelled", "none", 0, 0, 0),
    ]
    names = ("workload", "endpoint", "outcome", "cache", "attempt", "payload", "received")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    path = tmp_path / "transactions.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=4, use_dictionary=True)
    found = read_requests(RunFiles("0001", tmp_path, {}))
    assert found == {
        ("main", "web"): RequestCounts(2, 0, 1, 1, hits=1, repeats=1, payload=10, received=212),
        ("main", "two"): RequestCounts(wrong=1, received=90),
        ("other", "web"): RequestCounts(open=1),
    }


def test_a_run_without_comparisons_has_no_key() -> None:
    assert run().tiers == ()


def test_the_answer_merges_the_same_doubt_about_several_runs() -> None:
    def doubtful(id: str, counted: int) -> RunResult:
        figures = ValidityFigures(1000, 0, 0.1, None, None, None, tiers=(compared(1000, counted),))
        return worded_run(replace(run(id), reasons=judge_run(figures, Validity()).reasons))

    whole = replace(
        designed(seconds=4), runs=(doubtful("0001", 1050), doubtful("0002", 1060), doubtful("0003", 980))
    )
    [text] = [finding.text for finding in run_findings(whole) if "doubtful" in finding.text]
    assert text == (
        "3 of 3 runs are doubtful: web counted 5.0 to 6.0 % more requests than the testers sent in 2 runs: a proxy or "
        "retries in between, or other clients (requests: 1 %); web counted 2.0 % fewer requests than the testers sent "
        "(980 instead of 1,000): they were answered by something in front of the service, such as a cache, or were "
        "lost (requests: 1 %)."
    )


def test_invalid_requests_are_not_among_those_received() -> None:
    services = [{"name": "web", "counters": {"requests": 90, "refused": 10}}]
    [found] = tier_counts([tier()], services, lambda _: RequestCounts(ok=85, wrong=15), 0)
    assert (found.sent, found.unsure, found.difference) == (100, 10, 0)


def test_bytes_are_compared_if_both_are_known() -> None:
    services: list[dict[str, Any]] = [{"name": "web", "counters": {"requests": 3, "kbytes": 2.5}}]
    one = tier(sent_bytes={"counter": "kbytes", "unit": 1024, "column": "received"})
    [found] = tier_counts([one], services, lambda _: RequestCounts(ok=3, received=2500), 0)
    assert found.bytes is not None
    assert (found.bytes.sent, found.bytes.received) == (2560, 2500)
    [found] = tier_counts([one], services, lambda _: RequestCounts(ok=3, received=-1), 0)
    assert found.bytes is None, "the engine's totals contain no received bytes"
