"""A sentence on the network of the testers' hosts, if it has become worse during the experiment."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.components.pool import PoolPath
from plimsoll.analyse.results.verdicts import Finding, Topic
from plimsoll.analyse.results.wording import count, listing, plural, quantity
from plimsoll.plan.sections.baseline import Worse, shown_bits

MAX_NAMED: Final = 3
"""Maximum number of hosts that are named; the report lists all."""


def of_pool(analysis: Analysis) -> list[Finding]:
    """The warning about hosts whose network was worse after the last run than before the first."""
    pool = analysis.pool
    if pool is None or not pool.changed:
        return []
    by_host: dict[str, list[PoolPath]] = {}
    for path in pool.paths:
        if path.worse:
            by_host.setdefault(path.agent, []).append(path)
    shown = [
        f"{name} ({listing(text for path in paths for text in path_words(path))})"
        for name, paths in list(by_host.items())[:MAX_NAMED]
    ]
    more = len(by_host) - MAX_NAMED
    shown += [f"{plural(more, 'other host')}"] if more > 0 else []
    total = len({path.agent for path in pool.paths})
    text = (
        f"The pool changed: the network of {count(len(by_host))} of {plural(total, 'host')} of testers was worse after "
        f"the last run than before the first: {listing(shown)}. Compare runs only with others of the same time."
    )
    return [Finding(Topic.POOL, text, verdict="changed", rule=pool.rule)]


def path_words(path: PoolPath) -> list[str]:
    """What has become worse on a path: `throughput to lab fell from 19.1 Mbit/s to 4.8 Mbit/s`."""
    words = []
    if Worse.ROUND_TRIP in path.worse and path.rtt_before_ms is not None and path.rtt_after_ms is not None:
        before, after = (quantity(value, "ms") for value in (path.rtt_before_ms, path.rtt_after_ms))
        words.append(f"round trip to {path.to} rose from {before} to {after}")
    for what, way, before_s, after_s in (
        (Worse.SEND, "to", path.send_before_bytes_per_s, path.send_after_bytes_per_s),
        (Worse.RECEIVE, "from", path.receive_before_bytes_per_s, path.receive_after_bytes_per_s),
    ):
        if what in path.worse and before_s is not None and after_s is not None:
            words.append(
                f"throughput {way} {path.to} fell from {shown_bits(before_s)} to {shown_bits(after_s)}"
            )
    return words
