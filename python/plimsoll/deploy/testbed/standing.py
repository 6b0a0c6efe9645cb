"""Running testbeds: starts, finds, changes and stops them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.testbed import places, ssh
from plimsoll.errors import BadInput, ServiceError
from plimsoll.plan.hosts.testbed import LAB, HostSpec, TestbedSpec, document, engine_link
from plimsoll.plan.model.links import DirectedLink
from plimsoll.plan.source.near import nearest

FORMAT: Final = "plimsoll.testbed/1"
_UP_TIMEOUT_S: Final = 120.0
_DOWN_TIMEOUT_S: Final = 40.0
"""Longer than the owner's own timeouts: 3 s of grace, 10 s for processes that hang, 3 s for orphans."""
_RECORD: Final = "testbed.json"
HERE: Final = "PLIMSOLL_TESTBED"
"""Environment of processes that run on a host: TESTBED/HOST."""


@dataclass(frozen=True, slots=True)
class Testbed:
    """A testbed that is up. As a context manager, it stops itself at the end, unless it was up before."""

    __test__ = False

    name: str
    directory: Path
    hosts: tuple[HostSpec, ...]
    """All hosts; the host `lab` is the first."""
    sites: tuple[str, ...]
    fingerprint: str
    engine: str
    reused: bool = False

    @property
    def lab_address(self) -> str:
        """The address of the host on which controller and services run."""
        return self.host(LAB).address

    @property
    def ssh_config(self) -> Path:
        """The file for `ssh -F`, from within the testbed: `[*enter_argv(), "ssh", "-F", ssh_config, "lyon-1",
        ...]`."""
        return self.directory / "ssh_config"

    def host(self, name: str) -> HostSpec:
        """The host with this name. Raises BadInput if there is none."""
        for host in self.hosts:
            if host.name == name:
                return host
        near = nearest(name, [host.name for host in self.hosts])
        hint = f'; did you mean "{near}"?' if near else ""
        raise BadInput(f'the testbed {self.name} has no host "{name}"{hint}')

    def enter_argv(self, host: str = LAB) -> list[str]:
        """The prefix of a command line that runs on a host, with this user, directory and
        environment. PLIMSOLL_TESTBED contains the testbed and the host."""
        enter = [self.engine, "testbed", "enter", str(self.directory), self.host(host).name, "--"]
        return [*enter, "env", f"{HERE}={self.name}/{host}"]

    @property
    def mark(self) -> Path:
        """A file that exists if the testbed was started for one command. The testbed is then stopped at the
        end of that command."""
        return self.directory / "for-a-command"

    def keep(self) -> None:
        """Keeps the testbed up after the command for which it was started."""
        self.mark.unlink(missing_ok=True)

    def status(self) -> dict[str, Any]:
        """The engine's status: links with their counters, processes, notes (crates/wan/src/control.rs,
        `Status`)."""
        return places.request(self.directory, {"ask": "status"})

    def change(self, links: Sequence[DirectedLink]) -> None:
        """Changes the properties of directions of links at once."""
        number = {name: index for index, name in enumerate(self.sites)}
        changes = [engine_link(link, number) for link in links]
        places.request(self.directory, {"ask": "link", "changes": changes})

    def down(self) -> None:
        """Stops the testbed and waits for its end. Raises ServiceError if it takes too long."""
        owner = int(self.status()["owner"])
        try:
            process = os.pidfd_open(owner)
        except ProcessLookupError:
            return
        try:
            places.request(self.directory, {"ask": "down"})
            if not select.select([process], [], [], _DOWN_TIMEOUT_S)[0]:
                raise ServiceError(
                    f"the testbed {self.name} did not stop within {_DOWN_TIMEOUT_S:g} s; its owner is "
                    f"process {owner}"
                )
        finally:
            os.close(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.reused and places.is_answering(self.directory):
            self.down()


def up(spec: TestbedSpec) -> Testbed:
    """Starts a testbed, or returns the running one if it was started from an equal file.

    Raises BadInput if a testbed of the same name, but from another file, is up. Raises ServiceError if it
    cannot be started.
    """
    with places.exclusive_start():
        directory = places.testbed_directory(spec.name)
        if places.is_answering(directory):
            testbed = _read(directory)
            if testbed.fingerprint == spec.fingerprint():
                return testbed
            raise BadInput(
                f"a testbed with the name {spec.name} is already up, from another file: run `plimsoll "
                f"testbed down {spec.name}`, or rename this one"
            )
        # The remains of a testbed whose processes were all killed at once.
        shutil.rmtree(directory, ignore_errors=True)
        try:
            return _bring_up(spec, directory)
        except BaseException:
            if not places.is_answering(directory):
                shutil.rmtree(directory, ignore_errors=True)
            raise


def _bring_up(spec: TestbedSpec, directory: Path) -> Testbed:
    engine = find_engine()
    (directory / "log").mkdir(mode=0o700, parents=True)
    directory.chmod(0o700)
    command = ssh.write_files(directory, spec)
    record = {
        "format": FORMAT,
        "name": spec.name,
        "fingerprint": spec.fingerprint(),
        "sites": list(spec.sites),
        "hosts": [[host.name, host.site, host.address] for host in spec.hosts],
        "engine": str(engine),
    }
    (directory / _RECORD).write_text(json.dumps(record))
    config = {
        **document(spec),
        "directory": str(directory),
        "daemon": {"command": command, "port": ssh.PORT},
    }
    try:
        result = subprocess.run(
            [engine, "testbed", "up", "--config", "-"],
            input=json.dumps(config),
            text=True,
            capture_output=True,
            timeout=_UP_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServiceError(f"the testbed {spec.name} cannot be started: {error}") from error
    if result.returncode != 0:
        why = result.stderr.strip().removeprefix("plimsoll-engine: ")
        raise ServiceError(f"the testbed {spec.name} cannot be started: {why}")
    return _testbed(record, directory, reused=False)


def running_testbeds() -> list[Testbed]:
    """The testbeds of this user that are up."""
    testbeds = []
    for directory in sorted(places.testbeds_directory().iterdir()):
        if places.is_answering(directory):
            with contextlib.suppress(ServiceError):
                testbeds.append(_read(directory))
    return testbeds


def find(name: str | None = None) -> Testbed:
    """The testbed with this name, or the only one. Raises BadInput if there is none, or more than one."""
    testbeds = running_testbeds()
    names = ", ".join(testbed.name for testbed in testbeds)
    if name is None and len(testbeds) > 1:
        raise BadInput(f"several testbeds are up ({names}): give a name")
    for testbed in testbeds:
        if name in (None, testbed.name):
            return testbed
    if not testbeds:
        raise BadInput("no testbed of this user is up on this machine: run `plimsoll testbed up FILE`")
    raise BadInput(f'no testbed with the name "{name}" is up (up: {names})')


def down(name: str | None = None) -> Testbed | None:
    """Stops a testbed and returns it. If it was killed, removes its directory and returns None. Raises
    BadInput if there is none with this name."""
    if name is not None:
        directory = places.testbed_directory(name)
        if directory.is_dir() and not places.is_answering(directory):
            with places.exclusive_start():
                shutil.rmtree(directory, ignore_errors=True)
            return None
    testbed = find(name)
    testbed.down()
    return testbed


def _read(directory: Path) -> Testbed:
    try:
        record = json.loads((directory / _RECORD).read_text(encoding="utf-8"))
        if record["format"] != FORMAT:
            raise ValueError(f"format {record['format']}")
        return _testbed(record, directory, reused=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ServiceError(f"{directory / _RECORD} cannot be read: {error}") from error


def _testbed(record: dict[str, Any], directory: Path, reused: bool) -> Testbed:
    return Testbed(
        name=record["name"],
        directory=directory,
        hosts=tuple(HostSpec(*host) for host in record["hosts"]),
        sites=tuple(record["sites"]),
        fingerprint=record["fingerprint"],
        engine=record["engine"],
        reused=reused,
    )
