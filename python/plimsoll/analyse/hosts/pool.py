"""Whether the network of the testers' hosts has become worse during the experiment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plimsoll.analyse.results.components.pool import PoolPath, PoolResult
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.collect.baseline import MeasuredHost, Measurement
from plimsoll.plan.sections.baseline import PathFigures, worse

NO_AGENT: Final = "not measured after the last run"


def pool(measurements: Sequence[Measurement]) -> PoolResult | None:
    """The paths at the first and at the last measurement. None if there is no measurement. A resumed experiment has
    several; hosts that the first one lacks are not compared."""
    if not measurements:
        return None
    first, last = measurements[0], measurements[-1]
    has_after = len(measurements) > 1
    later = {host.agent: host for host in last.hosts} if has_after else {}
    paths = tuple(
        _path(host, before, later.get(host.agent), has_after=has_after)
        for host in first.hosts
        for before in host.figures.values()
    )
    return PoolResult(paths, has_after, any(path.worse for path in paths), rule(RuleName.POOL))


def _path(
    host: MeasuredHost, before: PathFigures, later: MeasuredHost | None, *, has_after: bool
) -> PoolPath:
    found = None if later is None else later.figures.get(before.to)
    after = found or PathFigures(before.to)
    error = before.error
    if has_after and not error:
        error = (later.error if later is not None else "") or (after.error if found else NO_AGENT)
    return PoolPath(
        host=host.host,
        agent=host.agent,
        site=host.site,
        to=before.to,
        is_target=before.is_target,
        rtt_before_ms=_ms(before.rtt_min_ns),
        rtt_after_ms=_ms(after.rtt_min_ns),
        send_before_bytes_per_s=before.send_bytes_s,
        send_after_bytes_per_s=after.send_bytes_s,
        receive_before_bytes_per_s=before.receive_bytes_s,
        receive_after_bytes_per_s=after.receive_bytes_s,
        worse=worse(before, after),
        error=error,
    )


def _ms(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e6
