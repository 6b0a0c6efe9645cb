"""Files that workloads name, and that testers on other hosts need there under whatever name.

What is in files of queries, values and recordings stands in the run document itself. The engine knows the same keys
(crate `controller`, files_there.rs), where it puts in the names that a host has for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from plimsoll.plan.model import Config, Workload

TLS: Final = ("ca_file", "cert", "key")


def files_of(configs: Iterable[Config]) -> tuple[Path, ...]:
    """Absolute names, each once, in order. Directories (`ca_dir`, `cwd`) are not among them: a host must have those."""
    names = {name for config in configs for work in config.workloads for name in _named(work)}
    return tuple(Path(name) for name in sorted(names))


def _named(work: Workload) -> Iterator[str]:
    settings: Mapping[str, Any] = work.settings
    tls = settings.get("tls") or {}
    found = [tls.get(key) for key in TLS] + [settings.get("token_file")]
    found += [operation.request.get("body_file") for operation in work.operations]
    yield from (name for name in found if isinstance(name, str))
    if work.driver == "exec":
        yield from settings["files"]
    if work.driver == "replay":
        yield settings["trace"]
