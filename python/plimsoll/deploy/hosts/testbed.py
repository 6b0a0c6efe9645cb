"""`kind: testbed`: the emulated hosts of a testbed, over the ssh server of each.

They are ssh hosts with two differences. All hosts share the file system of this machine, so each has its own
directory below `directory`. And files are copied locally instead of over ssh: the engine would take minutes
over a slow link, once for each host.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from plimsoll.deploy.hosts import CleanedHost, remote
from plimsoll.deploy.hosts.calls import Calls, CommandResult
from plimsoll.deploy.hosts.ssh import FileCopy, SshHosts
from plimsoll.deploy.testbed import Testbed
from plimsoll.plan.model.hosts import Host, Hosts, Ssh
from plimsoll.plan.model.links import Link

_VERSION_S: Final = 10.0
_OWN_FILES: Final = ("engine-*", "file-*", "part-*")


class TestbedHosts(SshHosts):
    """The hosts of one experiment. `bed`: the testbed. It is up, and this process runs on its host `lab`. `links`: the
    links of its file."""

    __test__ = False

    def __init__(
        self,
        hosts: Hosts,
        bed: Testbed,
        engine: Path,
        token: str,
        check_interrupt: Callable[[], None] = lambda: None,
        links: Sequence[Link] = (),
    ) -> None:
        ssh = Ssh(config=str(bed.ssh_config))
        super().__init__(replace(hosts, ssh=ssh), engine, token, check_interrupt)
        self._shared = f"{hosts.directory}/{bed.name}"
        self._one_at_a_time = threading.Lock()
        self._bed = bed
        self._links = tuple(links)

    @property
    def links(self) -> Sequence[Link]:
        """See `HostBackend`."""
        return self._links

    def change_links(self, links: Sequence[Link]) -> None:
        """See `HostBackend`."""
        if links:
            self._bed.change([directed for link in links for directed in link.directions()])

    def clean(self, *, everything: bool = False, discard: bool = False) -> list[CleanedHost]:
        """See `HostBackend`."""
        cleaned = super().clean(everything=everything, discard=discard)
        shared = _local_path(self._shared)
        if everything or self._hosts.keep == "nothing":
            for path in [path for pattern in _OWN_FILES for path in shared.glob(pattern)]:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        # Succeeds only if it is empty.
        with contextlib.suppress(OSError):
            shared.rmdir()
        return cleaned

    def _directory(self, host: Host) -> str:
        return f"{self._shared}/{host.address}"

    def _copy(
        self, calls: Calls, host: Host, directory: str, copy: FileCopy, argument: str = ""
    ) -> CommandResult:
        """Copies a file once for all hosts, and links it in the directory of each."""
        del calls
        shared_copy, target = _local_path(self._shared) / copy.item.name, Path(directory) / copy.item.name
        try:
            with self._one_at_a_time:
                _copy_once(copy.path, shared_copy, copy.item.mode)
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f"part-{host.address}-{os.getpid()}")
            os.link(shared_copy, part)
            part.replace(target)
            answer = _run_program(target, argument) if argument else ""
        except (OSError, subprocess.SubprocessError) as error:
            return CommandResult(1, "", str(error))
        return CommandResult(0, f"{answer}{remote.WORD} done\n", "")


def _copy_once(source: Path, target: Path, mode: str) -> None:
    """Copies the file to its name, which contains its hash. It gets the name after all of it is written."""
    if target.exists() and target.stat().st_size == source.stat().st_size:
        return
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = target.with_name(f"part-{os.getpid()}")
    try:
        shutil.copyfile(source, part)
        part.chmod(int(mode, 8))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _run_program(program: Path, word: str) -> str:
    result = subprocess.run(
        [program, word],
        capture_output=True,
        text=True,
        timeout=_VERSION_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    lines = (result.stdout + result.stderr).splitlines()
    return f"{remote.WORD} engine {lines[0] if lines else ''}\n"


def _local_path(directory: str) -> Path:
    """The path on this machine of a directory of the hosts. `~` is the home directory of a login,
    independent of HOME here."""
    if not directory.startswith("~"):
        return Path(directory)
    return Path(pwd.getpwuid(os.geteuid()).pw_dir + directory[1:])
