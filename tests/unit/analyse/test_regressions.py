"""Sentences about regressions: laws with their test, no law if a form is rejected, nothing if nothing is shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.golden.fixture import designed
from tests.unit.analyse.made import run

from plimsoll.analyse.answer.compose import with_answer
from plimsoll.analyse.answer.load.regressions import of_regressions, regression_text
from plimsoll.analyse.answer.worded import worded_regression, worded_superseded
from plimsoll.analyse.effects.fits import ResponseModel, regress_all
from plimsoll.analyse.effects.regressions import regress
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.document import as_document
from plimsoll.analyse.results.load.regression import Regression
from plimsoll.analyse.results.superseded import with_superseded
from plimsoll.analyse.results.verdicts import RegressionVerdict, Topic

SIZES = ("1kB", "4kB", "16kB", "64kB")


def regressions(
    of: Callable[[float], float],
    response: str = "throughput_per_s",
    *,
    repetitions: int = 3,
    noise: float = 0.01,
    sizes: Sequence[str] = SIZES,
) -> tuple[Regression, ...]:
    """Of a response that depends on the size in kB."""
    rng = np.random.default_rng(1)
    rows = [size for size in sizes for _ in range(repetitions)]
    y = [of(float(size[:-2])) * math.exp(rng.normal(0, noise)) for size in rows]
    return regress(y, {"size": rows}, response=response)


def text(of: Callable[[float], float], response: str = "throughput_per_s", **changes: int) -> str:
    (regression,) = regressions(of, response, repetitions=changes.get("repetitions", 3))
    return regression_text(regression).replace("\u00a0", " ")


def answered(*found: Regression, load: str | None = None) -> Analysis:
    analysis = replace(designed(seconds=6), regressions=tuple(map(worded_regression, found)))
    return replace(analysis, experiment=replace(analysis.experiment, load_factor=load))


def test_a_power_law_has_its_exponent_interval_and_test() -> None:
    said = text(lambda size: 900 * size**-0.48)
    assert said.startswith("The throughput is proportional to size^-0.4")
    assert "; the model fits (lack of fit p = 0." in said and said.endswith("2 and 8 degrees of freedom).")


def test_a_straight_line_has_its_slope_in_units_that_suit() -> None:
    said = text(lambda size: 3 + 0.25 * size, "response_ms_p95")
    assert said.startswith("The p95 of response time rises by 25") and " µs) per kB of size" in said
    said = text(lambda size: 900 - 10 * size)
    assert said.startswith("The throughput falls by ") and " requests/s) per kB of size" in said


def test_what_no_form_fits_has_no_law() -> None:
    said = text(lambda size: 900 / (1 + math.exp(-size)))
    assert said.startswith(
        "No law of size is claimed for the throughput: neither a straight line nor a power fits"
    )
    assert "lack of fit p < 0.001, 2 and 8 degrees of freedom" in said


def test_without_repetitions_nothing_is_claimed() -> None:
    said = text(lambda size: 900 * size**-0.48, repetitions=1)
    assert said.startswith("By least squares, the throughput is proportional to size^-0.4")
    assert said.endswith("whether this form fits cannot be tested: no cell was repeated.")
    (untested,) = regressions(lambda size: 900 * size**-0.48, repetitions=1)
    assert untested.verdict == RegressionVerdict.NOT_TESTED
    assert of_regressions(answered(untested)) == ()


def test_no_dependence_is_no_law_and_no_sentence() -> None:
    (flat,) = regressions(lambda size: 900)
    assert regression_text(flat).startswith("No law is claimed for the throughput: no dependence on size (")
    assert of_regressions(answered(flat)) == ()


def test_forms_that_are_not_distinguished_are_both_named() -> None:
    (found,) = regressions(lambda size: 100 * size, noise=0.2, sizes=("4kB", "5kB", "6kB"))
    assert not found.distinguished
    assert "these runs do not distinguish it from a " in regression_text(found)


def test_the_answer_contains_laws_and_rejected_forms_with_their_rule() -> None:
    (law,) = regressions(lambda size: 900 * size**-0.48)
    (bent,) = regressions(lambda size: 900 / (1 + math.exp(-size)), "response_ms_p50")
    findings = of_regressions(answered(law, bent))
    assert [finding.verdict for finding in findings] == ["no lack of fit shown", "lack of fit"]
    assert all(f.topic == Topic.REGRESSION and f.rule and f.rule.name == "model.regression" for f in findings)
    assert {f.text for f in findings} <= set(with_answer(answered(law, bent)).answer)


def test_the_load_has_no_second_sentence() -> None:
    """The saturation describes the throughput against the load."""
    (law,) = regressions(lambda size: 900 * size**-0.48)
    assert of_regressions(answered(law, load="size")) == ()
    (times,) = regressions(lambda size: 3 + 0.25 * size, "response_ms_p95")
    assert len(of_regressions(answered(times, load="size"))) == 1
    (bent,) = regressions(lambda size: 900 / (1 + math.exp(-size)), "response_ms_p50")
    assert of_regressions(answered(bent, load="size")) == ()


def test_a_law_of_several_factors_replaces_those_of_one() -> None:
    rng = np.random.default_rng(3)
    rows = [(size, t) for size in SIZES for t in ("1", "2", "4") for _ in range(2)]
    y = [float(s[:-2]) ** -0.5 * float(t) ** 0.9 * math.exp(rng.normal(0, 0.01)) for s, t in rows]
    found = regress(
        y, {"size": [r[0] for r in rows], "testers": [r[1] for r in rows]}, response="throughput_per_s"
    )
    (finding,) = of_regressions(answered(*found))
    assert "proportional to size^-0." in finding.text and " × testers^0." in finding.text


def test_own_coefficients_are_named_by_their_levels() -> None:
    rng = np.random.default_rng(4)
    rows = [(size, z) for size in SIZES for z in ("0", "5") for _ in range(3)]
    y = [float(s[:-2]) ** (-1.0 if z == "0" else -0.5) * math.exp(rng.normal(0, 0.01)) for s, z in rows]
    (own,) = regress(
        y, {"size": [r[0] for r in rows], "zip": [r[1] for r in rows]}, response="throughput_per_s"
    )
    said = regression_text(own)
    assert " at zip 0 and size^-0." in said and " at zip 5; the model fits" in said


def test_the_valid_runs_of_an_experiment_are_fitted() -> None:
    runs = [
        run(
            f"{at + 1:04d}",
            cell={"size": size},
            throughput=900 * float(size[:-2]) ** -0.5 * (1 + 0.001 * (at % 5)),
        )
        for at, size in enumerate(SIZES * 3)
    ]
    runs.append(run("0099", cell={"size": "1kB"}, throughput=1.0, valid=False))
    wanted = [ResponseModel("throughput", "log"), ResponseModel("throughput"), ResponseModel("unknown")]
    (found,) = regress_all(runs, {"size": SIZES}, wanted)
    assert (found.response, found.values, found.fit.form) == ("throughput_per_s", 12, "log-log")
    assert found.levels == {"size": {"1kB": 1e3, "4kB": 4e3, "16kB": 16e3, "64kB": 64e3}}


@pytest.mark.parametrize("changed", [True, False])
def test_a_verdict_by_an_older_rule_is_superseded(changed: bool) -> None:
    (law,) = regressions(lambda size: 900 * size**-0.48)
    now = answered(law)
    earlier = as_document(now)
    earlier["regressions"][0]["verdict"] = "lack of fit"
    earlier["regressions"][0]["rule"]["version"] = 0 if changed else 1
    entries = worded_superseded(with_superseded(now, earlier)).superseded
    assert len(entries) == changed
    for entry in entries:
        assert entry.text.startswith(
            "The regression of the throughput on size: fit of its form was lack of fit"
        )
