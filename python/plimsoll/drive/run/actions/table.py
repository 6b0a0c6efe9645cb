"""How each kind of actions is carried out: a row for each kind of `plan/actions/table.py`.

A function returns a remark, which may be empty, when the action has ended. It raises PlimsollError if that failed.
It undoes an action that lasts (`for_ns`) before it returns or raises, also if the run has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from plimsoll.drive.run.actions.context import ActionContext
from plimsoll.plan.model.cell import Action


def _kill(action: Action, context: ActionContext) -> str:
    context.process(action).kill_tree()
    return ""


def _restart(action: Action, context: ActionContext) -> str:
    context.process(action)
    context.service(action).restart(context.means.check_interrupt)
    return "ready"


def _pause(action: Action, context: ActionContext) -> str:
    process = context.process(action)
    try:
        process.pause_tree()
        is_whole = context.wait(action.for_ns / 1e9)
    finally:
        process.continue_tree()
    return "continued" if is_whole else "continued at the end of the run"


def _change_link(action: Action, context: ActionContext) -> str:
    """The link keeps its properties until the end of the run if the action has no end."""
    assert action.link is not None and action.link_before is not None  # the sections of these kinds set them
    context.means.change_link(action.link)
    if not action.for_ns:
        return ""
    try:
        is_whole = context.wait(action.for_ns / 1e9)
    finally:
        context.means.change_link(action.link_before)
    return "restored" if is_whole else "restored at the end of the run"


def _run(action: Action, context: ActionContext) -> str:
    assert action.hook is not None  # the section of this kind sets it
    return context.means.run_hook(action.hook)


ACTIONS: Final[Mapping[str, Callable[[Action, ActionContext], str]]] = {
    "kill": _kill,
    "restart": _restart,
    "pause": _pause,
    "link": _change_link,
    "cut": _change_link,
    "run": _run,
}
