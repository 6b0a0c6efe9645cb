"""`before_run` and `after_run`: commands on this host."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from plimsoll.errors import PlimsollError
from plimsoll.plan.model import Hook
from plimsoll.plan.secret import Redactor, hidden, revealed

QUOTED = 2000


def run_hooks(
    hooks: Sequence[Hook], when: str, environment: Mapping[str, str], redactor: Redactor
) -> list[str]:
    """Runs them in order; gives a line on each. Raises PlimsollError at the first that fails.

    `environment` is added to ours: PLIMSOLL_RUN, PLIMSOLL_DIRECTORY and the like.
    """
    said = []
    for hook in hooks:
        shown = " ".join(hidden(list(hook.argv)))
        if hook.needs_root and os.geteuid() != 0:
            raise PlimsollError(f"{when}: `{shown}` needs root; run Plimsoll as root or leave the hook out")
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
            raise PlimsollError(f"{when}: `{shown}` took longer than {hook.timeout_ns / 1e9:g} s") from error
        except OSError as error:
            raise PlimsollError(f"{when}: `{shown}` cannot be started: {error.strerror}") from error
        output = redactor.text(done.stdout.decode("utf-8", "replace").strip()[-QUOTED:])
        if done.returncode != 0:
            raise PlimsollError(f"{when}: `{shown}` failed with exit status {done.returncode}:\n{output}")
        said.append(f"{when}: {shown}" + (f": {output}" if output else ""))
    return said
