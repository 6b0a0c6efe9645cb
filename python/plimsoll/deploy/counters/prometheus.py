"""An exporter of Prometheus metrics, read over HTTP."""

from __future__ import annotations

import fnmatch
import http.client
import re
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final
from urllib.parse import urlsplit

from plimsoll.deploy.counters import Reading
from plimsoll.deploy.counters.exporters import (
    SquidPages,
    named_reading,
    node_reading,
    node_version,
    node_wants,
    squid_wants,
)
from plimsoll.deploy.counters.exposition import Sample, samples
from plimsoll.plan.model import Watched
from plimsoll.plan.source.secret import Secret

TIMEOUT_S: Final = 2.0
MAX_BYTES: Final = 16 * 1024 * 1024
MAX_SAMPLES: Final = 20_000
"""Of a page; a host with 256 cores has 2048 of its processor."""
MAX_NAMED: Final = 500
"""Series by name: each is a line of the report."""
_CHUNK: Final = 1 << 16
_ACCEPT: Final = "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;version=0.0.4"


class PrometheusReader:
    """One exporter. Every reading may raise any exception."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._named = _pattern(watched.metrics)
        self._squid = SquidPages()
        self.version = ""
        """What the host says of itself, once it was read."""
        self.unmatched: tuple[str, ...] = ()
        """Of `metrics`, what the last page has none of."""

    def read(self) -> Reading:
        """One request."""
        found = list(_bounded(samples(fetch(self._watched), self._wants)))
        reading = self._known(found)
        named = named_reading(found, self._is_named)
        if len(named.counters) + len(named.gauges) > MAX_NAMED:
            raise ValueError(f"`metrics` selects more than {MAX_NAMED} series: list fewer")
        names = {one.name for one in found}
        self.unmatched = tuple(
            one for one in self._watched.metrics if not any(map(_pattern([one]).fullmatch, names))
        )
        if not (reading.counters or reading.gauges or named.counters or named.gauges):
            raise ValueError(f"the page has no metric of {', '.join(self._watched.metrics)}")
        return Reading({**reading.counters, **named.counters}, {**reading.gauges, **named.gauges})

    def _known(self, found: Sequence[Sample]) -> Reading:
        match self._watched.kind:
            case "node":
                self.version = node_version(found)
                return node_reading(found)
            case "squid":
                return self._squid.reading(found)
            case "other":
                return Reading({})

    def _wants(self, name: str) -> bool:
        match self._watched.kind:
            case "node":
                return node_wants(name) or self._is_named(name)
            case "squid":
                return squid_wants(name) or self._is_named(name)
            case "other":
                return self._is_named(name)

    def _is_named(self, name: str) -> bool:
        return self._named.fullmatch(name) is not None


def _pattern(names: Sequence[str]) -> re.Pattern[str]:
    """Any of the names, in which * is any text; nothing where there are none."""
    return re.compile("|".join(map(fnmatch.translate, names)) or r"(?!)")


def _bounded(found: Iterator[Sample]) -> Iterator[Sample]:
    yield from islice(found, MAX_SAMPLES)
    if next(found, None) is not None:
        raise ValueError(f"more than {MAX_SAMPLES:,} series are selected")


def fetch(watched: Watched) -> str:
    """The page. A connection for each: of an exporter that was started anew there is none to be found dead.

    Raises OSError or http.client.HTTPException; TimeoutError after `TIMEOUT_S`, however slowly something comes.
    """
    url = urlsplit(watched.url)
    assert url.hostname is not None  # the plan refuses a URL without
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.hostname, url.port, timeout=TIMEOUT_S)
    deadline = time.monotonic() + TIMEOUT_S
    try:
        given = {
            key: value.reveal() if isinstance(value, Secret) else value
            for key, value in watched.headers.items()
        }
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        connection.request("GET", path, headers={"Accept": _ACCEPT, "Accept-Encoding": "identity", **given})
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(f"the status of the answer is {answer.status} {answer.reason}")
        return _body(answer, deadline).decode("utf-8", "replace")
    finally:
        connection.close()


def _body(answer: http.client.HTTPResponse, deadline: float) -> bytes:
    parts = bytearray()
    while part := answer.read1(_CHUNK):
        parts += part
        if len(parts) > MAX_BYTES:
            raise OSError(f"the answer is larger than {MAX_BYTES // 2**20} MiB")
        if time.monotonic() > deadline:
            raise TimeoutError(f"the answer takes longer than {TIMEOUT_S:g} s")
    return bytes(parts)
