"""HdrHistograms as they are stored in live.jsonl: V2 encoding, base64.

The form is that of the Java and Rust libraries (hdrhistogram.github.io, "V2 encoding"): cookie, payload length,
normalizing offset, significant digits, lowest and highest value, conversion ratio, then counts as zig-zag LEB128. A
negative count is the number of successive empty buckets.
"""

from __future__ import annotations

import base64
import binascii
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plimsoll.errors import DamagedResults

COOKIE = 0x1C849303
_HEAD = struct.Struct(">iiiiqqd")
MAX_BUCKETS = 1 << 20


@dataclass(frozen=True, slots=True)
class Histogram:
    """`values`: the middle of each used bucket, ascending, in the unit that was recorded (ns); `counts`: the number of
    recorded values in each bucket."""

    values: NDArray[np.int64]
    counts: NDArray[np.int64]


EMPTY = Histogram(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def decode(text: str) -> Histogram:
    """Reads one histogram. An empty text is an empty histogram. Raises DamagedResults if it is not a histogram."""
    if not text:
        return EMPTY
    try:
        data = base64.b64decode(text, validate=True)
        cookie, length, _, digits, lowest, _, _ = _HEAD.unpack_from(data)
    except (binascii.Error, struct.error, ValueError) as error:
        raise DamagedResults(f"not a histogram in V2 encoding: {error}") from error
    if cookie & ~0xF0 != COOKIE or not 0 <= digits <= 5 or lowest < 1 or length != len(data) - _HEAD.size:
        raise DamagedResults("not a histogram in V2 encoding: its header is wrong")
    buckets, counts = _buckets_and_counts(data[_HEAD.size :])
    return Histogram(_bucket_middles(buckets, digits, lowest), counts)


def _buckets_and_counts(payload: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    buckets, counts = [], []
    at = bucket = 0
    while at < len(payload):
        value, at = _number(payload, at)
        if value < 0:
            bucket -= value
        else:
            if value:
                buckets.append(bucket)
                counts.append(value)
            bucket += 1
        if bucket > MAX_BUCKETS:
            raise DamagedResults("not a histogram in V2 encoding: too many buckets")
    return np.array(buckets, dtype=np.int64), np.array(counts, dtype=np.int64)


def _number(payload: bytes, at: int) -> tuple[int, int]:
    """Zig-zag LEB128 of at most nine bytes; the ninth contains eight bits."""
    value = 0
    for k in range(9):
        if at >= len(payload):
            raise DamagedResults("not a histogram in V2 encoding: truncated")
        byte = payload[at]
        at += 1
        value |= (byte if k == 8 else byte & 0x7F) << (7 * k)
        if k == 8 or byte < 0x80:
            break
    return (value >> 1) ^ -(value & 1), at


def _bucket_middles(indices: NDArray[np.int64], digits: int, lowest: int) -> NDArray[np.int64]:
    """Middle of the buckets at these indices."""
    unit = lowest.bit_length() - 1
    # The least power of two that distinguishes 2 * 10^digits values.
    sub_bits = max(1, (2 * 10**digits - 1).bit_length())
    half = 1 << (sub_bits - 1)
    bucket = np.maximum((indices >> (sub_bits - 1)) - 1, 0)
    sub = np.where(indices < 2 * half, indices, (indices & (half - 1)) + half)
    shift = bucket + unit
    if shift.size and int(shift.max()) + sub_bits > 63:
        raise DamagedResults("not a histogram in V2 encoding: a value of more than 63 bits")
    low = sub << shift
    middle: NDArray[np.int64] = low + ((np.int64(1) << shift) >> 1)
    return middle
