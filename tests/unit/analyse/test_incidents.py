"""Actions are grouped into incidents; sentences state what happened."""

from __future__ import annotations

from dataclasses import replace

from tests.stats.recovery_truths import Truth, analysed
from tests.unit.analyse.made import run

from plimsoll.analyse.answer.actions import of_actions, outage_words, recovery_words, what_happened
from plimsoll.analyse.results.actions import ActionResult, RecoveryReason, RecoveryVerdict
from plimsoll.analyse.results.metrics import metric_value
from plimsoll.analyse.run.outages.incidents import phases, spans
from plimsoll.analyse.window.transactions import Window


def act(kind: str, at: float, service: str = "db", length: float = 0.0, took: float = 0.1) -> ActionResult:
    return ActionResult(kind, f"{kind} {service}", service, at, length, at, at + (length or took), "done")


S = 10**9


def test_a_kill_and_its_restart_are_one_incident() -> None:
    found = spans([act("kill", 10), act("restart", 15, took=3), act("pause", 30, "web", 5)])
    assert [(span.actions, span.start, span.release) for span in found] == [
        ((0, 1), 10 * S, 15 * S),
        ((2,), 30 * S, 35 * S),
    ]


def test_what_overlaps_is_one_incident() -> None:
    found = spans([act("kill", 10), act("pause", 12, "web", 1), act("run", 12.5, ""), act("restart", 15)])
    assert [span.actions for span in found] == [(0, 1, 2, 3)]
    assert found[0].release == 15 * S
    separate = spans([act("kill", 10), act("kill", 12, "web"), act("restart", 20, "web")])
    assert [span.actions for span in separate] == [(0,), (1, 2)]


def test_an_action_that_did_not_begin_belongs_to_no_incident() -> None:
    late = ActionResult("kill", "kill db", "db", 50, 0, None, None, "not reached")
    assert spans([late]) == ()
    assert phases((), Window(0, S)) == (None, None, None)


def test_phases_are_parts_of_the_window() -> None:
    before, during, after = phases(spans([act("kill", 10), act("restart", 15)]), Window(2 * S, 30 * S))
    assert (before, during, after) == (Window(2 * S, 10 * S), Window(10 * S, 15 * S), Window(15 * S, 30 * S))
    assert phases(spans([act("kill", 10)]), Window(2 * S, 30 * S))[1] is None


def test_the_sentence_on_a_kill_and_a_restart() -> None:
    result = analysed(Truth(100, "even"), 1)
    (incident,) = result.incidents
    assert what_happened(incident, result.actions) == "db was killed at 12.0 s and restarted at 16.0 s"
    assert outage_words(incident) == "no success for 5.5 s"
    words = recovery_words(incident, result.actions)
    assert words.startswith("throughput was back to 95 % of before, and response time to 105 %, 1.5 to ")
    assert " s after the restart (windows of 1.6 s" in words


def test_the_sentences_on_undecided_and_missing_recoveries() -> None:
    result = analysed(Truth(1000, level=0.5), 1)
    (incident,) = result.incidents
    assert "did not come back" in recovery_words(incident, result.actions)
    for reason in RecoveryReason:
        undecided = replace(incident.recovery, verdict=RecoveryVerdict.UNDECIDED, reason=reason)
        words = recovery_words(replace(incident, recovery=undecided), result.actions)
        assert words.startswith("whether the service recovered cannot be decided: ") and len(words) > 60


def test_metrics_of_actions_are_those_of_the_run() -> None:
    result = analysed(Truth(100, "even"), 1)
    made = run()
    done = replace(made, actions=replace(result, during=made.traffic))
    assert metric_value(done, "outage_s") == result.outage_ms
    assert metric_value(done, "recovery_s") == result.recovery_ms
    assert metric_value(done, "throughput@during") == made.traffic.throughput_per_s
    assert metric_value(done, "response_p95@after") is None
    assert metric_value(made, "availability") is None


def test_a_failed_action_is_reported() -> None:
    result = analysed(Truth(100, "even"), 1)
    failed = replace(result.actions[1], outcome="failed", error="no port")
    done = replace(run(), actions=replace(result, actions=(result.actions[0], failed)))

    class MadeAnalysis:
        runs = (done,)

    texts = [finding.text for finding in of_actions(MadeAnalysis())]  # type: ignore[arg-type]
    assert texts[-1] == "In run 0001, an action failed: no port."
