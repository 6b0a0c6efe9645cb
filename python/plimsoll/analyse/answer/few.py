"""The sentence on runs with few transactions per tester, once for all runs."""

from __future__ import annotations

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.verdicts import Finding, Topic, Value
from plimsoll.analyse.results.wording import count, number, percent, plural, with_unit
from plimsoll.analyse.run.few import MIN_TRANSACTIONS


def of_few_transactions(analysis: Analysis) -> list[Finding]:
    """The remark, with the run that has the fewest transactions per tester; empty if every valid run has enough."""
    runs = [(run, run.few) for run in analysis.runs if run.valid and run.few is not None]
    if not runs:
        return []
    run, least = min(runs, key=lambda pair: pair[1].median)
    where = (
        "" if len(analysis.runs) == 1 else f"In {count(len(runs))} of {plural(len(analysis.runs), 'run')}, "
    )
    which = "" if len(runs) == 1 and len(analysis.runs) == 1 else f" in run {run.id}"
    median = f"median {number(least.median)}{which}"
    text = f"{where}testers ended fewer than {MIN_TRANSACTIONS} transactions each ({median})"
    text = text[0].upper() + text[1:]
    consequences = ["differences between testers and Jain's index are mostly chance"]
    if least.median > 0:
        share = percent(min(1.0, 1 / least.median), 2)
        consequences.append(f"the throughput depends on where the window begins and ends, by up to {share}")
    if analysis.saturation:
        consequences.append("a saturation found on such runs is uncertain")
    longer = (
        f" A window of {with_unit(number(least.needed_s), 's')} has {MIN_TRANSACTIONS} per tester."
        if least.needed_s is not None
        else ""
    )
    values: dict[str, Value] = {
        "runs": len(runs),
        "run": run.id,
        "median": least.median,
        "needed_s": least.needed_s,
    }
    return [Finding(Topic.FEW_TRANSACTIONS, f"{text}: {'; '.join(consequences)}.{longer}", values=values)]
