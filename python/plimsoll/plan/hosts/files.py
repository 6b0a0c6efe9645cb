"""Files that testers on other hosts need, under any path.

The run document contains the contents of files of queries, values and recordings. The engine replaces the paths of the
other files by those on a host, under the same keys (crate `controller`, run/host_files.rs).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from plimsoll.plan.drivers.table import DRIVERS
from plimsoll.plan.model.cell import Config


def files_of(configs: Iterable[Config]) -> tuple[Path, ...]:
    """Absolute paths, sorted, each once. Directories (`ca_dir`, `cwd`) are not included: they must exist on every
    host."""
    works = [work for config in configs for work in config.workloads]
    names = {name for work in works for name in DRIVERS[work.driver].files(work.settings, work.operations)}
    return tuple(Path(name) for name in sorted(names))
