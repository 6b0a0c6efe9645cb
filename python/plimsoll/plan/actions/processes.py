"""`kill`, `restart` and `pause`: actions on the processes of a service."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from plimsoll.plan.actions.section import ActionScope, ServiceName, find_process
from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model import cell as model
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Duration, Raw


class KillAction(Raw):
    """Kills all processes of a service with SIGKILL."""

    kill: ServiceName
    at: Duration

    def resolve(self, path: KeyPath, scope: ActionScope, context: Context) -> model.Action | None:
        """The action; see `ActionSection`."""
        if find_process("kill", self.kill, path, scope, context) is None:
            return None
        return model.Action("kill", f"kill {self.kill.service}", self.at, self.kill.service)


class RestartAction(Raw):
    """Starts a service again on the same port and with the same directory. If it runs, it is killed first."""

    restart: ServiceName
    at: Duration

    def resolve(self, path: KeyPath, scope: ActionScope, context: Context) -> model.Action | None:
        """The action; see `ActionSection`."""
        if find_process("restart", self.restart, path, scope, context) is None:
            return None
        return model.Action("restart", f"restart {self.restart.service}", self.at, self.restart.service)


class PauseAction(Raw):
    """Stops all processes of a service with SIGSTOP, and continues them with SIGCONT."""

    pause: ServiceName
    at: Duration
    for_: Annotated[Duration, Field(gt=0, alias="for")]

    def resolve(self, path: KeyPath, scope: ActionScope, context: Context) -> model.Action | None:
        """The action; see `ActionSection`."""
        if find_process("pause", self.pause, path, scope, context) is None:
            return None
        return model.Action("pause", f"pause {self.pause.service}", self.at, self.pause.service, self.for_)
