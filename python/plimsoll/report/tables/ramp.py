"""A run of a changing load as a table by load: throughput, percentiles, errors, and the rules bin by bin."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.answer.load.ramp import NOTE, load_words
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import Ramp, RampBin, RampRule, RampStep
from plimsoll.analyse.results.verdicts import BinOutcome
from plimsoll.analyse.results.wording import UNKNOWN, count, describe, number, percent, percentile, quantity
from plimsoll.analyse.window.steps import MIN_COUNT, min_length_ns
from plimsoll.report.tables.table import Column, Table

PERCENTILES: Final = ("p50", "p95", "p99")
FEW: Final = "too few"
"""Text for a bin with too few transactions for a percentile."""


def parts_of(ramp: Ramp) -> tuple[RampBin | RampStep, ...]:
    """The parts of the run that are shown: the steps of a ramp of testers, else the bins of the load."""
    return ramp.steps or ramp.bins


def shown_percentile(ramp_bin: RampBin | RampStep, name: str) -> str:
    """A percentile of a bin, or `too few` if the bin has too few transactions for it."""
    text = percentile(ramp_bin.traffic.response_ms, name)
    return FEW if text == UNKNOWN and ramp_bin.traffic.response_ms.count else text


def load_head(ramp: Ramp) -> str:
    """The column head for the load."""
    return "Offered rate" if ramp.unit == "rate" else "Active testers" if ramp.steps else "Testers"


def table(run: RunResult, ramp: Ramp) -> Table:
    """A row per part of the load, and a column per rule."""
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
            *(_outcome(rule, _bin_of(ramp, ramp_bin)) for rule in ramp.rules),
        )
        for ramp_bin in parts_of(ramp)
    )
    return Table(f"Run {run.id} by load", tuple(columns), rows, _note(ramp))


def _bin_of(ramp: Ramp, part: RampBin | RampStep) -> int:
    """Index of the bin that contains the middle of a part, or of the nearest one."""
    middle = (part.start_s + part.end_s) / 2
    return min(
        range(len(ramp.bins)),
        key=lambda at: max(ramp.bins[at].start_s - middle, middle - ramp.bins[at].end_s, 0.0),
    )


def merged_note(ramp: Ramp) -> str:
    """How many planned steps were merged; empty if none was."""
    planned = sum(step.merged for step in ramp.steps)
    if planned == len(ramp.steps):
        return ""
    least = min_length_ns(round((ramp.steps[-1].end_s - ramp.steps[0].start_s) * 1e9)) / 1e9
    return (
        f"Steps shorter than {number(least)} s or with fewer than {MIN_COUNT} transactions are merged with "
        f"their neighbours: {count(planned)} planned steps in {count(len(ramp.steps))} rows."
    )


def _outcome(rule: RampRule, at: int) -> str:
    outcome = rule.outcomes[at]
    return FEW if outcome == BinOutcome.NOT_JUDGED else outcome.value


def _note(ramp: Ramp) -> str:
    times = (
        "Times and errors are of the transactions scheduled in each part, throughput of those that ended in it."
        if ramp.unit == "rate"
        else "Times, errors and throughput are of the transactions that ended in each part."
    )
    judged = ""
    if ramp.steps and ramp.rules and len(ramp.steps) != len(ramp.bins):
        judged = "A rule is judged in parts of a tenth of the load; each row has the outcome of the part around it."
    return " ".join(text for text in (times, merged_note(ramp), judged, NOTE) if text)
