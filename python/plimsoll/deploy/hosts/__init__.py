"""Hosts for testers: they are checked and prepared, the engine starts agents on them, and they are cleaned up.

Each kind of hosts is one file with a class that implements `HostBackend`; `kinds.py` selects it. The engine starts
the agents and communicates with them; this package describes how.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal, Protocol

from plimsoll.plan.hosts.spread import Place, places
from plimsoll.plan.model_hosts import Host


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent for the engine.

    `start`: {"kind": "local"}, {"kind": "command", "argv": [...]} whose stdin and stdout are the link, or
    {"kind": "joined"}; `watch`: what an agent of a target's host looks at; `files`: local name to the name there.
    """

    name: str
    host: str
    site: str
    start: Mapping[str, Any]
    role: Literal["testers", "watch"] = "testers"
    watch: tuple[Mapping[str, Any], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As the engine takes it."""
        return {
            "name": self.name,
            "host": self.host,
            "site": self.site,
            "role": self.role,
            "start": dict(self.start),
            "watch": [dict(one) for one in self.watch],
            "files": dict(self.files),
        }


@dataclass(frozen=True, slots=True)
class Ready:
    """A host after it was made ready. `reason`: why it is not, in one line; empty where it is. `architecture`: as
    `uname -m` says it; `directory`, `engine`: where our things lie there; `files`: local name to the name there."""

    host: Host
    reason: str = ""
    architecture: str = ""
    directory: str = ""
    engine: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def answers(self) -> bool:
        """Whether agents can be started there."""
        return not self.reason


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A host after we left. `kept`: what stays because it holds something that was measured, or is in use; `left`: what
    could not be removed; `reason`: why nobody could look."""

    host: Host
    kept: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    reason: str = ""

    @property
    def proven(self) -> bool:
        """Whether it was seen that nothing is left but what is kept."""
        return not self.left and not self.reason

    @property
    def kept_because(self) -> list[str]:
        """What is kept, and why, for people."""
        return [
            f"{path} (in use by others)"
            if PurePath(path).name.startswith("engine-")
            else f"{path} (contains data that was not collected; `plimsoll hosts clean --discard` removes it)"
            for path in self.kept
        ]


class HostBackend(Protocol):
    """A kind of hosts. Nothing here raises for one host that fails: it is told with that host."""

    def prepare(self, files: Sequence[Path] = ()) -> list[Ready]:
        """Asks every host, side by side and within bounded time, and puts the engine and `files` there."""

    def agents(self, ready: Sequence[Ready]) -> list[Agent]:
        """The agents of hosts that are ready, in the order in which testers are dealt."""

    def clean(self, *, everything: bool = False, discard: bool = False) -> list[Cleaned]:
        """Ends what we started on the hosts and removes what `keep` does not name, and looks whether it is gone.
        `everything`: also of other experiments, and the engine; `discard`: also what was measured and not yet brought
        in."""


def agents_on(ready: Sequence[Ready], start: Mapping[str, Mapping[str, Any]]) -> list[Agent]:
    """An agent for each place on the hosts that are ready. `start`: by the agent's name."""
    found: tuple[Place, ...] = places([one.host for one in ready if one.answers])
    files = {name: one.files for one in ready for name in one.host.agent_names}
    return [
        Agent(one.name, one.host, one.site, start[one.name], files=files.get(one.name, {})) for one in found
    ]
