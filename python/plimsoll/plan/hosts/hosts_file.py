"""A hosts file, which several experiments can use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from plimsoll.errors import BadInput, Problem
from plimsoll.plan.schema.hosts import FILE_VERSION
from plimsoll.plan.source.document import MAX_TEXT, Document, KeyPath, parse_document
from plimsoll.plan.source.fields import shown

SECTION: Final[KeyPath] = ("hosts",)
_FILES: Final[tuple[KeyPath, ...]] = (("ssh", "config"), ("join", "template"), ("testbed",))
"""Keys that name files. A relative name is looked up in the directory of the file that contains the key."""


def include_hosts_file(document: Document, directory: Path) -> Document:
    """The experiment file with `hosts: FILE` replaced by the content of that file, with its own
    line numbers. Relative names are looked up in `directory`. Raises BadInput."""
    tree = document.data
    if not isinstance(tree, Mapping) or not isinstance(tree.get("hosts"), str):
        return document
    part = read_hosts_file(tree["hosts"], directory, *document.place(SECTION))
    return replace(document, data={**tree, "hosts": part.data}, parts={SECTION: part})


def read_hosts_file(name: str, directory: Path, named_in: str, line: int | None) -> Document:
    """The section `hosts:` of a hosts file, without its version. `named_in`, `line`: file or option, and line, that
    contain the name. Raises BadInput."""
    path = directory / Path(name).expanduser()
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_TEXT + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput([Problem(f"{name} cannot be read: {reason}", "hosts", named_in, line, name)]) from None
    return hosts_document(text, name, path.parent, directory)


def hosts_document(text: str, name: str, beside: Path, directory: Path) -> Document:
    """The section `hosts:` from the text of a hosts file. `beside`: the directory of the file; `directory`: where
    relative names are looked up; names of the file become absolute if both differ. Raises BadInput."""
    document = parse_document(text, name)
    tree = document.data
    version = tree.get("hosts") if isinstance(tree, Mapping) else None
    if not isinstance(tree, Mapping) or isinstance(version, bool) or not isinstance(version, int):
        got = "" if version is None else f", got {shown(version)}"
        message = f"a hosts file begins with `hosts: {FILE_VERSION}`{got}; it lists its hosts under `sites`"
        raise BadInput([Problem(message, "hosts", name, document.line(SECTION))])
    if version != FILE_VERSION:
        message = f"the file has format {version}, this version of Plimsoll reads format {FILE_VERSION}"
        advice = ": install a newer Plimsoll" if version > FILE_VERSION else ""
        raise BadInput([Problem(message + advice, "hosts", name, document.line(SECTION))])
    section = {key: value for key, value in tree.items() if key != "hosts"}
    if beside.absolute() != directory.absolute():
        for at in _FILES:
            section = _with_absolute_path(section, at, beside)
    return replace(document, data=section)


def _with_absolute_path(tree: dict[str, Any], at: KeyPath, beside: Path) -> dict[str, Any]:
    key, rest = str(at[0]), at[1:]
    value = tree.get(key)
    if rest and isinstance(value, dict):
        return {**tree, key: _with_absolute_path(value, rest, beside)}
    if rest or not isinstance(value, str) or value.startswith(("~", "$")):
        return tree
    return {**tree, key: str(beside.absolute() / value)}
