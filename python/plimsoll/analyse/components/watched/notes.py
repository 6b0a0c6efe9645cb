"""Notes on the readings of watched systems of a run, and on its watched hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plimsoll.analyse.results.wording import number


def watch_notes(watched: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Notes on the readings of a run: failures, gaps, and counters that were reset."""
    notes = []
    for record in watched:
        name, gaps = record["name"], record.get("gaps", ())
        if "counters" not in record:
            notes.append(f"{name} could not be read during the run{_reason_of(gaps)}")
            continue
        for gap in gaps:
            notes.append(
                f"no reading of {name} from {_second(gap['from_s'])} to {_second(gap['to_s'])}{_reason_of([gap])}"
            )
        notes += [
            f"{name} reset its counters before {_second(at)}: its counts since the previous reading are unknown"
            for at in record.get("anew_s", ())
        ]
    return tuple(notes)


def host_notes(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Notes on the watched hosts and processes of the targets of a run."""
    missing = [
        f"{host['name']} is not watched: {host['missing']}"
        for host in record.get("watched_hosts", ())
        if host.get("missing")
    ]
    events = [f"at {_second(event['t_s'])}: {event['text']}" for event in record.get("watch_events", ())]
    return (*missing, *events)


def _second(value: float) -> str:
    return f"{number(max(0.0, value))} s"


def _reason_of(gaps: Sequence[Mapping[str, Any]]) -> str:
    return f" ({gaps[0]['why']})" if gaps else ""
