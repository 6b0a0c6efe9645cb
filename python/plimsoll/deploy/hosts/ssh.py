"""`kind: ssh`: any host that ssh reaches. It needs no root, no Python and no open port there.

The system's `ssh` is called, so OpenSSH handles configuration, ssh-agent, jump hosts, Kerberos and host keys.
One call requests the facts of a host and which of Plimsoll's files it has. Missing files are copied over
further calls. Their names contain the hash of their content, so each is copied once per host, and versions
are never confused. Rejected: scp and sftp, which a host may not offer; a library for ssh, which would support
only a part of OpenSSH's configuration.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import Final

from plimsoll import __version__
from plimsoll.deploy.binary import elf_facts
from plimsoll.deploy.hosts import Agent, CleanedHost, HostBackend, ReadyHost, agents_on, remote
from plimsoll.deploy.hosts.calls import Calls, CommandResult
from plimsoll.deploy.hosts.remote import Item
from plimsoll.deploy.limits import TEST_S, LimitProof, proof_of, self_test_words
from plimsoll.errors import BadInput, Problem
from plimsoll.plan.model.hosts import Host, Hosts

CONNECT_S: Final = 10
"""The time for the connection. A host that does not answer delays the others by this time."""
ANSWER_S: Final = 30.0
"""The time for the login and the answer, in addition to the connection."""
SLOWEST_BYTES_S: Final = 100_000.0
"""A copy that is slower is aborted."""
DIGEST: Final = 16
"""Hexadecimal digits of the SHA-256 of a file's content."""


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A file of this host, and its name and mode on the other hosts."""

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
        """Hosts that did not answer the first request. Plimsoll has started nothing there."""

    def prepare(self, files: Sequence[Path] = ()) -> list[ReadyHost]:
        """The hosts that accept the engine, and why others do not. Raises BadInput if a file cannot be
        read."""
        copies = {str(path): _file_copy(path) for path in files}
        calls = Calls(self._check_interrupt)
        _ = self._engine  # read once, before the threads use it
        return calls.run_all(self._hosts.hosts, lambda host: self._ready(host, copies, calls))

    def agents(self, ready: Sequence[ReadyHost]) -> list[Agent]:
        """The agents. Each starts as a call of ssh whose stdin and stdout are the link."""
        start = {}
        for ready_host in ready if self._hosts.hosts else ():
            for name in ready_host.host.agent_names if ready_host.is_ready else ():
                spool = f"{ready_host.directory}/{remote.spool_name(self.token, name)}"
                argv = self._command_line(
                    ready_host.host, f"exec {ready_host.engine} attach --directory {spool}"
                )
                start[name] = {"kind": "command", "argv": argv}
        return agents_on(ready, start)

    def services_argv(self, ready: ReadyHost, silence_s: float) -> tuple[list[str], str]:
        """The command whose stdin and stdout are a conversation with the engine about services on a host
        (`deploy/service_hosts`), and the directory of these services."""
        directory = f"{ready.directory}/{remote.services_name(self.token)}"
        line = f"exec {ready.engine} host --directory {directory} --silence {round(silence_s)}"
        return self._command_line(ready.host, line), directory

    def clean(self, *, everything: bool = False, discard: bool = False) -> list[CleanedHost]:
        """See `HostBackend`."""
        token = None if everything else self.token
        keep_engine = self._hosts.keep == "engine" and not everything
        calls = Calls(self._check_interrupt)

        def clean_host(host: Host) -> CleanedHost:
            if host.name in self._silent and not everything:
                return CleanedHost(host)
            command = remote.cleanup_script(self._directory(host), token, keep_engine, discard)
            result = self._run(calls, host, command, ANSWER_S + 2 * remote.GRACE_S)
            answers = remote.parse_answers(result.out)
            if "done" not in answers:
                return CleanedHost(host, reason=remote.failure_reason(result))
            return CleanedHost(host, tuple(answers.get("kept", ())), tuple(answers.get("left", ())))

        return calls.run_all(self._hosts.hosts, clean_host)

    def run_script(
        self,
        ready: Sequence[ReadyHost],
        command: Callable[[ReadyHost], str],
        timeout_s: float = ANSWER_S,
        stdin: bytes | None = None,
    ) -> list[CommandResult]:
        """Runs a command on every host, in parallel. `stdin`: bytes for the standard input of each command,
        which stays open until its end."""
        calls = Calls(self._check_interrupt)
        return calls.run_all(
            ready, lambda ready_host: self._run(calls, ready_host.host, command(ready_host), timeout_s, stdin)
        )

    def run_command(self, ready: Sequence[ReadyHost], line: str, timeout_s: float) -> list[CommandResult]:
        """See `HostBackend`. The line ends with the connection (`remote.guarded_shell`)."""
        return self.run_script(
            ready,
            lambda ready_host: remote.guarded_shell(ready_host.engine, ready_host.host.name),
            timeout_s,
            line.encode(),
        )

    def prove_limits(self, ready: Sequence[ReadyHost], resources: Sequence[str]) -> list[LimitProof]:
        """See `HostBackend`."""

        def command(ready_host: ReadyHost) -> str:
            words = self_test_words(PurePath(ready_host.engine), PurePath(ready_host.directory), resources)
            return f"exec {shlex.join(map(str, words))}"

        results = self.run_script(ready, command, TEST_S)
        return [proof_of(result.code, result.out or result.complaint, resources) for result in results]

    @cached_property
    def _engine(self) -> FileCopy:
        copy = _file_copy(self._engine_path)
        digest = copy.item.name.partition("/")[0].removeprefix("file-")
        return FileCopy(copy.path, Item(remote.engine_name(digest), copy.item.size))

    def _ready(self, host: Host, files: Mapping[str, FileCopy], calls: Calls) -> ReadyHost:
        engine = self._engine.item.name
        names = [copy.item.name for copy in files.values()]
        result = self._run(
            calls, host, remote.inspection_script(self._directory(host), engine, names), ANSWER_S
        )
        answers = remote.parse_answers(result.out)
        if not answers:
            self._silent.add(host.name)
        architecture = answers.get("uname", [""])[0]
        refusal = self._refusal(host, answers, result)
        if refusal:
            return ReadyHost(host, refusal, architecture.rpartition(" ")[2])
        directory = answers["directory"][0]
        versions = answers.get("engine", [])
        if not versions or _version(versions[0]) is None:  # it does not exist, or is damaged
            result = self._copy(calls, host, directory, self._engine, argument="version")
            versions = remote.parse_answers(result.out).get("engine", [])
            if not versions:
                return ReadyHost(
                    host, f"the engine cannot be copied to {directory}: {remote.failure_reason(result)}"
                )
        if _version(versions[0]) != __version__:
            return ReadyHost(
                host, self._engine_problem(versions[0], directory), architecture.rpartition(" ")[2]
            )
        for copy in files.values():
            if copy.item.name not in answers.get("file", ()):
                result = self._copy(calls, host, directory, copy)
                if "done" not in remote.parse_answers(result.out):
                    return ReadyHost(
                        host, f"{copy.path} cannot be copied to {directory}: {remote.failure_reason(result)}"
                    )
        remote_paths = {name: f"{directory}/{copy.item.name}" for name, copy in files.items()}
        return ReadyHost(
            host, "", architecture.rpartition(" ")[2], directory, f"{directory}/{engine}", remote_paths
        )

    def _refusal(self, host: Host, answers: Mapping[str, list[str]], result: CommandResult) -> str:
        """Why a host cannot be used, from its first answer; empty if it can."""
        if "cannot" in answers:
            why = answers["cannot"][0].rpartition(": ")[2] or "no reason given"
            return f"{self._directory(host)} is not writable on the host ({why}): set another `directory`"
        if "uname" in answers:
            system, _, machine = answers["uname"][0].partition(" ")
            own_architecture = elf_facts(self._engine_path).architecture
            required = self._hosts.architecture
            if system != "Linux":
                return f"it runs {system or 'an unknown system'}; the engine needs Linux"
            if required is not None and machine != required:
                return f"its architecture is {machine}; required is {required}"
            if machine != own_architecture:
                return f"its architecture is {machine}; the engine is built for {own_architecture}"
        if "done" not in answers or "directory" not in answers:
            return remote.failure_reason(result)
        directory = answers["directory"][0]
        plain = remote.PLAIN.fullmatch(directory)
        return "" if plain else f"{directory!r} contains shell metacharacters: set another `directory`"

    def _engine_problem(self, output: str, directory: str) -> str:
        version = _version(output)
        if version is not None:
            return (
                f"the engine on the host has version {version}, and the lab has {__version__}: install both from one "
                "release"
            )
        hint = ""
        if "ermission denied" in output:
            hint = f"; {directory} may be on a file system mounted noexec: set another `directory`"
        elif not elf_facts(self._engine_path).static:
            hint = "; it needs shared libraries of this host: build a static one with `make engine`"
        return f"the engine does not run on the host ({output[:200] or 'no output'}){hint}"

    def _directory(self, host: Host) -> str:
        """The directory of Plimsoll on the host, as written in the file."""
        return self._hosts.directory

    def _copy(
        self, calls: Calls, host: Host, directory: str, copy: FileCopy, argument: str = ""
    ) -> CommandResult:
        timeout = ANSWER_S + copy.item.size / SLOWEST_BYTES_S
        return self._run(calls, host, remote.copy_script(directory, copy.item, argument), timeout, copy.path)

    def _run(
        self, calls: Calls, host: Host, command: str, timeout_s: float, stdin: Path | bytes | None = None
    ) -> CommandResult:
        try:
            return calls.run(self._command_line(host, command), CONNECT_S + timeout_s, stdin)
        except OSError as error:
            return CommandResult(None, "", "", f"ssh cannot be started: {error}")

    def _command_line(self, host: Host, command: str) -> list[str]:
        """The command line of ssh. The options of the file come first, since the first option takes
        precedence in ssh."""
        settings = self._hosts.ssh
        unknown = "accept-new" if settings.accept_unknown else "yes"
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": str(CONNECT_S),
            "StrictHostKeyChecking": unknown,
            "ControlMaster": "no",  # a master that outlives the call would keep our pipes open
            "ServerAliveInterval": "5",
            "ServerAliveCountMax": "3",
            "ForwardX11": "no",
            "ForwardAgent": "no",
        }
        return [
            "ssh",
            "-T",
            *(["-F", settings.config] if settings.config else []),
            *settings.options,
            *(word for name, value in options.items() for word in ("-o", f"{name}={value}")),
            *(["-l", host.user] if host.user else []),
            *(["-p", str(host.port)] if host.port else []),
            host.address,
            command,
        ]


def _file_copy(path: Path) -> FileCopy:
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


def _version(output: str) -> str | None:
    try:
        return str(json.loads(output)["version"])
    except (ValueError, KeyError, TypeError):
        return None
