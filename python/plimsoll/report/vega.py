"""The script that draws the charts in the page: Vega, Vega-Lite and Vega-Embed, out of vl-convert.

vl-convert bundles them at each call, which takes longer than the rest of a report. So the script is kept in the cache
of the user, under the versions of its parts. Rejected: committing it (900 kB that cannot be reviewed), and making it
at installation (a wheel runs no code then).
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
"""Of what is kept; to be raised when `_made` changes what it makes."""


@cache
def vega_bundle() -> str:
    """The script, about 900 kB. It contains no `</script` and no carriage return."""
    lite = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    kept = cache_directory() / f"vega-{FORM}-{lite}-vl-convert-{version('vl-convert-python')}.js"
    found = _read(kept)
    if found is None:
        found = _made(lite)
        _keep(kept, found)
    return found


def cache_directory() -> Path:
    """`$XDG_CACHE_HOME/plimsoll`, or `~/.cache/plimsoll`; it may be removed."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path("~/.cache").expanduser()) / "plimsoll"


def _made(lite: str) -> str:
    bundle = vl_convert.javascript_bundle(vl_version=lite)  # type: ignore[call-arg]  # no snippet: its default
    # HTML turns carriage returns into newlines before hashing, and ends a script at its end tag wherever that is
    return bundle.replace("\r\n", "\n").replace("\r", "\n").replace("</script", "<\\/script")


def _read(kept: Path) -> str | None:
    """What was kept, if it is whole (its first line is the hash of the rest) and our own: scripts run in reports."""
    try:
        with kept.open(encoding="utf-8", newline="") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return None
            digest, text = file.readline().strip(), file.read()
    except (OSError, UnicodeError):
        return None
    return text if digest == _digest(text) else None


def _keep(kept: Path, text: str) -> None:
    """Stores the script. If that is not possible (no home, a full disk), the next report makes it again."""
    with suppress(OSError):
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="", dir=kept.parent, suffix=".part", delete=False
        ) as file:
            part = Path(file.name)
            try:
                file.write(f"{_digest(text)}\n{text}")
                file.close()
                part.replace(kept)
            finally:
                part.unlink(missing_ok=True)


def _digest(text: str) -> str:
    return f"// sha256 {hashlib.sha256(text.encode()).hexdigest()}"
