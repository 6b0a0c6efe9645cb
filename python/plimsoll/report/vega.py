"""The script that draws the charts in the page: Vega, Vega-Lite and Vega-Embed, bundled by vl-convert.

vl-convert bundles them at each call, which takes longer than the rest of a report. Therefore the script is stored in
the cache of the user; the file name contains the versions of its parts. Rejected: committing it (900 kB that cannot
be reviewed), and creating it at installation (a wheel runs no code then).
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import altair as alt
import vl_convert

FORM = 1
"""Version of the stored script. Increase it when the result of `_make_bundle` changes."""


@cache
def vega_bundle() -> str:
    """The script, about 900 kB. It contains no `</script` and no carriage return."""
    lite = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    path = cache_directory() / f"vega-{FORM}-{lite}-vl-convert-{version('vl-convert-python')}.js"
    script = _read_cached(path)
    if script is None:
        script = _make_bundle(lite)
        _store(path, script)
    return script


def cache_directory() -> Path:
    """`$XDG_CACHE_HOME/plimsoll`, or `~/.cache/plimsoll`. The user may remove it."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path("~/.cache").expanduser()) / "plimsoll"


def _make_bundle(lite: str) -> str:
    bundle = vl_convert.javascript_bundle(vl_version=lite)  # type: ignore[call-arg]  # no snippet: its default
    # HTML turns carriage returns into newlines before hashing, and ends a script at its end tag wherever that is
    return bundle.replace("\r\n", "\n").replace("\r", "\n").replace("</script", "<\\/script")


def _read_cached(path: Path) -> str | None:
    """The stored script; None if it is incomplete (its first line is the hash of the rest) or belongs to another user,
    because the script runs in reports."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return None
            digest, text = file.readline().strip(), file.read()
    except (OSError, UnicodeError):
        return None
    return text if digest == _digest(text) else None


def _store(path: Path, text: str) -> None:
    """Stores the script. If that fails (no home, a full disk), the next report creates it again."""
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="", dir=path.parent, suffix=".part", delete=False
        ) as file:
            part = Path(file.name)
            try:
                file.write(f"{_digest(text)}\n{text}")
                file.close()
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)


def _digest(text: str) -> str:
    return f"// sha256 {hashlib.sha256(text.encode()).hexdigest()}"
