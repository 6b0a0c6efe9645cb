"""Working directories of services: below the results while they run, or below /var/tmp if their account
cannot enter the results."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path

from plimsoll.deploy.account import Account
from plimsoll.errors import ServiceError

_PLAIN = re.compile(r"[\w/.,:=@%+-]+", re.ASCII)
"""Paths that are valid in a configuration file without quotes: Squid does not support quotes for paths."""
ELSEWHERE = "/var/tmp"
"""Not /tmp, which is in memory on many hosts and would change the speed of a database. TMPDIR overrides
it."""


MAX_SOCKET_PATH = 107
"""The longest path of a Unix socket of Linux."""


class Workplace:
    """One numbered directory for each start of a service. `remove` removes all of them."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._elsewhere: Path | None = None
        self._number = 0

    def directory(self, name: str) -> Path:
        """Creates a directory for a service that runs under the account of this process. Directories that a killed
        experiment has left are not used: a guard may still be ending its services."""
        self._work.mkdir(parents=True, exist_ok=True)
        while True:
            self._number += 1
            path = self._work / f"{name}-{self._number}"
            with contextlib.suppress(FileExistsError):
                path.mkdir()
                return path

    def directory_for(self, name: str, account: Account, sockets: int = 0) -> tuple[Path, str]:
        """Creates a directory for a server of another account. The account can enter it, and it belongs to
        this process. `sockets`: length of the longest path of a Unix socket below it; 0: none. Also returns a
        remark if the directory is not in the results."""
        path = self.directory(name)
        for parent in (self._work, path):
            parent.chmod(0o755)
        plain = _PLAIN.fullmatch(str(path)) is not None
        is_short = sockets == 0 or len(str(path)) + sockets <= MAX_SOCKET_PATH
        if account.may_enter(path) and plain and is_short:
            return path, ""
        path.rmdir()
        path = self._fallback_directory(account) / path.name
        path.mkdir(mode=0o755)
        path.chmod(0o755)
        why = f"the account {account.name} cannot enter {self._work.parent}"
        if not plain:
            why = "some servers do not accept such characters in a path"
        elif not is_short:
            why = f"the path of its sockets would be longer than {MAX_SOCKET_PATH} characters"
        return path, f"it works in {path}, because {why}"

    def remove(self) -> None:
        """Removes all directories."""
        for path in (self._work, self._elsewhere):
            if path is not None:
                shutil.rmtree(path, ignore_errors=True)
        self._elsewhere = None

    def _fallback_directory(self, account: Account) -> Path:
        if self._elsewhere is None:
            parents = [Path(directory) for directory in (os.environ.get("TMPDIR"), ELSEWHERE) if directory]
            for parent in parents:
                if account.may_enter(parent):
                    with contextlib.suppress(OSError):
                        self._elsewhere = Path(tempfile.mkdtemp(prefix="plimsoll-", dir=parent))
                        self._elsewhere.chmod(0o755)
                        return self._elsewhere
            searched = ", ".join(map(str, [self._work.parent, *parents]))
            raise ServiceError(
                f"servers run as {account.name}, which cannot enter any of {searched}: use --out with a "
                f"directory that all users can enter, such as one below /srv"
            )
        return self._elsewhere
