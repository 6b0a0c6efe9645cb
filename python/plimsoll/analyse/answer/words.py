"""Words that several sentences use: loads, cells, and the start of a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from plimsoll.analyse.results.analysis import Analysis, CellResult, Saturation
from plimsoll.analyse.results.wording import listing, quantity

MAX_SENTENCES: Final = 8
"""Maximum number of combinations (or cells) with a sentence each; of more, the best and the worst are named."""


def capital(text: str) -> str:
    """The text with a capital first letter. The rest is not changed: levels are shown as they are written in the
    file."""
    return text[:1].upper() + text[1:]


def load_label(analysis: Analysis, factor: str, load: float | None) -> str | None:
    """The level of a load as it is written in the experiment file; None without a load."""
    if load is None:
        return None
    labels = (cell.cell[factor] for cell in analysis.cells if cell.load == load and factor in cell.cell)
    return next(labels, f"{load:g}")


def _article(word: str) -> str:
    """`a rate`; `writes`."""
    return word if word[-1:] == "s" else f"a {word}"


def loads(label: str, word: str) -> str:
    """`4 testers`, `1 tester`; `a rate of 120/s` if the level has a unit."""
    if not _is_count(label):
        return f"{_article(word)} of {label}"
    return f"{label} {word.removesuffix('s') if label == '1' else word}"


def loads_of(labels: Sequence[str], word: str) -> str:
    """Several loads: `4 and 8 testers`, `a rate of 80/s and 120/s`."""
    if not all(map(_is_count, labels)):
        return f"{_article(word)} of {listing(labels)}"
    return f"{listing(labels)} {word}"


def between(start: str, lower: str, link: str, upper: str, word: str) -> str:
    """Two loads: `between 2 and 4 testers`, `from a rate of 40/s to 120/s`. `start`, `link`: the words before each."""
    if not _is_count(upper):
        return f"{start} {_article(word)} of {lower} {link} {upper}"
    return f"{start} {lower} {link} {upper} {word}"


def _is_count(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


def is_at(cell: Mapping[str, str], saturation: Saturation) -> bool:
    """Whether a cell belongs to the combination."""
    return all(cell.get(name) == level for name, level in saturation.combination.items())


def payload(cell: CellResult | None, metric: str) -> str:
    """The payload throughput in brackets, to be written after another throughput; empty if it is that throughput or
    0."""
    payload_throughput = cell.responses.get("payload_bytes_per_s") if cell else None
    if payload_throughput is None or metric == "payload_bytes_per_s" or payload_throughput.mean <= 0:
        return ""
    return f" ({quantity(payload_throughput.mean, 'bytes_rate')} of payload)"
