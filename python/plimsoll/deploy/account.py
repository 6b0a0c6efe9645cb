"""The account under which the servers of the distribution run. If Plimsoll runs as root, it is an
unprivileged account. Otherwise it is the account of this process.

PostgreSQL refuses to run as root. The other servers would change to an account of their own. A process that
answers requests should not run as root.
"""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from plimsoll.errors import ServiceError

NAMES = ("nobody",)
GROUPS = ("nogroup", "nobody")
"""The name of the group on Debian, and on other distributions."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Status:
    """Owner, group and mode of a directory."""

    uid: int
    gid: int
    mode: int


@dataclass(frozen=True, slots=True)
class Account:
    """The account of a server. `change`: whether it is another account than that of this process."""

    name: str
    uid: int
    gid: int
    change: bool

    def command(
        self,
        program: Sequence[str | PurePath],
        environment: Mapping[str, str],
        *,
        path: str | None = None,
        setpriv: str | None = None,
    ) -> list[str | PurePath]:
        """The command line that runs `program` under this account and with only this environment. The
        environment of this process may contain secrets, and other processes of the account could read
        them. `path`: PATH, and `setpriv`: the program, of another host."""
        variables = {"PATH": path or os.environ.get("PATH") or PATH, **environment}
        clean = ["env", "-i", *(f"{name}={value}" for name, value in variables.items())]
        if not self.change:
            return [*clean, *program]
        # A change of account clears PDEATHSIG, with which the guard ends its child, unless setpriv keeps it.
        options = [f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups", "--pdeathsig", "keep"]
        return [*clean, setpriv or _setpriv(), *options, "--", *program]

    def may_enter(self, directory: Path) -> bool:
        """Whether the account can enter a directory: every directory of the path must permit it."""
        directories = [directory.resolve(), *directory.resolve().parents]
        return self.may_enter_all([_status(directory_of_path) for directory_of_path in directories])

    def may_enter_all(self, statuses: Iterable[Status | None]) -> bool:
        """Whether the account can enter all directories with these owners and modes; None: missing."""
        return not self.change or all(self._can_enter(status) for status in statuses)

    def set_owner(self, path: Path, mode: int | None = None) -> None:
        """Makes the account the owner of a file or directory. `mode` is set first, if it is given."""
        if mode is not None:
            path.chmod(mode)
        if self.change:
            os.chown(path, self.uid, self.gid)

    def _can_enter(self, status: Status | None) -> bool:
        if status is None:
            return False
        if status.uid == self.uid:
            return bool(status.mode & stat.S_IXUSR)
        if status.gid == self.gid:
            return bool(status.mode & stat.S_IXGRP)
        return bool(status.mode & stat.S_IXOTH)


def _status(path: Path) -> Status | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return Status(found.st_uid, found.st_gid, found.st_mode)


def own_account() -> Account:
    """The account of this process."""
    return Account(_own_name(), os.geteuid(), os.getegid(), change=False)


def account() -> Account:
    """The account of servers on this host. Raises ServiceError if this process is root and no unprivileged
    account exists."""
    if os.geteuid() != 0:
        return own_account()
    for name in NAMES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, _group(entry.pw_gid), change=True)
    raise ServiceError(
        "servers do not run as root, and this host has no account `nobody`: create one, or run Plimsoll as "
        "another user"
    )


def account_of(uid: int) -> Account:
    """The account with this user id. Only root can change to it."""
    entry = pwd.getpwuid(uid)
    return Account(entry.pw_name, uid, entry.pw_gid, change=True)


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _group(otherwise: int) -> int:
    for name in GROUPS:
        try:
            return grp.getgrnam(name).gr_gid
        except KeyError:
            continue
    return otherwise


def _setpriv() -> str:
    path = shutil.which("setpriv") or shutil.which("setpriv", path=PATH)
    if path is None:
        raise ServiceError(
            "as root, Plimsoll starts servers with setpriv, which was not found: apt-get install util-linux"
        )
    return path
