"""This host as a host of services."""

from __future__ import annotations

import contextlib
import resource
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from plimsoll.deploy import programs
from plimsoll.deploy.account import Account, account, account_of, own_account
from plimsoll.deploy.ports import LOOPBACK, free_port
from plimsoll.deploy.process import GuardedProcess, Program
from plimsoll.deploy.programs import ProgramSearch
from plimsoll.deploy.service_hosts import MAX_FILES, MAX_READ, ServiceHost
from plimsoll.deploy.workplace import Workplace


class LocalServiceHost(ServiceHost):
    """This host. `work`: the directory of the working directories, which need not exist. `address`: on which
    services listen."""

    def __init__(self, engine: Path, work: Path, address: str = LOOPBACK) -> None:
        self.name = ""
        self.address = address
        self._engine = engine
        self._workplace = Workplace(work)

    @property
    def engine(self) -> PurePath:
        """See `ServiceHost`."""
        return self._engine

    @property
    def programs(self) -> ProgramSearch:
        """See `ServiceHost`."""
        return programs.HERE

    def own_account(self) -> Account:
        """See `ServiceHost`."""
        return own_account()

    def server_account(self) -> Account:
        """See `ServiceHost`."""
        return account()

    def account_of(self, uid: int) -> Account:
        """See `ServiceHost`."""
        return account_of(uid)

    def command_as(
        self, account: Account, program: Sequence[str | PurePath], environment: Mapping[str, str]
    ) -> list[str | PurePath]:
        """See `ServiceHost`."""
        return account.command(program, environment)

    def create_workplace(self, name: str, account: Account | None, sockets: int = 0) -> tuple[PurePath, str]:
        """See `ServiceHost`."""
        if account is None:
            return self._workplace.directory(name), ""
        return self._workplace.directory_for(name, account, sockets)

    def may_enter(self, account: Account, directory: PurePath) -> bool:
        """See `ServiceHost`."""
        return account.may_enter(Path(directory))

    def owner_of(self, path: PurePath) -> int | None:
        """See `ServiceHost`."""
        with contextlib.suppress(OSError):
            return Path(path).stat().st_uid
        return None

    def make_directory(self, path: PurePath, mode: int = 0o755, owner: Account | None = None) -> None:
        """See `ServiceHost`."""
        Path(path).mkdir(parents=True, exist_ok=True)
        (owner or own_account()).set_owner(Path(path), mode)

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
        file = Path(path)
        if not append:
            file.unlink(missing_ok=True)
        if mode is not None:
            file.touch(mode=mode & 0o700)  # a secret is never readable by others
        with file.open("a", encoding="utf-8") as opened:
            opened.write(text)
        (owner or own_account()).set_owner(file, mode)

    def read(self, path: PurePath, offset: int = 0, limit: int = MAX_READ) -> bytes:
        """See `ServiceHost`."""
        with Path(path).open("rb") as file:
            file.seek(offset)
            return file.read(limit)

    def size(self, path: PurePath) -> int:
        """See `ServiceHost`."""
        try:
            return Path(path).stat().st_size
        except OSError:
            return 0

    def names_in(self, directory: PurePath) -> list[str]:
        """See `ServiceHost`."""
        try:
            return sorted(path.name for path in Path(directory).iterdir())
        except OSError:
            return []

    def remove(self, *paths: PurePath) -> None:
        """See `ServiceHost`."""
        for path in map(Path, paths):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    path.unlink()

    def free_port(self, kind: socket.SocketKind = socket.SOCK_STREAM, address: str | None = None) -> int:
        """See `ServiceHost`."""
        return free_port(kind, address or self.address)

    def file_limit(self) -> int:
        """See `ServiceHost`."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)

    def start(self, program: Program) -> GuardedProcess:
        """See `ServiceHost`."""
        return GuardedProcess(self._engine, program)

    def close(self) -> None:
        """See `ServiceHost`."""
        self._workplace.remove()
