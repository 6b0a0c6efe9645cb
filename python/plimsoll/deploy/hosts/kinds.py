"""Which class is which kind of hosts. A new kind is added here, and in `raw_hosts.KINDS`."""

from __future__ import annotations

import contextlib
import functools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from plimsoll.deploy.hosts import HostBackend
from plimsoll.deploy.hosts.dask import DaskWorkers
from plimsoll.deploy.hosts.dial_back import DialBack
from plimsoll.deploy.hosts.dial_in import Bringer, DialIn, Lab
from plimsoll.deploy.hosts.join import Joiners
from plimsoll.deploy.hosts.local import LocalHosts
from plimsoll.deploy.hosts.slurm import SlurmTasks
from plimsoll.deploy.hosts.ssh import SshHosts
from plimsoll.deploy.hosts.testbed import TestbedHosts
from plimsoll.deploy.talk import EngineTalk
from plimsoll.deploy.testbed import Testbed
from plimsoll.deploy.testbed.inside import here
from plimsoll.errors import BadInput, Problem
from plimsoll.plan.hosts.testbed import load_testbed
from plimsoll.plan.model_hosts import Hosts


def hosts_of_kind(
    hosts: Hosts,
    engine: Path,
    token: str,
    check_interrupt: Callable[[], None],
    lab: Lab | None = None,
) -> HostBackend:
    """The hosts of an experiment.

    `engine`: this host's; `token`: letters and digits that no other experiment has, which name what is ours on the
    hosts; `lab`: whom agents dial, None: an engine that is started for them alone. Raises BadInput for a
    testbed in which this process is not.
    """
    match hosts.kind:
        case "local":
            return LocalHosts(hosts, engine)
        case "ssh" | "testbed":
            over_ssh = (
                SshHosts(hosts, engine, token, check_interrupt)
                if hosts.kind == "ssh"
                else TestbedHosts(hosts, _testbed(hosts), engine, token, check_interrupt)
            )
            if not hosts.dials_back:
                return over_ssh
            return DialBack(
                hosts, lab or _lab_alone(engine, token, check_interrupt), over_ssh, check_interrupt
            )
        case "slurm" | "dask" | "join":
            there = lab or _lab_alone(engine, token, check_interrupt)
            return DialIn(
                hosts, there, _bringer(hosts, engine, token, there, check_interrupt), check_interrupt
            )


def _testbed(hosts: Hosts) -> Testbed:
    """The one in which this process is."""
    assert hosts.testbed is not None, "its section is required"
    found = here(load_testbed(hosts.testbed))
    if found is None:
        message = (
            "this process does not run on the host lab of the testbed: use `plimsoll run FILE`, which enters the "
            f"testbed, or for a script `plimsoll testbed up {hosts.testbed}`, then "
            "`plimsoll testbed exec lab -- python SCRIPT`"
        )
        raise BadInput([Problem(message, "hosts.kind")])
    return found


def _bringer(
    hosts: Hosts, engine: Path, token: str, lab: Lab, check_interrupt: Callable[[], None]
) -> Bringer:
    match hosts.kind:
        case "slurm":
            return SlurmTasks(hosts, engine, token, check_interrupt)
        case "dask":
            return DaskWorkers(hosts, engine, token, lab.cluster, check_interrupt)
        case _:
            return Joiners(hosts, lab, engine, check_interrupt)


def _lab_alone(engine: Path, token: str, check_interrupt: Callable[[], None]) -> Lab:
    """Outside of an experiment: `plimsoll hosts check`."""
    stack = contextlib.ExitStack()

    @functools.cache
    def door() -> EngineTalk:
        return stack.enter_context(EngineTalk(engine, check_interrupt))

    def say(kind: str, text: str) -> None:
        print(f"{kind}: {text}", file=sys.stderr)

    def close() -> None:
        stack.close()
        door.cache_clear()

    return Lab("check", Path(tempfile.gettempdir()) / f"plimsoll-{token}", door, say, close=close)
