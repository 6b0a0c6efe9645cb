"""`kind: sqlite`: a file, without a process."""

from __future__ import annotations

import json
from pathlib import Path

from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.errors import ServiceError


def start_sqlite(running: RunningService, site: Site) -> None:
    """Raises ServiceError if the file of the section does not exist."""
    existing = running.spec.settings.get("file")
    path = Path(existing).resolve() if existing else Path(running.directory) / "data.sqlite"
    if existing and not path.is_file():
        raise ServiceError(f"service {running.spec.name}: the SQLite file {path} does not exist")
    if not existing and not running.data:
        path.touch()  # an empty database: without a file the testers could not even open it
    running.urls = [f"sqlite:{path}"]
    tables = [data.name for data in running.data]
    running.configuration = json.dumps({"file": path.name, "tables": tables}, indent=1)
