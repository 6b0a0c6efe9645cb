"""Values that servers of the distribution have in common: versions, and lines of their configuration files."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic.functional_validators import PlainValidator
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import PlainText, shown


def _version(value: object) -> str:
    text = str(value)
    if isinstance(value, bool) or not (text == "auto" or re.fullmatch(r"[1-9][0-9]?", text)):
        raise PydanticCustomError(
            "server_version",
            "expected auto or a major version such as 15, got {shown}",
            {"shown": shown(value)},
        )
    return text


ServerVersion = Annotated[
    str,
    PlainValidator(_version),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": 99}]}),
]
"""A major version, or "auto": the newest that is installed."""


def _one_line(value: str) -> str:
    if "\n" in value or "\r" in value:
        raise PydanticCustomError("one_line", "expected a single line")
    return value


Line = Annotated[PlainText, AfterValidator(_one_line)]
"""A line of a configuration file, or a value in one."""

SettingName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,99}$")]
ServerSettings = dict[SettingName, Line]
"""Keys and values of a server's own configuration file, in the server's own units."""


def check_settings(
    settings: Mapping[str, str], reserved: Collection[str], at: KeyPath, context: Context
) -> None:
    """Reports settings that the lab sets: with another address or log file it could not find the server."""
    for key in settings:
        if key.lower().replace("-", "_") in reserved:
            context.wrong((*at, key), "Plimsoll sets this: each service gets its own directory and address")
