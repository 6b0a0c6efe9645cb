"""A run of a changing load as a table by load: throughput, percentiles, errors, and the rules bin by bin."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.answer.ramp import NOTE, load_words
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import Ramp, RampBin, RampRule
from plimsoll.analyse.results.verdicts import BinOutcome
from plimsoll.analyse.results.wording import UNKNOWN, describe, number, percent, percentile, quantity
from plimsoll.report.table import Column, Table

PERCENTILES: Final = ("p50", "p95", "p99")
FEW: Final = "too few"
"""Text for a bin with too few transactions for a percentile."""


def shown_percentile(each: RampBin, name: str) -> str:
    """A percentile of a bin; whether it has too few transactions for it."""
    text = percentile(each.traffic.response_ms, name)
    return FEW if text == UNKNOWN and each.traffic.response_ms.count else text


def load_head(ramp: Ramp) -> str:
    """What the load is."""
    return "Offered rate" if ramp.unit == "rate" else "Testers"


def table(run: RunResult, ramp: Ramp) -> Table:
    """A row per bin; the rules as columns."""
    rules = [f"{describe(each.metric).title} {each.test}" for each in ramp.rules]
    heads = ("Throughput", *PERCENTILES, "Error rate", "Concurrency")
    columns = [Column(load_head(ramp)), Column("Time (s)")]
    columns += [Column(name, numeric=True) for name in heads] + [Column(name) for name in rules]
    rows = tuple(
        (
            load_words(each.load_low, each.load_high, ramp.unit),
            f"{number(each.start_s)} to {number(each.end_s)}",
            quantity(each.traffic.throughput_per_s, "rate", "/s"),
            *(shown_percentile(each, name) for name in PERCENTILES),
            percent(each.traffic.error_rate, 2),
            number(each.traffic.concurrency),
            *(_outcome(rule, at) for rule in ramp.rules),
        )
        for at, each in enumerate(ramp.bins)
    )
    return Table(f"Run {run.id} by load", tuple(columns), rows, _note(ramp))


def _outcome(rule: RampRule, at: int) -> str:
    found = rule.outcomes[at]
    return FEW if found == BinOutcome.NOT_JUDGED else found.value


def _note(ramp: Ramp) -> str:
    times = (
        "Times and errors are of the transactions scheduled in each part, throughput of those that ended in it."
        if ramp.unit == "rate"
        else "Times, errors and throughput are of the transactions that ended in each part."
    )
    return f"{times} {NOTE}"
