"""The whole result of a comparison of directories or levels, and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from plimsoll.analyse.results.document import finite
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.compare.configuration import Difference
from plimsoll.compare.model import Comparison, Drift, Sample, SerialDependence, ShortRuns, TwoModes, Verdict

FORMAT: Final = "plimsoll.comparison/1"
RULE: Final = rule(RuleName.COMPARE)


@dataclass(frozen=True, slots=True)
class SideSummary:
    """`name`: directories, or the level of the factor. `invalid`: runs that were left out; `unfinished`: planned runs
    without results; `imported`: for results of other tools, the formats and what they contain."""

    name: str
    runs: int
    invalid: int
    unfinished: int
    imported: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """The whole result, `compare --json`. `by`: the factor, empty for directories. `unmatched`: cells that only one
    side has; `without_valid`: cells of both sides without a valid run on a side. If `is_comparable` is false, there
    are no comparisons. `drift`: metrics that the change cannot affect; `control`: the second runs of the old level in
    a paired design, for the comparison of equal systems; `samples`: the values of the runs."""

    experiment: str
    by: str
    old: SideSummary
    new: SideSummary
    margin: float
    is_comparable: bool
    comparisons: tuple[Comparison, ...]
    differences: tuple[Difference, ...]
    unmatched: tuple[Mapping[str, str], ...] = ()
    without_valid: tuple[Mapping[str, str], ...] = ()
    serial: tuple[SerialDependence, ...] = ()
    short: tuple[ShortRuns, ...] = ()
    drift: tuple[Drift, ...] = ()
    control: SideSummary | None = None
    samples: tuple[Sample, ...] = ()
    two_modes: tuple[TwoModes, ...] = ()
    correction: str = "Holm"
    rule: str = f"{RULE.name} {RULE.version}"
    format: str = FORMAT

    def with_verdict(self, *verdicts: Verdict) -> list[Comparison]:
        """The comparisons with one of these verdicts."""
        return [comparison for comparison in self.comparisons if comparison.verdict in verdicts]


def as_document(result: ComparisonResult) -> dict[str, Any]:
    """Plain data for JSON, with the key `format` first; a number that is not finite becomes None."""
    tree = finite(asdict(result))
    return {"format": tree.pop("format"), **tree}
