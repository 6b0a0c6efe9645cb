"""`kind: testbed`: the emulated hosts of a testbed, over the ssh of each.

They are ssh hosts with two differences. All have the file system of this machine, so that each gets a directory of its
own below `directory`. And what ssh would copy is put there without it: the engine would take minutes over a thin
link, once for each host, and tell nobody anything.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from plimsoll.deploy.hosts import Cleaned, remote
from plimsoll.deploy.hosts.calls import Calls, CommandResult
from plimsoll.deploy.hosts.ssh import FileCopy, SshHosts
from plimsoll.deploy.testbed import Testbed
from plimsoll.plan.model_hosts import Host, Hosts, Ssh

_VERSION_S: Final = 10.0
_OURS: Final = ("engine-*", "file-*", "part-*")


class TestbedHosts(SshHosts):
    """The hosts of one experiment. `bed`: is up, and this process is on its host `lab`."""

    __test__ = False

    def __init__(
        self,
        hosts: Hosts,
        bed: Testbed,
        engine: Path,
        token: str,
        check_interrupt: Callable[[], None] = lambda: None,
    ) -> None:
        ssh = Ssh(config=str(bed.ssh_config))
        super().__init__(replace(hosts, ssh=ssh), engine, token, check_interrupt)
        self._shared = f"{hosts.directory}/{bed.name}"
        self._one_at_a_time = threading.Lock()

    def clean(self, *, everything: bool = False, discard: bool = False) -> list[Cleaned]:
        """See `HostBackend`."""
        found = super().clean(everything=everything, discard=discard)
        shared = _here(self._shared)
        if everything or self._hosts.keep == "nothing":
            for place in [place for like in _OURS for place in shared.glob(like)]:
                shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        # Only where nothing is left in it.
        with contextlib.suppress(OSError):
            shared.rmdir()
        return found

    def _directory(self, host: Host) -> str:
        return f"{self._shared}/{host.address}"

    def _copy(
        self, calls: Calls, host: Host, directory: str, wanted: FileCopy, then: str = ""
    ) -> CommandResult:
        """One copy for all hosts, and another name of it in the directory of each."""
        del calls
        whole, own = _here(self._shared) / wanted.item.name, Path(directory) / wanted.item.name
        try:
            with self._one_at_a_time:
                _placed(wanted.path, whole, wanted.item.mode)
            own.parent.mkdir(parents=True, exist_ok=True)
            beside = own.with_name(f"part-{host.address}-{os.getpid()}")
            os.link(whole, beside)
            beside.replace(own)
            said = _asked(own, then) if then else ""
        except (OSError, subprocess.SubprocessError) as error:
            return CommandResult(1, "", str(error))
        return CommandResult(0, f"{said}{remote.WORD} done\n", "")


def _placed(source: Path, target: Path, mode: str) -> None:
    """The file under its name, which holds its hash, once all of it is there."""
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


def _asked(program: Path, word: str) -> str:
    done = subprocess.run(
        [program, word],
        capture_output=True,
        text=True,
        timeout=_VERSION_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    lines = (done.stdout + done.stderr).splitlines()
    return f"{remote.WORD} engine {lines[0] if lines else ''}\n"


def _here(directory: str) -> Path:
    """A directory of the hosts, which is this machine's. `~` is where a login leads, whatever HOME says here."""
    if not directory.startswith("~"):
        return Path(directory)
    return Path(pwd.getpwuid(os.geteuid()).pw_dir + directory[1:])
