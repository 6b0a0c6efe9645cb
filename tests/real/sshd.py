"""A real sshd on loopback, started by whoever runs the tests, who alone can log in."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from plimsoll.deploy.ports import free_port
from tests.conftest import missing


@dataclass(frozen=True)
class Sshd:
    """`home`: of those who log in; `config`: for ssh -F, with one host alias for each name that is asked for."""

    directory: Path
    port: int
    home: Path
    config: Path
    pid: int

    def aliases(self, *names: str) -> Path:
        """A configuration in which all these names are this host."""
        lines = [
            f"Host {' '.join(names)}",
            "  HostName 127.0.0.1",
            f"  Port {self.port}",
            f"  User {pwd.getpwuid(os.geteuid()).pw_name}",
            f"  IdentityFile {self.directory}/id",
            "  IdentitiesOnly yes",
            f"  UserKnownHostsFile {self.directory}/known_hosts",
            "  GlobalKnownHostsFile /dev/null",
        ]
        self.config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return self.config


@contextmanager
def running_sshd(directory: Path, *more: str) -> Iterator[Sshd]:
    """An sshd with a host key and a user key of its own; `more`: lines of its configuration."""
    program, keygen = shutil.which("sshd", path="/usr/sbin:/sbin:/usr/bin"), shutil.which("ssh-keygen")
    if program is None or keygen is None:
        missing("sshd", "apt-get install openssh-server")
    directory.mkdir(mode=0o700)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd wants it as root
    for name in ("hostkey", "id"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", directory / name], check=True)
    shutil.copy(directory / "id.pub", directory / "authorized_keys")
    port, home = free_port(), directory / "home"
    home.mkdir()
    lines = [
        f"HostKey {directory}/hostkey",
        f"AuthorizedKeysFile {directory}/authorized_keys",
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "PidFile none",
        f"SetEnv HOME={home}",
        *more,
    ]
    (directory / "sshd_config").write_text("\n".join(lines) + "\n", encoding="utf-8")
    host_key = " ".join((directory / "hostkey.pub").read_text(encoding="ascii").split()[:2])
    (directory / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}\n", encoding="ascii")
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "-D", "-e", "-f", directory / "sshd_config", "-o", f"ListenAddress=127.0.0.1:{port}"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    found = Sshd(directory, port, home, directory / "ssh_config", process.pid)
    try:
        deadline = time.monotonic() + 10
        while b"Server listening" not in (directory / "log").read_bytes():
            assert process.poll() is None and time.monotonic() < deadline, (directory / "log").read_text()
            time.sleep(0.02)
        yield found
    finally:
        process.terminate()
        process.wait()
