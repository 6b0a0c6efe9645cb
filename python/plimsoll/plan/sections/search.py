"""`search:`: the load of a cell is not in the file; each trial sets it. The cells are resolved with the lowest load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from plimsoll.errors import BadInput
from plimsoll.plan.design.cells import CellMaker, paths_overlap
from plimsoll.plan.design.factors import Factor
from plimsoll.plan.metrics.rules import Rule, parse_rule
from plimsoll.plan.model import cell as model
from plimsoll.plan.model.search import RATE, Search, SearchGoal
from plimsoll.plan.resolve.cell import FailedCell
from plimsoll.plan.resolve.context import ResolveContext
from plimsoll.plan.schema.experiment import DesignRaw, ExperimentRaw, ValidityRaw
from plimsoll.plan.schema.paths import Origins, with_value
from plimsoll.plan.schema.problems import translate
from plimsoll.plan.schema.search import SearchRaw
from plimsoll.plan.source.document import KeyPath, dotted
from plimsoll.plan.source.units import NS, UnitError, parse_rate, show_duration, show_rate

AT: Final[KeyPath] = ("search",)
DURATION: Final[KeyPath] = ("run", "duration")
_SET_BY_SEARCH: Final[tuple[KeyPath, ...]] = (DURATION, ("run", "until"))
_LOADS: Final = ("rate", "testers", "per_host", "ramp", "stages", "replay")
"""Keys of `load:`. A file has exactly one of them."""
MAX_RATIO: Final = 1e6
TRIAL_OVERHEAD_S: Final = 1.5
"""Expected start, drain and bookkeeping of a trial."""
DEFAULT_GOAL: Final = "usable"


def with_search(
    tree: Mapping[str, Any], origins: Origins, report: ResolveContext
) -> tuple[Mapping[str, Any], Origins, SearchRaw | None]:
    """The file with the lowest load and the final length of a trial, so that its cells can be resolved. Reports keys
    that the search sets. None: the file has no search. Raises BadInput if its form is wrong."""
    if tree.get("search") is None:
        return tree, origins, None
    try:
        raw = SearchRaw.model_validate(tree["search"])
    except ValidationError as error:
        raise BadInput(translate(error, tree["search"], origins, {}, SearchRaw, AT)) from None
    if "workloads" in tree:
        report.wrong(AT, "a search needs one workload with `load`: the file has `workloads`")
        raise BadInput(report.problems)
    path = tuple(raw.axis.split("."))
    _report_set_keys(tree, raw, report)
    tree = with_value(with_value(tree, path, raw.from_), DURATION, show_duration(raw.trial.final))
    if raw.axis != RATE and raw.from_.isdigit():
        tree = with_value(tree, path, int(raw.from_))
    moved = {**origins.moved, path: (*AT, "from"), DURATION: (*AT, "trial", "final")}
    return tree, Origins(origins.document, moved, origins.set_options), raw


def _report_set_keys(tree: Mapping[str, Any], raw: SearchRaw, report: ResolveContext) -> None:
    for section, keys in (("load", _LOADS), ("run", ("duration", "until"))):
        written = tree.get(section)
        present: Mapping[str, Any] = written if isinstance(written, Mapping) else {}
        for key in keys:
            if present.get(key) is not None:
                what = f"the load ({raw.axis})" if section == "load" else "the length of each trial"
                report.wrong((section, key), f"the search sets {what}: remove {section}.{key}")
    if isinstance(tree.get("run"), Mapping) and tree["run"].get("keep") == "summaries":
        report.wrong(("run", "keep"), "a search judges single transactions: remove `keep: summaries`")


def check_beside_search(
    raw: SearchRaw, factors: Sequence[Factor], design: DesignRaw, report: ResolveContext
) -> None:
    """Reports factors and keys of the design that do not fit a search."""
    taken = (*(("load", key) for key in _LOADS), *_SET_BY_SEARCH)
    for factor in factors:
        paths = {setting.path for level in factor.levels for setting in level.settings}
        for path in sorted(paths, key=dotted):
            if any(paths_overlap(path, other) for other in taken):
                report.wrong(
                    ("factors", factor.name),
                    f"the search sets the load ({raw.axis}) and the length of trials: "
                    f"a factor cannot set {dotted(path)}",
                )
    if design.until is not None or design.repetitions != 1:
        report.wrong(
            ("design", "repetitions"), "search.repeat states the number of searches: remove repetitions"
        )
    for key in ("block", "loop"):
        if getattr(design, key):
            report.wrong(("design", key), f"the searches of all cells form blocks: remove {key}")
    if design.pair is not None:
        report.wrong(
            ("design", "pair"),
            "a pair compares runs, and a search chooses its runs by itself: remove one of them",
        )


def resolve_search(
    first: ExperimentRaw, capacity: model.CapacityRules, cells: Sequence[model.Cell], report: ResolveContext
) -> Search | None:
    """The search of a file whose cells are valid; None if there is none. Reports what does not fit together."""
    raw = first.search
    if raw is None:
        return None
    low, high = _load(raw, raw.from_, "from", report), _load(raw, raw.to, "to", report)
    goals = _goals(raw, capacity, report)
    if low is not None and high is not None:
        if low >= high:
            report.wrong((*AT, "to"), f"expected a load above search.from ({raw.from_}), got {raw.to}")
        elif high / low > MAX_RATIO:
            report.wrong(
                (*AT, "to"),
                f"expected at most {MAX_RATIO:,.0f} times search.from ({raw.from_}), got {raw.to}",
            )
    if raw.max_time <= raw.trial.final:
        report.wrong((*AT, "max_time"), "the time must be longer than one trial (search.trial.final)")
    if any(cell.config.hosts.baseline for cell in cells):
        report.wrong(
            ("hosts", "baseline"),
            "the last run is not known with `search`, so nothing can be measured after it",
        )
    if report.problems:
        raise BadInput(report.problems)
    assert low is not None and high is not None  # reported otherwise
    return Search(
        axis=raw.axis,
        low=low,
        high=high,
        goals=goals,
        initial_s=raw.trial.initial / NS["s"],
        final_s=raw.trial.final / NS["s"],
        sum_s=raw.trial.sum / NS["s"],
        exceed=raw.trial.exceed,
        repeat=raw.repeat,
        max_time_s=raw.max_time / NS["s"],
        hysteresis=raw.hysteresis,
        confirm=raw.confirm,
        overhead_s=TRIAL_OVERHEAD_S + (first.run.warmup + first.run.pause) / NS["s"],
    )


def _load(raw: SearchRaw, text: str, key: str, report: ResolveContext) -> float | None:
    if raw.axis == RATE:
        try:
            return parse_rate(text)
        except UnitError as error:
            report.wrong((*AT, key), str(error))
            return None
    if text.isdigit() and int(text) > 0:
        return float(text)
    report.wrong((*AT, key), f"expected a whole number of testers, got {text}")
    return None


def _goals(raw: SearchRaw, capacity: model.CapacityRules, report: ResolveContext) -> tuple[SearchGoal, ...]:
    """The goals of the search, or one with the rules of `capacity:`."""
    if raw.goals:
        for name, goal in raw.goals.items():
            for key, text in (("response", goal.response), ("errors", goal.errors)):
                if text is not None:
                    _check_rule(
                        report.rule(text, key, (*AT, "goals", name, key)), (*AT, "goals", name, key), report
                    )
        return tuple(
            SearchGoal(name, goal.response or "", goal.errors or "", goal.width)
            for name, goal in raw.goals.items()
        )
    if raw.goals is not None or not (capacity.response or capacity.errors):
        report.wrong(
            (*AT, "goals") if raw.goals is not None else AT,
            "a search needs a goal, such as `goals: {fast: {response: p(99)<100ms}}`, or rules in `capacity:`",
        )
        return ()
    if capacity.parts or capacity.usable:
        report.wrong(AT, "a search judges the response times and errors of all transactions: give `goals`")
    for key, rule in (("response", capacity.response), ("errors", capacity.errors)):
        _check_rule(rule, ("capacity", key), report)
    return (SearchGoal(DEFAULT_GOAL, capacity.response_text, capacity.errors_text, 0.05),)


def lateness_floor_ns(written: ValidityRaw, search: Search | None) -> int:
    """The lateness below which the load generator is on time. Unless the file states it, that of a search is at least
    `lateness_share` of the shortest limit of a goal: a shorter one does not decide whether a goal is met."""
    if search is None or "lateness_floor" in written.model_fields_set:
        return written.lateness_floor
    limits = [parse_rule(goal.response, "response").value for goal in search.goals if goal.response]
    return max(written.lateness_floor, round(written.lateness_share * min(limits, default=0.0) * NS["s"]))


def _check_rule(rule: Rule | None, at: KeyPath, report: ResolveContext) -> None:
    if rule is None:
        return
    if rule.metric == "response" and (rule.stat not in ("p", "med") or not rule.upper):
        report.wrong(
            at, f'a goal needs an upper limit of a percentile, such as "p(99)<100ms", got {rule.text}'
        )
    if rule.metric == "errors" and (rule.stat != "rate" or not rule.upper):
        report.wrong(
            at, f'a goal needs an upper limit of the error rate, such as "rate<0.1%", got {rule.text}'
        )


@dataclass(frozen=True)
class TrialCells:
    """Resolves the configuration of a trial: that of a cell with another load and length."""

    axis: str
    tree: Mapping[str, Any] = field(repr=False)
    factors: tuple[Factor, ...] = field(repr=False)
    origins: Origins = field(repr=False)
    directory: Path
    environ: Mapping[str, str] = field(repr=False)

    def cell(self, base: model.Cell, load: float, seconds: float) -> model.Cell:
        """The cell of a trial. Its load is a level of the axis. Raises BadInput."""
        path = tuple(self.axis.split("."))
        value = show_rate(load) if self.axis == RATE else int(load)
        tree = with_value(self.tree, path, value)
        tree = with_value(tree, DURATION, show_duration(round(seconds * NS["s"])))
        made = CellMaker(tree, self.factors, self.origins, self.directory, self.environ).cell(base.labels)
        if isinstance(made, FailedCell):
            raise BadInput(made.problems)
        return model.Cell(
            {**base.labels, self.axis: load_label(self.axis, load)},
            {**base.values, self.axis: load},
            made.config,
            made.stored,
            made.secrets,
        )


def load_label(axis: str, load: float) -> str:
    """The load as a level of the axis, as the file writes it."""
    return show_rate(load) if axis == RATE else str(int(load))
