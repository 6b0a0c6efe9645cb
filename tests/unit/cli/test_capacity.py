"""The search that `plimsoll capacity URL` makes of its options."""

from __future__ import annotations

import pytest

from plimsoll.cli.experiments.capacity import search_of
from plimsoll.errors import BadInput


def test_the_lowest_rate_has_enough_starts_in_a_tenth_of_the_time() -> None:
    search = search_of("p(99)<100ms", "rate<1%", "5m")
    assert search["from"] == "33/s", "1,000 starts in 30 s"
    assert search["trial"] == {"initial": "1.25s", "final": "5s", "sum": "15s"}
    assert search["repeat"] == 1
    assert search_of("p(95)<100ms", "rate<1%", "5m")["from"] == "10/s", "300 starts for the error rate"


def test_more_time_has_several_searches() -> None:
    assert [search_of("med<9ms", "rate<5%", time)["repeat"] for time in ("9m", "10m", "2h")] == [1, 2, 6]


@pytest.mark.parametrize(
    ("slo", "time", "message"),
    [
        ("fast", "5m", "--slo, --max-errors: cannot read the rule 'fast'"),
        ("p(99)<100ms", "5", "--max-time"),
        ("p(99)<100ms", "20s", "--max-time: a search needs at least 30 s, got 20s"),
    ],
)
def test_a_wrong_option_is_named(slo: str, time: str, message: str) -> None:
    with pytest.raises(BadInput, match=message.replace("(", r"\(")):
        search_of(slo, "rate<1%", time)
