"""Errors of the raw model as text: file, line, the invalid value, what was expected, the nearest
known key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from plimsoll.errors import Problem
from plimsoll.plan.schema.paths import Origins, fields_of, unwrapped
from plimsoll.plan.source import hints
from plimsoll.plan.source.document import KeyPath, dotted
from plimsoll.plan.source.fields import shown
from plimsoll.plan.source.near import nearest


def translate(
    error: ValidationError,
    tree: Any,
    origins: Origins,
    written: Mapping[KeyPath, str],
    model: type[BaseModel],
    prefix: KeyPath = (),
) -> list[Problem]:
    """Problems of one validation. `tree` is the validated data; `written` maps the full path of
    each value from the environment to its text in the file, which is shown instead; `prefix` is
    the path of `tree` in the file."""
    details = error.errors(include_url=False, include_input=True)
    of_version = [
        detail for detail in details if detail["type"] == "version"
    ]  # the others may be valid there
    return [_problem(detail, tree, origins, written, model, prefix) for detail in of_version or details]


def _problem(
    detail: ErrorDetails,
    tree: Any,
    origins: Origins,
    written: Mapping[KeyPath, str],
    model: type[BaseModel],
    prefix: KeyPath,
) -> Problem:
    path = _in_tree(detail["loc"], tree, detail["type"])
    full = (*prefix, *path)
    value = written.get(full, shown(detail["input"]))
    context = detail.get("ctx", {})
    message, near = _WORDS.get(detail["type"], _library_message)(detail, value)
    if detail["type"] in _SHAPES and (expected := hints.of_shape(full)):
        message = f"{expected}, got {value}"
    if detail["type"] == "extra_forbidden":
        message, near = _unknown_key(str(path[-1]), model, path[:-1], tree)
    elif detail["type"] in ("union_tag_invalid", "union_tag_not_found") or context.get("key") == "kind":
        full = (*full, "kind")
    if full in written:
        message = message.replace(shown(detail["input"]), written[full]).replace(
            str(detail["input"]), written[full]
        )
    file, line = origins.place(full)
    return Problem(message, dotted(full), file, line, value, near)


def _in_tree(loc: tuple[int | str, ...], tree: Any, kind: str) -> KeyPath:
    """The path in the file: without the steps of the model itself, such as the name of a kind or of a short
    form."""
    path: list[str | int] = []
    here = tree
    for index, part in enumerate(loc):
        if has_part(here, part):
            here = here[part]
        elif kind in ("missing", "extra_forbidden") and index == len(loc) - 1:
            pass
        else:
            continue
        path.append(part)
    return tuple(path)


def has_part(tree: Any, part: str | int) -> bool:
    """Whether a mapping has this key, or a list this index."""
    if isinstance(tree, list):
        return isinstance(part, int) and part < len(tree)
    return isinstance(tree, Mapping) and part in tree


def _unknown_key(key: str, model: type[BaseModel], parent: KeyPath, tree: Any) -> tuple[str, str | None]:
    known = known_keys(model, parent, tree)
    if advice := hints.OF_KEYS.get(key):
        return f"unknown key: {advice}", None
    near = nearest(key, known)
    if near is None and known:
        return f"unknown key; expected one of {', '.join(sorted(known))}", None
    return "unknown key", near


def known_keys(model: type[BaseModel], path: KeyPath, tree: Any) -> list[str]:
    """The keys that a mapping at this path may have."""
    kinds: list[Any] = [model]
    here = tree
    for part in path:
        kinds = [inner for kind in kinds for inner in _inside(kind, part)]
        here = here[part]
    models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
    if len(models) > 1 and isinstance(here, Mapping):
        # If no kind selects a model, the first key of a model does.
        selected = [
            kind
            for kind in models
            if "kind" in kind.model_fields
            and here.get("kind") in get_args(kind.model_fields["kind"].annotation)
        ] or [kind for kind in models if next(iter(kind.model_fields)) in here]
        models = selected or models
    return [name for kind in models for name in fields_of(kind)]


def _inside(kind: Any, part: str | int) -> list[Any]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        annotation = fields_of(kind).get(str(part))
        return unwrapped(annotation) if annotation is not None else []
    arguments = get_args(kind)
    return unwrapped(arguments[-1]) if arguments else []


Words = tuple[str, str | None]


def _library_message(detail: ErrorDetails, value: str) -> Words:
    text = detail["msg"]
    return text[:1].lower() + text[1:], None


def _expected(description: str) -> Callable[[ErrorDetails, str], Words]:
    return lambda detail, value: (f"expected {description}, got {value}", None)


def _own_message(detail: ErrorDetails, value: str) -> Words:
    return str(detail["ctx"]["error"]), None


def _missing(detail: ErrorDetails, value: str) -> Words:
    example = hints.OF_SHAPES.get(".".join(map(str, detail["loc"])), "")
    _, _, example = example.partition(", for example ")
    return "required key missing" + (f", for example {example}" if example else ""), None


def _choice(detail: ErrorDetails, value: str) -> Words:
    text = str(detail["ctx"]["expected"])
    known = [word.strip().strip("'") for word in text.replace(" or ", ", ").split(",")]
    near = nearest(str(detail["input"]), known)
    return (f"expected {_either(known)}, got {value}", near)


def _kind(detail: ErrorDetails, value: str) -> Words:
    context = detail.get("ctx", {})
    known = [
        word.strip().strip("'") for word in str(context.get("expected_tags", "")).split(",") if word.strip()
    ]
    tag = str(context.get("tag", ""))
    if not tag:
        return "required key missing: the kind of the service", None
    return f'expected {_either(known)}, got "{tag}"', nearest(tag, known)


def _either(known: Iterable[str]) -> str:
    words = list(known)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _bound(sign: str, key: str) -> Callable[[ErrorDetails, str], Words]:
    return lambda detail, value: (f"must be {sign} {detail['ctx'][key]:g}, got {value}", None)


def _pattern(detail: ErrorDetails, value: str) -> Words:
    return f"{value} is not a valid name: use letters, digits, - and _, beginning with a letter or _", None


def _empty(detail: ErrorDetails, value: str) -> Words:
    return "expected at least one item, got none", None


_SHAPES: Final = frozenset(
    {"text", "string_type", "list_type", "dict_type", "model_type", "model_attributes_type", "int_type"}
)
"""Errors about the type of a value, for which `hints` may have a better message."""
_WORDS: Final[dict[str, Callable[[ErrorDetails, str], Words]]] = {
    "value_error": _own_message,
    "missing": _missing,
    "literal_error": _choice,
    "union_tag_invalid": _kind,
    "union_tag_not_found": _kind,
    "int_type": _expected("a whole number"),
    "int_from_float": _expected("a whole number"),
    "float_type": _expected("a number"),
    "finite_number": _expected("a finite number"),
    "bool_type": _expected("true or false"),
    "string_type": _expected("a string"),
    "list_type": _expected("a list"),
    "dict_type": _expected("a mapping (key: value)"),
    "model_type": _expected("a mapping (key: value)"),
    "model_attributes_type": _expected("a mapping (key: value)"),
    "string_pattern_mismatch": _pattern,
    "greater_than": _bound("greater than", "gt"),
    "greater_than_equal": _bound("at least", "ge"),
    "less_than": _bound("less than", "lt"),
    "less_than_equal": _bound("at most", "le"),
    "too_short": _empty,
}
