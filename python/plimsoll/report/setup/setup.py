"""The set-up of an experiment: the information that is needed to repeat it. `assemble.set_up` creates it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from plimsoll.plan.topology import Topology


class ServiceSetUp(NamedTuple):
    """A service of the experiment as it was started."""

    name: str
    kind: str
    configuration: str
    """Text of its configuration, secrets hidden."""
    version: str


class StoredFile(NamedTuple):
    """A file of the results directory; `path` is relative to it."""

    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class SetUp:
    """Experiment file, environment, services and files. Texts are shown unchanged, and escaped. The secrets in them are
    already hidden."""

    experiment_text: str = ""
    """The experiment file as it was written."""
    effective_text: str = ""
    """The same with every default filled in."""
    environment: Mapping[str, object] = field(default_factory=dict)
    """environment.json: host, cpu, kernel, network settings, virtualisation, versions, limits. Any nesting."""
    services: tuple[ServiceSetUp, ...] = ()
    files: tuple[StoredFile, ...] = ()
    seeds: Mapping[str, int] = field(default_factory=dict)
    command_line: str = ""
    topology: Topology | None = None
    """None: the results are of a version that did not store it."""
