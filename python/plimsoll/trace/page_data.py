"""The data of the page for its script: the profile's files without zeros, and the requests as columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from plimsoll.trace.pictures import Picture, Pictures
from plimsoll.trace.profile import FileProfile, Profile, ProfileDocument
from plimsoll.trace.tables import summed

LEFT_OUT: Final = frozenset({"read_s", "write_s", "metadata_time", "processes", "incarnations"})
"""Of a file: what the script does not show, or has by another name."""
TIMES: Final = ("recorded_s", "low_s", "corrected_s", "high_s")


def page_data(told: ProfileDocument, pictures: Pictures, trace: str) -> dict[str, Any]:
    """The whole of it. `trace`: the file, as one would type it."""
    profile = told.profile
    places = {each.path: place for place, each in enumerate(profile.files)}
    return {
        "name": file_name(PurePath(trace).stem),
        "trace": trace,
        "interval_only": profile.time.interval_only,
        "files": [
            file_data(each, document)
            for each, document in zip(profile.files, told.document["files"], strict=True)
        ],
        "timeline": told.document["timeline"],
        "threads": _threads(profile),
        "pictures": {
            str(places[each.path]): picture_data(each) for each in pictures.files if each.path in places
        },
    }


def file_name(text: str) -> str:
    """The beginning of names of saved images."""
    return "".join(sign if sign.isalnum() or sign in "-_" else "-" for sign in text)[:60] or "trace"


def file_data(each: FileProfile, document: Mapping[str, Any]) -> dict[str, Any]:
    """A file without what is zero, empty or not known: of most files of a big program that is nearly all.

    A share or a time of 0 stays, so that it is not taken for an unknown one.
    """
    found: dict[str, Any] = {}
    for name, value in document.items():
        if name in LEFT_OUT or value is None or (not value and not name.endswith(("_share", "_s"))):
            continue
        found[name] = _packed(value) if isinstance(value, dict) else _plain(value)
    times = [each.read_time, each.write_time, each.sync_time, each.metadata_time]
    spent = summed([time for time in times if time is not None])
    if spent is not None:
        found["time"] = _packed(spent.model_dump())
    return found


def _packed(value: dict[str, Any]) -> Any:
    """Times as four numbers, bins as three, all else as it is."""
    if set(value) == set(TIMES):
        return [_plain(value[name]) for name in TIMES]
    found = {name: _packed(each) if isinstance(each, dict) else _plain(each) for name, each in value.items()}
    if "histogram" in found:
        found["histogram"] = [[bin_["from"], bin_["to"], bin_["count"]] for bin_ in value["histogram"]]
    return found


def _plain(value: Any) -> Any:
    return float(f"{value:.7g}") if isinstance(value, float) else value


def _threads(profile: Profile) -> dict[str, str]:
    """What a thread is called, by its place in the trace's table."""
    found = {}
    for process in profile.processes:
        program = PurePath(process.program).name if process.program else "process"
        for thread in process.threads:
            single = len(process.threads) == 1
            found[str(thread.id)] = f"{program} {process.pid}" + ("" if single else f", thread {thread.tid}")
    return found


def picture_data(picture: Picture) -> dict[str, Any]:
    """A file's requests as columns, sorted by their start, or its bins."""
    if picture.density is not None:
        return {"requests": picture.requests, "density": picture.density.model_dump()}
    points = sorted(picture.points, key=lambda point: point[0])
    names = ("t", "d", "o", "n", "w", "k", "r")
    columns = zip(*points, strict=True) if points else ((),) * len(names)
    return {"requests": picture.requests, "rows": dict(zip(names, map(list, columns), strict=False))}
