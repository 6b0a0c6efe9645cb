"""A baseline: one side of a comparison as plain data, with all that later comparisons need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from plimsoll.analyse.results.document import finite
from plimsoll.compare.sides import ComparedRun, Setup
from plimsoll.errors import DamagedResults

FORMAT: Final = "plimsoll.compared-runs/1"


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """One results directory or imported file of a baseline."""

    setup: Setup
    runs: tuple[ComparedRun, ...]


@dataclass(frozen=True, slots=True)
class Baseline:
    """All that was stored. `created`: ISO 8601; `plimsoll`: the version that wrote it."""

    created: str
    plimsoll: str
    sources: tuple[StoredRuns, ...]


_ADAPTER: Final = TypeAdapter(Baseline)


def baseline_document(created: str, version: str, sources: Sequence[StoredRuns]) -> dict[str, Any]:
    """Plain data for JSON. Numbers are stored with all digits, so that the verdicts stay the same."""
    tree: dict[str, Any] = finite(asdict(Baseline(created, version, tuple(sources))))
    return {"format": FORMAT, **tree}


def parsed_baseline(document: Mapping[str, Any], name: str) -> Baseline:
    """The baseline of a document whose format was checked; `name` in messages. Raises DamagedResults."""
    try:
        return _ADAPTER.validate_python({key: value for key, value in document.items() if key != "format"})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DamagedResults(
            f"{name}: {place}: {first['msg']}; store the baseline again: "
            f"plimsoll compare DIR --save-baseline {name}"
        ) from error
