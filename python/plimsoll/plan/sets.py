"""`--set path=value`: values of the command line, put into the file before it is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plimsoll.errors import BadInput, Problem
from plimsoll.plan.hosts.hosts_file import SECTION, read_hosts_file
from plimsoll.plan.schema.paths import Origins, PathError, check_path, child, with_value
from plimsoll.plan.source.document import Document, KeyPath, parse_value
from plimsoll.plan.source.fields import text_of
from plimsoll.plan.source.secret import HIDDEN, carries_credentials


def with_sets(
    document: Document, sets: Sequence[str], directory: Path
) -> tuple[Mapping[str, Any], Origins, dict[str, str]]:
    """The file with the values of --set in it, and what may be stored of those that are secrets. `directory`: where the
    file of `--set hosts=FILE` is looked up."""
    tree: Mapping[str, Any] = document.data
    said: dict[KeyPath, str] = {}
    instead: dict[str, str] = {}
    problems = []
    for given in sets:
        path, equals, text = given.partition("=")
        path = path.strip()
        if not equals or not path:
            problems.append(Problem("expected path=value, such as load.testers=4", file=f"--set {given}"))
            continue
        try:
            steps = _set_path(tree, path)
            value = parse_value(text)
            if steps == SECTION and isinstance(value, str):
                value = read_hosts_file(value, directory, f"--set {given}", None).data
        except PathError as error:
            problems.append(Problem(str(error), file=f"--set {given}"))
            continue
        except BadInput as error:
            first = error.problems[0]
            problems.append(first if first.file else Problem(first.message, file=f"--set {given}"))
            continue
        value, held = guarded(value, tree, steps)
        if held:
            instead[given] = f"{path}={HIDDEN}"
        tree = with_value(tree, steps, value)
        said[steps] = instead.get(given, given)
    if problems:
        raise BadInput(problems)
    return tree, Origins(document, said=said), instead


def _set_path(tree: Mapping[str, Any], path: str) -> KeyPath:
    """A path of --set. A factor in short form has a name with dots in it."""
    factors = tree.get("factors")
    name = path.removeprefix("factors.")
    if name != path and isinstance(factors, Mapping) and name in factors:
        return ("factors", name)
    return check_path(tree, path)


def guarded(value: Any, tree: Mapping[str, Any], path: KeyPath) -> tuple[Any, bool]:
    """A value given on the command line, with texts that must not be stored as `{secret: ...}`, and whether there
    are any: where the file has a secret, and where a header or a variable of an environment carries credentials.

    A text with `${...}` in it is stored as it is written, so it needs no more than to be a secret.
    """
    before: list[Any] = [tree]
    for part in path:
        before.append(child(before[-1], part))
    if len(before) > 1 and path[-1] == "secret" and _is_secret(before[-2]):
        return value, "${" not in str(value)
    return _guarded(value, before[-1], path)


def _guarded(value: Any, before: Any, path: KeyPath) -> tuple[Any, bool]:
    if _is_secret(value):
        return value, "${" not in str(value["secret"])
    if isinstance(value, Mapping):
        each = {key: _guarded(item, child(before, key), (*path, key)) for key, item in value.items()}
        return {key: item for key, (item, _) in each.items()}, any(held for _, held in each.values())
    if isinstance(value, list):
        items = [_guarded(item, child(before, at), (*path, at)) for at, item in enumerate(value)]
        return [item for item, _ in items], any(held for _, held in items)
    named = len(path) > 1 and path[-2] in ("headers", "env") and carries_credentials(str(path[-1]))
    named = named or path[-2:] == ("sql", "password")
    if value is None or not (named or _is_secret(before)):
        return value, False
    text = str(text_of(value))
    return {"secret": text}, "${" not in text


def _is_secret(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"secret"}
