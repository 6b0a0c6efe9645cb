"""Reads an exporter of Prometheus metrics over HTTP."""

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
    is_node_metric,
    is_squid_metric,
    named_reading,
    node_reading,
    node_version,
)
from plimsoll.deploy.counters.exposition import Sample, samples
from plimsoll.plan.model.cell import WatchedExporter
from plimsoll.plan.source.secret import Secret

TIMEOUT_S: Final = 2.0
MAX_BYTES: Final = 16 * 1024 * 1024
MAX_SAMPLES: Final = 20_000
"""The maximum number of samples of a page. A host with 256 cores has 2,048 for its CPU times."""
MAX_NAMED: Final = 500
"""The maximum number of series that are selected by name. Each is a line of the report."""
_CHUNK: Final = 1 << 16
_ACCEPT: Final = "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;version=0.0.4"


class PrometheusReader:
    """The reader of one exporter. `read` may raise any exception."""

    def __init__(self, watched: WatchedExporter) -> None:
        self._watched = watched
        self._named = _pattern(watched.metrics)
        self._squid = SquidPages()
        self.version = ""
        """The version of the host, once a page was read."""
        self.unmatched: tuple[str, ...] = ()
        """The names of `metrics` that match nothing on the last page."""

    def read(self) -> Reading:
        """Sends one request and returns the selected metrics."""
        page_samples = list(_limited(samples(fetch(self._watched), self._is_selected)))
        reading = self._kind_reading(page_samples)
        named = named_reading(page_samples, self._is_named)
        if len(named.counters) + len(named.gauges) > MAX_NAMED:
            raise ValueError(f"`metrics` selects more than {MAX_NAMED} series: list fewer")
        names = {sample.name for sample in page_samples}
        self.unmatched = tuple(
            pattern for pattern in self._watched.metrics if not any(map(_pattern([pattern]).fullmatch, names))
        )
        if not (reading.counters or reading.gauges or named.counters or named.gauges):
            raise ValueError(f"the page has no metric of {', '.join(self._watched.metrics)}")
        return Reading({**reading.counters, **named.counters}, {**reading.gauges, **named.gauges})

    def close(self) -> None:
        """Does nothing: each reading uses a new connection."""

    def _kind_reading(self, page_samples: Sequence[Sample]) -> Reading:
        match self._watched.kind:
            case "node":
                self.version = node_version(page_samples)
                return node_reading(page_samples)
            case "squid":
                return self._squid.reading(page_samples)
            case "other":
                return Reading({})

    def _is_selected(self, name: str) -> bool:
        match self._watched.kind:
            case "node":
                return is_node_metric(name) or self._is_named(name)
            case "squid":
                return is_squid_metric(name) or self._is_named(name)
            case "other":
                return self._is_named(name)

    def _is_named(self, name: str) -> bool:
        return self._named.fullmatch(name) is not None


def _pattern(names: Sequence[str]) -> re.Pattern[str]:
    """Matches any of the names, in which * stands for any text. Without names, it matches nothing."""
    return re.compile("|".join(map(fnmatch.translate, names)) or r"(?!)")


def _limited(selected: Iterator[Sample]) -> Iterator[Sample]:
    yield from islice(selected, MAX_SAMPLES)
    if next(selected, None) is not None:
        raise ValueError(f"more than {MAX_SAMPLES:,} series are selected")


def fetch(watched: WatchedExporter) -> str:
    """The page. Each request uses a new connection, so that a connection to an exporter that was restarted is
    never used.

    Raises OSError or http.client.HTTPException. Raises TimeoutError after `TIMEOUT_S`, even if data arrives
    slowly.
    """
    url = urlsplit(watched.url)
    assert url.hostname is not None  # the plan rejects a URL without a host
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.hostname, url.port, timeout=TIMEOUT_S)
    deadline = time.monotonic() + TIMEOUT_S
    try:
        headers = {
            key: value.reveal() if isinstance(value, Secret) else value
            for key, value in watched.headers.items()
        }
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        connection.request("GET", path, headers={"Accept": _ACCEPT, "Accept-Encoding": "identity", **headers})
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
