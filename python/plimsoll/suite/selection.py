"""Which files of a suite can be run against an existing service, and with which changes."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from plimsoll.errors import BadInput, Problem
from plimsoll.plan import Plan, load_experiment, make_plan
from plimsoll.plan.design.factors import parse_factors
from plimsoll.plan.resolve.context import ResolveContext
from plimsoll.plan.schema.paths import Origins
from plimsoll.plan.services.section import url_variable
from plimsoll.plan.source.document import Document, KeyPath, parse_document
from plimsoll.suite.existing import (
    Refusal,
    check_cells,
    check_factors,
    check_reads,
    remarks_on_changes,
    replaced_sets,
    target_factors,
)
from plimsoll.suite.quick import quick_sets

SUFFIXES: Final = (".yaml", ".yml")
MAX_REASONS: Final = 3
"""Maximum number of problems of a file that the summary quotes."""


@dataclass(frozen=True, slots=True)
class Request:
    """How the files are run. `target`: URL; `quick`: in their short form; `ceiling`: rules of `--ceiling`, which stop
    every run in addition to those of its file."""

    target: str
    quick: bool = False
    ceiling: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """A file of the suite. `plan`: its runs against the service, None if it is not run; `reason`: why not; `remarks`:
    what of the file is not used; `directory`: results of an earlier start, which are completed."""

    file: Path
    state: Literal["selected", "refused", "invalid"]
    plan: Plan | None = None
    reason: str = ""
    remarks: tuple[str, ...] = ()
    directory: Path | None = None


def listed_files(paths: Sequence[Path]) -> list[tuple[Path, bool]]:
    """The files in their order, each once, and whether it was named itself. Of a directory, its files
    `*.yaml` and `*.yml`, sorted by name. Raises BadInput."""
    found: dict[Path, tuple[Path, bool]] = {}
    for path in paths:
        if path.is_dir():
            files = sorted(each for each in path.iterdir() if each.suffix in SUFFIXES and each.is_file())
            if not files:
                raise BadInput(f"{path}: the directory contains no file *.yaml or *.yml")
        elif path.is_file():
            files = [path]
        else:
            raise BadInput(f"{path}: no such file or directory")
        for file in files:
            found.setdefault(file.resolve(), (file, path == file))
    return list(found.values())


def check_target(target: str) -> None:
    """Raises BadInput unless the target is a URL that may be stored."""
    try:
        url = urlsplit(target)
        is_url = bool(url.scheme and (url.netloc or url.path))
        login = url.netloc.rpartition("@")[0]
    except ValueError:
        is_url, login = False, target.rpartition("@")[0]
    if ":" in login and "${" not in login.partition(":")[2]:
        raise BadInput(
            "--target: the URL contains a password, and the results store the target: write ${env:NAME} in its place"
        )
    if not is_url and "${" not in target:
        raise BadInput(f'--target: expected a URL such as http://test.example:8080, got "{target}"')


def select(file: Path, is_named: bool, request: Request) -> Selection:
    """Examines a file. `is_named`: the file was given itself, not its directory."""
    try:
        text = file.read_text(encoding="utf-8")
        document = parse_document(text, str(file))
        return _selection(file, is_named, text, document, request)
    except Refusal as refusal:
        return Selection(file, "refused", reason=str(refusal))
    except BadInput as error:
        return Selection(file, "invalid", reason=_quoted(error))
    except (OSError, UnicodeDecodeError) as error:
        return Selection(file, "invalid", reason=f"{file}: cannot be read: {error}")


def _selection(file: Path, is_named: bool, text: str, document: Document, request: Request) -> Selection:
    tree = document.data
    if not is_named and not (isinstance(tree, Mapping) and "plimsoll" in tree):
        raise Refusal("not an experiment file: it has no key `plimsoll`")
    if not isinstance(tree, Mapping):
        load_experiment(file)  # raises BadInput with the reason
        raise Refusal("not an experiment file")
    factors = parse_factors(tree, ResolveContext(Origins(document), {}, file.parent))
    targets = dict(_targets(tree))
    try:
        _check_targets(tree, targets)
        check_factors(factors, targets)
        before, after = replaced_sets(tree, factors, targets, request.target, request.ceiling)
    except Refusal:
        load_experiment(file)  # an invalid file is reported as invalid
        raise
    if tree.get("data"):
        check_cells(load_experiment(file))
    varied = [setting.path for factor in factors for level in factor.levels for setting in level.settings]
    shortened = quick_sets(text, tree, varied, str(file)) if request.quick else ()
    absent = [["factors", name] for name in target_factors(factors, targets)]
    shortened = tuple(each for each in shortened if re.split("[.=]", each, maxsplit=2)[:2] not in absent)
    plan = _planned(file, tree, before, shortened, after)
    if tree.get("data"):
        check_reads(plan.experiment)
    remarks = tuple(remarks_on_changes(tree, factors, targets))
    return Selection(file, "selected", plan, remarks=remarks)


def _planned(
    file: Path, tree: Mapping[str, Any], before: Sequence[str], shortened: Sequence[str], after: Sequence[str]
) -> Plan:
    """The plan with the changes. Raises Refusal if they are the reason that the file cannot be used, and BadInput if
    the file is invalid without them, too."""
    seed = secrets.randbits(32)
    try:
        return make_plan(load_experiment(file, [*before, *shortened, *after]), seed)
    except BadInput as error:
        problem = error
    if shortened and _is_valid(file, [*before, *after]):
        raise Refusal(f"--quick: {_quoted(problem)}")
    load_experiment(file)
    unfit = [
        each.message for each in problem.problems if each.file in {f"--set {option}" for option in after}
    ]
    if unfit:
        raise Refusal(f"the file cannot use the target: {unfit[0]}")
    names = tree.get("services")
    if isinstance(names, Mapping) and names:
        raise Refusal(f"the file needs its own services ({', '.join(map(str, names))}): {_quoted(problem)}")
    raise Refusal(_quoted(problem))


def _is_valid(file: Path, sets: list[str]) -> bool:
    try:
        load_experiment(file, sets)
    except BadInput:
        return False
    return True


def _check_targets(tree: Mapping[str, Any], targets: Mapping[KeyPath, Any]) -> None:
    """Raises Refusal if hooks or actions need services of the file, or if it has no target that can be replaced."""
    for name in tree.get("services") or ():
        variable = url_variable(str(name))
        for section in ("before_run", "after_run", "actions"):
            if re.search(rf"{variable}(?![A-Z0-9_])", str(tree.get(section))):
                raise Refusal(f"the file needs its own service {name}: {section} uses {variable}")
    if not targets:
        raise Refusal("no workload has a target that --target could replace")
    different = list(dict.fromkeys(map(str, targets.values())))
    if len(different) > 1:
        raise Refusal(f"the workloads have different targets ({', '.join(different)})")


def _targets(tree: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any]]:
    """Path and value of the target of each workload that has one."""
    works: list[tuple[KeyPath, Any]] = [(("workload",), tree.get("workload"))]
    several = tree.get("workloads")
    if isinstance(several, Mapping):
        works += [(("workloads", str(name)), work) for name, work in several.items()]
    for at, work in works:
        if isinstance(work, Mapping) and work.get("target") is not None:
            yield (*at, "target"), work["target"]


def _quoted(error: BadInput) -> str:
    """The first problems of a file, as one text."""
    more = len(error.problems) - MAX_REASONS
    shown = [*map(_one, error.problems[:MAX_REASONS]), *([f"and {more} more"] if more > 0 else [])]
    return "; ".join(shown)


def _one(problem: Problem) -> str:
    return " ".join(str(problem).split())
