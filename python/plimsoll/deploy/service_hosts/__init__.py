"""The hosts on which services run: this one, or one that ssh reaches.

A starter of `deploy/servers` uses only the operations of `ServiceHost`, so it exists once for both. Paths are
those of the host, so they are `PurePath`: an access to a path of another host through this host's file system
is a type error.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Final

from plimsoll.deploy.account import Account
from plimsoll.deploy.process import Program, ServiceProcess, finish
from plimsoll.deploy.programs import ProgramSearch

MAX_FILES: Final = 65_536
"""The maximum number of file descriptors of a server. More would only increase the size of tables."""
MAX_READ: Final = 16 * 1024 * 1024
"""The maximum number of bytes of a file that are read."""


class ServiceHost(ABC):
    """A host of services.

    `name`: in the results; empty for this host. `address`: on which its services listen, in numbers.
    `lab_addresses`: addresses from which the lab connects to its services, in addition to its own ones.
    """

    name: str
    address: str
    lab_addresses: tuple[str, ...] = ()

    @property
    def is_here(self) -> bool:
        """Whether this is the host of the lab."""
        return not self.name

    @property
    @abstractmethod
    def engine(self) -> PurePath:
        """The path of the engine."""

    @property
    @abstractmethod
    def programs(self) -> ProgramSearch:
        """The programs that are installed."""

    @abstractmethod
    def own_account(self) -> Account:
        """The account of Plimsoll's processes."""

    @abstractmethod
    def server_account(self) -> Account:
        """The account of servers that do not run as root. Raises ServiceError if there is none."""

    @abstractmethod
    def account_of(self, uid: int) -> Account:
        """The account with this user id. Only root can change to it."""

    @abstractmethod
    def command_as(
        self, account: Account, program: Sequence[str | PurePath], environment: Mapping[str, str]
    ) -> list[str | PurePath]:
        """The command line that runs `program` under an account and with only this environment."""

    @abstractmethod
    def create_workplace(self, name: str, account: Account | None, sockets: int = 0) -> tuple[PurePath, str]:
        """Creates a directory for one start of a service; `account`: of a server that must be able to enter
        it; `sockets`: length of the longest path of a Unix socket that the server makes below it. Also returns a
        remark if it is not in the usual place."""

    @abstractmethod
    def may_enter(self, account: Account, directory: PurePath) -> bool:
        """Whether the account can enter a directory."""

    @abstractmethod
    def owner_of(self, path: PurePath) -> int | None:
        """The user id of the owner; None if the path does not exist."""

    @abstractmethod
    def make_directory(self, path: PurePath, mode: int = 0o755, owner: Account | None = None) -> None:
        """Creates a directory, if it does not exist. Raises ServiceError."""

    @abstractmethod
    def write(
        self,
        path: PurePath,
        text: str,
        *,
        mode: int | None = None,
        owner: Account | None = None,
        append: bool = False,
    ) -> None:
        """Writes a file, or appends to it. Raises ServiceError."""

    @abstractmethod
    def read(self, path: PurePath, offset: int = 0, limit: int = MAX_READ) -> bytes:
        """A part of a file. Raises OSError."""

    @abstractmethod
    def size(self, path: PurePath) -> int:
        """The size of a file; 0 if it does not exist or cannot be reached."""

    @abstractmethod
    def names_in(self, directory: PurePath) -> list[str]:
        """The names in a directory; empty if it does not exist or cannot be reached."""

    @abstractmethod
    def remove(self, *paths: PurePath) -> None:
        """Removes files and directories with their contents. Errors are ignored."""

    @abstractmethod
    def free_port(self, kind: socket.SocketKind = socket.SOCK_STREAM, address: str | None = None) -> int:
        """A port of an address of the host (None: that of its services) on which no process listens now.
        Another process may take it before the service listens. Raises ServiceError or BadInput."""

    @abstractmethod
    def file_limit(self) -> int:
        """The number of file descriptors that a server may open."""

    @abstractmethod
    def start(self, program: Program) -> ServiceProcess:
        """Starts a program below a guard. Raises ServiceError."""

    def run_to_end(
        self,
        program: Program,
        *,
        failure: str,
        check_interrupt: Callable[[], None],
        timeout_s: float | None = None,
    ) -> None:
        """Runs a program that prepares something until it has ended. See `process.finish`."""
        process = self.start(program)
        finish(process, failure=failure, check_interrupt=check_interrupt, timeout_s=timeout_s)

    @abstractmethod
    def close(self) -> None:
        """Ends the processes that still run, and removes the working directories."""
