"""The data of the page's script: the files of the profile without zeros, and the requests as columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from plimsoll.trace.pictures import Picture, Pictures
from plimsoll.trace.profile import FileProfile, Profile, ProfileDocument
from plimsoll.trace.tables import summed

LEFT_OUT: Final = frozenset({"read_s", "write_s", "metadata_time", "processes", "incarnations"})
"""Keys of a file that the script does not show, or that it has by another name."""
TIMES: Final = ("recorded_s", "low_s", "corrected_s", "high_s")


def page_data(document: ProfileDocument, pictures: Pictures, trace: str) -> dict[str, Any]:
    """All data of the page. `trace`: the path of the trace, quoted for a shell."""
    profile = document.profile
    indices = {file.path: index for index, file in enumerate(profile.files)}
    return {
        "name": file_name(PurePath(trace).stem),
        "trace": trace,
        "interval_only": profile.time.interval_only,
        "files": [
            file_data(file, fields)
            for file, fields in zip(profile.files, document.document["files"], strict=True)
        ],
        "timeline": document.document["timeline"],
        "threads": _threads(profile),
        "pictures": {
            str(indices[picture.path]): picture_data(picture)
            for picture in pictures.files
            if picture.path in indices
        },
    }


def file_name(text: str) -> str:
    """The beginning of the file names of saved images."""
    return "".join(sign if sign.isalnum() or sign in "-_" else "-" for sign in text)[:60] or "trace"


def file_data(file: FileProfile, document: Mapping[str, Any]) -> dict[str, Any]:
    """A file without values that are zero, empty or unknown, which most values are in the trace of a large program.

    A share or a time of 0 stays, so that it differs from an unknown one.
    """
    fields: dict[str, Any] = {}
    for name, value in document.items():
        if name in LEFT_OUT or value is None or (not value and not name.endswith(("_share", "_s"))):
            continue
        fields[name] = _packed(value) if isinstance(value, dict) else _plain(value)
    times = [file.read_time, file.write_time, file.sync_time, file.metadata_time]
    spent = summed([time for time in times if time is not None])
    if spent is not None:
        fields["time"] = _packed(spent.model_dump())
    return fields


def _packed(value: dict[str, Any]) -> Any:
    """Times as four numbers, bins as three, all other values unchanged."""
    if set(value) == set(TIMES):
        return [_plain(value[name]) for name in TIMES]
    packed = {name: _packed(item) if isinstance(item, dict) else _plain(item) for name, item in value.items()}
    if "histogram" in packed:
        packed["histogram"] = [[bin_["from"], bin_["to"], bin_["count"]] for bin_ in value["histogram"]]
    return packed


def _plain(value: Any) -> Any:
    return float(f"{value:.7g}") if isinstance(value, float) else value


def _threads(profile: Profile) -> dict[str, str]:
    """Label of each thread, by its index in the table of the trace."""
    names = {}
    for process in profile.processes:
        program = PurePath(process.program).name if process.program else "process"
        for thread in process.threads:
            single = len(process.threads) == 1
            names[str(thread.id)] = f"{program} {process.pid}" + ("" if single else f", thread {thread.tid}")
    return names


def picture_data(picture: Picture) -> dict[str, Any]:
    """The requests of a file as columns, sorted by their start, or its bins."""
    if picture.density is not None:
        return {"requests": picture.requests, "density": picture.density.model_dump()}
    points = sorted(picture.points, key=lambda point: point[0])
    names = ("t", "d", "o", "n", "w", "k", "r")
    columns = zip(*points, strict=True) if points else ((),) * len(names)
    return {"requests": picture.requests, "rows": dict(zip(names, map(list, columns), strict=False))}
