"""Marked changes: known causes, such as a new server, after which new levels begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from plimsoll.errors import BadInput


@dataclass(frozen=True, slots=True)
class Mark:
    """`since`: a date, a time, or the name of a results directory; `why`: the reason, as the user wrote it."""

    since: str
    why: str


def placed(marks: Sequence[Mark], names: Sequence[str], started: Sequence[str]) -> dict[int, str]:
    """The reasons by the position of the first directory that each mark concerns. A mark after the newest directory has
    no position yet. `names`, `started`: of the directories in the order of time. Raises BadInput."""
    out: dict[int, str] = {}
    for mark in marks:
        at = _position(mark, names, started)
        if at is not None:
            out[at] = "; ".join(part for part in (out.get(at), mark.why) if part)
    return out


def moment(text: str) -> datetime | None:
    """A date or an ISO 8601 time, in UTC if it has no offset; None for any other text."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _position(mark: Mark, names: Sequence[str], started: Sequence[str]) -> int | None:
    if mark.since in names:
        return names.index(mark.since)
    since = moment(mark.since)
    if since is None:
        raise BadInput(
            f"marks: since: expected a date such as 2026-11-03, a time, or the name of a results directory of this "
            f'history, got "{mark.since}"'
        )
    times = [moment(text) for text in started]
    return next((at for at, time in enumerate(times) if time is not None and time >= since), None)
