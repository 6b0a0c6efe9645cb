"""Verdicts of an earlier analysis of the same measurements that newer rules supersede: both verdicts are kept.

A verdict is superseded if three conditions hold. It differs from the earlier one. The measurements are the same. Its
rule, or one that it rests on, has another version than the earlier analysis recorded (or that recorded none). Both
analyses are compared in the form of analysis.json, so that results of any release can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.document import as_document
from plimsoll.analyse.results.verdict_rules import CHECKS_OF_MODELS, RuleName, basis
from plimsoll.analyse.results.verdicts import (
    RunVerdict,
    StatedVerdict,
    Subject,
    SupersededVerdict,
    ThresholdVerdict,
    Value,
)

Document = Mapping[str, Any]


class NotComparable(ValueError):
    """An earlier analysis is malformed. The text states the problem."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """One verdict of a document. `run`: the run that it is about; None: all runs."""

    what: RuleName
    subject: Subject
    stated: StatedVerdict
    run: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.what, repr(_sorted(self.subject))


def with_superseded(analysis: Analysis, earlier: Document) -> Analysis:
    """The analysis with the superseded verdicts of the earlier one, and with those that the earlier one lists. Their
    texts are empty. Raises NotComparable."""
    try:
        kept = tuple(map(_stored_entry, earlier.get("superseded", ())))
        fresh = [
            entry
            for entry in _superseded_verdicts(earlier, as_document(_without_figures(analysis)))
            if entry not in kept
        ]
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise NotComparable(f"it does not have the form of an analysis: {error!r}") from error
    return replace(analysis, superseded=(*kept, *fresh))


def _without_figures(analysis: Analysis) -> Analysis:
    """The analysis without the fields that contain no verdict; in long experiments they are large."""
    runs = (replace(run, testers=(), series=None, ecdf=None, hosts=None) for run in analysis.runs)
    models = (replace(model, run_ids=(), fitted=(), residuals=(), order=()) for model in analysis.models)
    return replace(analysis, runs=tuple(runs), effects=(), models=tuple(models))


def _superseded_verdicts(earlier: Document, now: Document) -> Iterator[SupersededVerdict]:
    same = _same_runs(earlier, now)
    same_experiment = same == {run["id"] for run in (*earlier["runs"], *now["runs"])}
    before = {verdict.key: verdict for verdict in _verdicts(earlier)}
    versions = _versions(earlier), _versions(now)
    for verdict in _verdicts(now):
        previous = before.get(verdict.key)
        if previous is None or not (same_experiment if verdict.run is None else verdict.run in same):
            continue
        changed = _changed_rules(verdict, previous.stated, *versions)
        if changed and not _is_same(previous.stated, verdict.stated):
            yield SupersededVerdict(verdict.what, verdict.subject, previous.stated, verdict.stated, changed)


def _same_runs(earlier: Document, now: Document) -> set[str]:
    """Runs whose counts are the same in both documents: a run that was repeated is another measurement."""
    books = ("started", "succeeded", "failed")
    first, second = (
        {run["id"]: [run["counts"][key] for key in books] for run in document["runs"]}
        for document in (earlier, now)
    )
    return {name for name, counts in second.items() if first.get(name) == counts}


def _versions(document: Document) -> dict[str, int]:
    return {rule["name"]: rule["version"] for rule in document.get("rules", ())}


def _changed_rules(
    verdict: _Verdict, previous: StatedVerdict, earlier: Mapping[str, int], now: Mapping[str, int]
) -> tuple[str, ...]:
    """The rules behind a verdict that have another version now, its own first. If the earlier release recorded no
    versions: its own rule only."""
    own = (
        ()
        if (previous.rule, previous.version) == (verdict.stated.rule, verdict.stated.version)
        else (verdict.what.value,)
    )
    if not earlier:
        return own
    return (*own, *(name.value for name in basis(verdict.what) if earlier.get(name) != now.get(name)))


def _is_same(first: StatedVerdict, second: StatedVerdict) -> bool:
    return (first.verdict, first.values) == (second.verdict, second.values)


# -- the verdicts of a document


def _verdicts(document: Document) -> Iterator[_Verdict]:
    for run in document["runs"]:
        subject: Subject = {"run": run["id"]}
        yield _Verdict(
            RuleName.VALIDITY, subject, _stated(_validity(run), run.get("validity_rule")), run["id"]
        )
        stated = _stated(run["bottleneck"], run.get("bottleneck_rule"))
        yield _Verdict(RuleName.BOTTLENECK, subject, stated, run["id"])
    for cell in document["cells"]:
        stated = _stated(cell["bottleneck"], cell.get("bottleneck_rule"))
        yield _Verdict(RuleName.COMMON_BOTTLENECK, {"cell": cell["cell"]}, stated)
    for saturation in document["saturation"]:
        yield from _verdicts_of_saturation(saturation)
    for verdict in document["verdicts"]:
        subject = {key: verdict[key] for key in ("metric", "test", "cell")}
        yield _Verdict(RuleName.THRESHOLD, subject, _stated(_threshold(verdict), verdict.get("rule")))
    yield from _verdicts_of_models(document)
    for regression in document.get("regressions", ()):
        subject = {"response": regression["response"], "factors": ", ".join(regression["factors"])}
        chosen = regression["fits"][regression["chosen"]]
        form = {key: chosen[key] for key in ("form", "slopes")}
        stated = _stated(regression["verdict"], regression["rule"], form)
        yield _Verdict(RuleName.REGRESSION, subject, stated)
    yield from _verdicts_of_findings(document)


def _verdicts_of_models(document: Document) -> Iterator[_Verdict]:
    """Results of the checks of the residuals, from documents that contain them as codes."""
    versions = _versions(document)
    for model in document["models"]:
        codes = {reason["code"] for reason in model.get("reasons", ())}
        for code, name in CHECKS_OF_MODELS.items():
            if name in versions:
                subject: Subject = {key: model[key] for key in ("response", "scale")}
                outcome = "found" if code in codes else "not found"
                yield _Verdict(name, subject, _stated(outcome, {"name": name, "version": versions[name]}))


def _verdicts_of_saturation(saturation: Document) -> Iterator[_Verdict]:
    subject: Subject = {key: saturation[key] for key in ("combination", "metric")}
    ends = {key: saturation[key] for key in ("lower", "upper")}
    yield _Verdict(RuleName.SATURATION, subject, _stated(saturation["verdict"], saturation.get("rule"), ends))
    stated = _stated(saturation["bottleneck"], saturation.get("bottleneck_rule"))
    yield _Verdict(RuleName.COMMON_BOTTLENECK, subject, stated)
    for capacity in saturation["capacities"]:
        verdict = "none" if capacity["value"] is None else "reached" if capacity["reached"] else "at least"
        stated = _stated(verdict, capacity.get("rule"), {"load": capacity["load"]})
        yield _Verdict(RuleName(f"capacity.{capacity['kind']}"), subject, stated)


def _verdicts_of_findings(document: Document) -> Iterator[_Verdict]:
    """Verdicts that only the answer contains, with the names (not the numbers) of their values."""
    for finding in document.get("findings", ()):
        rule = finding["rule"]
        if rule is None or rule["name"] not in (RuleName.RANKING, RuleName.CHEAPEST, RuleName.SITES):
            continue
        names = {key: value for key, value in finding["values"].items() if isinstance(value, (str, list))}
        yield _Verdict(RuleName(rule["name"]), {}, _stated(finding["verdict"], rule, names))


def _validity(run: Document) -> str:
    """The verdict on a run, also of older results, which lack the field `verdict`."""
    if not run["valid"]:
        return RunVerdict.INVALID
    return RunVerdict.DOUBTFUL if run["doubtful_reasons"] else RunVerdict.VALID


def _threshold(verdict: Document) -> str:
    if not verdict.get("judged", True):
        return ThresholdVerdict.NOT_JUDGED
    return ThresholdVerdict.PASSED if verdict["passed"] else ThresholdVerdict.FAILED


def _stated(verdict: str, rule: Document | None, values: Mapping[str, Any] | None = None) -> StatedVerdict:
    figures = {key: _value(value) for key, value in (values or {}).items()}
    if rule is None:
        return StatedVerdict(str(verdict), None, None, figures)
    return StatedVerdict(str(verdict), str(rule["name"]), int(rule["version"]), figures)


def _stored_entry(entry: Document) -> SupersededVerdict:
    """An entry of the earlier document, unchanged."""
    subject = {str(key): value for key, value in entry["subject"].items()}
    changed = tuple(map(str, entry["changed"]))
    return SupersededVerdict(
        str(entry["what"]), subject, _stored_side(entry["earlier"]), _stored_side(entry["now"]), changed
    )


def _stored_side(side: Document) -> StatedVerdict:
    rule = None if side["rule"] is None else {"name": side["rule"], "version": side["version"]}
    return _stated(side["verdict"], rule, side["values"])


def _value(value: Any) -> Value:
    if isinstance(value, list):
        return tuple(value)
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return sorted((key, _sorted(item)) for key, item in value.items())
    return value
