"""A command as in `before_run`, `after_run` and the action `run`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from plimsoll.plan import model
from plimsoll.plan.source.fields import Duration, Raw, Text
from plimsoll.plan.source.units import NS


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
    on: Literal["controller", "hosts", "all"] = "controller"
    needs: Literal["root"] | None = None
    timeout: Duration = 60 * NS["s"]

    def hook(self) -> model.Hook:
        """The resolved command."""
        return model.Hook(tuple(self.run), self.on, self.needs == "root", self.timeout)
