"""What is not in the figures. Without texts, which `analyse.answer` makes."""

from __future__ import annotations

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.verdicts import LeftOut, LeftOutReason, Value
from plimsoll.collect.results import Results, RunFiles


def not_there(results: Results) -> list[LeftOut]:
    """What of the plan was not to be measured. This and what follows: without texts."""
    excluded = results.plan["design"]["excluded"]
    found = [_leave(LeftOutReason.EXCLUDED, cells=tuple(excluded))] if excluded else []
    for host in results.environment.get("hosts", ()):
        if host.get("reason"):
            told = {"host": host["name"], "site": host["site"], "reason": host["reason"]}
            found.append(_leave(LeftOutReason.HOST, **told))
    return found + [_leave(LeftOutReason.NOT_ESTIMABLE, term=text) for text in results.plan["not_estimable"]]


def _leave(code: LeftOutReason, *, cells: tuple[dict[str, str], ...] = (), **values: Value) -> LeftOut:
    return LeftOut("", "", code, values, cells)


def nothing_of(run: RunFiles) -> LeftOut:
    """A run that measured nothing."""
    status, reason = run.record.get("status"), run.record.get("reason")
    return _leave(LeftOutReason.MEASURED_NOTHING, run=run.id, status=status, reason=reason)


def within_warmup(run: RunFiles) -> LeftOut:
    status, reason, cut = run.record.get("status"), run.record.get("reason"), run.record["warmup_s"]
    return _leave(LeftOutReason.WITHIN_WARMUP, run=run.id, status=status, reason=reason, warmup_s=cut)


def left_out_of(run: RunResult) -> list[LeftOut]:
    """What of a run is in no figure."""
    found = []
    if not run.valid:
        reason = "; ".join(run.invalid_reasons)
        cells = (run.cell,) if run.cell else ()
        found.append(_leave(LeftOutReason.INVALID, run=run.id, reason=reason, cells=cells))
    books = (
        (LeftOutReason.DROPPED, run.counts.dropped),
        (LeftOutReason.MISSED, run.counts.missed),
        (LeftOutReason.IN_PROGRESS, run.counts.in_flight_at_end),
    )
    return found + [_leave(code, run=run.id, count=times) for code, times in books if times]
