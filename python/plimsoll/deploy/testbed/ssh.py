"""Keys and settings of the hosts' sshd. They are created for one testbed and removed with it."""

from __future__ import annotations

import getpass
import os
import subprocess
from pathlib import Path
from typing import Final

from plimsoll.deploy import programs
from plimsoll.errors import ServiceError
from plimsoll.plan.hosts.testbed import TestbedSpec

PORT: Final = 22
_PRIVILEGE_SEPARATION: Final = Path("/run/sshd")
"""Debian's sshd requires this directory if it runs as root. The unit of the ssh service creates it; here no
service does."""
_TIMEOUT_S: Final = 30.0

_SSHD: Final = """\
Port {port}
AddressFamily inet
HostKey "{d}/host_key"
AuthorizedKeysFile "{d}/id.pub"
PidFile none
# Only keys, and only the one of this testbed, so that the accounts of this machine cannot log in otherwise.
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AllowUsers {user}
UsePAM no
# sshd would require that the parent directory belongs to the user.
StrictModes no
UseDNS no
PrintMotd no
PrintLastLog no
X11Forwarding no
# Many agents log in at the same time.
MaxStartups 400
MaxSessions 400
LoginGraceTime 30
Subsystem sftp internal-sftp
"""

_CLIENT: Final = """\
Host *
  User {user}
  Port {port}
  IdentityFile "{d}/id"
  IdentitiesOnly yes
  UserKnownHostsFile "{d}/known_hosts"
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  PreferredAuthentications publickey
  BatchMode yes
  ConnectTimeout 20
  LogLevel ERROR
"""


def write_files(directory: Path, spec: TestbedSpec) -> list[str]:
    """Writes keys and settings. Returns the command that must run in every host, with {address} as a
    placeholder.

    Raises ServiceError if OpenSSH is missing.
    """
    server = _program("sshd", "openssh-server")
    keygen = _program("ssh-keygen", "openssh-client")
    for name in ("host_key", "id"):
        _make_key(keygen, directory / name)
    user = _user()
    (directory / "sshd_config").write_text(_SSHD.format(d=directory, port=PORT, user=user))
    key = (directory / "host_key.pub").read_text().split()
    names = ",".join(name for host in spec.hosts for name in (host.name, host.address))
    (directory / "known_hosts").write_text(f"{names} {key[0]} {key[1]}\n")
    hosts = "".join(f"\nHost {host.name}\n  HostName {host.address}\n" for host in spec.hosts)
    (directory / "ssh_config").write_text(_CLIENT.format(d=directory, port=PORT, user=user) + hosts)
    if os.geteuid() == 0:
        _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
    return [
        *(server, "-D", "-e", "-f", f"{directory}/sshd_config"),
        *("-o", "ListenAddress={address}"),
    ]


def _user() -> str:
    try:
        return getpass.getuser() if os.geteuid() else "root"
    except (KeyError, OSError):
        return str(os.getuid())  # a user without a name can start a testbed, but cannot log in to its hosts


def _program(name: str, package: str) -> str:
    path = programs.find([name])
    if path is None:
        raise ServiceError(f"a testbed needs {name}: apt-get install {package}")
    return str(path.resolve())  # sshd starts itself again by its absolute path


def _make_key(keygen: str, path: Path) -> None:
    command = [keygen, "-q", "-t", "ed25519", "-N", "", "-C", "plimsoll-testbed", "-f", str(path)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None) or b""
        raise ServiceError(
            f"the ssh key of the testbed could not be created: {output.decode(errors='replace').strip() or error}"
        ) from error
