"""Warm-up, trend and peak window on series with a known result."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stats import within_run

from plimsoll.analyse.stats.proportion import wilson
from plimsoll.analyse.stats.steady import PeakWindow, mser5, peak_window, trend

FALSE_AT_MOST = 0.05


def test_mser_cuts_an_exponential_warm_up() -> None:
    """Time constant 60: the transient is below 5 % after 180."""
    rng = np.random.default_rng(2)
    t = np.arange(1000)
    advice = mser5(100 * (1 - np.exp(-t / 60)) + rng.normal(0, 1, 1000))
    assert advice.cut_s is not None and 120 <= advice.cut_s <= 360


def test_mser_keeps_a_steady_series() -> None:
    advice = mser5(np.random.default_rng(1).normal(50, 1, 400), bin_s=0.1)
    assert advice.cut_s is not None and advice.cut_s <= 8


@pytest.mark.parametrize("bins", [40, 100, 300])
@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_mser_is_rarely_supported_in_a_steady_series(bins: int, phi: float) -> None:
    """Its cut alone is over a tenth of the series in 7 to 46 % of these."""
    rng, series = np.random.default_rng(31), 300
    noise = within_run.autoregressive(rng, series, bins, phi) * np.sqrt(1 - phi**2)
    advices = [mser5(values) for values in 100 + 10 * noise]
    false = sum(
        advice.supported and advice.cut_s is not None and advice.cut_s > 0.1 * bins for advice in advices
    )
    assert wilson(false, series, confidence=0.90)[0] <= FALSE_AT_MOST, false


def test_mser_is_supported_where_there_is_a_warm_up() -> None:
    rng = np.random.default_rng(32)
    start = 1 - 0.5 * np.exp(-np.arange(300) / 30)
    advices = [mser5(100 * start + 10 * rng.normal(size=300)) for _ in range(200)]
    assert np.mean([advice.supported for advice in advices if advice.cut_s is not None]) > 0.95
    assert mser5([0.0] * 50 + [1.0] * 250).supported


def test_mser_reports_that_there_is_no_steady_state() -> None:
    assert mser5(np.linspace(0, 100, 300)).cut_s is None
    assert "too short" in mser5([1.0] * 10).remark


def test_a_trend_is_detected_and_a_steady_series_has_none() -> None:
    rng = np.random.default_rng(5)
    assert trend(np.linspace(100, 120, 60) + rng.normal(0, 2, 60)).verdict == "trends"
    assert trend(100 + rng.normal(0, 2, 60)).verdict == "steady"
    small = trend(np.linspace(100, 102, 200) + rng.normal(0, 0.1, 200))
    assert small.verdict == "steady", "certain, but too small to matter"
    assert small.p_value is not None and small.p_value < 1e-6


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8])
def test_false_alarms_are_rare_with_autocorrelated_noise(phi: float) -> None:
    rng = np.random.default_rng(13)
    trials, alarms = 300, 0
    for _ in range(trials):
        value, values = 0.0, []
        for step in rng.normal(size=160):
            value = phi * value + step
            values.append(100 + 50 * value)
        alarms += trend(np.array(values[100:])).verdict == "trends"
    assert alarms / trials <= 0.04


RUNS, SERIES_A_RUN = 24, 2
FOUND_AT_LEAST = 0.80
STATIONARY = [(bins, phi) for bins in (240, 120, 60) for phi in (0.0, 0.2, 0.5, 0.8, 0.9)]
NOISE = 0.05
"""Standard deviation of one bin over the mean."""


def false_experiments(bins: int, phi: float, experiments: int) -> list[bool]:
    """For each of many stationary experiments: whether any series of its runs has a trend."""
    rng, series = np.random.default_rng(27), RUNS * SERIES_A_RUN
    alarms = []
    for _ in range(experiments):
        noise = within_run.autoregressive(rng, series, bins, phi) * np.sqrt(1 - phi**2)
        alarms.append(any(trend(values).verdict == "trends" for values in 1 + NOISE * noise))
    return alarms


def assert_rare(events: list[bool]) -> None:
    print(f"{np.mean(events):.4f} of the experiments")
    assert wilson(sum(events), len(events), confidence=0.90)[0] <= FALSE_AT_MOST


@pytest.mark.parametrize(("bins", "phi"), STATIONARY)
def test_a_stationary_experiment_has_no_trend(bins: int, phi: float) -> None:
    assert_rare(false_experiments(bins, phi, 60))


@pytest.mark.long
@pytest.mark.parametrize(("bins", "phi"), STATIONARY)
def test_stationary_experiments_rarely_have_a_trend(bins: int, phi: float) -> None:
    assert_rare(false_experiments(bins, phi, 1000))


@pytest.mark.parametrize(("bins", "noise"), [(120, NOISE), (240, NOISE), (240, 2 * NOISE)])
def test_a_drift_of_a_tenth_is_found(bins: int, noise: float) -> None:
    """A noise of 10 % in each of 240 bins is one of 5 % in each sixtieth of the window."""
    rng = np.random.default_rng(28)
    drift = 0.1 * (np.arange(bins) / bins - 0.5)
    detected = [
        trend(values).verdict == "trends" for values in 1 + drift + noise * rng.normal(size=(1000, bins))
    ]
    print(f"{np.mean(detected):.3f} found")
    assert wilson(sum(detected), len(detected), confidence=0.90)[1] >= FOUND_AT_LEAST


def test_the_mean_of_the_advice_has_its_unit() -> None:
    advice = mser5([30.0, 31.0, 29.0, 30.0] * 25, bin_s=0.1)
    assert advice.remark == "steady from 0 s on (mean 300 requests/s)"


def test_short_series_are_not_judged() -> None:
    assert trend([1.0] * 19).verdict == "too short to tell"
    wave = np.sin(np.linspace(0, 4, 40))
    assert trend(wave + 10).verdict == "too short to tell", "one slow wave is a single observation"


def test_series_without_noise() -> None:
    assert trend([5.0] * 30).verdict == "steady"
    assert trend(np.linspace(1, 2, 30)).verdict == "trends"
    assert trend([0.0] * 30).verdict == "steady"


def test_peak_window_of_a_ramp() -> None:
    """Twenty testers join one a second and leave in the same order: 19 of 20 count as the peak."""
    peak = peak_window(list(range(20)), [100 + i for i in range(20)])
    assert peak == PeakWindow(18, 101, 20)


def test_peak_window_takes_the_earliest_of_equals_and_the_longest() -> None:
    assert peak_window([0, 20], [10, 30]) == PeakWindow(0, 10, 1)
    assert peak_window([0, 20], [10, 35]) == PeakWindow(20, 35, 1)


def test_successive_testers_do_not_split_the_window() -> None:
    assert peak_window([0, 0, 50], [100, 50, 100]) == PeakWindow(0, 100, 2)


def test_no_peak_without_testers() -> None:
    assert peak_window([], []) is None
    assert peak_window([5], [5]) is None
