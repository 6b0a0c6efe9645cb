"""The sentences of the answer, also if there is no result."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tests.golden.fixture import designed, empty, ranked, single
from tests.unit.analyse import made

from plimsoll.analyse.answer.compose import sentences, with_answer
from plimsoll.analyse.answer.runs import _counted, _kind
from plimsoll.analyse.answer.worded import worded_saturation
from plimsoll.analyse.answer.words import between, loads
from plimsoll.analyse.effects.effects import Scale
from plimsoll.analyse.effects.fits import ResponseModel, fit_all
from plimsoll.analyse.results.analysis import Analysis, Capacity, RunResult, Saturation
from plimsoll.analyse.results.components.conditions import Condition, ConditionKind
from plimsoll.analyse.results.run import StageResult
from plimsoll.analyse.results.verdicts import (
    CapacityKind,
    Gain,
    Reason,
    RunReason,
    SaturationReason,
    SaturationVerdict,
    Severity,
    TermPart,
    Value,
)
from plimsoll.analyse.stats.interval import Interval


def said(analysis: Analysis) -> str:
    return " ".join(sentences(analysis)).replace("\u00a0", " ")


def with_saturation(**changes: object) -> Analysis:
    analysis = designed()
    first = replace(analysis.saturation[0], **changes)  # type: ignore[arg-type]
    return replace(analysis, saturation=(first,))


def nominal(saturation: Saturation, *, reached: bool) -> tuple[Capacity, ...]:
    return (replace(saturation.capacities[0], reached=reached),)


def test_capacity_bracket_and_bottleneck_with_their_evidence() -> None:
    text = said(designed())
    assert text.startswith(
        "Zip level 0 has the highest throughput: 3.62 (3.49 to 3.75) times that of zip level 5, and "
    )
    assert (
        "With zip level 0 the highest throughput is 1,453 ± 26 requests/s (151 MB/s of payload), at 4 testers. "
        "Throughput flattens between 2 and 4 testers. Bottleneck: the gateway service (its busiest thread at 96 % of a "
        "core)." in text
    )


def test_combinations_that_overlap_are_not_ranked() -> None:
    analysis = designed()
    first, second = analysis.saturation[:2]
    same = replace(second, capacities=first.capacities)
    text = said(ranked(replace(analysis, saturation=(first, same))))
    assert (
        "No difference between zip level 0 and zip level 1 was detected (ratio 1.00 (0.964 to 1.04))." in text
    )


GAINS = (Gain(1.0, 2.0, 1.0, 0.9, 1.1), Gain(2.0, 4.0, 0.4, 0.3, 0.5), Gain(4.0, 8.0, 0.087, 0.02, 0.16))


def test_increased_up_to_the_highest_load_claims_nothing_beyond_it() -> None:
    first = designed().saturation[0]
    increased = {
        "verdict": "increased",
        "upper": None,
        "gains": GAINS,
        "capacities": nominal(first, reached=False),
    }
    text = said(with_saturation(**increased, lower=4.0))
    assert "highest throughput is 1,453 ± 26" in text
    assert "Throughput increased up to 8 testers, the highest load tried." in text
    assert "not saturated" not in text and "capacity is higher" not in text
    assert "Bottleneck at 4 testers: the gateway service" in text, "a busy resource is stated"
    text = said(with_saturation(**increased, lower=2.0))
    assert "Throughput increased beyond 2 testers; the highest load tried is 8 testers." in text


def test_flat_from_the_lowest_level_and_retrograde() -> None:
    level = (Gain(1.0, 2.0, 0.01, -0.02, 0.03), Gain(2.0, 8.0, 0.02, -0.01, 0.05))
    flat = {"lower": None, "upper": 1.0, "gains": level}
    text = said(with_saturation(verdict="at or below the lowest level", **flat))
    assert "Throughput is flat from 1 tester, the lowest load tried, on." in text
    # Flat is a rise per doubling: over many doublings, it is much, and the reader sees both ends.
    rising = {**flat, "gains": (level[0], Gain(2.0, 8.0, 0.2, 0.12, 0.3))}
    text = said(with_saturation(verdict="at or below the lowest level", **rising))
    expected = "the lowest load tried, on (21 % more at 8 testers: less than 15 % per doubling of the load)."
    assert expected in text
    text = said(with_saturation(verdict="retrograde", **flat, falls_from=4.0))
    assert "lowest load tried, on and falls from 4 testers on." in text
    text = said(with_saturation(verdict="retrograde", lower=2.0, upper=8.0, falls_from=8.0))
    assert "Throughput increases beyond 2 testers and falls from 8 testers on." in text


UNDECIDED = {
    "verdict": "cannot be said",
    "lower": None,
    "upper": None,
    "reason": SaturationReason.RUNS_DIFFER,
}


def test_an_undecided_bracket_claims_no_limit_and_states_what_would_decide() -> None:
    text = said(with_saturation(**UNDECIDED, doubt=GAINS[2], more_runs=3))
    assert (
        "highest throughput is 1,453 ± 26 requests/s (151 MB/s of payload), at 4 testers. Too few runs to decide"
        in text
    )
    assert (
        "from 4 to 8 testers throughput changes by +2 to +16 % (about 3 more runs per load needed)." in text
    )
    assert "flattens between" not in text
    wide = said(with_saturation(**UNDECIDED, doubt=Gain(4.0, 8.0, 0.3, -0.83, 9.67)))
    assert "throughput changes by -83 to +967 %." in wide, "never as 9.7e+02"


def test_not_resolved_is_an_answer() -> None:
    assert "Bottleneck: not identified." in said(with_saturation(bottleneck="not resolved"))
    assert "Bottleneck" not in said(with_saturation(**UNDECIDED, bottleneck="not resolved"))


def test_a_limit_by_the_testers_has_a_warning() -> None:
    assert (
        "the load generator itself (its busiest thread at 35 % of a core): the target may serve more"
        in said(with_saturation(bottleneck="testers"))
    )


def test_rules_that_bind_or_hold_nowhere_are_reported() -> None:
    first = designed().saturation[0]
    usable = Capacity(CapacityKind.USABLE, Interval(700.0, 690.0, 710.0), 2.0, "p(95)<5ms held", True)
    none = Capacity(CapacityKind.ERROR_LIMITED, None, None, "rate<1%", True, "held at no level")
    text = said(with_saturation(capacities=(first.capacities[0], usable, none)))
    assert "Its usable capacity (p(95)<5ms held) is 700 ± 10 requests/s at 2 testers" in text
    assert "it has no error-limited capacity: held at no level" in text


def test_invalid_doubtful_failed_and_unfinished_runs_are_reported() -> None:
    text = said(designed(finished=7))
    assert text.startswith("So far: 7 of 24 runs.")
    assert "1 of 7 runs is invalid and left out: the testers' busiest thread used 97 % of a core" in text
    assert "1 of 2 thresholds failed: response time p(95)<20ms." in text
    assert "1 of 7 runs is doubtful" in text


def test_trends_of_several_runs_are_one_part() -> None:
    analysis = designed()
    runs = list(analysis.runs)
    for index, metric, change in (
        (0, "throughput", 0.12),
        (1, "response time", -0.3),
        (2, "throughput", 0.05),
    ):
        figures: dict[str, Value] = {"change": change, "p": 0.0001, "noise": 0.01, "metric": metric}
        trend = Reason(RunReason.TREND, Severity.DOUBTFUL, figures)
        runs[index] = replace(runs[index], valid=True, reasons=(trend,), doubtful_reasons=("by its codes",))
    text = said(replace(analysis, runs=tuple(runs)))
    assert (
        "doubtful: 3 not steady after the warm-up (throughput or response time changes by -30.0 to +12.0 % of its "
        "mean over the window)" in text
    )


@pytest.mark.parametrize(("shares", "words"), [((0.091, 0.053), "5 to 9"), ((0.052, 0.051), "5")])
def test_stolen_time_of_several_runs_is_one_part(shares: tuple[float, float], words: str) -> None:
    analysis = designed()
    runs = [replace(run, valid=True, reasons=(), doubtful_reasons=()) for run in analysis.runs]
    for index, share in enumerate(shares):
        steal = Reason(RunReason.STEAL, Severity.DOUBTFUL, {"share": share, "limit": 0.05})
        runs[index] = replace(runs[index], reasons=(steal,), doubtful_reasons=("by its codes",))
    text = said(replace(analysis, runs=tuple(runs)))
    assert (
        f"doubtful: in 2, the hypervisor assigned {words} % of this host's processor time to other guests (steal: 5 %)"
    ) in text


def test_one_repetition_has_no_interval() -> None:
    text = said(designed(repetitions=1))
    assert "without repetitions, this is one observation" in text
    assert text.endswith("No interval: one repetition.")
    assert "±" not in text


def test_a_single_run_states_its_response_times() -> None:
    text = said(single())
    assert "served 1,452 ± 22 requests/s" in text
    assert "median 2.75 ms, p95 4.90 ms and p99 6.22 ms" in text
    assert "± holds within this run" in text


def test_nothing_measured_and_nothing_valid() -> None:
    assert sentences(empty()) == ("So far: 0 of 24 runs.", "Nothing has been measured yet.")
    analysis = single()
    bad = replace(analysis.runs[0], valid=False, invalid_reasons=("nothing succeeded",))
    text = said(replace(analysis, runs=(bad,)))
    assert text == "Nothing can be said about the target: the one run is not valid (nothing succeeded)."


def test_reasons_that_differ_in_their_figures_only_are_stated_once() -> None:
    analysis = single()
    values: list[dict[str, Value]] = [
        {"name": "a", "cpu": 0.99},
        {"name": "a", "cpu": 0.98},
        {"name": "b", "cpu": 0.98},
    ]
    kinds = [_kind(Reason(RunReason.TESTER_CPU, Severity.INVALID, each)) for each in values]
    assert kinds[0] == kinds[1] != kinds[2]
    runs = [
        replace(analysis.runs[0], id=str(number), valid=False, reasons=(), invalid_reasons=(reason,))
        for number, reason in enumerate(["it failed", "it stopped", "it failed"])
    ]
    text = said(replace(analysis, runs=tuple(runs)))
    assert "(it failed (2 times); it stopped)" in text
    assert _counted(["took 2 s", "took 3 s"]) == "took 2 s (2 times, with similar figures)"


def test_many_combinations_name_the_ends_only() -> None:
    analysis = designed()
    many = tuple(
        replace(analysis.saturation[0], combination={"zip level": str(level)}, capacities=(
            Capacity(CapacityKind.NOMINAL, Interval(100.0 + level, 99.9 + level, 100.1 + level), 4.0, "", True),))
        for level in range(20)
    )  # fmt: skip
    text = said(ranked(replace(analysis, saturation=many)))
    assert "The other 18 combinations are between these two" in text
    assert (
        "At 8 testers, the bottleneck of zip level 0 is the gateway service in 2 of 2 runs, that of zip"
        in text
    )
    assert len(sentences(replace(analysis, saturation=many))) <= 10


def test_the_analysis_contains_the_answer() -> None:
    analysis = replace(designed(), answer=())
    assert with_answer(analysis).answer == sentences(analysis)


def test_combinations_measured_at_one_load_are_not_compared() -> None:
    """A design that varies one factor at a time tries most combinations at one load: their throughput may be higher at
    another."""
    analysis = designed()
    first, second = analysis.saturation[:2]
    only = next(cell for cell in analysis.cells if cell.cell["zip level"] == "1" and cell.load == 8)
    cells = (*(cell for cell in analysis.cells if cell.cell["zip level"] == "0"), only)
    lone = replace(
        second,
        verdict=SaturationVerdict.CANNOT_SAY,
        lower=None,
        upper=None,
        reason=SaturationReason.TOO_FEW_LEVELS,
        levels=1,
    )
    text = said(ranked(replace(analysis, cells=cells, saturation=(first, lone))))
    assert "has the highest" not in text
    assert "With zip level 1 the throughput is " in text
    assert "at 8 testers, the only load tried." in text
    invalid = next(cell for cell in analysis.cells if cell.cell["zip level"] == "1" and cell.load == 4)
    with_invalid = (*cells, replace(invalid, valid=0, responses={}))
    text = said(ranked(replace(analysis, cells=with_invalid, saturation=(first, lone))))
    assert "at 8 testers, the only load with a valid run." in text


def test_the_shares_of_the_factors_are_listed_largest_first() -> None:
    text = said(designed())
    assert (
        "Variation of log throughput between the runs: zip level 71 % and testers 25 %; unexplained 0.50 %."
        in text
    )
    analysis = designed()
    bare = tuple(replace(model, error_df=0.0) for model in analysis.models)
    assert "unexplained" not in said(replace(analysis, models=bare))
    few = replace(
        analysis, experiment=replace(analysis.experiment, factors={"testers": ["1", "2", "4", "8"]})
    )
    assert "Variation of" not in said(few)


def test_the_best_and_the_worst_level_of_what_explains_most_are_named() -> None:
    analysis = designed()
    assert (
        "Averaged over the other factors, the throughput of zip level 0 is 1.92 times (1.87 to 1.97) the mean, that of "
        "zip level 5 is 0.620 times (0.604 to 0.636)." in said(analysis)
    )
    linear = replace(analysis, models=tuple(replace(model, scale="linear") for model in analysis.models))
    assert "Averaged over the other factors" not in said(linear)
    little = tuple(
        replace(effect, variation_percent=24.0 if effect.variation_percent else effect.variation_percent)
        for effect in analysis.effects
    )
    assert "Averaged over the other factors" not in said(replace(analysis, effects=little))


def test_a_staged_run_is_reported_by_stage_and_without_an_interval_over_all_of_them() -> None:
    analysis = single()
    (run,) = analysis.runs
    bare = replace(run.traffic, throughput_interval=None)
    busy = replace(bare, throughput_per_s=510.0, error_rate=0.25)
    stages = (StageResult(0, "quiet", 0.0, 1.0, run.traffic), StageResult(1, "", 1.0, 2.0, busy))
    text = said(replace(analysis, runs=(replace(run, traffic=bare, stages=stages),)))
    assert "Stage by stage: quiet " in text
    assert "; stage 1 510 requests/s with p95 " in text
    assert ", 25.0 % failed." in text
    assert "± holds within this run" not in text
    assert "Run-to-run variation unknown: one repetition." in text


def test_the_bracket_as_text() -> None:
    def text(**changes: object) -> str:
        return worded_saturation(with_saturation(**changes).saturation[0]).text

    assert text() == "throughput flattens between 2 and 4 testers"
    full = {"reason": SaturationReason.FULL, "more_runs": 3}
    assert text(**full) == (
        "throughput flattens between 2 and 4 testers, because the bottleneck is full from 4 testers on (throughput "
        "alone would need about 3 more runs per load)"
    )
    single = text(**full | {"lower": None, "more_runs": None})
    assert single == "throughput is flat from 4 testers on, where the bottleneck is full"
    retrograde = text(verdict="retrograde", falls_from=8.0)
    assert retrograde == "throughput flattens between 2 and 4 testers and falls from 8 testers on"
    none = {"verdict": "cannot be said", "lower": None, "upper": None}
    assert text(**none, reason="too few levels", levels=1) == "1 load cannot show where throughput flattens"
    assert text(**none, reason="nothing succeeded") == "no request succeeded at any load"
    once = text(**none, reason="one repetition")
    assert once == "one run per load cannot show where throughput flattens"
    assert text(**UNDECIDED) == "too few runs to decide where it flattens"
    partly = text(**UNDECIDED | {"lower": 1.0})
    assert partly.startswith("throughput increases beyond 1 tester; too few runs to decide where it flattens")


def test_loads_with_units() -> None:
    assert loads("120/s", "rate") == "a rate of 120/s" and loads("1", "testers") == "1 tester"
    assert between("between", "40/s", "and", "120/s", "rate") == "between a rate of 40/s and 120/s"
    assert between("from", "2", "to", "4", "testers") == "from 2 to 4 testers"


AWKWARD = ("sort by key", "a (b cannot be excluded)", "x; y")
"""Levels that look like parts of sentences."""


def renamed(analysis: Analysis, levels: dict[str, str]) -> Analysis:
    """The same analysis with other labels for the levels of the zip level."""

    def cell(old: dict[str, str]) -> dict[str, str]:
        return old | {"zip level": levels[old["zip level"]]}

    info = analysis.experiment
    factors = info.factors | {"zip level": [levels[level] for level in info.factors["zip level"]]}
    return replace(
        analysis,
        experiment=replace(info, factors=factors),
        runs=tuple(replace(run, cell=cell(run.cell)) for run in analysis.runs),
        cells=tuple(replace(cell_, cell=cell(cell_.cell)) for cell_ in analysis.cells),
        saturation=tuple(
            replace(saturation, combination=cell(saturation.combination))
            for saturation in analysis.saturation
        ),
        rankings=tuple(
            replace(ranking, best=cell(ranking.best), second=cell(ranking.second), worst=cell(ranking.worst))
            for ranking in analysis.rankings
        ),
        effects=tuple(
            replace(effect, level=levels.get(effect.level, effect.level))
            if effect.term == "zip level"
            else effect
            for effect in analysis.effects
        ),
    )


def test_levels_that_look_like_sentences_change_nothing_else() -> None:
    """The sentences with awkward levels are those with plain ones, level by level."""
    plain = ("ALPHA", "BETA", "GAMMA")
    sentences_ = [
        said(renamed(designed(), dict(zip(("0", "1", "5"), names, strict=True))))
        for names in (plain, AWKWARD)
    ]
    expected = sentences_[0]
    for name, awkward in zip(plain, AWKWARD, strict=True):
        expected = expected.replace(name, awkward)
    assert sentences_[1] == expected
    assert "With zip level a (b cannot be excluded) the highest throughput is 6" in sentences_[1]


def test_what_stops_a_level_that_has_a_by_in_its_name() -> None:
    analysis = renamed(designed(), dict(zip(("0", "1", "5"), AWKWARD, strict=True)))
    many = tuple(
        replace(
            analysis.saturation[0],
            combination={"zip level": str(level)},
            capacities=(Capacity(CapacityKind.NOMINAL, Interval(100.0 + level, None, None), 4.0, "", True),),
        )
        for level in range(20)
    )
    text = said(ranked(replace(analysis, saturation=many)))
    assert (
        "At 8 testers, the bottleneck of zip level sort by key is the gateway service in 2 of 2 runs, "
        in text
    )
    assert "that of zip level a (b cannot be excluded) is the gateway service in 2 of 2 runs" in text
    assert "level sort is" not in text


def test_a_factor_with_a_colon_in_its_name_is_one_factor() -> None:
    analysis = designed()
    parts = (TermPart(("a:b", "testers")), TermPart(("c:d",), -1))
    effects = tuple(
        replace(effect, term="a:b:testers - c:d", parts=parts) if effect.term == "zip level" else effect
        for effect in analysis.effects
    )
    text = said(replace(analysis, effects=effects))
    assert "throughput between the runs: a:b × testers - c:d 71 % and testers 25 %" in text


def designed_for(
    throughput: Callable[[dict[str, str], str, np.random.Generator], float], *, scale: Scale = "log"
) -> Analysis:
    """Two factors of two and three levels in four blocks; the throughput by levels and block, with 2 % of noise."""
    rng = np.random.default_rng(4)
    levels = {"size": ["small", "large"], "mode": ["a", "b", "c"]}
    runs: list[RunResult] = []
    for block in ("mon", "tue", "wed", "thu"):
        for size, mode in product(*levels.values()):
            cell = {"size": size, "mode": mode}
            value = throughput(cell, block, rng) * math.exp(rng.normal(0, 0.02))
            run = made.run(f"{len(runs) + 1:04}", cell=cell, throughput=value)
            runs.append(replace(run, block=block, order=len(runs) + 1))
    effects, models, _ = fit_all(runs, levels, [ResponseModel("throughput", scale)])
    info = replace(designed().experiment, factors=levels, load_factor=None)
    whole = replace(
        designed(), experiment=info, runs=tuple(runs), cells=(), saturation=(), rankings=(), verdicts=()
    )
    return replace(whole, effects=effects, models=models)


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_a_factor_without_a_detected_effect_is_named_with_what_remains_possible(scale: Scale) -> None:
    def by_mode(cell: dict[str, str], block: str, rng: np.random.Generator) -> float:
        return {"a": 100.0, "b": 120.0, "c": 150.0}[cell["mode"]] * {"mon": 1.0, "tue": 0.7}.get(block, 1.2)

    text = said(designed_for(by_mode, scale=scale))
    match = re.search(
        r"No effect of size on the throughput was detected: it is between (\S+) and (\S+) % ", text
    )
    assert match is not None, text
    low, high = (float(end) for end in match.groups())
    assert -15 < low < 0 < high < 15 and "(large relative to small)" in text
    assert "No effect of mode" not in text


def test_each_of_several_levels_is_compared_with_the_mean() -> None:
    text = said(designed_for(lambda cell, block, rng: 200.0 if cell["size"] == "large" else 100.0))
    assert "No effect of mode on the throughput was detected: it is between" in text
    assert "(each level relative to the overall mean)" in text and "No effect of size" not in text


def test_a_factor_that_was_varied_between_blocks_only_has_a_caveat() -> None:
    whole = designed_for(lambda cell, block, rng: 100.0)
    days = tuple(replace(run, block=f"of {run.cell['size']}") for run in whole.runs)
    text = said(replace(whole, runs=days))
    assert (
        "Size was varied between blocks only: its effect includes every other difference between the blocks."
        in text
    )
    assert "between blocks only" not in said(whole)


def test_a_missing_run_hides_no_effect() -> None:
    """Shares of the variation do not add up then; effects and their tests do not need them."""

    def by_mode(cell: dict[str, str], block: str, rng: np.random.Generator) -> float:
        return {"a": 100.0, "b": 120.0, "c": 150.0}[cell["mode"]]

    whole = designed_for(by_mode)

    def without(*missing: str) -> str:
        some = tuple(run for run in whole.runs if run.id not in missing)
        effects, models, _ = fit_all(some, whole.experiment.factors, [ResponseModel("throughput", "log")])
        return said(replace(whole, runs=some, effects=effects, models=models))

    assert "Variation of log throughput between the runs: mode 97 %" in without("0007")
    corner = [run.id for run in whole.runs if run.cell["mode"] == "c" and run.cell["size"] == "large"]
    text = without(*corner[1:])
    assert "Mode has an effect on the log throughput. Shares of the variation are not reported: runs " in text
    assert "the throughput of mode c is 1.2" in text
    assert "No effect of size on the throughput was detected" in text


def test_the_reason_for_missing_shares_is_stated_once_for_all_responses() -> None:
    def by_mode(cell: dict[str, str], block: str, rng: np.random.Generator) -> float:
        return {"a": 100.0, "b": 120.0, "c": 150.0}[cell["mode"]]

    whole = designed_for(by_mode)
    corner = [run.id for run in whole.runs if run.cell["mode"] == "c" and run.cell["size"] == "large"]
    some = tuple(run for run in whole.runs if run.id not in corner[1:])
    responses = [ResponseModel("throughput", "log"), ResponseModel("throughput", "linear")]
    effects, models, _ = fit_all(some, whole.experiment.factors, responses)
    text = said(replace(whole, runs=some, effects=effects, models=models))
    assert "Mode has an effect on the log throughput. Mode has an effect on the throughput." in text
    assert text.count("are not reported") == 1
    assert re.search(r"so the shares would add up to [\d.]+ to [\d.]+ %\.", text), text


def test_hosts_with_the_same_condition_share_a_sentence() -> None:
    """The hosts of a testbed share the cores of one machine."""

    def queue(host: str, tasks: float) -> Condition:
        values: dict[str, Value] = {"tasks": tasks, "cores": 2.0, "low": tasks - 1, "high": tasks + 1}
        return Condition(ConditionKind.RUN_QUEUE, host or "host", host, tasks, values)

    whole = designed_for(lambda cell, block, rng: 100.0)
    first, *others = whole.runs
    busy = replace(first, conditions=(queue("far", 5.0), queue("", 6.0), queue("near", 4.0)))
    text = said(replace(whole, runs=(busy, *others)))
    assert (
        "on average, 6.00 tasks (5.00 to 7.00) ran or waited for the 2 cores of the host; also of far and near, with "
        "lower or equal figures." in text
    )
    assert text.count("ran or waited") == 1


@pytest.mark.parametrize(("repetitions", "few"), [(2, ""), (1, "; with one pass each, no difference")])
def test_a_loop_has_its_caveats(repetitions: int, few: str) -> None:
    whole = designed_for(lambda cell, block, rng: 100.0 + 50 * (cell["size"] == "large"))
    some = [run for run in whole.runs if run.block in ("mon", "tue")[:repetitions]]
    runs = tuple(replace(run, block=None, repetition=1 + (run.block == "tue")) for run in some)
    levels = whole.experiment.factors
    effects, models, _ = fit_all(runs, levels, [ResponseModel("throughput", "log")], ["mode"])
    info = replace(whole.experiment, looped=("mode",))
    text = said(replace(whole, experiment=info, runs=runs, effects=effects, models=models))
    assert (
        "Mode was run in the same order in each pass of the loop: its effect includes drift within a pass."
        in text
    )
    assert f"the means of passes, because the runs of a pass share a service instance or a time{few}" in text
    assert "Mode was run" not in said(replace(whole, runs=runs, effects=effects, models=models))
