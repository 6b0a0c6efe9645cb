"""`--set path=value`: values of the command line, which are set in the file before it is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plimsoll.errors import BadInput, Problem
from plimsoll.plan.hosts.hosts_file import SECTION, read_hosts_file
from plimsoll.plan.schema.paths import Origins, PathError, check_path, child, with_value
from plimsoll.plan.source.document import Document, KeyPath, parse_value
from plimsoll.plan.source.fields import text_of
from plimsoll.plan.source.secret import HIDDEN, is_credential_name


def with_sets(
    document: Document, sets: Sequence[str], directory: Path
) -> tuple[Mapping[str, Any], Origins, dict[str, str]]:
    """The file with the values of --set, their origins, and for each option with a secret the text that is stored
    instead. `directory`: where the file of `--set hosts=FILE` is looked up. Raises BadInput."""
    tree: Mapping[str, Any] = document.data
    set_options: dict[KeyPath, str] = {}
    instead: dict[str, str] = {}
    problems = []
    for option in sets:
        path, equals, text = option.partition("=")
        path = path.strip()
        if not equals or not path:
            problems.append(Problem("expected path=value, such as load.testers=4", file=f"--set {option}"))
            continue
        try:
            steps = _set_path(tree, path)
            value = parse_value(text)
            if steps == SECTION and isinstance(value, str):
                value = read_hosts_file(value, directory, f"--set {option}", None).data
        except PathError as error:
            problems.append(Problem(str(error), file=f"--set {option}"))
            continue
        except BadInput as error:
            first = error.problems[0]
            problems.append(first if first.file else Problem(first.message, file=f"--set {option}"))
            continue
        value, is_secret = guarded(value, tree, steps)
        if is_secret:
            instead[option] = f"{path}={HIDDEN}"
        tree = with_value(tree, steps, value)
        set_options[steps] = instead.get(option, option)
    if problems:
        raise BadInput(problems)
    return tree, Origins(document, set_options=set_options), instead


def _set_path(tree: Mapping[str, Any], path: str) -> KeyPath:
    """The path of an option. The name of a factor in short form contains dots."""
    factors = tree.get("factors")
    name = path.removeprefix("factors.")
    if name != path and isinstance(factors, Mapping) and name in factors:
        return ("factors", name)
    return check_path(tree, path)


def guarded(value: Any, tree: Mapping[str, Any], path: KeyPath) -> tuple[Any, bool]:
    """A value of the command line in which texts that must not be stored are `{secret: ...}`, and whether there are
    any. These are texts in place of a secret of the file, and headers and environment variables with credentials.

    A text with `${...}` is stored as written: it is a secret, but its option may be stored.
    """
    before: list[Any] = [tree]
    for part in path:
        before.append(child(before[-1], part))
    if len(before) > 1 and path[-1] == "secret" and _is_secret_mapping(before[-2]):
        return value, "${" not in str(value)
    return _guarded(value, before[-1], path)


def _guarded(value: Any, before: Any, path: KeyPath) -> tuple[Any, bool]:
    if _is_secret_mapping(value):
        return value, "${" not in str(value["secret"])
    if isinstance(value, Mapping):
        guarded_items = {key: _guarded(item, child(before, key), (*path, key)) for key, item in value.items()}
        return {key: item for key, (item, _) in guarded_items.items()}, any(
            held for _, held in guarded_items.values()
        )
    if isinstance(value, list):
        items = [_guarded(item, child(before, at), (*path, at)) for at, item in enumerate(value)]
        return [item for item, _ in items], any(held for _, held in items)
    named = len(path) > 1 and path[-2] in ("headers", "env") and is_credential_name(str(path[-1]))
    named = named or path[-2:] in (("sql", "password"), ("bind", "password"))
    if value is None or not (named or _is_secret_mapping(before)):
        return value, False
    text = str(text_of(value))
    return {"secret": text}, "${" not in text


def _is_secret_mapping(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"secret"}
