"""The set-up behind the numbers: everything a reader needs to do the experiment again. Filled by `collect`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


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
    """What was run, on what, with what. Texts are shown as they are (and escaped); secrets are hidden before."""

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
