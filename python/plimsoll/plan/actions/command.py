"""A command as in `before_run`, `after_run` and the action `run`."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from plimsoll.plan.model import cell as model
from plimsoll.plan.source.fields import Duration, Raw, Text, shown
from plimsoll.plan.source.units import NS

_PLACES: Final = ("controller", "hosts", "all")
_HOST: Final = "[A-Za-z0-9_][A-Za-z0-9._-]{0,99}"


def _place(value: object) -> model.HookHosts:
    match value:
        case "controller" | "hosts" | "all":
            return value
    names = value if isinstance(value, list) else [value]
    if names and all(isinstance(name, str) and re.fullmatch(_HOST, name) for name in names):
        return tuple(dict.fromkeys(names))
    raise PydanticCustomError(
        "place", "expected controller, hosts, all, or names of hosts, got {shown}", {"shown": shown(value)}
    )


Place = Annotated[
    Literal["controller", "hosts", "all"] | tuple[str, ...],
    PlainValidator(_place),
    PlainSerializer(lambda on: on if isinstance(on, str) else list(on)),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": f"^{_HOST}$", "examples": list(_PLACES)},
                {"type": "array", "items": {"type": "string", "pattern": f"^{_HOST}$"}, "minItems": 1},
            ]
        }
    ),
]
"""Where a command runs."""


def _command(value: object) -> object:
    return ["/bin/sh", "-c", value] if isinstance(value, str) else value


class HookRaw(Raw):
    """A command before, during or after a run: a list of arguments, or a string for the shell."""

    run: Annotated[
        list[Text],
        BeforeValidator(_command),
        Field(min_length=1),
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
    ]
    on: Place = "controller"
    needs: Literal["root"] | None = None
    timeout: Duration = 60 * NS["s"]

    def hook(self) -> model.Hook:
        """The resolved command."""
        return model.Hook(tuple(self.run), self.on, self.needs == "root", self.timeout)
