"""`kind: join`: agents that any batch system, or a person, starts with a token.

The token lies in a file that its owner alone may read, and is removed when the experiment ends: whatever a queue starts
later finds none and ends at once. A template is filled with plain replacement of a few words in braces, since templates
are scripts, submit files and YAML with braces of their own; what is not one of our words stays.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from plimsoll.deploy.hosts import Cleaned
from plimsoll.deploy.hosts.calls import Calls
from plimsoll.deploy.hosts.dial_in import Lab, Outlook, refused
from plimsoll.deploy.hosts.private import private_directory, write_private
from plimsoll.plan.model_hosts import Host, Hosts, Join
from plimsoll.plan.source.secret import Secret

SUBMIT_S: Final = 120.0
"""For the command that hands in."""
SITE: Final = "join"
WORDS: Final = ("token", "name", "count", "engine", "controller", "experiment", "directory")
"""The words in braces in a template."""
_WORD: Final = re.compile(r"(?<!\$)\{(" + "|".join(WORDS) + r")\}")


class Joiners:
    """Hands in what starts agents; see `Bringer`."""

    site = SITE

    def __init__(
        self, hosts: Hosts, lab: Lab, engine: Path, check_interrupt: Callable[[], None] = lambda: None
    ) -> None:
        assert hosts.join is not None, "the plan refuses such a file"
        self._hosts = hosts
        self._join: Join = hosts.join
        self._lab = lab
        self._engine = engine
        self._check_interrupt = check_interrupt
        self._directory = lab.directory / "join"

    def bring(self, token: Secret, files: Sequence[Path] = ()) -> int:
        """Writes the token, fills the template and submits it, or prints what to start."""
        place = private_directory(self._directory)
        file = write_private(place / "token", token.reveal())
        if self._join.template is None:
            self._lab.say("join", self._instructions(file))
        else:
            self._submit(Path(self._join.template), self._words(file))
        return self._join.agents

    def files(self, agent: str) -> Mapping[str, str]:
        """A host must have them under the same names: Plimsoll has no access to its disk."""
        return {}

    def look(self, here: Collection[str]) -> Outlook:
        """Nobody here knows how the batch system does."""
        return Outlook()

    def end(self, *, everything: bool, discard: bool) -> list[Cleaned]:
        """Agents end with the engine; here are our files."""
        left = []
        for file in sorted(self._directory.glob("*")) if self._directory.is_dir() else ():
            try:
                file.unlink()
            except OSError as error:
                left.append(f"{file} ({error.strerror})")
        for directory in (self._directory, self._lab.directory):
            with contextlib.suppress(OSError):  # it is not there, or holds what is not ours
                directory.rmdir()
        return [Cleaned(Host(SITE, "", SITE), left=tuple(left))]

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
            raise refused(f"{template} cannot be read: {why}", "hosts.join.template") from error
        # Templates may have any name, also that of the token.
        job = write_private(self._directory / f"job-{template.name}", filled(text, words))
        command = [
            part.reveal() if isinstance(part, Secret) else part.replace("{file}", str(job))
            for part in self._join.submit
        ]
        try:
            done = Calls(self._check_interrupt).alone(command, SUBMIT_S)
        except OSError as error:
            raise refused(f"the command cannot be started: {error.strerror}", "hosts.join.submit") from error
        if done.code != 0:
            hint = ": it must submit the job and exit" if done.trouble else ""
            raise refused(f"the command failed: {done.complaint}{hint}", "hosts.join.submit")

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


def filled(template: str, words: Mapping[str, str]) -> str:
    """The template with our words replaced. `${token}`, a shell's, is left alone."""
    return _WORD.sub(lambda found: words[found[1]], template)
