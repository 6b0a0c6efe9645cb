"""Functions that run on the workers of a Dask cluster. The source of this module is sent there, so Plimsoll
need not be installed on the workers. The module imports only the standard library.

An agent runs below the engine's guard. The guard ends it when the worker dies or closes the guard's input.
The agent ends at once, since its measurements can no longer be fetched: its directory is removed with the
worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

GRACE_S = 10.0
"""The time that an agent has to end: it closes its segments."""
SPOOL = "plimsoll-spool-"
"""The prefix of the names of agents' directories."""
FILES = "plimsoll-files-"
"""The prefix of the names of directories of workloads' files."""
LAST_BYTES = 2000
"""The length of the end of an agent's output that is reported."""


class HiddenToken:
    """A token on its way to a worker. Dask logs the arguments of a task that fails and shows them to other
    users, so its text representation hides the token."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return "***"


def _agents(worker: Any) -> dict[str, subprocess.Popen[bytes]]:
    """The agents of a worker by name. They are stored in the worker object, as this module is not imported
    there."""
    if not hasattr(worker, "plimsoll_agents"):
        worker.plimsoll_agents = {}
    agents: dict[str, subprocess.Popen[bytes]] = worker.plimsoll_agents
    return agents


def _engine(worker: Any, name: str) -> Path:
    return Path(worker.local_directory) / name


def facts(name: str, dask_worker: Any) -> dict[str, Any]:
    """The architecture and system of the worker, and whether it has the engine `name`."""
    return {
        "architecture": os.uname().machine,
        "system": os.uname().sysname,
        "engine": _engine(dask_worker, name).is_file(),
    }


def write_engine(name: str, content: bytes, dask_worker: Any) -> str:
    """Writes the engine; returns an empty string, or why it does not run."""
    path = _engine(dask_worker, name)
    try:
        part = path.with_name(f"{name}.part")
        part.write_bytes(content)
        part.chmod(0o700)
        part.replace(path)
        result = subprocess.run([path, "version"], capture_output=True, text=True, timeout=10, check=False)
        version = json.loads(result.stdout)["version"] if result.returncode == 0 else None
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        return f"it does not run on the worker: {error}"
    return "" if version else f"it does not run on the worker: {result.stderr.strip()[-300:]}"


def write_file(experiment: str, name: str, content: bytes, mode: int, dask_worker: Any) -> dict[str, str]:
    """Writes a file of a workload; returns its path, or the reason of the failure."""
    path = Path(dask_worker.local_directory) / f"{FILES}{experiment}" / name
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(b"")
        path.chmod(mode)  # before it has contents
        path.write_bytes(content)
    except OSError as error:
        return {"path": "", "why": str(error)}
    return {"path": str(path), "why": ""}


def run_agent(engine: str, experiment: str, name: str, token: HiddenToken) -> str:
    """The task: runs an agent from its start to its end. Returns how it ended. It raises no exception, as
    Dask would log it."""
    from distributed import get_worker

    worker = get_worker()
    program = str(_engine(worker, engine))
    key = f"{experiment}-{name}"
    try:
        spool = tempfile.mkdtemp(prefix=f"{SPOOL}{key}-", dir=worker.local_directory)
        agent_directory = str(Path(spool) / "agent")
        agent = [program, "agent", "--join", "-", "--name", name, "--directory", agent_directory]
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [program, "guard", "--input", "--grace-ms", "0", "--", *agent],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=output,
                start_new_session=True,
            )
            _agents(worker)[key] = process
            assert process.stdin is not None
            with contextlib.suppress(
                OSError, ValueError
            ):  # it has ended, or `end_agents` has closed its input
                process.stdin.write(token.text.encode() + b"\n")
                process.stdin.flush()
            code = process.wait()
            output.seek(max(0, output.seek(0, os.SEEK_END) - LAST_BYTES))
            lines = output.read().decode("utf-8", "replace").splitlines()
    except OSError as error:
        return f"its agent cannot be started: {error}"
    finally:
        _agents(worker).pop(key, None)
    with contextlib.suppress(OSError):
        Path(spool).rmdir()  # fails if the spool contains segments, which remain
    return f"its agent ended ({code}): {lines[-1][:300] if lines else 'no output'}"


def end_agents(experiment: str, engine: str, discard: bool, dask_worker: Any) -> dict[str, list[str]]:
    """Ends the agents of an experiment, removes its files, and checks the result. `experiment`:
    empty for all of them; `engine`: a pattern of engines to remove too, or empty."""
    agents = {key: process for key, process in _agents(dask_worker).items() if key.startswith(experiment)}
    for process in agents.values():
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()  # the guard ends them
    left: list[str] = []
    for key, process in agents.items():
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            left.append(f"process {process.pid} of {key}")
    kept: list[str] = []
    directory = Path(dask_worker.local_directory)
    for spool in directory.glob(f"{SPOOL}{experiment}*"):
        if not discard and any(spool.rglob("*.arrow")):
            kept.append(str(spool))
        else:
            shutil.rmtree(spool, ignore_errors=True)
            left += [str(spool)] if spool.exists() else []
    for files in directory.glob(f"{FILES}{experiment}*"):
        shutil.rmtree(files, ignore_errors=True)
        left += [str(files)] if files.exists() else []
    for file in directory.glob(engine) if engine else ():
        file.unlink(missing_ok=True)
        left += [str(file)] if file.exists() else []
    return {"left": left, "kept": kept}
