"""The kinds of actions; the only list of them in the plan.

`drive/run/actions/table.py` carries out each kind. A test compares both. To add a kind, add its section here, and a
function there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Union

from pydantic import BeforeValidator, Discriminator, Tag
from pydantic_core import PydanticCustomError

from plimsoll.plan.actions.links import CutAction, LinkAction
from plimsoll.plan.actions.processes import KillAction, PauseAction, RestartAction
from plimsoll.plan.actions.run import RunAction
from plimsoll.plan.actions.section import ActionSection
from plimsoll.plan.source.fields import Raw, shown
from plimsoll.plan.source.near import nearest

_SECTIONS: Final[tuple[type[Raw], ...]] = (
    KillAction,
    RestartAction,
    PauseAction,
    LinkAction,
    CutAction,
    RunAction,
)
ACTION_KINDS: Final = {next(iter(section.model_fields)): section for section in _SECTIONS}
"""The section of each kind, by its name, which is also its first key."""
_TAG: Final = "action "
"""The beginning of the tags of the union, which are never keys of the file."""


def _with_one_kind(value: object) -> object:
    if not isinstance(value, dict):
        raise PydanticCustomError(
            "action",
            "expected an action such as {example}, got {shown}",
            {"example": "{at: 30s, kill: {service: db}}", "shown": shown(value)},
        )
    kinds = [key for key in value if key in ACTION_KINDS]
    if len(kinds) == 1:
        return value
    if kinds:
        raise PydanticCustomError(
            "action",
            "an entry has one action, got {kinds}: write an entry for each",
            {"kinds": " and ".join(kinds)},
        )
    near = (nearest(str(key), ACTION_KINDS) for key in value if key not in ("at", "for", "on", "timeout"))
    guess = next((word for word in near if word), None)
    raise PydanticCustomError(
        "action",
        "the action is missing: expected one of {known}{guess}",
        {"known": ", ".join(ACTION_KINDS), "guess": f'; did you mean "{guess}"?' if guess else ""},
    )


def _tag_of(value: object) -> str:
    keys = value if isinstance(value, dict) else type(value).model_fields if isinstance(value, Raw) else ()
    return _TAG + next((key for key in keys if key in ACTION_KINDS), "")


if TYPE_CHECKING:
    AnyAction = ActionSection
else:
    # The union is made from the list above, so that no second list exists.
    AnyAction = Annotated[
        Annotated[
            Union[tuple(Annotated[each, Tag(_TAG + kind)] for kind, each in ACTION_KINDS.items())],  # noqa: UP007
            Discriminator(_tag_of),
        ],
        BeforeValidator(_with_one_kind),
    ]
