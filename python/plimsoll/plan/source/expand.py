"""Expands `${vars.NAME}`, `${env:NAME}` and `{secret: ...}` when a plan is made.

`{name}` is not changed: the engine replaces it for each request. `$${` is an escaped `${`.

A value of the environment is used, but never stored: `written` contains the text of the file by path, which is stored
instead. A `{secret: "..."}` becomes a `Secret`, and so does a text that contains one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

from plimsoll.plan.source.document import KeyPath, plain_scalar
from plimsoll.plan.source.memo import Memo
from plimsoll.plan.source.near import nearest
from plimsoll.plan.source.secret import MIN_LENGTH, Secret, is_credential_name

_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SOUNDS_SECRET: Final = re.compile(
    r"PASS|SECRET|TOKEN|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_?KEY|AUTH", re.IGNORECASE
)
"""Names of variables whose values are redacted from logs even if the file does not declare them as secrets."""
_LOGIN: Final = re.compile(r"[a-z]+://[^/@:\s]*:([^/@\s]*)@")
"""The login of a URL; the group is the password."""
_DEEPEST: Final = 20
MAX_TEXT: Final = 1_000_000
UNTOUCHED: Final = frozenset({"factors", "design", "plimsoll", "name"})
"""Sections that are not expanded: levels are first set in the other sections, and expanded there."""


@dataclass(slots=True)
class ExpandedTree:
    """A tree in which all references are expanded.

    `written`: path -> text in the file, for values from the environment; `secrets`: values that must be redacted;
    `wrong`: path and message of each reference that could not be expanded.
    """

    tree: dict[str, Any]
    written: dict[KeyPath, str] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)
    wrong: list[tuple[KeyPath, str]] = field(default_factory=list)


class _ExpansionError(Exception):
    """A reference cannot be expanded."""


def expand(tree: Mapping[str, Any], environ: Mapping[str, str], memo: Memo | None = None) -> ExpandedTree:
    """Expands all sections except those in UNTOUCHED. Problems are collected, not raised.

    A section without references stays the same object. A `memo` must only be used with one `environ`.
    """
    memo = memo or Memo()
    done = ExpandedTree({})
    for key, value in tree.items():
        if key in UNTOUCHED:
            done.tree[key] = value
            continue
        section = memo.get(key, (value, tree.get("vars")), partial(_section, tree, key, environ))
        done.tree[key] = section.tree[key]
        done.written |= section.written
        done.secrets |= section.secrets
        done.wrong += section.wrong
    return done


def _section(tree: Mapping[str, Any], key: str, environ: Mapping[str, str]) -> ExpandedTree:
    worker = _Expander(tree, environ)
    value = worker.value(tree[key], (key,), 0)
    touched = worker.done.written or worker.done.secrets or worker.done.wrong or value != tree[key]
    worker.done.tree[key] = value if touched else tree[key]
    return worker.done


class _Expander:
    def __init__(self, tree: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        variables = tree.get("vars")
        self.vars: Mapping[str, Any] = variables if isinstance(variables, Mapping) else {}
        self.environ = environ
        self.done = ExpandedTree({})
        self.used_environment = False

    def value(self, value: Any, path: KeyPath, depth: int) -> Any:
        if isinstance(value, str):
            return self._leaf(value, path)
        if isinstance(value, Mapping):
            if set(value) == {"secret"}:
                return self._secret(value["secret"], path)
            return {key: self.value(item, (*path, key), depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, (*path, index), depth + 1) for index, item in enumerate(value)]
        return value

    def _leaf(self, text: str, path: KeyPath) -> Any:
        if "${" not in text:
            return text
        self.used_environment = False
        try:
            value = self._fill(text, ())
        except _ExpansionError as error:
            self.done.wrong.append((path, str(error)))
            return text
        if self.used_environment and not isinstance(value, Secret):
            self.done.written[path] = text
            self.done.secrets.update(_passwords(value, path))
        return value

    def _secret(self, text: Any, path: KeyPath) -> Any:
        if not isinstance(text, str):
            self.done.wrong.append((path, 'expected a secret such as {secret: "${env:NAME}"}'))
            return ""
        try:
            value = self._fill(text, (), whole_text=True)
        except _ExpansionError as error:
            self.done.wrong.append((path, str(error)))
            return ""
        return self._make_secret(value.reveal() if isinstance(value, Secret) else str(value), text, path)

    def _make_secret(self, value: str, text: str, path: KeyPath) -> Any:
        if len(value) < MIN_LENGTH:
            self.done.wrong.append(
                (path, f"the secret has fewer than {MIN_LENGTH} characters: it cannot be hidden in logs")
            )
            return ""
        self.done.secrets.add(value)
        # Values of references are also hidden on their own: a log may contain the token without "Bearer ".
        # A variable of the file may have any value, so its name must show that it is a credential.
        parts = (self._part(match[1] or "") for match in _REFERENCE.finditer(text))
        self.done.secrets.update(part for part in parts if len(part) >= MIN_LENGTH)
        return Secret(value)

    def _part(self, reference: str) -> str:
        """The value of a reference that must also be hidden on its own; "" if that is not necessary."""
        if reference.startswith("env:"):
            return self.environ.get(reference[4:], "")
        value = self.vars.get(reference.removeprefix("vars."))
        return str(value) if isinstance(value, (str, int)) and is_credential_name(reference) else ""

    def _fill(self, text: str, within: tuple[str, ...], whole_text: bool = False) -> Any:
        """The text with its references replaced. If the text is a single reference, its value keeps its type.
        `within`: names of the variables that are being expanded."""
        whole = _REFERENCE.fullmatch(text)
        if whole is not None and whole[1] is not None:
            value = self._resolve(whole[1], within)
            return str(value) if whole_text and not isinstance(value, Secret) else value
        parts: list[str] = []
        hide = False
        at = 0
        for match in _REFERENCE.finditer(text):
            parts.append(text[at : match.start()])
            at = match.end()
            if match[1] is None:
                parts.append("${")
                continue
            value = self._resolve(match[1], within)
            if isinstance(value, (dict, list)) or value is None:
                raise _ExpansionError(
                    f"${{{match[1]}}} is not a string or a number, so it cannot be part of a string"
                )
            hide = hide or isinstance(value, Secret)
            parts.append(value.reveal() if isinstance(value, Secret) else _as_text(value))
        joined = "".join((*parts, text[at:]))
        if len(joined) > MAX_TEXT:
            raise _ExpansionError(f"the expanded value is longer than {MAX_TEXT:,} characters")
        if hide:
            self.done.secrets.add(joined)
            return Secret(joined)
        return joined

    def _resolve(self, reference: str, within: tuple[str, ...]) -> Any:
        if reference.startswith("env:"):
            return self._environment(reference[4:])
        if not reference.startswith("vars."):
            known = nearest(reference, [f"vars.{name}" for name in self.vars])
            hint = f'; did you mean "${{{known}}}"?' if known else ": expected ${vars.NAME} or ${env:NAME}"
            raise _ExpansionError(f"${{{reference}}} is not valid{hint}")
        name = reference[5:]
        if name not in self.vars:
            near = nearest(name, self.vars)
            hint = f'; did you mean "${{vars.{near}}}"?' if near else ": add it to `vars`"
            raise _ExpansionError(f"${{vars.{name}}} is not defined{hint}")
        if name in within or len(within) > _DEEPEST:
            raise _ExpansionError(f"${{vars.{name}}} refers to itself: {' -> '.join((*within, name))}")
        return self._variable(self.vars[name], (*within, name))

    def _variable(self, value: Any, within: tuple[str, ...]) -> Any:
        if isinstance(value, str):
            return self._fill(value, within)
        if isinstance(value, Mapping):
            if set(value) == {"secret"}:
                return self._secret(value["secret"], ("vars", within[-1]))
            return {key: self._variable(item, within) for key, item in value.items()}
        if isinstance(value, list):
            return [self._variable(item, within) for item in value]
        return value

    def _environment(self, name: str) -> Any:
        if not _ENV_NAME.match(name):
            raise _ExpansionError(f'"{name}" is not a valid name of an environment variable')
        text = self.environ.get(name)
        if text is None:
            raise _ExpansionError(f"the environment variable {name} is not set: export {name}=...")
        self.used_environment = True
        if _SOUNDS_SECRET.search(name) and len(text) >= MIN_LENGTH:
            self.done.secrets.add(text)
        # Only a number that has the same text when written is a number: "0123" stays a string.
        value = plain_scalar(text)
        return value if isinstance(value, (bool, int)) and _as_text(value) == text else text


def _passwords(value: Any, path: KeyPath) -> set[str]:
    """Secrets in a value from the environment: a password, or the password of a URL, encoded and decoded."""
    passwords = {str(value)} if path[-1:] == ("password",) else set()
    if isinstance(value, str) and (login := _LOGIN.match(value)) is not None:
        passwords |= {login[1], unquote(login[1])}
    return {password for password in passwords if len(password) >= MIN_LENGTH}


def _as_text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
