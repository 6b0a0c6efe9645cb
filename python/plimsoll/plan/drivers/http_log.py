"""The requests of an access log for the driver `http`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Final

from plimsoll.plan.drivers.driver import Context, LogRequests
from plimsoll.plan.model.cell import Generator, Json
from plimsoll.plan.queries.access_log import AccessLog
from plimsoll.plan.queries.log_format import line_format
from plimsoll.plan.queries.sections import HttpFromLog
from plimsoll.plan.source.document import KeyPath

MAX_PATHS: Final = 50_000
"""Maximum number of distinct paths of a log, which are part of every run."""
LOG_METHOD: Final = "{_method}"
"""The method of a replayed request, in a log that has HEAD requests."""


def log_requests(raw: HttpFromLog, common: Mapping[str, Json], at: KeyPath, context: Context) -> LogRequests:
    """The requests of a log: at random with their frequencies, or in their order. `common`: a request without its
    path; `at`: path of `from_log`."""
    place = (*at, "file")
    log = context.access_log(raw.file, place, line_format(raw.format, raw.duration), MAX_PATHS)
    if log is None:
        return LogRequests()
    paths = [path.decode("ascii") for path in log.paths]
    remarks = (log.counts.remark(PurePath(context.as_written(place, raw.file)).name),)
    if raw.as_ == "set":
        return _drawn(log, paths, common, remarks)
    values = {"_path": Generator("recorded", items=tuple(paths), sequence=tuple(log.object))}
    request: dict[str, Json] = {**common, "method": "GET", "path": "{_path}"}
    if any(log.is_head):
        # GET and HEAD may be sent again; the engine does not know the methods of the log.
        request |= {"method": LOG_METHOD, "resend_non_idempotent": True}
        values["_method"] = Generator("recorded", items=("GET", "HEAD"), sequence=tuple(log.is_head))
    first = log.start_ns[0]
    at_ns = tuple(round((start - first) / raw.speed) for start in log.start_ns)
    return LogRequests((("log", 1.0, request),), values, at_ns, remarks)


def _drawn(
    log: AccessLog, paths: list[str], common: Mapping[str, Json], remarks: tuple[str, ...]
) -> LogRequests:
    """One operation for GET and one for HEAD, whose paths are drawn with their frequencies."""
    requests = []
    values = {}
    for method, mark in (("GET", 0), ("HEAD", 1)):
        counts = Counter(_objects(log, mark))
        if counts:
            name = f"_{method.lower()}_path"
            values[name] = Generator(
                "weighted",
                items=tuple(paths[index] for index in counts),
                weights=tuple(map(float, counts.values())),
            )
            request: dict[str, Json] = {**common, "method": method, "path": f"{{{name}}}"}
            requests.append((f"log {method}", float(counts.total()), request))
    return LogRequests(tuple(requests), values, None, remarks)


def _objects(log: AccessLog, mark: int) -> Iterable[int]:
    return (index for index, is_head in zip(log.object, log.is_head, strict=True) if is_head == mark)
