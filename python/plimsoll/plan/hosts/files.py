"""Files that workloads name, and that testers on other hosts need there under whatever name.

What is in files of queries, values and recordings stands in the run document itself. The engine knows the same keys
(crate `controller`, files_there.rs), where it puts in the names that a host has for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from plimsoll.plan.drivers.table import DRIVERS
from plimsoll.plan.model import Config


def files_of(configs: Iterable[Config]) -> tuple[Path, ...]:
    """Absolute names, each once, in order. Directories (`ca_dir`, `cwd`) are not among them: a host must have those."""
    works = [work for config in configs for work in config.workloads]
    names = {name for work in works for name in DRIVERS[work.driver].files(work.settings, work.operations)}
    return tuple(Path(name) for name in sorted(names))
