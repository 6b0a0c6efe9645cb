"""A run of a changing load as a table by load: throughput, percentiles, errors, and the rules bin by bin."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.answer.ramp import NOTE, load_words
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import Ramp, RampBin, RampRule
from plimsoll.analyse.results.verdicts import BinOutcome
from plimsoll.analyse.results.wording import UNKNOWN, describe, number, percent, percentile, quantity
from plimsoll.report.tables.table import Column, Table

PERCENTILES: Final = ("p50", "p95", "p99")
FEW: Final = "too few"
"""Text for a bin with too few transactions for a percentile."""


def shown_percentile(ramp_bin: RampBin, name: str) -> str:
    """A percentile of a bin, or `too few` if the bin has too few transactions for it."""
    text = percentile(ramp_bin.traffic.response_ms, name)
    return FEW if text == UNKNOWN and ramp_bin.traffic.response_ms.count else text


def load_head(ramp: Ramp) -> str:
    """The column head for the load."""
    return "Offered rate" if ramp.unit == "rate" else "Testers"


def table(run: RunResult, ramp: Ramp) -> Table:
    """A row per bin of the load, and a column per rule."""
    rules = [f"{describe(rule.metric).title} {rule.test}" for rule in ramp.rules]
    heads = ("Throughput", *PERCENTILES, "Error rate", "Concurrency")
    columns = [Column(load_head(ramp)), Column("Time (s)")]
    columns += [Column(name, numeric=True) for name in heads] + [Column(name) for name in rules]
    rows = tuple(
        (
            load_words(ramp_bin.load_low, ramp_bin.load_high, ramp.unit),
            f"{number(ramp_bin.start_s)} to {number(ramp_bin.end_s)}",
            quantity(ramp_bin.traffic.throughput_per_s, "rate", "/s"),
            *(shown_percentile(ramp_bin, name) for name in PERCENTILES),
            percent(ramp_bin.traffic.error_rate, 2),
            number(ramp_bin.traffic.concurrency),
            *(_outcome(rule, at) for rule in ramp.rules),
        )
        for at, ramp_bin in enumerate(ramp.bins)
    )
    return Table(f"Run {run.id} by load", tuple(columns), rows, _note(ramp))


def _outcome(rule: RampRule, at: int) -> str:
    outcome = rule.outcomes[at]
    return FEW if outcome == BinOutcome.NOT_JUDGED else outcome.value


def _note(ramp: Ramp) -> str:
    times = (
        "Times and errors are of the transactions scheduled in each part, throughput of those that ended in it."
        if ramp.unit == "rate"
        else "Times, errors and throughput are of the transactions that ended in each part."
    )
    return f"{times} {NOTE}"
