"""Raw model of `search:`. It checks the form only."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.source.fields import Count, Duration, Fraction, Name, PlainText, Raw
from plimsoll.plan.source.units import NS

MIN_WIDTH: Final = 0.005
"""A narrower bracket needs more trials than a search can make."""


class SearchGoalRaw(Raw):
    """What must hold at a load. `width`: largest relative distance of the bounds."""

    response: PlainText | None = None
    errors: PlainText | None = None
    width: Annotated[Fraction, Field(ge=MIN_WIDTH, le=0.5)] = 0.05

    @model_validator(mode="after")
    def _check_rule(self) -> SearchGoalRaw:
        if self.response is None and self.errors is None:
            raise PydanticCustomError("goal", "a goal needs a rule: response, errors or both")
        return self


class TrialRaw(Raw):
    """The lengths of trials, and the share of trials above the limit that a load may have."""

    initial: Duration = 2 * NS["s"]
    final: Duration = 10 * NS["s"]
    sum: Duration = 60 * NS["s"]
    exceed: Annotated[Fraction, Field(lt=1)] = 0.5

    @model_validator(mode="after")
    def _check_lengths(self) -> TrialRaw:
        if not 0 < self.initial <= self.final <= self.sum:
            raise PydanticCustomError("trial", "expected 0s < initial <= final <= sum")
        return self


class SearchRaw(Raw):
    """A search for the highest load at which goals hold."""

    axis: Literal["load.rate", "load.testers", "load.per_host"]
    from_: PlainText = Field(alias="from")
    to: PlainText
    goals: dict[Name, SearchGoalRaw] | None = None
    trial: TrialRaw = Field(default_factory=TrialRaw)
    repeat: Annotated[Count, Field(le=40)] = 6
    max_time: Duration = 30 * 60 * NS["s"]
    hysteresis: bool = False
    confirm: Annotated[int, Field(ge=0, le=100)] = 0
