"""`kind: join`: a batch system or a user starts the agents with a token.

The token is in a file that only its owner can read. The file is removed when the experiment ends. An agent
that a queue starts later finds no token and ends at once. A template is filled in by replacing a few words in
braces, since templates are scripts, submit files and YAML with other braces. Text that is not one of these
words is not changed.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from plimsoll.deploy.hosts import CleanedHost
from plimsoll.deploy.hosts.calls import Calls
from plimsoll.deploy.hosts.dial_in import Lab, Outlook, host_error
from plimsoll.deploy.hosts.private import private_directory, write_private
from plimsoll.plan.model.hosts import Host, Hosts, Join
from plimsoll.plan.source.secret import Secret

SUBMIT_S: Final = 120.0
"""The time for the command that submits the job."""
SITE: Final = "join"
WORDS: Final = ("token", "name", "count", "engine", "controller", "experiment", "directory")
"""The words in braces in a template."""
_WORD: Final = re.compile(r"(?<!\$)\{(" + "|".join(WORDS) + r")\}")


class Joiners:
    """Submits the job that starts agents. Implements `AgentStarter`."""

    site = SITE

    def __init__(
        self, hosts: Hosts, lab: Lab, engine: Path, check_interrupt: Callable[[], None] = lambda: None
    ) -> None:
        assert hosts.join is not None, "the plan rejects such a file"
        self._hosts = hosts
        self._join: Join = hosts.join
        self._lab = lab
        self._engine = engine
        self._check_interrupt = check_interrupt
        self._directory = lab.directory / "join"

    def start_agents(self, token: Secret, files: Sequence[Path] = ()) -> int:
        """Writes the token, fills the template and submits it, or prints what to start."""
        directory = private_directory(self._directory)
        file = write_private(directory / "token", token.reveal())
        if self._join.template is None:
            self._lab.say("join", self._instructions(file))
        else:
            self._submit(Path(self._join.template), self._words(file))
        return self._join.agents

    def files(self, agent: str) -> Mapping[str, str]:
        """A host must have them under the same names: Plimsoll has no access to its disk."""
        return {}

    def outlook(self, connected: Collection[str]) -> Outlook:
        """The state of the batch system is not known."""
        return Outlook()

    def end(self, *, everything: bool, discard: bool) -> list[CleanedHost]:
        """Removes the files of Plimsoll. The agents end with the engine."""
        left = []
        for file in sorted(self._directory.glob("*")) if self._directory.is_dir() else ():
            try:
                file.unlink()
            except OSError as error:
                left.append(f"{file} ({error.strerror})")
        for directory in (self._directory, self._lab.directory):
            with contextlib.suppress(OSError):  # it does not exist, or contains other files
                directory.rmdir()
        return [CleanedHost(Host(SITE, "", SITE), left=tuple(left))]

    def _words(self, token: Path) -> dict[str, str]:
        return {
            "token": str(token),
            "name": SITE,
            "count": str(self._join.agents),
            "engine": str(self._engine),
            "controller": str(self._hosts.controller),
            "experiment": self._lab.experiment,
            "directory": self._hosts.directory,
        }

    def _submit(self, template: Path, words: Mapping[str, str]) -> None:
        try:
            text = template.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise host_error(f"{template} cannot be read: {why}", "hosts.join.template") from error
        # A template may have any name, for example that of the token.
        job = write_private(self._directory / f"job-{template.name}", fill_template(text, words))
        command = [
            part.reveal() if isinstance(part, Secret) else part.replace("{file}", str(job))
            for part in self._join.submit
        ]
        try:
            result = Calls(self._check_interrupt).run_alone(command, SUBMIT_S)
        except OSError as error:
            raise host_error(
                f"the command cannot be started: {error.strerror}", "hosts.join.submit"
            ) from error
        if result.code != 0:
            hint = ": it must submit the job and exit" if result.trouble else ""
            raise host_error(f"the command failed: {result.complaint}{hint}", "hosts.join.submit")

    def _instructions(self, token: Path) -> str:
        agents = (
            "1 agent" if self._join.agents == 1 else f"{self._join.agents} agents, each with its own name"
        )
        return (
            f"start {agents}:\n  {self._engine} agent --join {token} --name NAME --directory DIRECTORY\n"
            f"NAME: letters, digits, . _ -; DIRECTORY: a separate one for each agent. On other hosts, use "
            f"a copy of the token file that only its owner can read, or `--join - < FILE`. The agents "
            f"connect to this host at {self._hosts.controller}"
        )


def fill_template(template: str, words: Mapping[str, str]) -> str:
    """The template with the words of Plimsoll replaced. `${token}`, a variable of a shell, is not changed."""
    return _WORD.sub(lambda match: words[match[1]], template)
