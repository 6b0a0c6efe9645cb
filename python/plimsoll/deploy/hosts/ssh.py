"""`kind: ssh`: any host that ssh reaches, without root, Python or an open port there.

The system's `ssh` is called, so that configuration, agents, jump hosts, Kerberos and host keys are OpenSSH's own. A
host is asked once what it is and what of ours it has; what is missing is copied over the same kind of call, under a
name that holds the hash of its content, so that it is copied once per host and never mixed up with that of another
version. Rejected: scp and sftp, which a host may not offer; a library for ssh, which would know half of all this.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from plimsoll import __version__
from plimsoll.deploy.binary import elf_facts
from plimsoll.deploy.hosts import Agent, Cleaned, HostBackend, Ready, agents_on, remote
from plimsoll.deploy.hosts.calls import Calls, CommandResult
from plimsoll.deploy.hosts.remote import Item
from plimsoll.errors import BadInput, Problem
from plimsoll.plan.model_hosts import Host, Hosts

CONNECT_S: Final = 10
"""For the connection; a host that is dead delays the others by this."""
ANSWER_S: Final = 30.0
"""For the login and the answer, beside the connection."""
SLOWEST_BYTES_S: Final = 100_000.0
"""A copy that is slower is given up."""
DIGEST: Final = 16
"""Hexadecimal digits of a content's SHA-256."""


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A file of this host, and what it is to be on the others."""

    path: Path
    item: Item


class SshHosts(HostBackend):
    """The hosts of one experiment."""

    def __init__(
        self, hosts: Hosts, engine: Path, token: str, check_interrupt: Callable[[], None] = lambda: None
    ) -> None:
        self._hosts = hosts
        self._engine_path = engine
        self.token = token
        self._check_interrupt = check_interrupt
        self._silent: set[str] = set()
        """Hosts that did not answer the first request: Plimsoll started nothing there."""

    def prepare(self, files: Sequence[Path] = ()) -> list[Ready]:
        """Hosts that take our engine, and why others do not. Raises BadInput where a file cannot be read."""
        wanted = {str(path): _wanted(path) for path in files}
        calls = Calls(self._check_interrupt)
        _ = self._engine  # read before the threads want it
        return calls.each(self._hosts.hosts, lambda host: self._ready(host, wanted, calls))

    def agents(self, ready: Sequence[Ready]) -> list[Agent]:
        """Each is a call of ssh whose stdin and stdout are the link."""
        start = {}
        for one in ready if self._hosts.hosts else ():
            for name in one.host.agent_names if one.answers else ():
                spool = f"{one.directory}/{remote.spool_name(self.token, name)}"
                argv = self._call(one.host, f"exec {one.engine} attach --directory {spool}")
                start[name] = {"kind": "command", "argv": argv}
        return agents_on(ready, start)

    def clean(self, *, everything: bool = False, discard: bool = False) -> list[Cleaned]:
        """See `HostBackend`."""
        token = None if everything else self.token
        keep_engine = self._hosts.keep == "engine" and not everything
        calls = Calls(self._check_interrupt)

        def one(host: Host) -> Cleaned:
            if host.name in self._silent and not everything:
                return Cleaned(host)
            command = remote.clean(self._directory(host), token, keep_engine, discard)
            done = self._run(calls, host, command, ANSWER_S + 2 * remote.GRACE_S)
            said = remote.answers(done.out)
            if "done" not in said:
                return Cleaned(host, reason=remote.reason(done))
            return Cleaned(host, tuple(said.get("kept", ())), tuple(said.get("left", ())))

        return calls.each(self._hosts.hosts, one)

    def each(
        self,
        ready: Sequence[Ready],
        command: Callable[[Ready], str],
        timeout_s: float = ANSWER_S,
        said: bytes | None = None,
    ) -> list[CommandResult]:
        """A command of every host, side by side. `said`: to all of them, on stdin, which stays open to their end."""
        calls = Calls(self._check_interrupt)
        return calls.each(ready, lambda one: self._run(calls, one.host, command(one), timeout_s, said))

    def run_command(self, ready: Sequence[Ready], line: str, timeout_s: float) -> list[CommandResult]:
        """See `HostBackend`. The line ends with the connection (`remote.guarded`)."""
        return self.each(
            ready, lambda one: remote.guarded(one.engine, one.host.name), timeout_s, line.encode()
        )

    @cached_property
    def _engine(self) -> FileCopy:
        found = _wanted(self._engine_path)
        digest = found.item.name.partition("/")[0].removeprefix("file-")
        return FileCopy(found.path, Item(remote.engine_name(digest), found.item.size))

    def _ready(self, host: Host, files: Mapping[str, FileCopy], calls: Calls) -> Ready:
        engine = self._engine.item.name
        names = [one.item.name for one in files.values()]
        done = self._run(calls, host, remote.ask(self._directory(host), engine, names), ANSWER_S)
        said = remote.answers(done.out)
        if not said:
            self._silent.add(host.name)
        architecture = said.get("uname", [""])[0]
        refused = self._refused(host, said, done)
        if refused:
            return Ready(host, refused, architecture.rpartition(" ")[2])
        directory = said["directory"][0]
        versions = said.get("engine", [])
        if not versions or _version(versions[0]) is None:  # there is none, or one that was damaged
            done = self._copy(calls, host, directory, self._engine, then="version")
            versions = remote.answers(done.out).get("engine", [])
            if not versions:
                return Ready(host, f"the engine cannot be copied to {directory}: {remote.reason(done)}")
        if _version(versions[0]) != __version__:
            return Ready(host, self._does_not_run(versions[0], directory), architecture.rpartition(" ")[2])
        for local in files.values():
            if local.item.name not in said.get("file", ()):
                done = self._copy(calls, host, directory, local)
                if "done" not in remote.answers(done.out):
                    return Ready(host, f"{local.path} cannot be copied to {directory}: {remote.reason(done)}")
        there = {name: f"{directory}/{local.item.name}" for name, local in files.items()}
        return Ready(host, "", architecture.rpartition(" ")[2], directory, f"{directory}/{engine}", there)

    def _refused(self, host: Host, said: Mapping[str, list[str]], done: CommandResult) -> str:
        """Why nothing can be done with a host, by its first answer; empty where it can."""
        if "cannot" in said:
            why = said["cannot"][0].rpartition(": ")[2] or "no reason given"
            return f"{self._directory(host)} is not writable on the host ({why}): set another `directory`"
        if "uname" in said:
            system, _, machine = said["uname"][0].partition(" ")
            ours = elf_facts(self._engine_path).architecture
            wanted = self._hosts.architecture
            if system != "Linux":
                return f"it runs {system or 'an unknown system'}; the engine needs Linux"
            if wanted is not None and machine != wanted:
                return f"its architecture is {machine}; required is {wanted}"
            if machine != ours:
                return f"its architecture is {machine}; the engine is built for {ours}"
        if "done" not in said or "directory" not in said:
            return remote.reason(done)
        directory = said["directory"][0]
        plain = remote.PLAIN.fullmatch(directory)
        return "" if plain else f"{directory!r} contains shell metacharacters: set another `directory`"

    def _does_not_run(self, said: str, directory: str) -> str:
        version = _version(said)
        if version is not None:
            return (
                f"the engine on the host has version {version}, the lab has {__version__}: install both from one "
                "release"
            )
        hint = ""
        if "ermission denied" in said:
            hint = f"; {directory} may be on a file system mounted noexec: set another `directory`"
        elif not elf_facts(self._engine_path).static:
            hint = "; it needs shared libraries of this host: build a static one with `make engine`"
        return f"the engine does not run on the host ({said[:200] or 'no output'}){hint}"

    def _directory(self, host: Host) -> str:
        """The directory of Plimsoll on the host, as written in the file."""
        return self._hosts.directory

    def _copy(
        self, calls: Calls, host: Host, directory: str, local: FileCopy, then: str = ""
    ) -> CommandResult:
        timeout = ANSWER_S + local.item.size / SLOWEST_BYTES_S
        return self._run(calls, host, remote.put(directory, local.item, then), timeout, local.path)

    def _run(
        self, calls: Calls, host: Host, command: str, timeout_s: float, stdin: Path | bytes | None = None
    ) -> CommandResult:
        try:
            return calls.run(self._call(host, command), CONNECT_S + timeout_s, stdin)
        except OSError as error:
            return CommandResult(None, "", "", f"ssh cannot be started: {error}")

    def _call(self, host: Host, command: str) -> list[str]:
        """The command line. The options of the file come first, since the first option takes
        precedence in ssh."""
        told = self._hosts.ssh
        unknown = "accept-new" if told.accept_unknown else "yes"
        ours = {
            "BatchMode": "yes",
            "ConnectTimeout": str(CONNECT_S),
            "StrictHostKeyChecking": unknown,
            "ControlMaster": "no",  # one that stays behind would hold our pipes
            "ServerAliveInterval": "5",
            "ServerAliveCountMax": "3",
            "ForwardX11": "no",
            "ForwardAgent": "no",
        }
        return [
            "ssh",
            "-T",
            *(["-F", told.config] if told.config else []),
            *told.options,
            *(word for name, value in ours.items() for word in ("-o", f"{name}={value}")),
            *(["-l", host.user] if host.user else []),
            *(["-p", str(host.port)] if host.port else []),
            host.address,
            command,
        ]


def _wanted(path: Path) -> FileCopy:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:DIGEST]
        info = path.stat()
    except OSError as error:
        raise BadInput(
            [Problem(f"{path} cannot be copied to the hosts: {error.strerror}", "hosts")]
        ) from error
    mode = "700" if info.st_mode & 0o100 else "600"
    return FileCopy(path, Item(remote.file_name(digest, path.name), info.st_size, mode))


def _version(said: str) -> str | None:
    try:
        return str(json.loads(said)["version"])
    except (ValueError, KeyError, TypeError):
        return None
