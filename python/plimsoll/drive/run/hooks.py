"""`before_run` and `after_run`: commands on this host, and on the other hosts of a run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Protocol

from plimsoll.deploy.hosts import remote
from plimsoll.deploy.hosts.calls import CommandResult
from plimsoll.errors import PlimsollError
from plimsoll.plan.model.cell import Hook
from plimsoll.plan.services.section import url_variable
from plimsoll.plan.source.secret import Redactor, hidden, revealed

QUOTED = 2000
"""The maximum number of characters of a command's output that are kept, from its end."""
_HERE = ("controller", "all")
MAX_NAMED = 10
"""The maximum number of failed hosts that a message names."""


class OnHosts(Protocol):
    """The hosts of a run other than this one."""

    @property
    def has_testers(self) -> bool:
        """Whether testers run there, and not on this host."""

    def run(self, hook: Hook, line: str) -> list[tuple[str, CommandResult]]:
        """Runs a line of shell on the hosts of a hook; returns the results by the name of the host."""


def service_variables(addresses: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """PLIMSOLL_URL_NAME of each service: its first URL."""
    return {url_variable(name): urls[0] for name, urls in addresses.items() if urls}


def run_hooks(
    hooks: Sequence[Hook],
    when: str,
    environment: Mapping[str, str],
    redactor: Redactor,
    on_hosts: OnHosts | None = None,
) -> list[str]:
    """Runs the hooks in order. Returns a line for each hook on this host, and for each hook on each other
    host. Raises PlimsollError at the first failure. `environment`: variables that are added to those of this
    process and of the hosts, such as PLIMSOLL_RUN and PLIMSOLL_DIRECTORY. `on_hosts`: None if the run
    has only this host."""
    outputs = []
    for hook in hooks:
        label = f"{when}: `{' '.join(hidden(list(hook.argv)))}`"
        if hook.on in _HERE or on_hosts is None or (hook.on == "hosts" and not on_hosts.has_testers):
            outputs.append(_run_here(hook, label, environment, redactor))
        if on_hosts is not None and hook.on != "controller":
            outputs += _run_on_hosts(hook, label, environment, redactor, on_hosts)
    return outputs


def _run_here(hook: Hook, label: str, environment: Mapping[str, str], redactor: Redactor) -> str:
    if hook.needs_root and os.geteuid() != 0:
        raise PlimsollError(f"{label} needs root; run Plimsoll as root or leave the hook out")
    try:
        result = subprocess.run(
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
    output = _shortened(result.stdout.decode("utf-8", "replace"), redactor)
    if result.returncode != 0:
        raise PlimsollError(f"{label} failed with exit status {result.returncode}:\n{output}")
    return label + (f": {output}" if output else "")


def _run_on_hosts(
    hook: Hook, label: str, environment: Mapping[str, str], redactor: Redactor, on_hosts: OnHosts
) -> list[str]:
    line = remote.command_line(revealed(list(hook.argv)), environment, hook.needs_root)
    timeout_s = hook.timeout_ns / 1e9
    outputs, failed = [], []
    for name, result in on_hosts.run(hook, line):
        output = _shortened(remote.command_output(result.out), redactor)
        if result.code == 0:
            outputs.append(f"{label} on {name}" + (f": {output}" if output else ""))
        elif result.code is None and result.trouble.startswith("no "):
            failed.append(f"on {name}: it took longer than {timeout_s:g} s")
        elif result.code is None or result.code == 255 or remote.HOOK not in result.out:  # 255: ssh itself
            failed.append(f"on {name}: {redactor.text(result.trouble or remote.failure_reason(result))}")
        else:
            failed.append(f"on {name} with exit status {result.code}: {output}")
    if failed:
        more = [f"and on {len(failed) - MAX_NAMED} more hosts"] if len(failed) > MAX_NAMED else []
        raise PlimsollError("\n".join([f"{label} failed", *failed[:MAX_NAMED], *more]))
    return outputs


def _shortened(output: str, redactor: Redactor) -> str:
    return redactor.text(output.strip()[-QUOTED:])
