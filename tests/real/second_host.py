"""A second host over ssh on this machine: its own user, an empty home, and a private mount namespace."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from plimsoll.deploy.ports import free_port
from tests.conftest import missing

USER = "guest"
UID = 54_321
SETUP = """\
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /home
mount -t tmpfs -o mode=1777 tmpfs /var/tmp
mkdir /home/{user} /home/keys
chown {uid}:{uid} /home/{user}
cp {d}/id.pub /home/keys/authorized_keys
mount --bind {d}/passwd /etc/passwd
mount --bind {d}/shadow /etc/shadow
exec {sshd} -D -e -f {d}/sshd_config -o ListenAddress=127.0.0.1:{port}
"""


@dataclass(frozen=True)
class SecondHost:
    """`config`: for ssh -F, with the alias `second`. `pid`: of its sshd, in whose mount namespace it lives."""

    config: Path
    pid: int

    @property
    def home(self) -> Path:
        """The home directory of its user, as seen from outside."""
        return Path(f"/proc/{self.pid}/root/home/{USER}")

    def reload(self) -> None:
        """Lets sshd read its configuration again."""
        os.kill(self.pid, signal.SIGHUP)

    def files(self) -> list[str]:
        """What lies in the home directory and in /var/tmp."""
        root = Path(f"/proc/{self.pid}/root")
        places = (self.home, root / "var" / "tmp")
        return sorted(
            str(path.relative_to(root)) for place in places for path in place.rglob("*") if path.is_file()
        )

    def shared_memory(self) -> list[str]:
        """Names of the segments of its user. Other tests create segments at the same time, as other users."""
        names = []
        for path in Path("/dev/shm").iterdir():
            with contextlib.suppress(OSError):
                if path.stat().st_uid == UID:
                    names.append(path.name)
        return names

    def processes(self) -> list[str]:
        """Command lines of the processes of its user."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if place.stat().st_uid == UID:
                    words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                    found.append(words.strip())
        return [words for words in found if words and not words.startswith("sshd")]


@contextlib.contextmanager
def second_host(directory: Path) -> Iterator[SecondHost]:
    """The host, as long as the block lasts."""
    sshd, keygen = shutil.which("sshd", path="/usr/sbin:/sbin:/usr/bin"), shutil.which("ssh-keygen")
    if sshd is None or keygen is None:
        missing("sshd", "apt-get install openssh-server")
    if os.geteuid() != 0:
        missing("the right to mount and to create accounts", "run as root")
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        missing("the right to make mount namespaces", "run as root")
    directory.mkdir(mode=0o700)
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    for name in ("hostkey", "id"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", directory / name], check=True)
    passwd = Path("/etc/passwd").read_text(encoding="utf-8")
    (directory / "passwd").write_text(f"{passwd}{USER}:x:{UID}:{UID}::/home/{USER}:/bin/sh\n")
    (directory / "shadow").write_text(f"root:*:1::::::\n{USER}:*:1::::::\nsshd:*:1::::::\n")
    port = free_port()
    lines = [
        f"HostKey {directory}/hostkey",
        "AuthorizedKeysFile /home/keys/authorized_keys",
        f"AllowUsers {USER}",
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "PidFile none",
    ]
    (directory / "sshd_config").write_text("\n".join(lines) + "\n", encoding="utf-8")
    key = " ".join((directory / "hostkey.pub").read_text(encoding="ascii").split()[:2])
    (directory / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}\n", encoding="ascii")
    config = directory / "ssh_config"
    config.write_text(
        f"Host second\n  HostName 127.0.0.1\n  Port {port}\n  User {USER}\n  IdentityFile {directory}/id\n"
        f"  IdentitiesOnly yes\n  UserKnownHostsFile {directory}/known_hosts\n  GlobalKnownHostsFile /dev/null\n",
        encoding="utf-8",
    )
    script = SETUP.format(d=directory, user=USER, uid=UID, sshd=sshd, port=port)
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 30
        while b"Server listening" not in (directory / "log").read_bytes():
            assert process.poll() is None and time.monotonic() < deadline, (directory / "log").read_text()
            time.sleep(0.02)
        yield SecondHost(config, process.pid)
    finally:
        process.terminate()
        process.wait()
