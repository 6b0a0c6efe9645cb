"""What all tests share: the rule about missing parts, and the `plimsoll` command as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from plimsoll.deploy.binary import find_engine
from tests.preloaded import Command, can_fork

ROOT = Path(__file__).resolve().parents[1]
MAX_ID = 100
"""Maximum length of a parameter's text in the name of a test, characters."""


def missing(what: str, mend: str) -> NoReturn:
    """A part that the test needs is not here: skipped with the reason, but a failure where CI promises everything."""
    reason = f"{what} is missing; {mend}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def pytest_sessionstart() -> None:
    """Below `nohup`, SIGHUP is ignored, and every command that a test starts would inherit that."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_make_parametrize_id(val: object) -> str | None:
    """A long text, for example a hostile file, is named by its beginning and its length."""
    if isinstance(val, str | bytes) and len(val) > MAX_ID:
        return f"{ascii(val[:20])[:MAX_ID]}-of-{len(val)}"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a fixture of their file run in one worker (`--dist loadgroup`), all others in any.

    The long ones come first: groups, then tests with real services, then the rest.
    """
    for item in items:
        # pytest-xdist joins the names of two groups: the check below would end every worker.
        is_grouped = item.get_closest_marker("xdist_group") is not None
        if isinstance(item, pytest.Function) and _is_shared(item) and not is_grouped:
            item.add_marker(pytest.mark.xdist_group(item.path.name))
    real = ROOT / "tests" / "real"
    items.sort(
        key=lambda item: (real not in item.path.parents, item.get_closest_marker("xdist_group") is None)
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Fails where the names of groups are lost: each worker would then start each shared service again."""
    if not session.config.getoption("loadgroup", False):
        return
    for item in session.items:
        marker = item.get_closest_marker("xdist_group")
        if marker is not None and not item.nodeid.endswith(f"@{marker.args[0]}"):
            raise pytest.UsageError(
                "--dist loadgroup has no effect with these versions of pytest and pytest-xdist: "
                "install the versions of pyproject.toml"
            )


def _is_shared(item: pytest.Function) -> bool:
    """Whether it uses a fixture of its own file that lasts for the file."""
    definitions = item._fixtureinfo.name2fixturedefs
    return any(
        each.scope == "module" and each.baseid.startswith("tests/")
        for name in item.fixturenames
        for each in definitions.get(name, ())
    )


@dataclass(frozen=True)
class Done:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Its stdout as a JSON object."""
        found: dict[str, Any] = json.loads(self.out)
        return found


class Lab:
    """Runs `plimsoll ...` in a directory of its own, with a state directory of its own.

    `inside`: what stands before each command.
    """

    def __init__(self, directory: Path, inside: Sequence[str] = ()) -> None:
        self.directory = directory
        self.inside = inside
        self.limit_s = 110.0
        """Longest time of a command that is run to its end."""
        self.env = {**os.environ, "XDG_STATE_HOME": str(directory / "state"), "NO_COLOR": "1"}

    def start(self, *words: str | Path, **env: str) -> subprocess.Popen[str]:
        """Starts it in a session of its own, as a shell would."""
        environment = {**self.env, **env}
        fork = not self.inside and can_fork(environment)
        program = [] if fork else [*self.inside, sys.executable, "-m", "plimsoll.cli.main"]
        return (Command if fork else subprocess.Popen)(
            [*program, *map(str, words)],
            cwd=self.directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str | Path, **env: str) -> Done:
        """Runs it to its end. A traceback is a failure whatever the test is about."""
        with self.start(*words, **env) as process:
            out, err = process.communicate(timeout=self.limit_s)
        assert "Traceback" not in err, err
        return Done(process.returncode, out, err)

    def file(self, text: str, name: str = "experiment.yaml") -> Path:
        """Writes an experiment file."""
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        return path

    def results(self) -> Path:
        """The newest results directory."""
        return (self.directory / "results" / "latest").resolve()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab in an empty directory; nothing that it started may be left when the test ends."""
    find_engine()
    yield Lab(tmp_path)
    left = descendants_in(tmp_path)
    assert not left, f"processes are left: {left}"


def descendants_in(directory: Path) -> list[str]:
    """Command lines of processes that work in, or were given, a directory."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        if int(place.name) == os.getpid():
            continue
        try:
            words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            here = str((place / "cwd").readlink())
        except OSError:
            continue
        if str(directory) in words or here.startswith(str(directory)):
            found.append(words.strip())
    return found
