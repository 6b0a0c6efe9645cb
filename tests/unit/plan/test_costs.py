"""Prices of components in an experiment file."""

from __future__ import annotations

import pytest
from tests.unit.plan.helpers import BASE, edited, load, problems

from plimsoll.plan import make_plan
from plimsoll.plan.source.price import Price, parse_price
from plimsoll.plan.source.units import UnitError

TWO = edited("web: {kind: echo}", "web: {kind: echo, instances: 2}\n  db: {kind: sqlite}")


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("0.20 EUR/h", Price(0.2, "EUR")),
        (" .5USD / h ", Price(0.5, "USD")),
        ("0 CHF/h", Price(0.0, "CHF")),
        ("1000000 JPY/h", Price(1e6, "JPY")),
        ("0.000001 EUR/h", Price(1e-6, "EUR")),
    ],
)
def test_prices_are_read_and_written(text: str, price: Price) -> None:
    assert parse_price(text) == price
    assert parse_price(str(price)) == price


@pytest.mark.parametrize(
    "value",
    ["0.2", "0.2 eur/h", "-1 EUR/h", "2 EUR/d", "1e3 EUR/h", "1000001 EUR/h", "0.0000001 EUR/h", 5, None],
)
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(UnitError):
        parse_price(value)


def test_prices_are_part_of_the_plan() -> None:
    experiment = load(BASE + "costs: {web: 0.20 EUR/h, testers: 1 EUR/h, host: 0 EUR/h}\n")
    costs = make_plan(experiment, 1).to_json()["costs"]
    assert costs["web"] == {"per_hour": 0.2, "currency": "EUR"}
    assert "web: 0.2 EUR/h" in experiment.effective_yaml()
    assert "costs" not in make_plan(load(BASE), 1).to_json()


def test_a_price_of_a_service_is_that_of_each_instance() -> None:
    assert load(TWO + "costs: {web: 2 EUR/h, web.1: 3 EUR/h}\n").costs["web"].per_hour == 2


def test_a_price_can_be_added_on_the_command_line() -> None:
    assert load(BASE, ["costs.web=3 EUR/h"]).costs == {"web": Price(3.0, "EUR")}


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (
            "{wep: 1 EUR/h}",
            "costs.wep: there is no component wep; the results will have db, host, testers, web, web.1, web.2",
        ),
        ("{web.3: 1 EUR/h}", "costs.web.3: there is no component web.3"),
        ("{web: 1}", "costs.web: 1 is not a price per hour: a price is written like 0.20 EUR/h"),
        (
            "{web: 1 EUR/h, host: 2 USD/h}",
            'costs.host: expected a price in EUR, the currency of web, got "2 USD/h"',
        ),
        (
            "{db: 1 EUR/h}",
            "costs.db: db is a file, not a process: give the price of the component that uses it",
        ),
    ],
)
def test_malformed_costs_are_refused(costs: str, message: str) -> None:
    (problem,) = problems(TWO + f"costs: {costs}\n")
    assert problem.startswith("x.yaml:11: " + message), problem


def test_a_factor_cannot_set_a_price() -> None:
    text = BASE + "costs: {web: 1 EUR/h}\nfactors: {price: {path: costs.web, levels: [1 EUR/h, 2 EUR/h]}}\n"
    assert "it applies to the experiment, not to a run" in problems(text)[0]
