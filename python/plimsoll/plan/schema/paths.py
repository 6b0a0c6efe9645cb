"""Values by path: `load.testers`, `workloads.readers.load.rate`, `services.gateway.connections`,
`thresholds.0.test`.

Factors and `--set` change the file before it is checked. Therefore a path is compared with the model, not with the
content of the file: `load.rate` exists even if the file contains `load.testers`. Names of the user (of services,
variables, populations) must be in the file.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel

from plimsoll.plan.drivers.section import MixEntry
from plimsoll.plan.drivers.table import DRIVERS
from plimsoll.plan.schema.experiment import ExperimentRaw
from plimsoll.plan.source.document import Document, KeyPath, dotted
from plimsoll.plan.source.near import nearest

OPEN_NAMES: Final = frozenset({"headers", "env", "values", "base", "where", "settings", "links", "costs"})
"""Mappings to which a path may add a key."""

RUN_SECTIONS: Final = frozenset(
    {"vars", "services", "data", "targets", "workload", "workloads", "load", "run", "cpus", "ceiling"}
    | {"before_run", "after_run", "actions", "hosts"}
)
"""Sections in which a factor may set values: those of a run, not those of the whole experiment."""


class PathError(ValueError):
    """A path does not exist. The message contains the last part that exists, and the nearest known key."""


def split(path: str) -> KeyPath:
    """Parts of a dotted path. Raises PathError if a part is empty."""
    parts = path.split(".")
    if not all(parts):
        raise PathError(f'"{path}" is not a path: expected a path such as load.testers')
    return tuple(parts)


def check_path(tree: Mapping[str, Any], path: str) -> KeyPath:
    """The parts of a path, with indexes of lists as numbers. Raises PathError if the model does not contain the
    path."""
    steps: KeyPath = ()
    here: Any = tree
    kinds: list[Any] = [ExperimentRaw]
    for part in split(path):
        step, kinds = _step(kinds, here, str(part), steps)
        steps = (*steps, step)
        here = child(here, step)
    if steps[0] in ("workload", "load") and "workloads" in tree:
        names = ", ".join(map(str, tree["workloads"])) if isinstance(tree["workloads"], Mapping) else ""
        rest = path if steps[0] == "load" else path.removeprefix("workload.")
        raise PathError(f"this file has several workloads ({names}): write workloads.NAME.{rest}")
    if steps[0] == "workloads" and "workload" in tree:
        raise PathError('this file has one workload: write "workload..." and "load..."')
    return steps


def _step(kinds: list[Any], here: Any, part: str, so_far: KeyPath) -> tuple[str | int, list[Any]]:
    """The next step of a path: its key or index, and the types that are allowed there. `here`: the value at the path
    `so_far`; `kinds`: its allowed types."""
    models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
    names: dict[str, list[Any]] = {}
    for model in _chosen(models, here):
        for name, annotation in fields_of(model).items():
            names.setdefault(name, []).extend(unwrapped(annotation))
    if part in names:
        return part, names[part]
    if isinstance(here, list) and any(get_origin(kind) is list for kind in kinds):
        kinds = [kind for kind in kinds if get_origin(kind) is not dict]
    elif isinstance(here, Mapping) and any(get_origin(kind) is dict for kind in kinds):
        kinds = [kind for kind in kinds if get_origin(kind) is not list]
    for kind in kinds:
        if get_origin(kind) is dict:
            return _named(kind, here, part, so_far, names)
        if get_origin(kind) is list:
            return _position(kind, here, part, so_far)
        if kind is Any:
            return _anything(here, part, so_far)
    raise PathError(_nowhere(part, so_far, names))


def _chosen(models: list[type[BaseModel]], here: Any) -> list[type[BaseModel]]:
    """The model that the `kind` of the file selects: messages suggest its keys only. Otherwise all models."""
    if len(models) > 1 and isinstance(here, Mapping):
        kind = here.get("kind")
        selected = [model for model in models if "kind" in model.model_fields and kind in _literals(model)]
        return selected or models
    return models


def _literals(model: type[BaseModel]) -> tuple[Any, ...]:
    return get_args(model.model_fields["kind"].annotation)


def _named(
    kind: Any, here: Any, part: str, so_far: KeyPath, names: Mapping[str, Any]
) -> tuple[str, list[Any]]:
    inside = unwrapped(get_args(kind)[1])
    known = list(here) if isinstance(here, Mapping) else []
    if part in known or (so_far and so_far[-1] in OPEN_NAMES):
        return part, inside
    raise PathError(_nowhere(part, so_far, [*known, *names]))


def _position(kind: Any, here: Any, part: str, so_far: KeyPath) -> tuple[int, list[Any]]:
    length = len(here) if isinstance(here, Sequence) and not isinstance(here, str) else 0
    if not part.isdigit() or int(part) >= length:
        have = f"expected 0 to {length - 1}" if length else "the list is empty or missing"
        raise PathError(f'{dotted(so_far)} is a list, and "{part}" is not a valid index ({have})')
    return int(part), unwrapped(get_args(kind)[0])


def _anything(here: Any, part: str, so_far: KeyPath) -> tuple[str | int, list[Any]]:
    if isinstance(here, list):
        return _position(list[Any], here, part, so_far)
    if isinstance(here, Mapping) and part in here:
        return part, [Any]
    raise PathError(_nowhere(part, so_far, list(here) if isinstance(here, Mapping) else []))


def _nowhere(part: str, so_far: KeyPath, known: Iterable[str]) -> str:
    full = dotted((*so_far, part))
    known = list(known)
    near = nearest(part, known)
    if near:
        return f'there is no {full}; did you mean "{dotted((*so_far, near))}"?'
    if known:
        shown = ", ".join(sorted(known)[:12])
        return f"there is no {full}; {dotted(so_far) or 'a file'} has {shown}"
    return f"there is no {full}: {dotted(so_far)} has no keys"


def fields_of(model: type[BaseModel]) -> dict[str, Any]:
    """Keys of a mapping of the file, and the type of each. An entry of `mix` has the keys of all drivers that apply to
    single requests."""
    fields = {info.alias or name: _annotation(info) for name, info in model.model_fields.items()}
    if issubclass(model, MixEntry):
        for driver in DRIVERS.values():
            for name, info in driver.section.model_fields.items():
                if (info.alias or name) not in driver.shared_keys:
                    fields.setdefault(info.alias or name, _annotation(info))
    return fields


def _annotation(info: Any) -> Any:
    return info.annotation


def unwrapped(annotation: Any) -> list[Any]:
    """The allowed types: the members of unions, without None and without Annotated."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return unwrapped(get_args(annotation)[0])
    if origin is Union or origin is types.UnionType:
        return [
            kind for member in get_args(annotation) if member is not type(None) for kind in unwrapped(member)
        ]
    return [annotation]


