"""Resolves `limits` of `hosts:`: of the agents, with their testers."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.limits import LimitsRaw
from plimsoll.plan.model import cell as model
from plimsoll.plan.model.hosts import DIAL_IN_KINDS, Hosts
from plimsoll.plan.model.limits import NO_LIMITS, Limits
from plimsoll.plan.schema.hosts import HostRaw, HostsRaw
from plimsoll.plan.source.document import KeyPath

AT: KeyPath = ("hosts", "limits")


def section_limits(raw: HostsRaw) -> Limits:
    """The limits of the agents of all hosts."""
    return (raw.limits or LimitsRaw()).resolve()


def host_limits(raw: HostRaw, section: HostsRaw, agents: int, at: KeyPath, context: Context) -> Limits:
    """The limits of the agents of one host: those of the section, with the keys of the host. `agents`: their number."""
    if not agents:
        if raw.limits is not None:
            message = f"{raw.name or raw.host} has no testers: `limits` of a service are a key of the service"
            context.wrong((*at, "limits"), message)
        return NO_LIMITS
    return (raw.limits or LimitsRaw()).over(section_limits(section))


def check_section(raw: HostsRaw, context: Context) -> None:
    """Reports limits of agents that something else starts."""
    if raw.limits is not None and raw.kind in DIAL_IN_KINDS:
        context.wrong(
            AT,
            f"agents of kind {raw.kind} dial in, so Plimsoll does not prepare their hosts and cannot prove there that "
            "limits hold: request the limits where the agents are started",
        )


def check_programs(
    hosts: Hosts, workloads: Sequence[tuple[model.Workload, KeyPath]], context: Context
) -> None:
    """Reports limits of client programs on hosts with limits. With control groups of version 2, a program with a group
    of its own would not be within the limits of its agent."""
    if not hosts.limits_by_host:
        return
    for work, at in workloads:
        if work.settings.get("limits"):
            context.wrong(
                (*at, work.driver, "limits"),
                "the client programs already run within hosts.limits: give limits to the hosts or to the programs, "
                "not to both",
            )
