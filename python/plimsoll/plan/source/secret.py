"""Values that must not be shown or stored: passwords, tokens, keys.

A `Secret` is *** wherever it is printed, formatted, or written as JSON. Only `reveal` returns its value: for checks,
for the document on the engine's stdin, and for environments of services. Text of other programs (logs, error messages
of services) passes through a `Redactor` before it is stored or shown.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn
from urllib.parse import quote, quote_plus

HIDDEN: Final = "***"
MIN_LENGTH: Final = 4
"""Shorter values cannot be distinguished from ordinary text in a log, so they cannot be hidden."""
_CREDENTIALS: Final = re.compile(
    r"AUTH|COOKIE|CREDENTIAL|KEY|PASS|PRIVATE|SECRET|SESSION|SIGNATURE|TOKEN", re.IGNORECASE
)


def is_credential_name(name: str) -> bool:
    """Whether a header, an environment variable or a URL parameter with this name is likely to
    contain credentials. A false positive only hides a value; a false negative reveals a
    password."""
    return _CREDENTIALS.search(name) is not None


class Secret:
    """A text that is printed as ***. Secrets with equal values are equal. A secret is hashable, and cannot be
    pickled."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself."""
        return self._value

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(("plimsoll.Secret", self._value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be pickled")

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self


class Redactor:
    """Replaces secret values in any text by ***.

    It finds these forms: the value itself, percent-encoded, inside a JSON string, and the Base64 encoding of the
    whole value.
    """

    __slots__ = ("_forms",)

    def __init__(self, values: Iterable[str]) -> None:
        forms: set[str] = set()
        for value in values:
            if len(value) < MIN_LENGTH:
                continue
            forms |= {value, quote(value, safe=""), quote(value), quote_plus(value)}
            forms |= {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
            encoded = base64.b64encode(value.encode()).decode()
            forms |= {encoded, encoded.rstrip("=")}
        # The longest first: a secret that contains another is replaced as a whole.
        self._forms = tuple(
            sorted((form for form in forms if len(form) >= MIN_LENGTH), key=len, reverse=True)
        )

    def __repr__(self) -> str:
        return f"Redactor({len(self._forms)} forms)"

    def __bool__(self) -> bool:
        return bool(self._forms)

    def text(self, text: str) -> str:
        """The text without secrets."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, HIDDEN)
        return text

    def data(self, data: bytes) -> bytes:
        """The bytes of a log without secrets. They need not be valid UTF-8."""
        for form in self._forms:
            data = data.replace(form.encode(), HIDDEN.encode())
        return data


def shown_words(words: Sequence[str], instead: Mapping[str, str], redactor: Redactor) -> list[str]:
    """Words of a command line as they may be stored.

    `instead`: words that contain a secret, and the texts that are stored instead. Such a word may also follow its
    option without a space (`-HCookie: ...`, `--set=path=value`).
    """
    shown = []
    for word in words:
        option = next(
            (
                secret_word
                for secret_word in instead
                if word == secret_word or (word[:1] == "-" and word.endswith(secret_word))
            ),
            None,
        )
        kept = word if option is None else word[: len(word) - len(option)] + instead[option]
        shown.append(redactor.text(kept))
    return shown


def hidden(value: Any) -> Any:
    """A copy of plain data (mappings, lists, scalars) in which every Secret is ***."""
    if isinstance(value, Secret):
        return HIDDEN
    if isinstance(value, dict):
        return {key: hidden(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [hidden(item) for item in value]
    return value


def revealed(value: Any) -> Any:
    """A copy of plain data in which every Secret is its value. For the engine's stdin and environments
    only."""
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, dict):
        return {key: revealed(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [revealed(item) for item in value]
    return value
