"""What a kind of actions needs to carry out an action."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from plimsoll.deploy.process import ServiceProcess
from plimsoll.deploy.running import RunningService
from plimsoll.errors import ServiceError
from plimsoll.plan.model.cell import Action, Hook
from plimsoll.plan.model.links import Link


@dataclass(frozen=True, slots=True)
class ActionMeans:
    """`services`: the running services by name. `run_hook`: runs a command and returns its output as a line; raises
    PlimsollError. `change_link`: gives a link of the testbed its properties; raises ServiceError. `check_interrupt`:
    raises UserInterrupt if the user has requested the end."""

    services: Mapping[str, RunningService]
    run_hook: Callable[[Hook], str]
    change_link: Callable[[Link], None]
    check_interrupt: Callable[[], None]


@dataclass(frozen=True, slots=True)
class ActionContext:
    """`wait`: waits for a number of seconds; False if the run has ended before."""

    means: ActionMeans
    wait: Callable[[float], bool]

    def service(self, action: Action) -> RunningService:
        """The service of an action. Raises ServiceError if it does not run at all."""
        try:
            return self.means.services[action.service]
        except KeyError:
            raise ServiceError(f"service {action.service} does not run") from None

    def process(self, action: Action) -> ServiceProcess:
        """The process of its service. Raises ServiceError if there is none."""
        process = self.service(action).process
        if process is None or process.has_ended():
            raise ServiceError(f"service {action.service} has no process that runs")
        return process
