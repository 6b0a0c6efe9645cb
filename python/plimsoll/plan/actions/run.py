"""`run`: a command during the run, with the keys of `before_run`."""

from __future__ import annotations

from plimsoll.plan.actions.command import HookRaw
from plimsoll.plan.actions.section import ActionScope
from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model import cell as model
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Duration

MAX_LABEL = 40
"""Maximum length of the label of a command, in characters."""


class RunAction(HookRaw):
    """Runs a command during the run."""

    at: Duration

    def resolve(self, path: KeyPath, scope: ActionScope, context: Context) -> model.Action | None:
        """The action; see `ActionSection`. The label is the command, with secrets hidden."""
        hook = self.hook()
        shown = hook.shown.removeprefix("/bin/sh -c ")
        label = shown if len(shown) <= MAX_LABEL else f"{shown[: MAX_LABEL - 1]}…"
        return model.Action("run", label, self.at, hook=hook)
