"""Resolves `actions:`, and checks that each of them can be carried out when it is due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final

from plimsoll.plan.actions.section import ActionScope, ActionSection
from plimsoll.plan.hosts.hook_hosts import check_hooks
from plimsoll.plan.model import cell as model
from plimsoll.plan.model.hosts import Hosts
from plimsoll.plan.resolve.context import ResolveContext
from plimsoll.plan.source.units import show_duration

SECTION: Final = "actions"


def resolve_actions(
    sections: Sequence[ActionSection],
    services: Mapping[str, model.Service],
    hosts: Hosts,
    service_hosts: Hosts | None,
    end_ns: int | None,
    context: ResolveContext,
) -> tuple[model.Action, ...]:
    """The actions of a run in order of time. `end_ns`: the end of the run, None if only counts end it."""
    scope = ActionScope(services, {link.name: link for link in hosts.links})
    resolved = [
        (index, section.resolve((SECTION, index), scope, context)) for index, section in enumerate(sections)
    ]
    actions = [(index, action) for index, action in resolved if action is not None]
    on: list[model.HookHosts] = [
        "controller" if action is None or action.hook is None else action.hook.on for _, action in resolved
    ]
    check_hooks(hosts, service_hosts, on, (SECTION,), context)
    for index, action in actions:
        _check_end(index, action, end_ns, context)
    _check_sequence(actions, context)
    return tuple(action for _, action in sorted(actions, key=lambda entry: (entry[1].at_ns, entry[0])))


def _check_end(index: int, action: model.Action, end_ns: int | None, context: ResolveContext) -> None:
    """Reports an action that begins or ends after the end of the run."""
    if end_ns is None:
        return
    end = show_duration(end_ns)
    if action.at_ns >= end_ns:
        context.wrong(
            (SECTION, index, "at"),
            f"the run ends at {end} (warm-up included), so there is no {show_duration(action.at_ns)}",
        )
    elif action.end_ns > end_ns:
        context.wrong(
            (SECTION, index, "for"),
            f"the action would end at {show_duration(action.end_ns)}, but the run ends at {end}",
        )


def _check_sequence(actions: Sequence[tuple[int, model.Action]], context: ResolveContext) -> None:
    """Reports actions on a service, or on a link, that exclude each other."""
    for subject in dict.fromkeys(action.subject for _, action in actions if action.subject):
        own = sorted(
            (entry for entry in actions if entry[1].subject == subject), key=lambda entry: entry[1].at_ns
        )
        for (_, first), (index, second) in combinations(own, 2):
            if first.at_ns == second.at_ns:
                context.wrong(
                    (SECTION, index, "at"),
                    f"{first.label} is also due at {show_duration(first.at_ns)}: their order would be a "
                    "matter of chance",
                )
            elif second.at_ns <= first.end_ns and first.for_ns:
                context.wrong(
                    (SECTION, index, "at"),
                    f"{subject} is {'paused' if first.kind == 'pause' else 'changed'} from "
                    f"{show_duration(first.at_ns)} to {show_duration(first.end_ns)}: choose a time outside",
                )
        _check_killed(own, context)


def _check_killed(own: Sequence[tuple[int, model.Action]], context: ResolveContext) -> None:
    """Reports a pause or a kill of a service that was killed before and not restarted."""
    killed_ns: int | None = None
    for index, action in own:
        if action.kind == "restart":
            killed_ns = None
        elif killed_ns is not None and action.at_ns > killed_ns:
            context.wrong(
                (SECTION, index, "at"),
                f"{action.service} does not run then: it is killed at {show_duration(killed_ns)}, and not "
                "restarted before",
            )
        elif action.kind == "kill":
            killed_ns = action.at_ns
