"""What runs on the workers of a Dask cluster. It is sent there as it stands here, so that Plimsoll need not be
installed on them: the standard library only, and nothing of ours is imported.

An agent runs below the engine's guard, which ends it when the worker dies or closes the guard's input: at once, since
nobody could bring in any more what it measured, and its directory goes with the worker.
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
"""What names of agents' directories begin with."""
FILES = "plimsoll-files-"
"""What names of directories of workloads' files begin with."""
LAST_BYTES = 2000
"""So much of what an agent has said last is told."""


class Handed:
    """A token on its way: Dask logs the arguments of a task that fails, and shows them to whoever looks."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return "***"


def _agents(worker: Any) -> dict[str, subprocess.Popen[bytes]]:
    """Those of a worker by name; they are kept with it, as this module is not imported there."""
    if not hasattr(worker, "plimsoll_agents"):
        worker.plimsoll_agents = {}
    found: dict[str, subprocess.Popen[bytes]] = worker.plimsoll_agents
    return found


def _engine(worker: Any, name: str) -> Path:
    return Path(worker.local_directory) / name


def facts(name: str, dask_worker: Any) -> dict[str, Any]:
    """What the worker is, and whether it has the engine `name`."""
    return {
        "architecture": os.uname().machine,
        "system": os.uname().sysname,
        "engine": _engine(dask_worker, name).is_file(),
    }


def put(name: str, content: bytes, dask_worker: Any) -> str:
    """Writes the engine; returns an empty string, or why it does not run."""
    there = _engine(dask_worker, name)
    try:
        part = there.with_name(f"{name}.part")
        part.write_bytes(content)
        part.chmod(0o700)
        part.replace(there)
        done = subprocess.run([there, "version"], capture_output=True, text=True, timeout=10, check=False)
        version = json.loads(done.stdout)["version"] if done.returncode == 0 else None
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        return f"it does not run on the worker: {error}"
    return "" if version else f"it does not run on the worker: {done.stderr.strip()[-300:]}"


def put_file(experiment: str, name: str, content: bytes, mode: int, dask_worker: Any) -> dict[str, str]:
    """Writes a file of a workload; returns its path, or the reason of the failure."""
    there = Path(dask_worker.local_directory) / f"{FILES}{experiment}" / name
    try:
        there.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        there.write_bytes(b"")
        there.chmod(mode)  # before anything is in it
        there.write_bytes(content)
    except OSError as error:
        return {"path": "", "why": str(error)}
    return {"path": str(there), "why": ""}


def carry(engine: str, experiment: str, name: str, token: Handed) -> str:
    """The task: an agent from its start to its end. Says how it ended; raises nothing, as Dask would log it."""
    from distributed import get_worker

    worker = get_worker()
    program = str(_engine(worker, engine))
    key = f"{experiment}-{name}"
    try:
        spool = tempfile.mkdtemp(prefix=f"{SPOOL}{key}-", dir=worker.local_directory)
        own = str(Path(spool) / "agent")
        agent = [program, "agent", "--join", "-", "--name", name, "--directory", own]
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                [program, "guard", "--input", "--grace-ms", "0", "--", *agent],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )
            _agents(worker)[key] = process
            assert process.stdin is not None
            with contextlib.suppress(OSError, ValueError):  # it has ended, or `end` has closed its input
                process.stdin.write(token.text.encode() + b"\n")
                process.stdin.flush()
            code = process.wait()
            said.seek(max(0, said.seek(0, os.SEEK_END) - LAST_BYTES))
            lines = said.read().decode("utf-8", "replace").splitlines()
    except OSError as error:
        return f"its agent cannot be started: {error}"
    finally:
        _agents(worker).pop(key, None)
    with contextlib.suppress(OSError):
        Path(spool).rmdir()  # what it has kept stays
    return f"its agent ended ({code}): {lines[-1][:300] if lines else 'no output'}"


def end(experiment: str, engine: str, discard: bool, dask_worker: Any) -> dict[str, list[str]]:
    """Ends the agents of an experiment, removes its files, and checks the result. `experiment`:
    empty for all of them; `engine`: a pattern of engines to remove too, or empty."""
    agents = {key: one for key, one in _agents(dask_worker).items() if key.startswith(experiment)}
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
    place = Path(dask_worker.local_directory)
    for spool in place.glob(f"{SPOOL}{experiment}*"):
        if not discard and any(spool.rglob("*.arrow")):
            kept.append(str(spool))
        else:
            shutil.rmtree(spool, ignore_errors=True)
            left += [str(spool)] if spool.exists() else []
    for files in place.glob(f"{FILES}{experiment}*"):
        shutil.rmtree(files, ignore_errors=True)
        left += [str(files)] if files.exists() else []
    for file in place.glob(engine) if engine else ():
        file.unlink(missing_ok=True)
        left += [str(file)] if file.exists() else []
    return {"left": left, "kept": kept}
