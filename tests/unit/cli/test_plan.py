"""The plan as text."""

from __future__ import annotations

import pytest
from tests.unit.plan.helpers import BASE, edited, load

from plimsoll.cli.experiments.plan import lines
from plimsoll.plan import make_plan


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BASE, "restarts: 1 service, 0 tables written"),
        (edited("web: {kind: echo}", "web: {kind: echo, fresh: run}") + "design: {repetitions: 3}\n",
         "restarts: 3 services, 0 tables written"),
        (edited("web: {kind: echo}", "web: {kind: echo}\n  db: {kind: sqlite}")
         + "data: {t: {into: db, rows: 5, row: 10B}}\n", "restarts: 1 service, 1 table written"),
    ],
)  # fmt: skip
def test_restarts_are_counted_in_words(text: str, said: str) -> None:
    assert said in lines(make_plan(load(text), 1), 10)


def test_a_long_list_of_hosts_is_cut_with_the_number_of_the_others() -> None:
    hosts = ", ".join(f"h{at}" for at in range(1, 10))
    text = edited(
        "load: {testers: 1",
        "hosts: {kind: ssh, controller: {address: 10.0.0.1}, sites: {site: ["
        + hosts
        + "]}}\nload: {testers: 9",
    )
    output = "\n".join(lines(make_plan(load(text), 1), 10))
    assert "site: h1, h2, h3, h4, h5, h6 and 3 more" in output
