"""The summary for a terminal: order, width, plain text, and names without effect on the terminal."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tests.golden.fixture import designed, empty, single

from plimsoll.analyse.answer.compose import with_answer
from plimsoll.analyse.answer.reasons import bottleneck_reason
from plimsoll.analyse.components.bottleneck import bottleneck
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.run import CodeCount, ErrorCount, Utilization
from plimsoll.report.terminal import summary_lines

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def text(analysis: Analysis, **options: object) -> str:
    return "\n".join(summary_lines(analysis, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
@pytest.mark.parametrize("colour", [True, False])
def test_no_line_is_wider_than_the_terminal(width: int, colour: bool) -> None:
    for analysis in (designed(), single(), empty(), designed(hostile=True, finished=9)):
        lines = summary_lines(analysis, width, colour)
        wide = [line for line in lines if len(ANSI.sub("", line)) > max(width, 40)]
        assert wide == []


def test_80_columns_hold_the_table_of_cells() -> None:
    assert max(len(line) for line in summary_lines(designed(), 80)) <= 80


def test_plain_text_is_ascii() -> None:
    for analysis in (designed(), single(), empty()):
        assert text(analysis).isascii()
        assert "\x1b" not in text(analysis)


def test_colour_brings_signs_and_colours() -> None:
    shown = text(designed(), colour=True)
    assert "\x1b[32m" in shown
    assert "✓" in shown
    assert "±" in shown


def test_the_order_is_that_of_k6() -> None:
    shown = text(designed(), files=("results/report.html",))
    marks = ["ok     response time", "FAILED response time", "requests....", "combination", "errors....",
             "Zip level 0 has the highest throughput", "written...."]  # fmt: skip
    places = [shown.index(mark) for mark in marks]
    assert places == sorted(places)
    assert "995 +/- 18  1.787 +/- 0.032 ms" in shown


def test_a_single_run_has_totals_latency_and_a_histogram() -> None:
    shown = text(single())
    marks = ["34,846 succeeded, 0 failed", "1,452 +/- 22 requests/s", "avg=2.93ms", "p(99.9)=8.13ms", "histogram",
             "errors............: none", "4 testers on 1 agent, Jain's index 0.9984", "The target served"]  # fmt: skip
    places = [shown.index(mark) for mark in marks]
    assert places == sorted(places)
    shares = [float(share) for share in re.findall(r" (\d+(?:\.\d+)?) %  ?#*$", shown, re.MULTILINE)]
    assert sum(shares) == pytest.approx(100, abs=3)


def test_errors_are_counted_by_kind() -> None:
    shown = text(designed())
    assert re.search(r"errors\.+: 18 \(0\.00421 %\)\n    12  error 503\n     6  timeout\n", shown)


def test_quiet_keeps_the_answer_and_what_failed() -> None:
    shown = text(designed(), quiet=True)
    assert "FAILED" in shown
    assert "1 of 24 runs invalid" in shown
    assert "Zip level 0 has the highest throughput" in shown
    assert "requests...." not in shown
    assert "ok     " not in shown


def test_a_single_run_has_no_number_of_runs() -> None:
    analysis = single()
    (run,) = analysis.runs
    bad = with_answer(replace(analysis, runs=(replace(run, valid=False, invalid_reasons=("it was cold",)),)))
    assert "! the run is invalid" in text(bad)
    assert "1 of 1 run" not in text(bad)
    doubtful = with_answer(replace(analysis, runs=(replace(run, doubtful_reasons=("it was warm",)),)))
    assert "The run is doubtful: it was warm." in text(doubtful)


def test_a_threshold_not_judged_yet_has_not_failed() -> None:
    analysis = designed(finished=7)
    open_one = replace(
        analysis.verdicts[1], observed=None, judged=False, reason="not judged yet: none so far"
    )
    analysis = with_answer(replace(analysis, verdicts=(analysis.verdicts[0], open_one)))
    shown = text(analysis, width=120)
    assert re.search(
        r"^  -      response time p\(95\)<20ms with .*: not judged yet: none so far$", shown, re.MULTILINE
    )
    assert "FAILED" not in shown and "failed:" not in shown
    assert "not judged" not in text(analysis, quiet=True)


def test_a_bottleneck_is_named_once() -> None:
    analysis = single()
    host = Utilization("host", "host", "cpu", 0.92, None, None)
    narrow = bottleneck([host])
    run = replace(
        analysis.runs[0], bottleneck=narrow.component, bottleneck_reason=bottleneck_reason(narrow.reason)
    )
    assert "bottleneck........: host: cpu 92 % busy" in text(replace(analysis, runs=(run,)))


def test_unfinished_says_so_far_once() -> None:
    assert text(designed(finished=7)).count("So far: 7 of 24 runs.") == 1


def test_damaged_counts_are_shown() -> None:
    analysis = single()
    run = analysis.runs[0]
    bad = replace(run, counts=replace(run.counts, balanced=False, lost_records=12))
    assert "DAMAGED...........: the counts do not add up, 12 records lost" in text(
        replace(analysis, runs=(bad,))
    )


def test_names_cannot_steer_the_terminal() -> None:
    analysis = designed()
    info = replace(analysis.experiment, name="evil \x1b[2J\x9b\r\u202ename", question="what\nnow?")
    for colour in (False, True):
        shown = ANSI.sub("", text(replace(analysis, experiment=info), colour=colour))
        assert not set(shown) & {"\x1b", "\x9b", "\r", "\u202e"}
        assert "\\x1b[2J" in shown


def test_nothing_measured() -> None:
    assert "Nothing has been measured yet." in text(empty())


def test_status_codes_of_successes_and_failures() -> None:
    analysis = single()
    run = analysis.runs[0]
    assert "status codes" not in text(analysis), "a driver without codes has no such row"
    traffic = replace(
        run.traffic,
        successes_by_code=(CodeCount("200", 34840), CodeCount("304", 6)),
        errors_by_kind=(
            ErrorCount("error", "503", 12),
            ErrorCount("wrong", "200", 1),
            ErrorCount("timeout", "", 3),
        ),
    )
    shown = text(replace(analysis, runs=(replace(run, traffic=traffic),)), width=120)
    assert "status codes......: [200] 34,841 responses, [503] 12 responses and [304] 6 responses\n" in shown
    one_success = replace(run.traffic, successes_by_code=(CodeCount("200", 1),))
    assert "[200] 1 response\n" in text(replace(analysis, runs=(replace(run, traffic=one_success),)))


def test_an_open_load_has_slots_and_no_fairness() -> None:
    analysis = single()
    run = analysis.runs[0]
    shown = text(replace(analysis, runs=(replace(run, open_load="all"),)))
    assert "testers...........: 4 slots of the open load on 1 agent\n" in shown
    assert "Jain" not in shown
    some = (*(replace(tester, share=None) for tester in run.testers[:1]), *run.testers[1:])
    shown = text(replace(analysis, runs=(replace(run, open_load="some", testers=some),)), width=120)
    assert "4 testers on 1 agent, Jain's index 0.9984 over the 3 of closed loads\n" in shown
    alone = tuple(replace(tester, share=None) for tester in run.testers[1:])
    assert "Jain" not in text(
        replace(analysis, runs=(replace(run, open_load="some", testers=(run.testers[0], *alone)),))
    ), "one user is neither fair nor unfair"
