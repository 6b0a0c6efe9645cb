"""What newer rules state otherwise than an earlier analysis of the same measurements did: both verdicts are kept.

A verdict is superseded where it differs from the earlier one, the measurements are the same, and its rule, or one that
it rests on, has another version now than the earlier analysis recorded (or that recorded none). Both analyses are
compared in the form of analysis.json, so that results of any age can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.document import as_document
from plimsoll.analyse.results.verdict_rules import CHECKS_OF_MODELS, RuleName, basis
from plimsoll.analyse.results.verdicts import RunVerdict, Stated, Subject, Superseded, ThresholdVerdict, Value

Document = Mapping[str, Any]


class NotComparable(ValueError):
    """An earlier analysis is malformed. The text names the problem."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """One verdict of a document. `runs`: those that it is about; None: all of them."""

    what: RuleName
    subject: Subject
    stated: Stated
    run: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.what, repr(_sorted(self.subject))


def with_superseded(analysis: Analysis, earlier: Document) -> Analysis:
    """The analysis with the verdicts of the earlier one that are superseded, and with those that were so before.
    Texts are left empty. Raises NotComparable."""
    try:
        kept = tuple(map(_kept, earlier.get("superseded", ())))
        fresh = [each for each in _compared(earlier, as_document(_slim(analysis))) if each not in kept]
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise NotComparable(f"it does not have the form of an analysis: {error!r}") from error
    return replace(analysis, superseded=(*kept, *fresh))


def _slim(analysis: Analysis) -> Analysis:
    """Without the fields that hold no verdict; in long experiments they are large."""
    runs = (replace(run, testers=(), series=None, ecdf=None, hosts=None) for run in analysis.runs)
    models = (replace(each, run_ids=(), fitted=(), residuals=(), order=()) for each in analysis.models)
    return replace(analysis, runs=tuple(runs), effects=(), models=tuple(models))


def _compared(earlier: Document, now: Document) -> Iterator[Superseded]:
    same = _same_runs(earlier, now)
    everything = same == {run["id"] for run in (*earlier["runs"], *now["runs"])}
    before = {each.key: each for each in _verdicts(earlier)}
    versions = _versions(earlier), _versions(now)
    for each in _verdicts(now):
        then = before.get(each.key)
        if then is None or not (everything if each.run is None else each.run in same):
            continue
        changed = _changed(each, then.stated, *versions)
        if changed and not _agree(then.stated, each.stated):
            yield Superseded(each.what, each.subject, then.stated, each.stated, changed)


def _same_runs(earlier: Document, now: Document) -> set[str]:
    """Runs whose books are the same in both: a run that was carried out again is another measurement."""
    books = ("started", "succeeded", "failed")
    first, second = (
        {run["id"]: [run["counts"][key] for key in books] for run in document["runs"]}
        for document in (earlier, now)
    )
    return {name for name, counts in second.items() if first.get(name) == counts}


def _versions(document: Document) -> dict[str, int]:
    return {each["name"]: each["version"] for each in document.get("rules", ())}


def _changed(
    each: _Verdict, then: Stated, earlier: Mapping[str, int], now: Mapping[str, int]
) -> tuple[str, ...]:
    """The rules behind a verdict that have another version now, its own first; of a release that recorded none, that
    alone."""
    own = () if (then.rule, then.version) == (each.stated.rule, each.stated.version) else (each.what.value,)
    if not earlier:
        return own
    return (*own, *(name.value for name in basis(each.what) if earlier.get(name) != now.get(name)))


def _agree(one: Stated, other: Stated) -> bool:
    return (one.verdict, one.values) == (other.verdict, other.values)


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
    for found in document["saturation"]:
        yield from _of_saturation(found)
    for verdict in document["verdicts"]:
        subject = {key: verdict[key] for key in ("metric", "test", "cell")}
        yield _Verdict(RuleName.THRESHOLD, subject, _stated(_threshold(verdict), verdict.get("rule")))
    yield from _of_models(document)
    yield from _of_findings(document)


def _of_models(document: Document) -> Iterator[_Verdict]:
    """What the checks of the residuals found, of documents that have it as codes."""
    versions = _versions(document)
    for model in document["models"]:
        codes = {reason["code"] for reason in model.get("reasons", ())}
        for code, name in CHECKS_OF_MODELS.items():
            if name in versions:
                subject: Subject = {key: model[key] for key in ("response", "scale")}
                found = "found" if code in codes else "not found"
                yield _Verdict(name, subject, _stated(found, {"name": name, "version": versions[name]}))


def _of_saturation(found: Document) -> Iterator[_Verdict]:
    subject: Subject = {key: found[key] for key in ("combination", "metric")}
    ends = {key: found[key] for key in ("lower", "upper")}
    yield _Verdict(RuleName.SATURATION, subject, _stated(found["verdict"], found.get("rule"), ends))
    stated = _stated(found["bottleneck"], found.get("bottleneck_rule"))
    yield _Verdict(RuleName.COMMON_BOTTLENECK, subject, stated)
    for capacity in found["capacities"]:
        verdict = "none" if capacity["value"] is None else "reached" if capacity["reached"] else "at least"
        stated = _stated(verdict, capacity.get("rule"), {"load": capacity["load"]})
        yield _Verdict(RuleName(f"capacity.{capacity['kind']}"), subject, stated)


def _of_findings(document: Document) -> Iterator[_Verdict]:
    """Verdicts that only the answer contains, and the names of their figures."""
    for finding in document.get("findings", ()):
        rule = finding["rule"]
        if rule is None or rule["name"] not in (RuleName.RANKING, RuleName.CHEAPEST, RuleName.SITES):
            continue
        names = {key: value for key, value in finding["values"].items() if isinstance(value, (str, list))}
        yield _Verdict(RuleName(rule["name"]), {}, _stated(finding["verdict"], rule, names))


def _validity(run: Document) -> str:
    """As runs of results without `verdict` have it too."""
    if not run["valid"]:
        return RunVerdict.INVALID
    return RunVerdict.DOUBTFUL if run["doubtful_reasons"] else RunVerdict.VALID


def _threshold(verdict: Document) -> str:
    if not verdict.get("judged", True):
        return ThresholdVerdict.NOT_JUDGED
    return ThresholdVerdict.PASSED if verdict["passed"] else ThresholdVerdict.FAILED


def _stated(verdict: str, rule: Document | None, values: Mapping[str, Any] | None = None) -> Stated:
    figures = {key: _value(value) for key, value in (values or {}).items()}
    if rule is None:
        return Stated(str(verdict), None, None, figures)
    return Stated(str(verdict), str(rule["name"]), int(rule["version"]), figures)


def _kept(entry: Document) -> Superseded:
    """An entry of the earlier document, as it was."""
    subject = {str(key): value for key, value in entry["subject"].items()}
    changed = tuple(map(str, entry["changed"]))
    return Superseded(str(entry["what"]), subject, _side(entry["earlier"]), _side(entry["now"]), changed)


def _side(told: Document) -> Stated:
    rule = None if told["rule"] is None else {"name": told["rule"], "version": told["version"]}
    return _stated(told["verdict"], rule, told["values"])


def _value(value: Any) -> Value:
    if isinstance(value, list):
        return tuple(value)
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return sorted((key, _sorted(each)) for key, each in value.items())
    return value