def child(here: Any, step: str | int) -> Any:
    """The value at a key or an index; None if there is none."""
    if isinstance(here, Mapping):
        return here.get(str(step))
    if isinstance(here, list) and isinstance(step, int) and step < len(here):
        return here[step]
    return None


def with_value(tree: Any, path: KeyPath, value: Any) -> Any:
    """A copy of plain data with one value set. Only the nodes on the path are copied. Missing
    mappings are created."""
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(tree, list) and isinstance(first, int):
        return [with_value(item, rest, value) if index == first else item for index, item in enumerate(tree)]
    here = dict(tree) if isinstance(tree, Mapping) else {}
    here[str(first)] = with_value(here.get(str(first)), rest, value)
    return here


@dataclass(frozen=True, slots=True)
class Origins:
    """Origins of values that were set by path, so that a message can contain the line of the level that set them.

    `moved`: path in the tree -> path of the value in the document; `set_options`: path in the tree -> text of the
    option of the command line.
    """

    document: Document
    moved: Mapping[KeyPath, KeyPath] = field(default_factory=dict)
    set_options: Mapping[KeyPath, str] = field(default_factory=dict)

    def place(self, path: KeyPath) -> tuple[str, int | None]:
        """File and line, or the option of the command line, of the value at this path."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.moved:
                return self.document.place((*self.moved[path[:length]], *path[length:]))
            if path[:length] in self.set_options:
                return f"--set {self.set_options[path[:length]]}", None
        return self.document.place(path)
