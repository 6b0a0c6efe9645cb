"""`before_run` and `after_run`: commands on this host, and on those that carry the testers."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence

from plimsoll.deploy.hosts import remote
from plimsoll.deploy.hosts.calls import CommandResult
from plimsoll.errors import PlimsollError
from plimsoll.plan.model import Hook
from plimsoll.plan.source.secret import Redactor, hidden, revealed

QUOTED = 2000
"""The maximum length of the output of a command that is kept, from its end."""
MAX_NAMED = 10
"""So many hosts that fail are named."""
OnHosts = Callable[[str, float], list[tuple[str, CommandResult]]]
"""Runs a line of shell on every host with a timeout; returns the results by the name of the host.
"""


def service_variables(addresses: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """PLIMSOLL_URL_NAME of each service: its URL, the first where it has several."""
    return {
        f"PLIMSOLL_URL_{re.sub('[^A-Z0-9_]', '_', name.upper())}": urls[0]
        for name, urls in addresses.items()
        if urls
    }


def run_hooks(
    hooks: Sequence[Hook],
    when: str,
    environment: Mapping[str, str],
    redactor: Redactor,
    on_hosts: OnHosts | None = None,
) -> list[str]:
    """Runs them in order; returns a line for each, and for each host. Raises PlimsollError at the
    first failure. `environment` is added to that of this process and to that of hosts:
    PLIMSOLL_RUN, PLIMSOLL_DIRECTORY and others; `on_hosts`: None if the testers run on this
    host."""
    said = []
    for hook in hooks:
        label = f"{when}: `{' '.join(hidden(list(hook.argv)))}`"
        if on_hosts is None or hook.on != "hosts":
            said.append(_here(hook, label, environment, redactor))
        if on_hosts is not None and hook.on != "controller":
            said += _there(hook, label, environment, redactor, on_hosts)
    return said


def _here(hook: Hook, label: str, environment: Mapping[str, str], redactor: Redactor) -> str:
    if hook.needs_root and os.geteuid() != 0:
        raise PlimsollError(f"{label} needs root; run Plimsoll as root or leave the hook out")
    try:
        done = subprocess.run(
            revealed(list(hook.argv)),
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=hook.timeout_ns / 1e9,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PlimsollError(f"{label} took longer than {hook.timeout_ns / 1e9:g} s") from error
    except OSError as error:
        raise PlimsollError(f"{label} cannot be started: {error.strerror}") from error
    output = _kept(done.stdout.decode("utf-8", "replace"), redactor)
    if done.returncode != 0:
        raise PlimsollError(f"{label} failed with exit status {done.returncode}:\n{output}")
    return label + (f": {output}" if output else "")


def _there(
    hook: Hook, label: str, environment: Mapping[str, str], redactor: Redactor, on_hosts: OnHosts
) -> list[str]:
    line = remote.command_line(revealed(list(hook.argv)), environment, hook.needs_root)
    timeout_s = hook.timeout_ns / 1e9
    said, failed = [], []
    for name, done in on_hosts(line, timeout_s):
        output = _kept(remote.said_by_command(done.out), redactor)
        if done.code == 0:
            said.append(f"{label} on {name}" + (f": {output}" if output else ""))
        elif done.code is None and done.trouble.startswith("no "):
            failed.append(f"on {name}: it took longer than {timeout_s:g} s")
        elif done.code is None or done.code == 255 or remote.HOOK not in done.out:  # 255: ssh itself
            failed.append(f"on {name}: {redactor.text(done.trouble or remote.reason(done))}")
        else:
            failed.append(f"on {name} with exit status {done.code}: {output}")
    if failed:
        more = [f"and on {len(failed) - MAX_NAMED} more hosts"] if len(failed) > MAX_NAMED else []
        raise PlimsollError("\n".join([f"{label} failed", *failed[:MAX_NAMED], *more]))
    return said


def _kept(output: str, redactor: Redactor) -> str:
    return redactor.text(output.strip()[-QUOTED:])
