"""Histograms of live.jsonl against the reference library, and text that is no histogram."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import pytest

from plimsoll.collect.hdr import COOKIE, decode
from plimsoll.collect.live import seconds_of
from plimsoll.errors import DamagedResults


def encoded(values: list[int], digits: int, lowest: int = 1) -> tuple[str, list[tuple[int, int]]]:
    """V2 text of the values by the Python HdrHistogram, and its own list of (highest value of the bucket, count)."""
    hdrh = pytest.importorskip("hdrh.histogram")
    histogram = hdrh.HdrHistogram(lowest, 3600 * 10**9, digits)
    for value in values:
        histogram.record_value(value)
    packed = base64.b64decode(histogram.encode())
    text = base64.b64encode(zlib.decompress(packed[8:])).decode()
    buckets = histogram.get_recorded_iterator()
    return text, [(bucket.value_iterated_to, bucket.count_at_value_iterated_to) for bucket in buckets]


@pytest.mark.parametrize("digits", [1, 2, 3, 4])
@pytest.mark.parametrize("lowest", [1, 1000])
def test_agrees_with_the_reference(digits: int, lowest: int) -> None:
    values = np.random.default_rng(digits).lognormal(15, 2, 3000).astype(int).tolist()
    text, expected = encoded([*values, 0, 1, 2047, 2048, 2049, 4096, 10**9], digits, lowest)
    histogram = decode(text)
    assert histogram.counts.tolist() == [count for _, count in expected]
    for middle, (highest, _) in zip(histogram.values.tolist(), expected, strict=True):
        assert middle <= highest <= middle + max(lowest, 2 * 10**-digits * highest)


def test_empty() -> None:
    assert decode("").counts.sum() == 0
    assert decode(encoded([], 3)[0]).counts.sum() == 0


HEAD = struct.pack(">iiiiqqd", COOKIE | 0x10, 3, 0, 3, 1, 10**9, 1.0)


@pytest.mark.parametrize(
    "data",
    [
        b"\x1c\x84",
        b"x" * 60,
        HEAD,  # shorter than it says
        HEAD + b"\x80\x80\x80",  # a number without an end
        HEAD[:4] + b"\0\0\0\4" + HEAD[8:] + b"\xff\xff\xff\x7f",  # a run past every histogram
        HEAD[:4] + b"\0\0\0\4" + HEAD[8:] + b"\xff\xff\x0f\x02",  # a bucket that no 64-bit value falls into
        struct.pack(">iiiiqqd", COOKIE | 0x10, 0, 0, 99, 1, 10**9, 1.0),
        struct.pack(">iiiiqqd", COOKIE | 0x10, 0, 0, 3, 0, 10**9, 1.0),
    ],
)
def test_text_that_is_no_histogram_is_refused(data: bytes) -> None:
    text = base64.b64encode(data).decode()
    with pytest.raises(DamagedResults, match="V2 encoding"):
        decode(text)


def test_not_base64() -> None:
    with pytest.raises(DamagedResults, match="V2 encoding"):
        decode("<img onerror>")


def line(**changes: object) -> dict[str, object]:
    counters = {
        "started": 3,
        "succeeded": 2,
        "failed": 1,
        "dropped": 0,
        "missed": 0,
        "items": 4,
        "payload": 5,
        "wire": 6,
    }
    known: dict[str, object] = {"second": 7, "counters": counters, "active": 1, "in_progress": 0}
    return {**known, "response": encoded([1000, 2000], 3)[0], **changes}


def test_seconds_of_a_live_file() -> None:
    (second,) = seconds_of([line()])
    assert (second.number, second.started, second.succeeded, second.failed, second.wire) == (7, 3, 2, 1, 6)
    assert second.values.tolist() == [1000, 2000] and second.counts.tolist() == [1, 1]


@pytest.mark.parametrize(
    "changes", [{"second": "x"}, {"second": -1}, {"second": 10**12}, {"counters": None}, {"response": 3}]
)
def test_lines_that_are_no_seconds_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(DamagedResults, match=r"live\.jsonl"):
        seconds_of([line(**changes)])
