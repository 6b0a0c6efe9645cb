"""Under which account servers of the distribution run: an unprivileged one where we are root, as ourselves elsewhere.

PostgreSQL refuses to run as root, the others would change to an account of their own by themselves; and nothing that
answers requests should be root.
"""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from plimsoll.errors import ServiceError

NAMES = ("nobody",)
GROUPS = ("nogroup", "nobody")
"""Of Debian, of others."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Account:
    """Who a server runs as. `change`: whether that is somebody else than we are."""

    name: str
    uid: int
    gid: int
    change: bool

    def command(self, program: list[str | Path], environment: Mapping[str, str]) -> list[str | Path]:
        """The program under this account and with this environment alone: ours may hold secrets, which others of the
        same account could read."""
        variables = {"PATH": os.environ.get("PATH") or PATH, **environment}
        clean = ["env", "-i", *(f"{name}={value}" for name, value in variables.items())]
        if not self.change:
            return [*clean, *program]
        # The guard's own hold on its child (PDEATHSIG) is lost with a change of account unless it is kept.
        who = [f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups", "--pdeathsig", "keep"]
        return [*clean, _setpriv(), *who, "--", *program]

    def may_enter(self, directory: Path) -> bool:
        """Whether it can reach a directory and what is in it: every part of the way lets it through."""
        way = [directory.resolve(), *directory.resolve().parents]
        return not self.change or all(self._passes(part) for part in way)

    def give(self, path: Path, mode: int | None = None) -> None:
        """Makes a file or directory its own."""
        if mode is not None:
            path.chmod(mode)
        if self.change:
            os.chown(path, self.uid, self.gid)

    def _passes(self, path: Path) -> bool:
        try:
            found = path.stat()
        except OSError:
            return False
        if found.st_uid == self.uid:
            return bool(found.st_mode & stat.S_IXUSR)
        if found.st_gid == self.gid:
            return bool(found.st_mode & stat.S_IXGRP)
        return bool(found.st_mode & stat.S_IXOTH)


def own_account() -> Account:
    """The account of this process."""
    return Account(_own_name(), os.geteuid(), os.getegid(), change=False)


def account() -> Account:
    """The account of servers on this host. Raises ServiceError where root finds no unprivileged one."""
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
    """The account of a user id that is there, as root only."""
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
    found = shutil.which("setpriv") or shutil.which("setpriv", path=PATH)
    if found is None:
        raise ServiceError(
            "as root, Plimsoll starts servers with setpriv, which was not found: apt-get install util-linux"
        )
    return found
