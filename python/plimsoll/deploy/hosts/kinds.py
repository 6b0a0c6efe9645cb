"""The kinds of hosts: one row each."""

from __future__ import annotations

import contextlib
import functools
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from plimsoll.deploy.hosts import HostBackend
from plimsoll.deploy.hosts.dask import DaskWorkers
from plimsoll.deploy.hosts.dial_back import DialBack
from plimsoll.deploy.hosts.dial_in import AgentStarter, DialIn, Lab
from plimsoll.deploy.hosts.gram import GramJobs
from plimsoll.deploy.hosts.join import Joiners
from plimsoll.deploy.hosts.local import LocalHosts
from plimsoll.deploy.hosts.slurm import SlurmTasks
from plimsoll.deploy.hosts.ssh import SshHosts
from plimsoll.deploy.hosts.testbed import TestbedHosts
from plimsoll.deploy.talk import EngineTalk
from plimsoll.deploy.testbed import Testbed
from plimsoll.deploy.testbed.inside import entered_testbed
from plimsoll.errors import BadInput, Problem
from plimsoll.plan.hosts.testbed import TestbedSpec, load_testbed
from plimsoll.plan.model.hosts import HostKind, Hosts


@dataclass(frozen=True, slots=True)
class Setup:
    """The arguments of a kind of hosts. `engine`: the program on this host. `token`: letters and digits that
    no other experiment has, which are part of the names of Plimsoll's files on the hosts. `lab`: None outside
    of an experiment."""

    hosts: Hosts
    engine: Path
    token: str
    check_interrupt: Callable[[], None]
    lab: Lab | None


def _local(setup: Setup) -> HostBackend:
    return LocalHosts(setup.hosts, setup.engine)


def _ssh(setup: Setup) -> HostBackend:
    return _dialled_back(setup, SshHosts(setup.hosts, setup.engine, setup.token, setup.check_interrupt))


def _testbed(setup: Setup) -> HostBackend:
    assert setup.hosts.testbed is not None, "its section is required"
    spec = load_testbed(setup.hosts.testbed)
    bed = _require_entered_testbed(spec, setup.hosts.testbed)
    hosts = TestbedHosts(setup.hosts, bed, setup.engine, setup.token, setup.check_interrupt, spec.links)
    return _dialled_back(setup, hosts)


def _slurm(setup: Setup) -> HostBackend:
    return _dial_in(
        setup, lambda lab: SlurmTasks(setup.hosts, setup.engine, setup.token, setup.check_interrupt)
    )


def _dask(setup: Setup) -> HostBackend:
    return _dial_in(
        setup,
        lambda lab: DaskWorkers(setup.hosts, setup.engine, setup.token, lab.cluster, setup.check_interrupt),
    )


def _gram(setup: Setup) -> HostBackend:
    return _dial_in(setup, lambda lab: GramJobs(setup.hosts, lab, setup.engine))


def _join(setup: Setup) -> HostBackend:
    return _dial_in(setup, lambda lab: Joiners(setup.hosts, lab, setup.engine, setup.check_interrupt))


BACKENDS: Final[Mapping[HostKind, Callable[[Setup], HostBackend]]] = {
    "local": _local,
    "ssh": _ssh,
    "testbed": _testbed,
    "slurm": _slurm,
    "dask": _dask,
    "gram": _gram,
    "join": _join,
}
"""How the hosts of each kind are reached. Every kind of the plan has a row: a test compares them."""


def hosts_of_kind(
    hosts: Hosts,
    engine: Path,
    token: str,
    check_interrupt: Callable[[], None],
    lab: Lab | None = None,
) -> HostBackend:
    """The hosts of an experiment; the arguments are those of `Setup`. Raises BadInput for a testbed in which this
    process does not run."""
    return BACKENDS[hosts.kind](Setup(hosts, engine, token, check_interrupt, lab))


def _dialled_back(setup: Setup, over_ssh: SshHosts) -> HostBackend:
    """With `link: tcp` or `quic`, agents that ssh starts dial this host."""
    if not setup.hosts.dials_back:
        return over_ssh
    return DialBack(setup.hosts, _lab(setup), over_ssh, setup.check_interrupt)


def _dial_in(setup: Setup, starter: Callable[[Lab], AgentStarter]) -> HostBackend:
    lab = _lab(setup)
    return DialIn(setup.hosts, lab, starter(lab), setup.check_interrupt)


def _lab(setup: Setup) -> Lab:
    return setup.lab or _lab_alone(setup.engine, setup.token, setup.check_interrupt)


def _require_entered_testbed(spec: TestbedSpec, file: str) -> Testbed:
    """The testbed in which this process runs. Raises BadInput."""
    testbed = entered_testbed(spec)
    if testbed is None:
        message = (
            "this process does not run on the host lab of the testbed: use `plimsoll run FILE`, which enters the "
            f"testbed, or for a script `plimsoll testbed up {file}`, then "
            "`plimsoll testbed exec lab -- python SCRIPT`"
        )
        raise BadInput([Problem(message, "hosts.kind")])
    return testbed


def _lab_alone(engine: Path, token: str, check_interrupt: Callable[[], None]) -> Lab:
    """A `Lab` outside of an experiment, for `plimsoll hosts check`."""
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
