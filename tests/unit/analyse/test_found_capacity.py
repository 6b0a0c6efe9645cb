"""The capacity of a search as a response: effects and ratios with known truth."""

from __future__ import annotations

import math

import pytest
from tests.unit.analyse.searches import found, result_of, trials_of

from plimsoll.analyse.answer.load.search import ratio_words
from plimsoll.analyse.design.charts import charts_of_search
from plimsoll.analyse.effects.found_capacity import capacity_effects, observations
from plimsoll.analyse.results.load.search import SearchCell, SearchResult
from plimsoll.analyse.results.wording import describe

LEVELS = {"servers": ["2", "3", "4"], "cache": ["off", "on"]}
BLOCKS = (0.8, 1.0, 1.1, 1.3)
"""Effects of the blocks: they are common to all cells of a block."""
NOISE = (0.01, -0.01, -0.01, 0.01)


def searched(capacities: dict[tuple[str, str], float]) -> SearchResult:
    cells = []
    for at, ((servers, cache), capacity) in enumerate(capacities.items()):
        sign = -1 if at % 2 else 1
        estimates = [
            capacity * block * math.exp(sign * noise) for block, noise in zip(BLOCKS, NOISE, strict=True)
        ]
        cells.append(
            SearchCell({"servers": servers, "cache": cache}, (found(*estimates),), trials_of(4, at), 9)
        )
    return result_of(*cells)


def factorial(interaction: float = 1.0) -> dict[tuple[str, str], float]:
    """Capacities in proportion to the servers; the cache multiplies them by 2, with 4 servers also by `interaction`."""
    return {
        (servers, cache): 100
        * int(servers)
        * (2 if cache == "on" else 1)
        * (interaction if servers == "4" and cache == "on" else 1)
        for servers in LEVELS["servers"]
        for cache in LEVELS["cache"]
    }


def test_ratios_are_those_of_the_levels_and_contain_no_effect_of_the_blocks() -> None:
    effects = capacity_effects(searched(factorial()), LEVELS)
    ratios = {(one.factor, one.level): one for one in effects.ratios}
    assert list(ratios) == [("servers", "3"), ("servers", "4"), ("cache", "on")]
    for key, truth in ((("servers", "3"), 1.5), (("servers", "4"), 2.0), (("cache", "on"), 2.0)):
        ratio = ratios[key].ratio
        assert ratio.mean == pytest.approx(truth, rel=0.01)
        assert ratio.low is not None and ratio.high is not None
        assert ratio.low < truth < ratio.high < 1.05 * ratio.low, "the blocks differ by 60 %"
        assert ratios[key].depends_on == ()
    assert ratios["cache", "on"].over == ("servers",)
    assert ratios["servers", "3"].base == "2" and ratios["servers", "3"].over == ("cache",)


def test_effects_and_model_are_those_of_a_response_on_the_logarithm() -> None:
    effects = capacity_effects(searched(factorial()), LEVELS)
    (model,) = effects.models
    assert model.response == "capacity_per_s.fast" and model.scale == "log"
    assert model.error_df == 24 - 6 - 3, "cells and blocks have their own means"
    assert len(model.run_ids) == 24 and model.run_ids[0] == "0002"
    cache = {one.level: one.effect for one in effects.effects if one.term == "cache"}
    assert cache["on"] == pytest.approx(math.sqrt(2), rel=0.01)
    shares = [one.variation_percent for one in effects.effects if one.variation_percent is not None]
    assert sum(shares) == pytest.approx(100)
    assert {one.term for one in effects.effects} >= {"servers", "cache", "block", "residual"}
    (line,) = [one for one in effects.regressions if len(one.factors) == 1]
    assert line.response == "capacity_per_s.fast"


def test_an_interaction_is_stated_with_the_ratio() -> None:
    effects = capacity_effects(searched(factorial(interaction=1.5)), LEVELS)
    assert {one.factor: one.depends_on for one in effects.ratios} == {
        "servers": ("cache",),
        "cache": ("servers",),
    }
    words = ratio_words(effects.ratios[-1])
    assert words.endswith("that with cache off, on average over servers; the ratio depends on servers")


def test_sentences_name_the_higher_level_first() -> None:
    two = {"cache": ["off", "on"]}
    slower = {("2", "off"): 180.0, ("2", "on"): 100.0}
    (ratio,) = capacity_effects(searched(slower), two).ratios
    assert ratio.ratio.mean == pytest.approx(100 / 180, rel=0.03)
    assert ratio_words(ratio).startswith("with cache off the capacity is 1.8")
    assert ratio_words(ratio).endswith(" that with cache on")
    (same,) = capacity_effects(searched({("2", "off"): 100.0, ("2", "on"): 100.0}), two).ratios
    assert ratio_words(same).startswith(
        "no difference of the capacity between cache off and cache on was detected"
    )


def test_a_cell_beyond_the_range_is_left_out_and_named() -> None:
    result = searched(factorial())
    beyond = SearchCell(
        {"servers": "4", "cache": "on"},
        (found(800.0, None, ending="highest-holds"),),
        trials_of(2, 9),
        9,
    )
    effects = capacity_effects(result_of(*result.cells[:-1], beyond), LEVELS)
    (left_out,) = effects.left_out
    assert "servers 4 and cache on" in str(left_out.values["reason"])
    assert len(observations(result_of(*result.cells[:-1], beyond), "fast")) == 20
    assert {one.factor for one in effects.ratios} == {"servers", "cache"}


def test_one_search_of_each_cell_has_no_ratio() -> None:
    cells = (
        SearchCell({"servers": servers}, (found(100.0 * int(servers)),), trials_of(1, at), 9)
        for at, servers in enumerate(("2", "3"))
    )
    effects = capacity_effects(result_of(*cells), {"servers": ["2", "3"]})
    assert effects.ratios == ()
    assert all(one.interval is None for one in effects.effects)


def test_charts_of_means_exist_for_one_factor_and_for_several() -> None:
    kinds = [chart.kind for chart in charts_of_search(searched(factorial()), LEVELS)]
    assert kinds == ["main effect", "main effect", "interaction"]
    (chart,) = charts_of_search(searched({("2", "off"): 100.0, ("3", "off"): 150.0}), {"servers": ["2", "3"]})
    (line,) = chart.lines
    assert [point.y.mean for point in line.points] == pytest.approx([104.3, 156.4], rel=0.02)
    assert all(point.y.low is not None for point in line.points)


@pytest.mark.parametrize(
    ("axis", "name", "unit"),
    [
        ("load.rate", "capacity_per_s.fast", "requests/s"),
        ("load.testers", "capacity_testers.fast", "testers"),
        ("load.per_host", "capacity_per_host.fast", "testers per host"),
    ],
)
def test_the_response_has_the_unit_of_the_axis(axis: str, name: str, unit: str) -> None:
    cells = searched({("2", "off"): 100.0, ("2", "on"): 200.0}).cells
    effects = capacity_effects(result_of(*cells, axis=axis), {"cache": ["off", "on"]})
    assert effects.models[0].response == name
    assert (describe(name).unit, describe(name).title) == (unit, "capacity (fast)")
