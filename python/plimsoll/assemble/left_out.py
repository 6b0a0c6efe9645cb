"""Parts of the results that no figure includes. `analyse.answer` adds the texts."""

from __future__ import annotations

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.verdicts import LeftOutPart, LeftOutReason, Value
from plimsoll.collect.results import Results, RunFiles


def planned_left_out(results: Results) -> list[LeftOutPart]:
    """Excluded cells, unused hosts, and terms that cannot be estimated. As in all functions here, without texts."""
    excluded = results.plan["design"]["excluded"]
    left_out = [_left_out(LeftOutReason.EXCLUDED, cells=tuple(excluded))] if excluded else []
    for host in results.environment.get("hosts", ()):
        if host.get("reason"):
            values = {"host": host["name"], "site": host["site"], "reason": host["reason"]}
            left_out.append(_left_out(LeftOutReason.HOST, **values))
    return left_out + [
        _left_out(LeftOutReason.NOT_ESTIMABLE, term=text) for text in results.plan["not_estimable"]
    ]


def _left_out(code: LeftOutReason, *, cells: tuple[dict[str, str], ...] = (), **values: Value) -> LeftOutPart:
    return LeftOutPart("", "", code, values, cells)


def measured_nothing(run: RunFiles) -> LeftOutPart:
    """The entry for a run that measured nothing."""
    status, reason = run.record.get("status"), run.record.get("reason")
    return _left_out(LeftOutReason.MEASURED_NOTHING, run=run.id, status=status, reason=reason)


def within_warmup(run: RunFiles) -> LeftOutPart:
    """The entry for a run that ended within its warm-up."""
    status, reason, cut = run.record.get("status"), run.record.get("reason"), run.record["warmup_s"]
    return _left_out(LeftOutReason.WITHIN_WARMUP, run=run.id, status=status, reason=reason, warmup_s=cut)


def left_out_of(run: RunResult) -> list[LeftOutPart]:
    """The entries for a run: the whole run if it is invalid, and counts of transactions that no figure includes."""
    left_out = []
    if not run.valid:
        reason = "; ".join(run.invalid_reasons)
        cells = (run.cell,) if run.cell else ()
        left_out.append(_left_out(LeftOutReason.INVALID, run=run.id, reason=reason, cells=cells))
    counts = (
        (LeftOutReason.DROPPED, run.counts.dropped),
        (LeftOutReason.MISSED, run.counts.missed),
        (LeftOutReason.IN_PROGRESS, run.counts.in_flight_at_end),
    )
    return left_out + [_left_out(code, run=run.id, count=times) for code, times in counts if times]
