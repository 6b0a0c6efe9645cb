"""A host of services that ssh reaches. Every operation is a request to the engine there (`session.py`)."""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

from plimsoll.deploy import account as accounts
from plimsoll.deploy.account import Account, Status
from plimsoll.deploy.process import (
    QUOTED_BYTES,
    TIMEOUT_S,
    Program,
    ServiceProcess,
    end_text,
    quoted_lines,
)
from plimsoll.deploy.programs import VERSION_S, ProgramSearch, find_on
from plimsoll.deploy.service_hosts import MAX_FILES, MAX_READ, ServiceHost
from plimsoll.deploy.service_hosts.session import HostError, HostSession
from plimsoll.deploy.tree_actions import TreeActions
from plimsoll.deploy.workplace import MAX_SOCKET_PATH
from plimsoll.errors import ServiceError

PART: Final = 4 * 1024 * 1024
"""The maximum number of bytes that one answer contains."""
OUTSIDE: Final = "outside"
"""The file that names the directory of servers whose account cannot enter Plimsoll's directory. The cleanup of the
host reads it (`deploy/hosts/remote.py`)."""
ELSEWHERE: Final = PurePath("/var/tmp")
CLOSE_S: Final = 40.0
"""The time for the end of all processes of a host, longer than the grace period of any server."""


class RemotePrograms(ProgramSearch):
    """The programs of a host."""

    def __init__(self, session: HostSession, facts: Mapping[str, Any]) -> None:
        self.host = session.host
        self._session = session
        self._facts = facts

    @property
    def override(self) -> str | None:
        """See `ProgramSearch`."""
        return self._facts.get("programs")

    @property
    def path(self) -> str:
        """See `ProgramSearch`."""
        return str(self._facts.get("path") or "")

    def are_programs(self, paths: Sequence[PurePath]) -> list[bool]:
        """See `ProgramSearch`."""
        answer = self._session.call("stat", paths=[str(path) for path in paths])
        return [
            status is not None and status["mode"] & 0o170000 == 0o100000 and bool(status["mode"] & 0o111)
            for status in answer["statuses"]
        ]

    def matching(self, pattern: str) -> list[PurePath]:
        """See `ProgramSearch`."""
        found = [PurePath("/")]
        for part in PurePath(pattern).parts[1:]:
            if "*" not in part:
                found = [path / part for path in found]
                continue
            names = [(path, name) for path in found for name in _names(self._session, path)]
            found = [path / name for path, name in names if PurePath(name).match(part)]
        return found

    def resolve(self, path: PurePath) -> PurePath:
        """See `ProgramSearch`."""
        code, text = self.output(["readlink", "-f", path])
        return PurePath(text.strip()) if code == 0 and text.strip() else path

    def output(
        self, command: Sequence[str | PurePath], timeout_s: float = VERSION_S
    ) -> tuple[int | None, str]:
        """See `ProgramSearch`."""
        try:
            answer = self._session.call(
                "output",
                timeout_s + 10.0,
                command=[str(part) for part in command],
                timeout_ms=round(timeout_s * 1000),
            )
        except OSError:
            return None, ""
        return answer["code"], str(answer["text"])


class RemoteProcess(TreeActions):
    """A process tree below a guard on another host. It implements `ServiceProcess`."""

    def __init__(self, name: str, host: RemoteServiceHost, pid: int, log: PurePath, grace_s: float) -> None:
        super().__init__()
        self.name = name
        self._host = host
        self._session = host.session
        self._pid = pid
        self._log = log
        self._grace_s = grace_s

    @property
    def pid(self) -> int:
        """See `ServiceProcess`."""
        return self._pid

    @property
    def log(self) -> PurePath:
        """See `ServiceProcess`."""
        return self._log

    @property
    def returncode(self) -> int | None:
        """See `ServiceProcess`."""
        return self._session.code_of(self._pid)

    def wait(self, timeout_s: float) -> None:
        """See `ServiceProcess`."""
        self._session.wait_for_end(self._pid, timeout_s)

    def has_ended(self) -> bool:
        """See `ServiceProcess`."""
        return self.returncode is not None or self._session.has_ended

    def end_message(self) -> str:
        """See `ServiceProcess`."""
        code = self.returncode
        if code is None and self._session.has_ended:
            reason = self._session.end_reason()
            return (
                f"service {self.name}: the connection to its host {self._host.name} has ended ({reason}), and the "
                "service ends with it"
            )
        data = self._end_of_log()
        ended = f"service {self.name} on {self._host.name} {end_text(code, data)}"
        return f"{ended}{quoted_lines(data, f'{self._host.name}:{self._log}')}"

    def last_lines(self) -> str:
        """See `ServiceProcess`."""
        return quoted_lines(self._end_of_log(), f"{self._host.name}:{self._log}")

    def _end_of_log(self) -> bytes:
        with contextlib.suppress(OSError):
            offset = max(0, self._host.size(self._log) - QUOTED_BYTES)
            return self._host.read(self._log, offset, QUOTED_BYTES)
        return b""

    def send_signal(self, number: int, timeout_s: float) -> None:
        """See `ServiceProcess`."""
        with contextlib.suppress(OSError):
            self._session.call("signal", process=self._pid, signal=int(number))
            self.wait(timeout_s)

    def _act(self, action: str) -> None:
        try:
            self._session.call("act", process=self._pid, action=action)
        except OSError as error:
            raise ServiceError(f"{self.end_message()} ({error})") from error

    def _states(self) -> Sequence[str]:
        try:
            return [str(state) for state in self._session.call("tree", process=self._pid)["states"]]
        except OSError as error:
            raise ServiceError(f"{self.end_message()} ({error})") from error

    def stop(self) -> None:
        """See `ServiceProcess`. If the connection has ended, the guard ends the process tree by itself."""
        with contextlib.suppress(OSError):
            self._session.call("stop", self._grace_s + TIMEOUT_S + 10.0, process=self._pid)


