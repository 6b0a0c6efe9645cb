"""The whole history of an experiment, and its JSON form."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from plimsoll.analyse.results.document import finite
from plimsoll.compare.configuration import Difference, gates
from plimsoll.compare.history.model import Entry, MetricHistory
from plimsoll.compare.model import Verdict

FORMAT: Final = "plimsoll.history/1"


@dataclass(frozen=True, slots=True)
class HistoryResult:
    """`history --json`. `directories`: in the order of their start; positions in `metrics` count from 0 in this list.
    If `is_comparable` is false, there are no metrics."""

    experiment: str
    margin: float
    is_comparable: bool
    directories: tuple[Entry, ...]
    metrics: tuple[MetricHistory, ...]
    rule: str = "history 1"
    format: str = FORMAT

    @property
    def gates(self) -> list[Difference]:
        """The differences that make the directories incomparable."""
        return gates(difference for entry in self.directories for difference in entry.differences)

    @property
    def became_slower(self) -> list[MetricHistory]:
        """The metrics whose newest level is slower or worse than the level before it."""
        return [
            one
            for one in self.metrics
            if one.newest_step is not None and one.newest_step.verdict is Verdict.SLOWER
        ]


def as_document(result: HistoryResult) -> dict[str, Any]:
    """Plain data for JSON, with the key `format` first; a number that is not finite becomes None."""
    tree = finite(asdict(result))
    return {"format": tree.pop("format"), **tree}