class RemoteServiceHost(ServiceHost):
    """A host that a session reaches. `engine`: the path of the engine there. `directory`: of the services of this
    experiment there. `address`: on which services listen (None: the one at which ssh reached the host)."""

    def __init__(
        self, session: HostSession, engine: PurePath, directory: PurePath, lab: Sequence[str]
    ) -> None:
        self.session = session
        self.name = session.host
        self._engine = engine
        self._directory = directory
        self._facts = session.call("facts")
        self.address = str(self._facts.get("server") or "127.0.0.1")
        client = self._facts.get("client")
        self.lab_addresses = tuple(dict.fromkeys([*([str(client)] if client else []), *lab]))
        self._programs = RemotePrograms(session, self._facts)
        self._outside: PurePath | None = None
        self._number = 0

    @property
    def engine(self) -> PurePath:
        """See `ServiceHost`."""
        return self._engine

    @property
    def programs(self) -> ProgramSearch:
        """See `ServiceHost`."""
        return self._programs

    def own_account(self) -> Account:
        """See `ServiceHost`."""
        uid, gid = int(self._facts["uid"]), int(self._facts["gid"])
        return Account(self._entries("passwd", 2).get(uid, [str(uid)])[0], uid, gid, change=False)

    def server_account(self) -> Account:
        """See `ServiceHost`."""
        if int(self._facts["uid"]) != 0:
            return self.own_account()
        users = {fields[0]: fields for fields in self._entries("passwd", 2).values()}
        groups = {fields[0]: fields for fields in self._entries("group", 2).values()}
        for name in accounts.NAMES:
            if name in users:
                known = (int(groups[group][2]) for group in accounts.GROUPS if group in groups)
                return Account(name, int(users[name][2]), next(known, int(users[name][3])), change=True)
        raise ServiceError(
            f"servers do not run as root, and {self.name} has no account `nobody`: create one, or log in there as "
            "another user"
        )

    def account_of(self, uid: int) -> Account:
        """See `ServiceHost`."""
        fields = self._entries("passwd", 2).get(uid)
        if fields is None:
            raise ServiceError(f"{self.name} has no account with the user id {uid}")
        return Account(fields[0], uid, int(fields[3]), change=True)

    def command_as(
        self, account: Account, program: Sequence[str | PurePath], environment: Mapping[str, str]
    ) -> list[str | PurePath]:
        """See `ServiceHost`."""
        setpriv = find_on(self._programs, ["setpriv"]) if account.change else None
        if account.change and setpriv is None:
            raise ServiceError(
                f"as root, Plimsoll starts servers with setpriv, which was not found on {self.name}: "
                "apt-get install util-linux"
            )
        path = self._programs.path or accounts.PATH
        return account.command(
            program, environment, path=path, setpriv=None if setpriv is None else str(setpriv)
        )

    def create_workplace(self, name: str, account: Account | None, sockets: int = 0) -> tuple[PurePath, str]:
        """See `ServiceHost`."""
        # A connection before this one may have left directories.
        taken = {existing.rpartition("-")[2] for existing in self.names_in(self._directory)}
        self._number += 1
        while str(self._number) in taken:
            self._number += 1
        path = self._directory / f"{name}-{self._number}"
        is_short = sockets == 0 or len(str(path)) + sockets <= MAX_SOCKET_PATH
        if is_short and (account is None or not account.change):
            self.make_directory(path, 0o700)
            return path, ""
        if is_short and account is not None and self.may_enter(account, self._directory):
            self.make_directory(path)
            return path, ""
        path = self._outside_directory() / path.name
        self.make_directory(path)
        why = f"the account {account.name if account else ''} cannot enter {self._directory}"
        if not is_short:
            why = f"the path of its sockets would be longer than {MAX_SOCKET_PATH} characters"
        return path, f"it works in {path} on {self.name}, because {why}"

    def _outside_directory(self) -> PurePath:
        if self._outside is None:
            # As root, in a directory whose name other users cannot guess.
            outside = ELSEWHERE / f"plimsoll-{secrets.token_hex(8)}"
            self.write(self._directory / OUTSIDE, f"{outside}\n", append=True)
            self.make_directory(outside)
            self._outside = outside
        return self._outside

    def may_enter(self, account: Account, directory: PurePath) -> bool:
        """See `ServiceHost`."""
        paths = [directory, *directory.parents]
        answer = self.session.call("stat", paths=[str(path) for path in paths])
        return account.may_enter_all(
            None if status is None else Status(status["uid"], status["gid"], status["mode"])
            for status in answer["statuses"]
        )

    def owner_of(self, path: PurePath) -> int | None:
        """See `ServiceHost`."""
        status = self._status(path)
        return None if status is None else int(status["uid"])

    def make_directory(self, path: PurePath, mode: int = 0o755, owner: Account | None = None) -> None:
        """See `ServiceHost`."""
        self._change("make_directory", path=str(path), mode=mode, owner=_owner(owner))

    def write(
        self,
        path: PurePath,
        text: str,
        *,
        mode: int | None = None,
        owner: Account | None = None,
        append: bool = False,
    ) -> None:
        """See `ServiceHost`."""
        data = base64.b64encode(text.encode()).decode("ascii")
        self._change("write", path=str(path), data=data, mode=mode, owner=_owner(owner), append=append)

    def read(self, path: PurePath, offset: int = 0, limit: int = MAX_READ) -> bytes:
        """See `ServiceHost`."""
        data = bytearray()
        while len(data) < limit:
            part = min(PART, limit - len(data))
            answer = self.session.call("read", path=str(path), offset=offset + len(data), limit=part)
            piece = base64.b64decode(answer["data"])
            data += piece
            if len(piece) < part:
                break
        return bytes(data)

    def size(self, path: PurePath) -> int:
        """See `ServiceHost`."""
        with contextlib.suppress(OSError):
            status = self._status(path)
            return 0 if status is None else int(status["size"])
        return 0

    def names_in(self, directory: PurePath) -> list[str]:
        """See `ServiceHost`."""
        return _names(self.session, directory)

    def remove(self, *paths: PurePath) -> None:
        """See `ServiceHost`."""
        with contextlib.suppress(OSError):
            self.session.call("remove", paths=[str(path) for path in paths])

    def free_port(self, kind: socket.SocketKind = socket.SOCK_STREAM, address: str | None = None) -> int:
        """See `ServiceHost`."""
        wanted = address or self.address
        try:
            answer = self.session.call("port", address=wanted, datagram=kind == socket.SOCK_DGRAM)
        except HostError as error:
            raise ServiceError(f"services cannot listen on {wanted} of {error}") from error
        return int(answer["port"])

    def file_limit(self) -> int:
        """See `ServiceHost`."""
        return min(int(self._facts.get("open_files") or MAX_FILES), MAX_FILES)

    def start(self, program: Program) -> ServiceProcess:
        """See `ServiceHost`."""
        usable = self._facts["cpus"]
        if missing := sorted(set(program.cpus) - set(usable)):
            have = ", ".join(map(str, usable))
            raise ServiceError(
                f"service {program.name}: core {missing[0]} does not exist on {self.name}, or a login there may not "
                f"use it; available: {have}"
            )
        answer = self._change(
            "start",
            command=[os.fspath(part) for part in program.command],
            directory=str(program.directory or program.log.parent),
            environment=dict(program.environment),
            log=str(program.log),
            stdout=None if program.stdout is None else str(program.stdout),
            cpus=list(program.cpus),
            limits=program.limits.to_json() or None,
            grace_ms=round(program.grace_s * 1000),
            input=program.first_line,
        )
        return RemoteProcess(program.name, self, int(answer["pid"]), program.log, program.grace_s)

    def close(self) -> None:
        """See `ServiceHost`."""
        self.remove(*([self._outside] if self._outside is not None else []), self._directory)
        self.session.close(CLOSE_S)

    def _change(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """A request that creates something. Raises ServiceError."""
        try:
            return self.session.call(operation, **arguments)
        except FileNotFoundError as error:
            raise ServiceError(str(error)) from error

    def _status(self, path: PurePath) -> dict[str, Any] | None:
        statuses: list[dict[str, Any] | None] = self.session.call("stat", paths=[str(path)])["statuses"]
        return statuses[0]

    def _entries(self, file: str, key: int) -> dict[int, list[str]]:
        """The lines of a table of accounts, by their number."""
        lines = self.read(PurePath("/etc") / file).decode("utf-8", "replace").splitlines()
        entries = [line.split(":") for line in lines if not line.startswith("#")]
        return {int(fields[key]): fields for fields in entries if len(fields) > key and fields[key].isdigit()}


def _owner(account: Account | None) -> tuple[int, int] | None:
    return (account.uid, account.gid) if account is not None and account.change else None


def _names(session: HostSession, directory: PurePath) -> list[str]:
    with contextlib.suppress(OSError):
        return [str(name) for name in session.call("list", directory=str(directory))["names"]]
    return []
